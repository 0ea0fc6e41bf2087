#include "dtrain/base/shards.hpp"

#include <map>
#include <optional>
#include <string>

#include "support/catch.hpp"

using namespace dtrain;

// The tree written as the sum it stands for: "(0+1)+(2+3)".
static std::string formula(const CanonicalTree& tree, TreeNode node) {
  if (!tree.occupied(node)) return "";
  if (node.level == 0) return std::to_string(node.index);
  const std::string left = formula(tree, {node.level - 1, node.index * 2});
  const std::string right = formula(tree, {node.level - 1, node.index * 2 + 1});
  if (left.empty()) return right;
  return right.empty() ? left : "(" + left + "+" + right + ")";
}

TEST_CASE("parts are contiguous, cover everything and differ by one at most") {
  for (int64_t total : {0, 1, 7, 64, 100})
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t at = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range part = part_of(total, parts, i);
        CHECK(part.begin == at);
        CHECK(part.size() >= total / parts);
        CHECK(part.size() <= total / parts + 1);
        at = part.end;
      }
      CHECK(at == total);
    }
}

TEST_CASE("a sum over ranks is one fixed tree, absent leaves skipped") {
  const CanonicalTree five(std::vector<bool>(5, true));
  CHECK(formula(five, five.root()) == "(((0+1)+(2+3))+4)");
  const CanonicalTree holes({false, true, true, false, true, true});
  CHECK(formula(holes, holes.root()) == "((1+2)+(4+5))");
  CHECK(holes.present_count() == 4);
  const CanonicalTree one({true});
  CHECK(one.root() == TreeNode{0, 0});
}

TEST_CASE("the subtrees of all processes together are the whole tree, for any V and n") {
  for (int64_t v = 1; v <= 17; ++v)
    for (int64_t n = 1; n <= v; ++n)
      for (int mask = 0; mask < 3; ++mask) {
        std::vector<bool> present(static_cast<size_t>(v));
        for (int64_t i = 0; i < v; ++i) present[static_cast<size_t>(i)] = mask == 0 || (i % 3 != mask);
        const CanonicalTree tree(present);
        std::vector<int> covered(static_cast<size_t>(v), 0);
        for (int64_t p = 0; p < n; ++p)
          for (const TreeNode node : tree.owned_subtrees(part_of(v, n, p)))
            for (int64_t leaf = node.index << node.level; leaf < std::min(v, (node.index + 1) << node.level); ++leaf) {
              CHECK(part_of(v, n, p).begin <= leaf);
              CHECK(leaf < part_of(v, n, p).end);
              if (present[static_cast<size_t>(leaf)]) ++covered[static_cast<size_t>(leaf)];
            }
        for (int64_t i = 0; i < v; ++i)
          CHECK(covered[static_cast<size_t>(i)] == (present[static_cast<size_t>(i)] ? 1 : 0));
      }
}

TEST_CASE("one process owns the root, aligned processes one subtree each") {
  const CanonicalTree six(std::vector<bool>(6, true));
  CHECK(six.owned_subtrees({0, 6}) == std::vector<TreeNode>{{3, 0}});
  const CanonicalTree eight(std::vector<bool>(8, true));
  CHECK(eight.owned_subtrees({4, 8}) == std::vector<TreeNode>{{2, 1}});
  CHECK(eight.owned_subtrees({2, 5}) == std::vector<TreeNode>{{1, 1}, {0, 4}});
}
