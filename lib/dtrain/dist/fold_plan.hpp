#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/base/shards.hpp"

namespace dtrain {

/// In which of a process's buffers each backward pass leaves its gradients, and what is added up between passes: the
/// carries of a binary counter, so that the passes of k logical ranks need about log2(k) + 1 buffers. A pure function
/// of the tree and the range: every rank knows where the others' sums are.
struct FoldPlan {
  struct Add {
    int into;  ///< buffer += buffer
    int from;
  };
  struct Pass {
    int64_t leaf;           ///< logical rank
    int buffer;             ///< for its gradients
    std::vector<Add> adds;  ///< after this pass, before the next; none after the last one
  };
  struct Sum {
    TreeNode node;
    int buffer;
  };
  std::vector<Pass> passes;  ///< the present leaves, ascending
  std::vector<Sum> sums;     ///< the result of the last pass: the tree below `leaves` is made of these
  int buffers = 1;           ///< how many are used; the first is buffer 0
};

FoldPlan make_fold_plan(const CanonicalTree& tree, Range leaves);

/// Buffers that suffice for every set of present leaves.
int most_fold_buffers(int64_t logical_ranks, Range leaves);

}  // namespace dtrain
