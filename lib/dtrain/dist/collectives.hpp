#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/shards.hpp"
#include "dtrain/dist/communicator.hpp"

// Collectives on top of Communicator::exchange. All ranks call them together, in the same order. With one rank each is
// the identity: no caller checks the size first.

namespace dtrain {

/// Fills `tensor` (contiguous, same shape and type everywhere) with the root's values: a binomial tree, ⌈log2 n⌉
/// rounds.
void broadcast(Communicator& comm, at::Tensor& tensor, int root = 0);

/// The root's text on every rank.
std::string broadcast_text(Communicator& comm, std::string text, int root = 0);

/// Every rank's tensor, in order of rank: same type and trailing dimensions, dimension 0 may differ and may be 0.
std::vector<at::Tensor> all_gather(Communicator& comm, const at::Tensor& mine);

/// Every rank's text, in order of rank.
std::vector<std::string> all_gather_text(Communicator& comm, const std::string& mine);

/// The same on the root only; nothing on the others.
std::vector<std::string> gather_text(Communicator& comm, const std::string& mine, int root = 0);

/// Rows of all logical ranks, [V, k], from this rank's own rows [own, k]. No sizes are sent: each rank knows which rows
/// the others have (part_of).
at::Tensor gather_logical_rows(Communicator& comm, int64_t logical_ranks, const at::Tensor& own_rows);

/// True on every rank if it is true on any.
bool any(Communicator& comm, bool mine);
/// The largest of all ranks' values.
int64_t largest(Communicator& comm, int64_t mine);
/// Returns when every rank has arrived.
void barrier(Communicator& comm);

/// The sum over logical ranks of one row of doubles each, bit for bit the same for any number of processes: rows [V, k]
/// known to all → row sums [k] by the tree.
at::Tensor canonical_row_sum(const CanonicalTree& tree, const at::Tensor& rows);

/// This rank's logical ranks.
Range carried(const Communicator& comm, int64_t logical_ranks);

}  // namespace dtrain
