#include "dtrain/dist/fold_plan.hpp"

#include <algorithm>
#include <set>

namespace dtrain {

FoldPlan make_fold_plan(const CanonicalTree& tree, Range leaves) {
  const std::vector<TreeNode> owned = tree.owned_subtrees(leaves);
  FoldPlan plan;
  std::set<int> free;
  const auto take = [&] {
    if (free.empty()) return plan.buffers++;
    const int lowest = *free.begin();
    free.erase(free.begin());
    return lowest;
  };
  plan.buffers = 0;
  int64_t last = leaves.end - 1;
  while (last >= leaves.begin && !tree.present(last)) --last;
  for (int64_t leaf = leaves.begin; leaf <= last; ++leaf) {
    if (!tree.present(leaf)) continue;
    FoldPlan::Sum top{{0, leaf}, take()};
    plan.passes.push_back({leaf, top.buffer, {}});
    while (leaf < last && std::find(owned.begin(), owned.end(), top.node) == owned.end()) {
      const TreeNode sibling{top.node.level, top.node.index ^ 1};
      if (tree.occupied(sibling)) {
        if (top.node.is_left()) break;  // must wait for its right sibling
        plan.passes.back().adds.push_back({plan.sums.back().buffer, top.buffer});
        free.insert(top.buffer);
        top.buffer = plan.sums.back().buffer;
        plan.sums.pop_back();
      }
      top.node = top.node.parent();
    }
    plan.sums.push_back(top);
  }
  plan.buffers = std::max(plan.buffers, 1);
  return plan;
}

int most_fold_buffers(int64_t logical_ranks, Range leaves) {
  // With fewer leaves fewer subtrees wait, so the whole tree needs the most buffers.
  const CanonicalTree whole(std::vector<bool>(static_cast<size_t>(logical_ranks), true));
  return make_fold_plan(whole, leaves).buffers;
}

}  // namespace dtrain
