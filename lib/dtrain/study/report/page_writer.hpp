#pragma once
#include <string>
#include <utility>
#include <vector>

#include "dtrain/study/drawing/chart.hpp"
#include "dtrain/study/drawing/row_chart.hpp"
#include "dtrain/study/drawing/table.hpp"

namespace dtrain {

/// The inside of a page, written from top to bottom. All texts are plain; they are escaped here.
class PageWriter {
 public:
  /// Begins a part of the page with a heading, to which the page's contents link.
  void section(const std::string& heading);
  /// Of a part of a section.
  void heading(const std::string& heading);
  /// Charts until charts_end() stand side by side where there is room.
  void charts_begin() { out_ += "<div class=\"charts\">\n"; }
  void charts_end() { out_ += "</div>\n"; }
  void chart(const Chart& chart);
  /// Nothing where nothing would be drawn.
  void chart_if_any(const Chart& chart);
  void chart(const RowChart& chart);
  void table(const FigureTable& table, const std::string& caption);
  /// Names and values, such as what a run is.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void pairs(const std::vector<std::pair<std::string, std::string>>& rows, const std::string& caption);
  void paragraph(const std::string& text);
  /// Nothing for no sentences. `kind`: "says" for findings, "notes" for what is missing.
  void sentences(const std::vector<std::string>& sentences, const std::string& kind);
  /// A line to type, and what it does.
  void command(const std::string& line, const std::string& effect);
  /// What follows until fold_end() is shown when its summary is opened.
  void fold_begin(const std::string& summary);
  void fold_end() { out_ += "</div></details>\n"; }

  /// Ends the last section; to be called once.
  std::string body();
  /// The links to the sections.
  std::string contents() const;

 private:
  void figure(const std::string& title, const std::string& sentence, const std::string& svg, const std::string& table);

  std::string out_;
  std::vector<std::string> headings_;
  int charts_ = 0;
};

}  // namespace dtrain
