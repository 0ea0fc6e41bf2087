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

std::vector<TreeNode> CanonicalTree::owned_subtrees(Range leaves) const {
  const int64_t padded = int64_t{1} << levels_;
  if (leaves.end == logical_ranks()) leaves.end = padded;
  std::vector<TreeNode> owned;
  for (int64_t leaf = leaves.begin; leaf < leaves.end;) {
    int level = 0;  // the largest aligned subtree that begins here and ends inside
    while (level < levels_ && leaf % (int64_t{2} << level) == 0 && leaf + (int64_t{2} << level) <= leaves.end) ++level;
    const TreeNode node{level, leaf >> level};
    if (occupied(node)) owned.push_back(node);
    leaf += int64_t{1} << level;
  }
  return owned;
}

}  // namespace dtrain
