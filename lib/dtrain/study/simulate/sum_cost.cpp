#include "dtrain/study/simulate/sum_cost.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dtrain/base/shards.hpp"

namespace dtrain {
namespace {

constexpr double kSegmentBytes = 4.0 * (1 << 20);  // as dist/canonical_sum.cpp cuts a bucket between hosts

// ⌈log₂⌉
double rounds_of(int64_t count) { return static_cast<double>(std::bit_width(static_cast<uint64_t>(count - 1))); }

// Nodes of the tree that make up the leaves [begin, end), from the left: each the largest that begins there and fits.
// Those that hold only leaves beyond V are empty.
int64_t subtrees_in(Range leaves, int64_t logical_ranks) {
  int64_t count = 0;
  while (leaves.begin < std::min(leaves.end, logical_ranks)) {
    const int64_t aligned = leaves.begin == 0 ? leaves.end : leaves.begin & -leaves.begin;
    leaves.begin += std::min(aligned, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(leaves.size()))));
    ++count;
  }
  return count;
}

SumCost canonical_cost(const Cluster& cluster, double g, double m, double subtrees, double bytes) {
  SumCost cost;
  cost.latency_s = 2 * rounds_of(static_cast<int64_t>(g)) * cluster.inside.latency_s;
  cost.transfer_s = 2 * (g - 1) / g * bytes / cluster.inside.bytes_per_s;
  if (m == 1) return cost;
  const double segments = std::max(1.0, std::ceil(bytes / kSegmentBytes));
  const double messages = (subtrees + 1) * (m - 1);
  cost.latency_s += segments * (2 * cluster.between.latency_s + std::max(0.0, messages - 2) * cluster.message_s);
  cost.transfer_s += messages / m * bytes / cluster.between.bytes_per_s;
  return cost;
}

}  // namespace

int64_t most_subtrees_of_a_node(int64_t logical_ranks, int64_t ranks, int64_t ranks_per_node) {
  int64_t most = 1;
  for (int64_t first = 0; first < ranks; first += ranks_per_node) {
    const int64_t last = std::min(ranks, first + ranks_per_node) - 1;
    Range leaves{part_of(logical_ranks, ranks, first).begin, part_of(logical_ranks, ranks, last).end};
    if (leaves.end == logical_ranks)  // leaves beyond V are absent, and belong to whom it suits
      leaves.end = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(logical_ranks)));
    most = std::max(most, subtrees_in(leaves, logical_ranks));
  }
  return most;
}

SumCost sum_cost(SumWay way, const Cluster& cluster, int64_t ranks, int64_t logical_ranks, double bytes) {
  if (ranks <= 1) return {};
  const Link& inside = cluster.inside;
  const Link& between = cluster.between;
  const auto n = static_cast<double>(ranks);
  const auto g = static_cast<double>(std::min(ranks, cluster.ranks_per_node));
  const auto m = static_cast<double>(cluster.nodes(ranks));
  switch (way) {
    case SumWay::ring: {
      const double rate = m == 1 ? inside.bytes_per_s
                                 : (g == 1 ? between.bytes_per_s : std::min(inside.bytes_per_s, between.bytes_per_s));
      return {(2 * (n - 1) - 2 * (m - 1)) * inside.latency_s + 2 * (m - 1) * between.latency_s,
              2 * (n - 1) / n * bytes / rate};
    }
    case SumWay::hierarchical:
      return {2 * (g - 1) * inside.latency_s + 2 * rounds_of(static_cast<int64_t>(m)) * between.latency_s,
              2 * (g - 1) / g * bytes / inside.bytes_per_s + 2 * (m - 1) / m * bytes / between.bytes_per_s};
    case SumWay::canonical:
      break;
  }
  const int64_t subtrees = m == 1 ? 1 : most_subtrees_of_a_node(logical_ranks, ranks, cluster.ranks_per_node);
  return canonical_cost(cluster, g, m, static_cast<double>(subtrees), bytes);
}

}  // namespace dtrain
