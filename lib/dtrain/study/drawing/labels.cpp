#include "dtrain/study/drawing/labels.hpp"

#include <algorithm>
#include <cstddef>

namespace dtrain {
namespace {

/// Labels that were pushed together: `count` of them from the top one on, each a gap below the one before.
struct Stack {
  size_t first = 0;
  size_t count = 1;
  double wish = 0;  // sum over its labels of where the top one would be if each were in its own place
  double top = 0;
};

/// The labels of one column, from top to bottom. Stacks that touch become one, at the mean of what its labels wish.
void spread_column(std::vector<Label*>& column, double gap, double top, double bottom) {
  std::vector<Stack> stacks;
  const auto settle = [&](Stack& stack) {
    const double lowest = bottom - gap * static_cast<double>(stack.count - 1);
    stack.top = std::clamp(stack.wish / static_cast<double>(stack.count), top, lowest);
  };
  for (size_t i = 0; i < column.size(); ++i) {
    Stack stack{.first = i, .wish = column[i]->y};
    settle(stack);
    while (!stacks.empty() && stacks.back().top + gap * static_cast<double>(stacks.back().count) > stack.top) {
      Stack& above = stacks.back();
      stack = {.first = above.first,
               .count = above.count + stack.count,
               .wish = above.wish + stack.wish - gap * static_cast<double>(above.count * stack.count)};
      settle(stack);
      stacks.pop_back();
    }
    stacks.push_back(stack);
  }
  for (const Stack& stack : stacks)
    for (size_t i = 0; i < stack.count; ++i) column[stack.first + i]->y = stack.top + gap * static_cast<double>(i);
}

}  // namespace

bool spread_labels(std::vector<Label>& labels, double gap, double top, double bottom) {
  std::vector<Label*> by_x;
  for (Label& label : labels) by_x.push_back(&label);
  std::stable_sort(by_x.begin(), by_x.end(), [](const Label* a, const Label* b) { return a->x < b->x; });
  std::vector<std::vector<Label*>> columns;
  double end = 0;
  for (Label* label : by_x) {  // a column: labels that overlap in x, and those that overlap with these
    if (columns.empty() || label->x >= end) columns.emplace_back();
    end = columns.back().empty() ? label->x + label->width : std::max(end, label->x + label->width);
    columns.back().push_back(label);
  }
  for (const std::vector<Label*>& column : columns)
    if (gap * static_cast<double>(column.size() - 1) > bottom - top) return false;
  for (std::vector<Label*>& column : columns) {
    std::stable_sort(column.begin(), column.end(), [](const Label* a, const Label* b) { return a->y < b->y; });
    spread_column(column, gap, top, bottom);
  }
  return true;
}

}  // namespace dtrain
