#include <cmath>

#include "dtrain/study/drawing/chart.hpp"
#include "dtrain/study/drawing/labels.hpp"
#include "dtrain/study/drawing/markup.hpp"
#include "dtrain/study/drawing/palette.hpp"
#include "dtrain/study/drawing/row_chart.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static std::vector<std::string> tick_texts(const Axis& axis, double least, double most, int wanted = 5) {
  return ticks_of(axis, least, most, wanted).texts;
}

static size_t times_in(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

using Texts = std::vector<std::string>;

TEST_CASE("ticks of a linear axis are round numbers that enclose the values") {
  CHECK(tick_texts({}, 0.13, 0.58) == Texts{"0.1", "0.2", "0.3", "0.4", "0.5", "0.6"});
  CHECK(tick_texts({.least = 0}, 3, 923) == Texts{"0", "200", "400", "600", "800", "1,000"});
  CHECK(tick_texts({}, -0.04, 0.02) == Texts{"-0.04", "-0.02", "0", "0.02"});
  CHECK(tick_texts({}, 0, 4e-5) == Texts{"0", "1e-5", "2e-5", "3e-5", "4e-5"});
  CHECK(tick_texts({}, 0, 4e6) == Texts{"0", "1M", "2M", "3M", "4M"});
  CHECK(tick_texts({}, 0, 4e33) == Texts{"0", "1e33", "2e33", "3e33", "4e33"});
  CHECK(tick_texts({.whole = true, .round_ends = false}, 1, 3) == Texts{"1", "2", "3"});
  CHECK(tick_texts({.whole = true, .round_ends = false}, 1, 40) == Texts{"10", "20", "30", "40"});
}

TEST_CASE("an axis whose values are all the same has room around them") {
  for (const double value : {0.0, 1.0, -3.0, 0.693, 1e-7, 1e12}) {
    const Ticks ticks = ticks_of({}, value, value, 5);
    CAPTURE(value);
    CHECK(ticks.low < ticks.high);
    CHECK(ticks.low <= value);
    CHECK(ticks.high >= value);
  }
  CHECK(tick_texts({.whole = true, .round_ends = false}, 1, 1) == Texts{"1"});
  CHECK(ticks_of({.scale = Scale::log10}, 3, 3, 5).share(3) >= 0);
  CHECK(ticks_of({.limit = 1}, 1, 1, 5).high == 1);  // no share is above one
  CHECK(ticks_of({.scale = Scale::log2, .round_ends = false}, 4, 4, 5).high > 4);
}

TEST_CASE("ticks of logarithmic axes are powers, and 1, 2, 5 where there are few of them") {
  CHECK(tick_texts({.scale = Scale::log2}, 1, 256, 9) == Texts{"1", "2", "4", "8", "16", "32", "64", "128", "256"});
  CHECK(tick_texts({.scale = Scale::log2}, 1, 65536, 5) == Texts{"1", "16", "256", "4,096", "65,536"});
  CHECK(tick_texts({.scale = Scale::log2, .round_ends = false, .at = {1, 3, 14}}, 1, 14) == Texts{"1", "3", "14"});
  CHECK(tick_texts({.scale = Scale::log10}, 12, 340) == Texts{"10", "20", "50", "100", "200", "500"});
  CHECK(tick_texts({.scale = Scale::log10}, 1e-5, 1e-2) == Texts{"1e-5", "1e-4", "0.001", "0.01"});
  const Ticks ticks = ticks_of({.scale = Scale::log10}, 1, 100, 5);
  CHECK(ticks.share(10) == Approx(0.5));
  CHECK_FALSE(std::isfinite(ticks.share(0)));
  CHECK_FALSE(std::isfinite(ticks.share(-1)));
}

TEST_CASE("figures have four digits that mean something") {
  CHECK(tidy_figure(0.93123456) == "0.9312");
  CHECK(tidy_figure(1234.56) == "1,235");
  CHECK(tidy_figure(29.5987) == "29.60");
  CHECK(tidy_figure(0.001) == "0.001");
  CHECK(tidy_figure(12) == "12");
  CHECK(tidy_figure(1.2345e-6) == "1.234e-6");
  CHECK(tidy_figure(1.9e33) == "1.9e33");
  CHECK(tidy_figure(kMissing) == "–");
  CHECK(tidy_figure(-0.5) == "-0.5");
}

TEST_CASE("a coordinate has one digit after the point and no sign of its own for zero") {
  CHECK(coordinate(12) == "12");
  CHECK(coordinate(12.34) == "12.3");
  CHECK(coordinate(-0.04) == "0");
  CHECK(coordinate(-7.25) == "-7.3");
}

TEST_CASE("a name cannot become markup, nor reach a terminal or a reader's eye reversed") {
  CHECK(escaped("</text><script>\"'&") == "&lt;/text&gt;&lt;script&gt;&quot;&#39;&amp;");
  CHECK(escaped("a\x1b[31m") == "a\\u001b[31m");
  CHECK(escaped("\xe2\x80\xae") == "\\u202e");
  CHECK(escaped("\xff") == "\\xFF");
  CHECK(escaped("Übung 日本") == "Übung 日本");
}

TEST_CASE("text that is too wide has an ellipsis in its middle, between characters") {
  CHECK(cut_to_width("short", 100) == "short");
  const std::string cut = cut_to_width("ÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄÄ", 60);
  CHECK(cut.find("…") != std::string::npos);
  CHECK((cut.size() - 3) % 2 == 0);
  CHECK(text_width(cut) <= 60);
  CHECK(cut_to_width("optimizer.learning_rate=0.1", 120) == "opti…g_rate=0.1");
  CHECK(cut_to_width("anything", 1) == "…");
}

TEST_CASE("labels that would cover each other are pushed apart, the others stay") {
  std::vector<Label> labels{{.x = 10, .y = 50, .width = 40},
                            {.x = 10, .y = 52, .width = 40},
                            {.x = 10, .y = 120, .width = 40},
                            {.x = 200, .y = 51, .width = 40}};
  REQUIRE(spread_labels(labels, 15, 0, 200));
  CHECK(labels[0].y == Approx(43.5));
  CHECK(labels[1].y == Approx(58.5));
  CHECK(labels[2].y == 120);
  CHECK(labels[3].y == 51);  // beside them, not above
}

TEST_CASE("labels stay between top and bottom and in the order of their lines") {
  std::vector<Label> labels;
  for (const double y : {198.0, 199.0, 200.0, 3.0}) labels.push_back({.x = 0, .y = y, .width = 10});
  REQUIRE(spread_labels(labels, 15, 5, 195));
  CHECK(labels[3].y == 5);
  CHECK(labels[0].y == Approx(165));
  CHECK(labels[1].y == Approx(180));
  CHECK(labels[2].y == Approx(195));
}

TEST_CASE("labels without enough room are left alone") {
  std::vector<Label> labels(5, {.x = 0, .y = 20, .width = 10});
  CHECK_FALSE(spread_labels(labels, 15, 0, 50));
  CHECK(labels[4].y == 20);
}

static ChartLayer line_through(const std::vector<double>& values, const std::string& name = "values") {
  ChartLayer layer{.name = name, .ink = kind_ink(0)};
  for (size_t i = 0; i < values.size(); ++i) layer.points.push_back({.x = static_cast<double>(i + 1), .y = values[i]});
  return layer;
}

static Chart chart_of(std::vector<ChartLayer> layers) {
  return {.title = "Title",
          .sentence = "Sentence.",
          .x = {.title = "epoch", .whole = true, .round_ends = false},
          .y = {.title = "loss"},
          .layers = std::move(layers)};
}

static std::string path_of(const std::string& svg, const std::string& classes) {
  const size_t at = svg.find("<path class=\"" + classes);
  if (at == std::string::npos) return "";
  const size_t begin = svg.find("d=\"", at) + 3;
  return svg.substr(begin, svg.find('"', begin) - begin);
}

TEST_CASE("a missing value breaks a line, a value alone is a dot, and nothing that is not finite is drawn") {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::string svg = chart_svg(chart_of({line_through({3, 2, kMissing, 4, infinite, 5, 6})}), 1);
  const std::string path = path_of(svg, "l ");
  CHECK(times_in(path, "M") == 2);
  CHECK(times_in(path, "L") == 2);
  CHECK(times_in(svg, "<circle") == 1);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
}

TEST_CASE("a chart without a value says so, and is named and described") {
  for (const Chart& chart : {chart_of({}), chart_of({line_through({kMissing, kMissing})})}) {
    const std::string svg = chart_svg(chart, 7);
    CHECK(svg.find("no values yet") != std::string::npos);
    CHECK(svg.find("role=\"img\" aria-labelledby=\"c7t c7d\"") != std::string::npos);
    CHECK(svg.find("<title id=\"c7t\">Title</title><desc id=\"c7d\">Sentence.</desc>") != std::string::npos);
  }
  CHECK(row_chart_svg({.title = "Title", .inks = {"k0"}, .rows = {{.name = "a", .values = {kMissing}}}}, 1)
            .find("no values yet") != std::string::npos);
}

TEST_CASE("a logarithm leaves out what it cannot show") {
  Chart chart = chart_of({line_through({0, -1, 10, 100})});
  chart.y.scale = Scale::log10;
  CHECK(times_in(path_of(chart_svg(chart, 1), "l "), "L") == 1);
  chart.layers = {line_through({0, -1})};
  CHECK(chart_svg(chart, 1).find("no values yet") != std::string::npos);
}

TEST_CASE("lines carry their names at their ends; where these have no room there is a legend") {
  const std::string few =
      chart_svg(chart_of({line_through({3, 2}, "training"), line_through({4, 2.1}, "validation")}), 1);
  CHECK(few.find("class=\"t k0\">training</text>") != std::string::npos);
  std::vector<ChartLayer> many;
  for (int i = 0; i < 11; ++i) many.push_back(line_through({3, 2}, "seed " + std::to_string(i)));
  const std::string crowded = chart_svg(chart_of(many), 1);
  CHECK(crowded.find("class=\"t ") == std::string::npos);
  CHECK(crowded.find(">seed 10</text>") != std::string::npos);
  CHECK(chart_svg(chart_of({line_through({3, 2}, "alone")}), 1).find("alone</text>") == std::string::npos);
}

TEST_CASE("bars stand upon each other and the axis reaches to their sum") {
  ChartLayer lower = line_through({10, 20}, "compute"), upper = line_through({5, kMissing}, "wait");
  lower.stroke = upper.stroke = Stroke::stacked_bars;
  upper.ink = kind_ink(1);
  const std::string svg = chart_svg(chart_of({lower, upper}), 1);
  CHECK(times_in(path_of(svg, "s k0"), "Z") == 2);
  CHECK(times_in(path_of(svg, "s k1"), "Z") == 1);
  const std::string first = path_of(svg, "s k0"), second = path_of(svg, "s k1");
  const std::string top = first.substr(first.find('V') + 1, first.find('h') - first.find('V') - 1);
  CHECK(second.substr(0, second.find('V')).ends_with(" " + top));
  CHECK(svg.find(">20</text>") != std::string::npos);
}

TEST_CASE("a band needs two points with intervals, whiskers one") {
  ChartLayer layer = line_through({3, 2, 1});
  layer.points[0].low = 2.5;
  layer.points[0].high = 3.5;
  CHECK(path_of(chart_svg(chart_of({layer}), 1), "b ").empty());
  layer.points[1].low = 1.5;
  layer.points[1].high = 2.5;
  CHECK(times_in(path_of(chart_svg(chart_of({layer}), 1), "b "), "Z") == 1);
  layer.stroke = Stroke::dots;
  CHECK(times_in(path_of(chart_svg(chart_of({layer}), 1), "w "), "V") == 2);
}

TEST_CASE("thinning keeps the ends, the extremes and the gaps") {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 5000; ++i) points.push_back({.x = static_cast<double>(i), .y = std::sin(i * 0.01)});
  points[1234].y = 9;
  points[2345].y = -9;
  points[3456].y = kMissing;
  const std::vector<ChartPoint> few = thinned(points, 400);
  CHECK(few.size() <= 402);
  CHECK(few.front().x == 0);
  CHECK(few.back().x == 4999);
  const auto has = [&](double x) {
    return std::any_of(few.begin(), few.end(), [&](const ChartPoint& point) { return point.x == x; });
  };
  CHECK(has(1234));
  CHECK(has(2345));
  CHECK(has(3456));
  CHECK(thinned(few, 1000).size() == few.size());
}

TEST_CASE("the table of a chart has a column for each layer, or a row for each point where their places differ") {
  const std::string shared =
      chart_table(chart_of({line_through({3, 2}, "training"), line_through({4, kMissing}, "validation")}));
  CHECK(shared.find("<th scope=\"col\">training</th><th scope=\"col\">validation</th>") != std::string::npos);
  CHECK(shared.find("<tr><th scope=\"row\">2</th><td>2</td><td>–</td></tr>") != std::string::npos);
  std::vector<ChartLayer> layers;
  for (int i = 0; i < 3; ++i) {
    layers.push_back(line_through(std::vector<double>(30, 1), "series " + std::to_string(i)));
    for (ChartPoint& point : layers.back().points) point.x += 0.1 * i;
  }
  const std::string apart = chart_table(chart_of(layers));
  CHECK(times_in(apart, "<tr>") == 1 + 90);
  CHECK(apart.find("series 2</th><td>1.2</td><td>1</td>") != std::string::npos);
}
