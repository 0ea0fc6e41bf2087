#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "dtrain/base/shards.hpp"

namespace dtrain {

/// The sum of one subtree of the canonical tree.
struct Subtree {
  TreeNode node;
  at::Tensor sum;
};

/// Adds `leaf`, the next present leaf from left to right, to the subtrees folded so far, joining neighbours as carries
/// join in a binary counter, until each stands for a node of `owned` (CanonicalTree::owned_subtrees of this process) or
/// waits for its right sibling. Sums are written into the left operand's memory; a leaf that joined nothing keeps its
/// own.
void fold_leaf(const CanonicalTree& tree, const std::vector<TreeNode>& owned, Subtree leaf,
               std::vector<Subtree>& folded);

}  // namespace dtrain
