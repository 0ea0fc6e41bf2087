#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/base/shards.hpp"

namespace dtrain {

/// Adds up one node of the canonical tree from subtrees whose sums are at hand: a plan made once, run over many pieces
/// of memory. A piece goes through the caches once, whatever the number of inputs: a few thousand floats at a time are
/// added up in the tree's order and written to every place that wants them.
class TreeSum {
 public:
  /// known[i]: the node that inputs[i] of run() is the sum of. Every present leaf below `node` lies below one of them.
  TreeSum(const CanonicalTree& tree, TreeNode node, const std::vector<TreeNode>& known);

  /// `inputs`: one pointer per known node, also those not below `node`, which are not read. All pieces have `numel`
  /// floats; an output may be one of the inputs, but overlap none otherwise.
  void run(const std::vector<const float*>& inputs, const std::vector<float*>& outputs, int64_t numel) const;

  /// The number of the input that is the sum as it stands, or -1 where something is added.
  int only_input() const { return program_.size() == 1 ? program_.front() : -1; }

 private:
  void compile(const CanonicalTree& tree, TreeNode node, const std::vector<TreeNode>& known, int depth);

  static constexpr int kAdd = -1;
  std::vector<int> program_;  // postfix: the number of an input, or kAdd for the two on top of the stack
  int depth_ = 1;             // of the stack
};

/// into[i] += from[i]; the two do not overlap.
void add_floats(float* into, const float* from, int64_t numel);

}  // namespace dtrain
