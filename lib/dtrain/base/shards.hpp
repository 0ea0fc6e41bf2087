#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

/// Half-open range [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Part `i` of `parts` of 0 … total-1: [⌊i·total/parts⌋, ⌊(i+1)·total/parts⌋). The parts are contiguous, in order, and
/// differ in size by at most one. This one rule distributes logical ranks over processes and bucket slices over ranks.
Range part_of(int64_t total, int64_t parts, int64_t i);

/// One node of the binary tree over logical ranks 0 … V-1 padded to a power of two: `level` 0 are the leaves, node
/// (level, index) spans the leaves [index·2^level, (index+1)·2^level).
struct TreeNode {
  int level = 0;
  int64_t index = 0;
  bool operator==(const TreeNode&) const = default;
  auto operator<=>(const TreeNode&) const = default;
  TreeNode parent() const { return {level + 1, index / 2}; }
  TreeNode left() const { return {level - 1, index * 2}; }
  TreeNode right() const { return {level - 1, index * 2 + 1}; }
  bool is_left() const { return index % 2 == 0; }
};

/// The fixed order of additions behind every sum over ranks (docs/architecture.md, "The canonical sum").
///
/// A sum over logical ranks is always root(tree) with node = left + right, where an absent leaf or an empty subtree is
/// skipped, never added as zero. Who computes which node changes nothing: floating-point addition is a function of its
/// two operands, and the operands are fixed by the tree.
class CanonicalTree {
 public:
  /// `present[v]`: logical rank v contributes. V = present.size() >= 1.
  explicit CanonicalTree(std::vector<bool> present);
  bool operator==(const CanonicalTree&) const = default;

  int64_t logical_ranks() const { return static_cast<int64_t>(present_.size()); }
  TreeNode root() const { return {levels_, 0}; }
  /// True if any present leaf lies below `node`.
  bool occupied(TreeNode node) const;
  /// Number of present leaves.
  int64_t present_count() const { return before_.back(); }
  bool present(int64_t leaf) const { return present_[static_cast<size_t>(leaf)]; }

  /// The largest subtrees that lie entirely inside `leaves` and have a present leaf, from left to right: what the
  /// process with these logical ranks can add up on its own. Leaves beyond V count as inside (they are absent), so the
  /// last process may own a subtree that reaches past V.
  std::vector<TreeNode> owned_subtrees(Range leaves) const { return owned_subtrees(std::vector{leaves}); }
  /// The same for several disjoint ranges together, ascending: for example the leaves of one host.
  std::vector<TreeNode> owned_subtrees(const std::vector<Range>& leaves) const;

 private:
  void collect(TreeNode node, const std::vector<Range>& leaves, std::vector<TreeNode>& owned) const;

  std::vector<bool> present_;
  std::vector<int64_t> before_;  // before_[v]: present leaves among 0 … v-1
  int levels_ = 0;
};

}  // namespace dtrain
