#include <chrono>
#include <limits>

#include "dtrain/study/report/page.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"
#include "unit/study/made_up_report.hpp"

using namespace dtrain;
using test::holds;
using test::made_up_run;
using test::made_up_study;

static Report report_of(const ReportedRun& run) { return {.title = run.name, .runs = {run}}; }

/// Why this is not well-formed XML: elements closed in order, attributes quoted and not given twice, no unknown
/// reference; "" if it is.
static std::string flaw_of(std::string_view text) {
  std::vector<std::string> open;
  const std::string_view kName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const std::string_view rest = text.substr(at);
      if (!rest.starts_with("&lt;") && !rest.starts_with("&gt;") && !rest.starts_with("&amp;") &&
          !rest.starts_with("&quot;") && !rest.starts_with("&#39;"))
        return "a reference at " + std::string(rest.substr(0, 20));
    }
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const size_t end = text.find('>', at);
    if (end == std::string_view::npos) return "a tag without an end";
    std::string_view tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("!DOCTYPE")) continue;
    const bool closes = tag.starts_with('/');
    if (closes) tag.remove_prefix(1);
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find_first_not_of(kName)));
    if (name.empty()) return "a tag without a name: " + std::string(tag);
    tag.remove_prefix(name.size());
    while (!tag.empty()) {
      if (tag[0] != ' ') return "in " + name + ": " + std::string(tag);
      const size_t equals = tag.find("=\"");
      if (equals == std::string_view::npos || tag.find_first_not_of(kName, 1) != equals)
        return "an attribute of " + name;
      const size_t quote = tag.find('"', equals + 2);
      if (quote == std::string_view::npos) return "a quote in " + name;
      if (tag.substr(equals + 2, quote - equals - 2).find('<') != std::string_view::npos) return "a < in " + name;
      tag.remove_prefix(quote + 1);
    }
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> without <" + name + ">";
      open.pop_back();
    } else if (!is_empty) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

/// Headings as their levels, in order.
static std::string levels_of(const std::string& page) {
  std::string levels;
  for (size_t at = page.find("<h"); at != std::string::npos; at = page.find("<h", at + 1))
    if (page[at + 2] >= '1' && page[at + 2] <= '6') levels += page[at + 2];
  return levels;
}

static void check_page(const std::string& page) {
  CHECK(flaw_of(page) == "");
  CHECK_FALSE(holds(page, "://"));
  CHECK_FALSE(holds(page, "<script"));
  CHECK_FALSE(holds(page, "url("));
  CHECK_FALSE(holds(page, "@import"));
  CHECK_FALSE(holds(page, "nan\""));
  CHECK_FALSE(holds(page, " nan"));
  CHECK(holds(page, "Content-Security-Policy\" content=\"default-src 'none'"));
  const std::string levels = levels_of(page);
  CHECK(levels.starts_with("12"));
  CHECK_FALSE(holds(levels, "13"));
  for (size_t at = page.find("<svg "); at != std::string::npos; at = page.find("<svg ", at + 1))
    CHECK(page.substr(at, page.find('>', at) - at).find("role=\"img\" aria-labelledby=\"c") != std::string::npos);
}

TEST_CASE("the check of markup finds what is wrong in it") {
  CHECK(flaw_of("<p a=\"b\">x<br/>&lt;</p>").empty());
  CHECK_FALSE(flaw_of("<p><b></p></b>").empty());
  CHECK_FALSE(flaw_of("<p a=b></p>").empty());
  CHECK_FALSE(flaw_of("a & b").empty());
  CHECK_FALSE(flaw_of("<p>").empty());
}

TEST_CASE("the page of a run needs nothing else, and has all that the run has") {
  const std::string page = report_page(report_of(made_up_run(40, 8)));
  check_page(page);
  for (const char* text :
       {">State</dt><dd>finished<", "Best valid auroc", "<h3>Loss</h3>", "<h3>auroc</h3>", "<h3>Learning rate</h3>",
        "<h3>auroc of each class</h3>", "<h3>Samples of each class</h3>", "<h3>Time of each epoch</h3>",
        "<h3>Slowest ranks</h3>", "rank 7 @ node01", "result_sha256", "dtrain predict --checkpoint runs/chexnet",
        "0.8112 to 0.8309", "Validation loss has not fallen since epoch 17"})
    CHECK(holds(page, text));
  CHECK(page == report_page(report_of(made_up_run(40, 8))));
}

TEST_CASE("the page of a study has every number of ranks") {
  const std::string page = report_page(made_up_study({"unet"}, {1, 2, 4, 8, 14}, 3, 20));
  check_page(page);
  for (const char* text :
       {"<h3>Images per second</h3>", "<h3>Time to train</h3>", "<h3>Speed-up and quality</h3>", ">ideal</text>",
        ">2 nodes</text>", "<h3>Efficiency</h3>", "<h3>Serial fraction</h3>", "<h3>Validation loss by epoch</h3>",
        "<h3>Validation loss by elapsed time</h3>", "<h3>Shares of a mean epoch</h3>", ">14 ranks</text>",
        "15, all finished", "unet_ranks-14_seed-3", "2 points failed", "More than 8 ranks do not pay"})
    CHECK(holds(page, text));
  CHECK(holds(page, "class=\"b o7\""));  // the band over seeds of the last number of ranks
}

TEST_CASE("several series share the charts against ranks and have curves of their own") {
  const std::string page = report_page(made_up_study({"dtrain", "Horovod"}, {1, 2, 4}, 1, 5));
  check_page(page);
  CHECK(holds(page, "<h3>Validation loss by epoch, Horovod</h3>"));
  CHECK(holds(page, "Horovod (right)"));
  const std::string one_count = report_page(made_up_study({"rate=0.1", "rate=0.01"}, {2}, 3, 5));
  check_page(one_count);
  CHECK(holds(one_count, "<h3>Quality</h3>"));
  CHECK_FALSE(holds(one_count, "<h3>Efficiency</h3>"));
  CHECK(holds(one_count, ">rate=0.01</text>"));
}

TEST_CASE("long names of series are told apart in charts by what differs, and are whole in tables") {
  const std::string same = "device=cpu, data.format=image_folder, ";
  const std::string page = report_page(made_up_study(
      {same + "data.loader.pipeline=parallel, loader=0123456789", same + "data.loader.pipeline=sequential"}, {1, 2}, 1,
      3));
  CHECK(holds(page, "<h3>Validation loss by epoch, data.loader.pipeline=parallel, loade…</h3>"));
  CHECK(holds(page, ">data.loader.pipeline=sequential</text>"));
  CHECK(holds(page, same + "data.loader.pipeline=parallel, loader=0123456789</th>"));
}

TEST_CASE("times that are not known by parts have no section") {
  Report report = made_up_study({"unet"}, {1, 2}, 1, 3);
  CHECK(holds(report_page(report), "Where the time went"));
  for (SeriesPoint& point : report.study->series[0].points) point.times.resize(1);
  for (ReportedRun& run : report.runs) run.times.clear();
  CHECK_FALSE(holds(report_page(report), "Where the time went"));
}

TEST_CASE("columns of single classes have no curves of their own, nor have metrics without a value") {
  ReportedRun run = made_up_run(5, 1);
  run.metrics.push_back({"valid_auroc_Hernia", std::vector<double>(5, 0.5)});
  run.metrics.push_back({"valid_accuracy_Hernia", std::vector<double>(5, 0.5)});
  run.metrics.push_back({"valid_f1", std::vector<double>(5, std::numeric_limits<double>::quiet_NaN())});
  run.metrics.push_back({"valid_area", std::vector<double>(5, 0.5)});
  const std::string page = report_page(report_of(run));
  CHECK_FALSE(holds(page, "Hernia</h3>"));
  CHECK_FALSE(holds(page, "<h3>f1</h3>"));
  CHECK(holds(page, "<h3>area</h3>"));
}

TEST_CASE("names from files cannot become markup") {
  const std::string evil = "</title></text><script>alert(1)</script>\"'&\x1b[31m\xff";
  ReportedRun run = made_up_run(3, 2);
  run.name = run.folder = run.state = run.device = run.split = run.per_class_of = evil;
  run.monitor.column = evil;
  run.metrics[0].name = run.times[0].name = run.values[0].name = run.per_class[0].name = run.counts[0].name = evil;
  run.rank_times[0].host = evil;
  run.manifest = {{evil, evil}};
  run.sentences = run.notes = {evil};
  const std::string page = report_page(report_of(run));
  check_page(page);
  CHECK(holds(page, "&lt;/title&gt;&lt;/text&gt;&lt;script&gt;"));
  Report study = made_up_study({evil, "b"}, {1, 2}, 1, 3);
  study.title = study.study->notes[0] = study.runs[0].name = evil;
  check_page(report_page(study));
}

TEST_CASE("a run without a finished epoch, without values or with values that are not numbers has its page") {
  const ReportedRun none{.name = "new", .folder = "runs/new", .state = "not finished"};
  const std::string page = report_page(report_of(none));
  check_page(page);
  CHECK(holds(page, "no values yet"));
  CHECK_FALSE(holds(page, "Next steps"));
  ReportedRun broken = made_up_run(12, 2);
  for (double& value : broken.train_loss) value = std::numeric_limits<double>::infinity();
  for (double& value : broken.valid_loss) value = std::numeric_limits<double>::quiet_NaN();
  for (TimePart& part : broken.times) part.seconds[5] = std::numeric_limits<double>::quiet_NaN();
  broken.finished = false;
  broken.rank_times[0].to_median = std::numeric_limits<double>::quiet_NaN();
  const std::string of_broken = report_page(report_of(broken));
  check_page(of_broken);
  CHECK(holds(of_broken, "goes on from the newest checkpoint"));
  const std::string nothing =
      report_page({.title = "empty", .study = ReportedStudy{.notes = {"1 point has not begun"}}});
  check_page(nothing);
  CHECK(holds(nothing, "No run has begun."));
  CHECK(holds(nothing, "1 point has not begun"));
}

TEST_CASE("fifty runs of two hundred epochs are less than two megabytes and take less than two seconds") {
  for (const auto& [series, ranks, seeds] :
       {std::tuple{std::vector<std::string>{"a", "b"}, std::vector<int64_t>{1, 2, 4, 8, 16}, 5},
        std::tuple{std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"},
                   std::vector<int64_t>{1, 2, 4, 8, 16}, 1}}) {
    const Report report = made_up_study(series, ranks, seeds, 200);
    REQUIRE(report.runs.size() == 50);
    const std::string page = report_page(report);
    CHECK(page.size() < 2'000'000);
    check_page(page);
  }
}
