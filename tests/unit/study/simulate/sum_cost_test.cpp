#include "dtrain/study/simulate/sum_cost.hpp"

#include "dtrain/base/shards.hpp"
#include "support/catch.hpp"

using namespace dtrain;

// 4 ranks a node; inside 10 us and 10 GB/s, between 100 us and 1 GB/s.
static const Cluster kCluster{"", 4, {10e-6, 10e9}, {100e-6, 1e9}, 1e-6};

TEST_CASE("one rank sums for nothing") {
  for (const Word<SumWay>& way : kWordsOf<SumWay>) {
    CHECK(sum_cost(way.value, kCluster, 1, 8, 1e9).latency_s == 0);
    CHECK(sum_cost(way.value, kCluster, 1, 8, 1e9).transfer_s == 0);
  }
}

TEST_CASE("a ring sends 2 (N-1)/N of the bytes in 2 (N-1) hops") {
  const SumCost node = sum_cost(SumWay::ring, kCluster, 4, 4, 8e6);
  CHECK(node.latency_s == Approx(6 * 10e-6));
  CHECK(node.transfer_s == Approx(2 * 3.0 / 4 * 8e6 / 10e9));
  const SumCost cluster = sum_cost(SumWay::ring, kCluster, 16, 16, 8e6);  // 4 nodes: 6 of 30 hops leave one
  CHECK(cluster.latency_s == Approx(24 * 10e-6 + 6 * 100e-6));
  CHECK(cluster.transfer_s == Approx(2 * 15.0 / 16 * 8e6 / 1e9));
  const Cluster single{"", 1, {10e-6, 0.5e9}, {100e-6, 1e9}};  // nothing travels inside nodes of one rank
  CHECK(sum_cost(SumWay::ring, single, 2, 2, 8e6).transfer_s == Approx(8e6 / 1e9));
}

TEST_CASE("a hierarchical sum doubles between nodes") {
  const SumCost cost = sum_cost(SumWay::hierarchical, kCluster, 32, 32, 8e6);  // 8 nodes: three rounds each way
  CHECK(cost.latency_s == Approx(6 * 10e-6 + 6 * 100e-6));
  CHECK(cost.transfer_s == Approx(1.5 * 8e6 / 10e9 + 2 * 7.0 / 8 * 8e6 / 1e9));
}

TEST_CASE("the canonical sum between nodes sends as many bytes as a ring over nodes where subtrees are aligned") {
  const SumCost inside = sum_cost(SumWay::canonical, kCluster, 4, 4, 8e6);
  CHECK(inside.latency_s == Approx(2 * 2 * 10e-6));
  CHECK(inside.transfer_s == Approx(1.5 * 8e6 / 10e9));
  const SumCost four = sum_cost(SumWay::canonical, kCluster, 16, 16, 4e6);  // one segment, h = 1, 6 messages
  CHECK(four.latency_s == Approx(4 * 10e-6 + 2 * 100e-6 + 4 * 1e-6));
  CHECK(four.transfer_s == Approx(1.5 * 4e6 / 10e9 + 2 * 3.0 / 4 * 4e6 / 1e9));
  const double two_segments = sum_cost(SumWay::canonical, kCluster, 16, 16, 8e6).latency_s;
  CHECK(two_segments == Approx(4 * 10e-6 + 2 * (2 * 100e-6 + 4 * 1e-6)));
}

TEST_CASE("the subtrees of a node are those of the canonical tree") {
  CHECK(most_subtrees_of_a_node(16, 16, 4) == 1);
  CHECK(most_subtrees_of_a_node(6, 6, 3) == 2);
  for (const int64_t v : {6, 7, 12, 24, 30, 33})
    for (const int64_t ranks : {2, 3, 5, 6})
      for (const int64_t per_node : {1, 2, 3}) {
        const CanonicalTree tree(std::vector<bool>(static_cast<size_t>(v), true));
        size_t most = 1;
        for (int64_t first = 0; first < ranks; first += per_node) {
          const int64_t last = std::min(ranks, first + per_node) - 1;
          const Range leaves{part_of(v, ranks, first).begin, part_of(v, ranks, last).end};
          most = std::max(most, tree.owned_subtrees(leaves).size());
        }
        INFO(v << " logical ranks, " << ranks << " ranks, " << per_node << " a node");
        CHECK(most_subtrees_of_a_node(v, ranks, per_node) == static_cast<int64_t>(most));
      }
}
