#include "dtrain/dist/subtree_fold.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace dtrain {

void fold_leaf(const CanonicalTree& tree, const std::vector<TreeNode>& owned, Subtree top,
               std::vector<Subtree>& folded) {
  while (std::find(owned.begin(), owned.end(), top.node) == owned.end()) {
    const TreeNode sibling{top.node.level, top.node.index ^ 1};
    if (!top.node.is_left() && tree.occupied(sibling)) {  // the left sibling was folded before: it is the last one
      folded.back().sum.add_(top.sum);
      top.sum = folded.back().sum;
      folded.pop_back();
    } else if (tree.occupied(sibling)) {
      break;  // a left node waits for its right sibling
    }
    top.node = top.node.parent();
  }
  folded.push_back(std::move(top));
}

}  // namespace dtrain
