#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "dtrain/base/words.hpp"

namespace dtrain {

/// A way for bytes: a message of b bytes takes latency_s + b ÷ bytes_per_s (the α-β model; Hockney 1994).
struct Link {
  double latency_s = 0;
  double bytes_per_s = 1e9;  ///< above 0; in one direction, while all ranks send: what nccl-tests call bus bandwidth
};

/// A machine to predict for.
struct Cluster {
  std::string name = "";
  int64_t ranks_per_node = 1;  ///< >= 1
  Link inside = {};            ///< between the ranks of a node
  Link between = {};           ///< of a node to the others: shared by its ranks
  double message_s = 1e-6;     ///< what a rank spends on each further message between nodes while others are on the way
  double file_bytes_per_s = 0;  ///< of the file system, for all ranks together; 0 = no limit
  int64_t cores_per_node = 0;   ///< 0 = not known: loaders are as fast as where they were measured

  /// Nodes that `ranks` fill, the last one perhaps not.
  int64_t nodes(int64_t ranks) const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

/// How gradients are added up over ranks.
enum class SumWay {
  canonical,     ///< distributed.reduction=canonical: slices, first within nodes, then between them, all at once
  ring,          ///< distributed.reduction=ring
  hierarchical,  ///< as libraries do it (fastest): within nodes, then halving and doubling between them
};
template <>
inline constexpr auto kWordsOf<SumWay> = std::to_array<Word<SumWay>>({{SumWay::canonical, "canonical"},
                                                                      {SumWay::ring, "ring"},
                                                                      {SumWay::hierarchical, "hierarchical"}});

/// What adding up one bucket takes.
struct SumCost {
  double latency_s = 0;   ///< however few the bytes
  double transfer_s = 0;  ///< of the bytes
};

/// S bytes over n ranks on m nodes of g ranks; α, B of the links inside (i) and between (o) nodes. S ÷ B terms are
/// transfer, the others latency.
///
///   ring          (2(n−1) − 2(m−1))·αi + 2(m−1)·αo + 2(n−1)/n · S ÷ min(Bi, Bo): the way of one slice around the ring
///                 crosses each node's border once (as NCCL's src/graph/tuning.cc counts it)
///   hierarchical  2(g−1)·αi + 2(g−1)/g · S ÷ Bi  +  2⌈log₂ m⌉·αo + 2(m−1)/m · S ÷ Bo: reduce-scatter and all-gather
///                 inside, recursive halving and doubling between (Thakur, Rabenseifner and Gropp 2005, section 4)
///   canonical     2⌈log₂ g⌉·αi + 2(g−1)/g · S ÷ Bi, and with more nodes than one, for each segment of 4 MiB:
///                 2·αo + ((h+1)(m−1) − 2)·message_s  and  (h+1)(m−1)/m · S ÷ Bo. A rank sends its node's h subtrees of
///                 a slice to the slice's owner, who sends the sum back (docs/architecture.md, "The canonical sum");
///                 h is 1 where the logical ranks of a node are a whole subtree.
///
/// One rank costs nothing. `logical_ranks` >= ranks >= 1.
SumCost sum_cost(SumWay way, const Cluster& cluster, int64_t ranks, int64_t logical_ranks, double bytes);

/// The most whole subtrees of the canonical tree over `logical_ranks` that the ranks of one node own together.
int64_t most_subtrees_of_a_node(int64_t logical_ranks, int64_t ranks, int64_t ranks_per_node);

}  // namespace dtrain
