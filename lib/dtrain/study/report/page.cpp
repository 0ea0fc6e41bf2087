#include "dtrain/study/report/page.hpp"

#include "dtrain/study/drawing/markup.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/report/page_writer.hpp"
#include "dtrain/study/report/sections.hpp"

namespace dtrain {
namespace {

// A chart is 384 units wide with text of 13 units: from 336 pixels on, which a telephone has, no text is smaller
// than 11.
constexpr std::string_view kPageStyle = R"(
*{box-sizing:border-box}
body{margin:0 auto;max-width:88rem;padding:0 12px 4rem;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.75rem;line-height:1.2;margin:1.5rem 0 .5rem}
h2{font-size:1.3rem;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--rule)}
h3{font-size:1.05rem;margin:0 0 .15rem}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-100rem}
.skip:focus{left:12px;top:4px;padding:.5rem 1rem;background:var(--page);z-index:1}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.5rem 0;list-style:none}
nav a{display:inline-block;padding:.25rem 0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,9.5rem),1fr));gap:.75rem;margin:0 0 1rem}
.facts div{background:var(--panel);border-radius:6px;padding:.6rem .8rem}
.facts dt,figcaption p,caption,.next span{color:var(--muted);font-size:.875rem}
.facts dd{margin:0;font-size:1.1rem;font-weight:600}
.says,.notes{max-width:70ch;padding-left:1.25rem}
.notes{color:var(--muted)}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:2rem 2.25rem;margin:1rem 0}
figure{margin:0;min-width:0}
@supports (grid-template-rows:subgrid){.charts{row-gap:0}
.charts figure{display:grid;grid-row:span 2;grid-template-rows:subgrid;grid-template-columns:minmax(0,1fr)}}
.charts figure{margin-bottom:1.75rem}
figcaption p{margin:0 0 .5rem}
summary{cursor:pointer;padding:.25rem 0;color:var(--link)}
details .wide{max-height:24rem}
.fold>summary{font-weight:600;padding:.5rem 0;border-top:1px solid var(--rule)}
.wide{overflow:auto;margin:.5rem 0}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--rule);font-weight:400;white-space:nowrap}
thead th{position:sticky;top:0;background:var(--page);color:var(--muted);font-weight:600;vertical-align:bottom}
tr>:first-child{padding-left:0}
th.words,td.words{text-align:left}
.pairs{width:100%;max-width:60rem}
.pairs th,.pairs td{text-align:left;white-space:normal;vertical-align:top}
.pairs th{width:12rem;color:var(--muted)}
caption{text-align:left;padding-bottom:.25rem}
code{font:.875rem ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono",monospace;background:var(--panel);padding:.2rem .4rem;border-radius:4px}
.next{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:baseline;margin:.5rem 0}
.chart .o{font-weight:700}
@media print{
body{max-width:none;padding:0;font-size:10pt}
nav,.skip,.charts details,.fold>summary{display:none}
.charts{grid-template-columns:1fr 1fr;column-gap:1.5rem}
figure,.facts,tr,li,.next{break-inside:avoid}
h2,h3,figcaption{break-after:avoid}
.wide{overflow:visible}
table{font-size:7.5pt}
th,td{white-space:normal;padding:.1rem .3rem;overflow-wrap:normal}
.words{overflow-wrap:anywhere;min-width:5rem}
thead th{position:static}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
)";

}  // namespace

std::string report_page(const Report& report) {
  PageWriter page;
  if (report.study) {
    write_study(page, report);
  } else {
    for (const ReportedRun& run : report.runs) write_run(page, run);
  }
  const std::string body = page.body();
  // Even if something got past the escaping, a browser would neither run nor fetch it.
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n" + std::string(kReportMark) +
         "\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
         "img-src data:\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<link rel=\"icon\" href=\"data:,\"/>\n<title>" +
         escaped(report.title) + "</title>\n<style>\n" + drawing_style() + std::string(kPageStyle) +
         "</style></head>\n<body><a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header><h1>" +
         escaped(report.title) + "</h1>" + page.contents() + "</header>\n<main id=\"content\" tabindex=\"-1\">\n" +
         body + "</main></body></html>\n";
}

}  // namespace dtrain
