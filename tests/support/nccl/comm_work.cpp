// What the tests' NCCL does when a stream runs its work.
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "support/nccl/comm.hpp"

namespace dtrain::test {

bool StandInComm::move(std::vector<Wire::Part> sends, std::vector<Wire::Part> takes) {
  return wire_.move(std::move(sends), std::move(takes), stop_, plan_.deaths_show) == Wire::End::done;
}

static Wire::Part part(int peer, uint32_t kind, const void* data, size_t bytes) {
  return {peer, kind, static_cast<char*>(const_cast<void*>(data)), bytes};
}

bool StandInComm::execute(StandInWork& work) {
  if (!move_messages(work)) return false;
  for (const StandInOp& op : work.ops) {
    if (op.kind == StandInOp::all_gather && !gather(op)) return false;
    if (op.kind == StandInOp::all_reduce && !(ring_ ? add_by_ring(op) : add_by_tree(op))) return false;
  }
  return true;
}

// All sends and receives of a group go on at the same time: none waits for another, but for those with the same peer.
bool StandInComm::move_messages(StandInWork& work) {
  std::vector<Wire::Part> sends;
  std::vector<Wire::Part> takes;
  for (const StandInOp& op : work.ops) {
    if (op.kind == StandInOp::send) sends.push_back(part(op.peer, tag(StandInOp::send), op.from, op.bytes));
    if (op.kind == StandInOp::receive) takes.push_back(part(op.peer, tag(StandInOp::send), op.to, op.bytes));
  }
  if (plan_.plant == "fifo")
    for (size_t i = 0; i + 1 < sends.size(); ++i)
      if (sends[i].peer == sends[i + 1].peer) std::swap(sends[i], sends[i + 1]);
  if (work.struck) return strike(sends);
  return move(std::move(sends), std::move(takes));
}

bool StandInComm::strike(const std::vector<Wire::Part>& sends) {
  if (plan_.fault == "error") return false;
  if (!sends.empty()) move({sends.front()}, {});
  ::raise(plan_.fault == "kill" ? SIGKILL : SIGSTOP);
  return false;
}

// Neighbours only: part k is added up on its way from rank k to rank k − 1, then travels around once more.
bool StandInComm::add_by_ring(const StandInOp& op) {
  auto* sums = static_cast<float*>(op.to);
  if (op.to != op.from) std::memcpy(op.to, op.from, op.bytes);
  const auto numel = static_cast<int64_t>(op.bytes / sizeof(float));
  const auto begin = [&](int k) { return sums + numel * ((k % ranks_ + ranks_) % ranks_) / ranks_; };
  const auto length = [&](int k) {
    const int64_t i = (k % ranks_ + ranks_) % ranks_;
    return static_cast<size_t>(numel * (i + 1) / ranks_ - numel * i / ranks_);
  };
  const int next = (rank_ + 1) % ranks_;
  const int previous = (rank_ + ranks_ - 1) % ranks_;
  const uint32_t kind = tag(op.kind);
  const int turn = plan_.plant == "order" ? 1 : 0;
  for (int hop = 0; hop + 1 < ranks_; ++hop) {
    const int out = rank_ - hop - turn;
    std::vector<float> arriving(length(out - 1));
    if (!move({part(next, kind, begin(out), length(out) * 4)},
              {part(previous, kind, arriving.data(), length(out - 1) * 4)}))
      return false;
    for (size_t i = 0; i < arriving.size(); ++i) begin(out - 1)[i] += arriving[i];
  }
  for (int hop = 0; hop + 1 < ranks_; ++hop) {
    const int out = rank_ + 1 - hop - turn;
    if (!move({part(next, kind, begin(out), length(out) * 4)},
              {part(previous, kind, begin(out - 1), length(out - 1) * 4)}))
      return false;
  }
  return true;
}

// Another order than a ring's: rank r adds up what ranks 2r + 1 and 2r + 2 send, and rank 0 has the sum.
bool StandInComm::add_by_tree(const StandInOp& op) {
  if (op.to != op.from) std::memcpy(op.to, op.from, op.bytes);
  auto* sums = static_cast<float*>(op.to);
  const size_t numel = op.bytes / sizeof(float);
  const uint32_t kind = tag(op.kind);
  std::vector<int> children;
  for (const int child : {2 * rank_ + 1, 2 * rank_ + 2})
    if (child < ranks_) children.push_back(child);
  for (const int child : children) {
    std::vector<float> arriving(numel);
    if (!move({}, {part(child, kind, arriving.data(), op.bytes)})) return false;
    for (size_t i = 0; i < numel; ++i) sums[i] += arriving[i];
  }
  const int parent = (rank_ - 1) / 2;
  if (rank_ > 0 && !move({part(parent, kind, sums, op.bytes)}, {})) return false;
  if (rank_ > 0 && !move({}, {part(parent, kind, sums, op.bytes)})) return false;
  std::vector<Wire::Part> down;
  for (const int child : children) down.push_back(part(child, kind, sums, op.bytes));
  return move(std::move(down), {});
}

bool StandInComm::gather(const StandInOp& op) {
  char* all = static_cast<char*>(op.to);
  const auto place = [&](int rank) { return all + static_cast<size_t>(rank) * op.bytes; };
  if (place(rank_) != op.from) std::memcpy(place(rank_), op.from, op.bytes);
  std::vector<Wire::Part> sends;
  std::vector<Wire::Part> takes;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    sends.push_back(part(peer, tag(op.kind), place(rank_), op.bytes));
    takes.push_back(part(peer, tag(op.kind), place(peer), op.bytes));
  }
  return move(std::move(sends), std::move(takes));
}

}  // namespace dtrain::test
