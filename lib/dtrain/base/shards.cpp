#include "dtrain/base/shards.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"

namespace dtrain {

Range part_of(int64_t total, int64_t parts, int64_t i) { return {i * total / parts, (i + 1) * total / parts}; }

CanonicalTree::CanonicalTree(std::vector<bool> present) : present_(std::move(present)), before_{0} {
  check(!present_.empty(), "a tree has at least one leaf");
  for (bool is_present : present_) before_.push_back(before_.back() + (is_present ? 1 : 0));
  while ((int64_t{1} << levels_) < logical_ranks()) ++levels_;
}

bool CanonicalTree::occupied(TreeNode node) const {
  const auto clamp = [&](int64_t leaf) { return static_cast<size_t>(std::min(leaf, logical_ranks())); };
  return before_[clamp((node.index + 1) << node.level)] > before_[clamp(node.index << node.level)];
}

std::vector<TreeNode> CanonicalTree::owned_subtrees(const std::vector<Range>& leaves) const {
  std::vector<Range> joined;
  for (const Range& range : leaves) {
    if (range.size() == 0) continue;
    if (!joined.empty() && joined.back().end == range.begin)
      joined.back().end = range.end;
    else
      joined.push_back(range);
  }
  std::vector<TreeNode> owned;
  collect(root(), joined, owned);
  return owned;
}

void CanonicalTree::collect(TreeNode node, const std::vector<Range>& leaves, std::vector<TreeNode>& owned) const {
  if (!occupied(node)) return;
  const Range below{node.index << node.level, std::min(logical_ranks(), (node.index + 1) << node.level)};
  const auto holds = [&](const Range& range) { return range.begin <= below.begin && below.end <= range.end; };
  if (std::any_of(leaves.begin(), leaves.end(), holds)) {
    owned.push_back(node);
  } else if (node.level > 0) {
    collect(node.left(), leaves, owned);
    collect(node.right(), leaves, owned);
  }
}

}  // namespace dtrain
