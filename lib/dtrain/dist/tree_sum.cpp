#include "dtrain/dist/tree_sum.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "dtrain/base/error.hpp"

namespace dtrain {

namespace {

constexpr int64_t kPiece = 4096;  // floats: a handful of pieces fit into a core's first cache

// out may be a or b. DTRAIN_VECTOR_CLONES comes from CMake's dtrain_vector_code().
DTRAIN_VECTOR_CLONES
void add(const float* a, const float* b, float* out, int64_t numel) {
#pragma GCC ivdep
  for (int64_t i = 0; i < numel; ++i) out[i] = a[i] + b[i];
}

}  // namespace

void add_floats(float* into, const float* from, int64_t numel) { add(into, from, into, numel); }

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
  if (left && right) program_.push_back(kAdd);
}

void TreeSum::run(const std::vector<const float*>& inputs, const std::vector<float*>& outputs, int64_t numel) const {
  const auto scratch = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(depth_ * kPiece));
  std::vector<const float*> stack(static_cast<size_t>(depth_));
  for (int64_t at = 0; at < numel; at += kPiece) {
    const int64_t count = std::min(kPiece, numel - at);
    size_t top = 0;  // values on the stack
    for (size_t i = 0; i < program_.size(); ++i) {
      if (program_[i] != kAdd) {
        stack[top++] = inputs[static_cast<size_t>(program_[i])] + at;
        continue;
      }
      --top;
      float* out =
          i + 1 == program_.size() ? outputs.front() + at : scratch.get() + static_cast<int64_t>(top - 1) * kPiece;
      add(stack[top - 1], stack[top], out, count);
      stack[top - 1] = out;
    }
    for (float* output : outputs)
      if (output + at != stack[0]) std::memcpy(output + at, stack[0], static_cast<size_t>(count) * sizeof(float));
  }
}

}  // namespace dtrain
