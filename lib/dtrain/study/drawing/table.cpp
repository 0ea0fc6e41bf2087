#include "dtrain/study/drawing/table.hpp"

#include "dtrain/study/drawing/markup.hpp"

namespace dtrain {

std::string figure_table(const FigureTable& table, const std::string& caption) {
  std::vector<std::string> side(table.headings.size());
  for (const size_t column : table.texts) side.at(column) = " class=\"words\"";
  std::string out =
      "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"" + escaped(caption) + "\"><table><thead><tr>";
  for (size_t i = 0; i < side.size(); ++i)
    out += "<th scope=\"col\"" + side[i] + ">" + escaped(table.headings[i]) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? "<th scope=\"row\"" + side[i] + ">" + escaped(row[i]) + "</th>"
                    : "<td" + side[i] + ">" + escaped(row[i]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

}  // namespace dtrain
