#include "dtrain/study/report/page_writer.hpp"

#include "dtrain/study/drawing/markup.hpp"

namespace dtrain {

void PageWriter::section(const std::string& heading) {
  if (!headings_.empty()) out_ += "</section>\n";
  headings_.push_back(heading);
  const std::string id = "s" + std::to_string(headings_.size());
  out_ += "<section aria-labelledby=\"" + id + "\"><h2 id=\"" + id + "\">" + escaped(heading) + "</h2>\n";
}

void PageWriter::heading(const std::string& heading) { out_ += "<h3>" + escaped(heading) + "</h3>\n"; }

void PageWriter::figure(const std::string& title, const std::string& sentence, const std::string& svg,
                        const std::string& table) {
  out_ += "<figure><figcaption><h3>" + escaped(title) + "</h3><p>" + escaped(sentence) + "</p></figcaption><div>" + svg;
  if (!table.empty()) out_ += "\n<details><summary>Values</summary>" + table + "</details>";
  out_ += "</div></figure>\n";
}

void PageWriter::chart(const Chart& chart) {
  figure(chart.title, chart.sentence, chart_svg(chart, ++charts_), has_values(chart) ? chart_table(chart) : "");
}

void PageWriter::chart_if_any(const Chart& its) {
  if (has_values(its)) chart(its);
}

void PageWriter::chart(const RowChart& chart) {
  figure(chart.title, chart.sentence, row_chart_svg(chart, ++charts_),
         chart.rows.empty() ? "" : row_chart_table(chart));
}

void PageWriter::table(const FigureTable& table, const std::string& caption) {
  out_ += figure_table(table, caption) + "\n";
}

void PageWriter::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  out_ += "<dl class=\"facts\">";
  for (const auto& [name, value] : facts)
    out_ += "<div><dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd></div>";
  out_ += "</dl>\n";
}

void PageWriter::pairs(const std::vector<std::pair<std::string, std::string>>& rows, const std::string& caption) {
  out_ += "<table class=\"pairs\"><caption>" + escaped(caption) + "</caption><tbody>";
  for (const auto& [name, value] : rows)
    out_ += "<tr><th scope=\"row\">" + escaped(name) + "</th><td>" + escaped(value) + "</td></tr>\n";
  out_ += "</tbody></table>\n";
}

void PageWriter::paragraph(const std::string& text) { out_ += "<p>" + escaped(text) + "</p>\n"; }

void PageWriter::sentences(const std::vector<std::string>& sentences, const std::string& kind) {
  if (sentences.empty()) return;
  out_ += "<ul class=\"" + kind + "\">";
  for (const std::string& sentence : sentences) out_ += "<li>" + escaped(sentence) + "</li>";
  out_ += "</ul>\n";
}

void PageWriter::command(const std::string& line, const std::string& effect) {
  out_ += "<p class=\"next\"><code>" + escaped(line) + "</code> <span>" + escaped(effect) + "</span></p>\n";
}

void PageWriter::fold_begin(const std::string& summary) {
  out_ += "<details class=\"fold\"><summary>" + escaped(summary) + "</summary><div>\n";
}

std::string PageWriter::body() {
  if (!headings_.empty()) out_ += "</section>\n";
  return std::move(out_);
}

std::string PageWriter::contents() const {
  std::string out = "<nav aria-label=\"Contents\"><ul>";
  for (size_t i = 0; i < headings_.size(); ++i)
    out += "<li><a href=\"#s" + std::to_string(i + 1) + "\">" + escaped(headings_[i]) + "</a></li>";
  return out + "</ul></nav>\n";
}

}  // namespace dtrain
