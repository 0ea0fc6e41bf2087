#pragma once
#include <string>
#include <vector>

namespace dtrain {

/// Text for a table: cells are escaped when it is written.
struct FigureTable {
  std::vector<std::string> headings = {};
  std::vector<std::vector<std::string>> rows = {};  ///< each as long as headings
  std::vector<size_t> texts = {};                   ///< columns that hold words; the others hold figures
};

/// As HTML: the first cell of each row is its heading; it scrolls sideways by itself where the page is too narrow, by
/// keyboard too. `caption` says what it shows, to who cannot see where it stands.
std::string figure_table(const FigureTable& table, const std::string& caption);

}  // namespace dtrain
