#include "dtrain/dist/tree_sum.hpp"

#include <algorithm>

#include "dtrain/base/error.hpp"

namespace dtrain {

TreeSum::TreeSum(const CanonicalTree& tree, TreeNode node, const std::vector<TreeNode>& known) {
  compile(tree, node, known, 1);
}

void TreeSum::compile(const CanonicalTree& tree, TreeNode node, const std::vector<TreeNode>& known, int depth) {
  depth_ = std::max(depth_, depth);
  if (const auto found = std::find(known.begin(), known.end(), node); found != known.end()) {
    program_.push_back(static_cast<int>(found - known.begin()));
    return;
  }
  check(node.level > 0, "every present leaf lies below a subtree that is known");
  const bool left = tree.occupied(node.left());
  const bool right = tree.occupied(node.right());
  if (left) compile(tree, node.left(), known, depth);
  if (right) compile(tree, node.right(), known, depth + (left ? 1 : 0));
  if (left && right) program_.push_back(FlatMath::kAdd);
}

}  // namespace dtrain
