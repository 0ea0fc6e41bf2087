#pragma once
#include <cstdint>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/device/flat_math.hpp"

namespace dtrain {

/// Adds up one node of the canonical tree from subtrees whose sums are known: a program made once, run over many pieces
/// of memory.
class TreeSum {
 public:
  /// known[i]: the node that inputs[i] of run() is the sum of. Every present leaf below `node` lies below one of them.
  TreeSum(const CanonicalTree& tree, TreeNode node, const std::vector<TreeNode>& known);

  /// `inputs`: one pointer per known node, also those not below `node`, which are not read. All pieces have `numel`
  /// floats; the sum is written to every output, which may be one of the inputs, but must not overlap any otherwise.
  void run(const FlatMath& math, const std::vector<const float*>& inputs, const std::vector<float*>& outputs,
           int64_t numel) const {
    math.sum(program_, depth_, inputs, outputs, numel);
  }

  /// The number of the input that already is the sum, or -1 if something is added.
  int only_input() const { return program_.size() == 1 ? program_.front() : -1; }

 private:
  void compile(const CanonicalTree& tree, TreeNode node, const std::vector<TreeNode>& known, int depth);

  std::vector<int> program_;  // for FlatMath::sum
  int depth_ = 1;             // of its stack
};

}  // namespace dtrain
