// The canonical sum, hierarchical: inside a host each rank reads the others' buffers, between hosts sums of whole
// subtrees travel as messages.
//
// A segment of the buffers is cut into one slice per rank of the job, and each rank finishes the tree for its slice:
//   1. On every other host one rank, the slice's partner there, adds up the host's own subtrees for the slice, straight
//      from the buffers of all ranks of the host, and sends them.
//   2. The owner adds up the rest of the tree from those and from its own host's buffers, and writes the sum into
//      buffer 0 of every rank of its host.
//   3. It sends the sum to the partners, which write it into their hosts' buffers.
// With one host there are no messages at all, with hosts of one rank there is no shared memory: the same code.
// Bytes between hosts, aligned: those of a ring all-reduce over hosts.
#include <ATen/ATen.h>

#include <algorithm>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/tree_sum.hpp"

namespace dtrain {
namespace {

constexpr int64_t kSegment = 1 << 20;  // floats added up and sent at a time between hosts: bounds the copies

class CanonicalSum final : public BucketSum {
 public:
  CanonicalSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel)
      : BucketSum(comm, device, logical_ranks, numel) {
    int count = 1;
    for (int r = 0; r < comm.size(); ++r)
      count = std::max(count, most_fold_buffers(logical_ranks, part_of(logical_ranks, comm.size(), r)));
    memory_ = comm.share(numel * count, device.place);
    for (int i = 0; i < count; ++i) buffers_.push_back(buffer_of(memory_.local, i));
  }

  std::string transport() const override {
    const size_t hosts = memory_.hosts.size();
    if (comm_.size() == 1) return "one process";
    if (!memory_.note.empty()) return "messages (" + memory_.note + ")";
    if (hosts == 1) return "shared memory";
    if (hosts == static_cast<size_t>(comm_.size())) return "messages between " + std::to_string(hosts) + " hosts";
    return "shared memory within " + std::to_string(hosts) + " hosts, messages between them";
  }

  void sum(Range range) override {
    memory_.barrier.wait();  // every rank of the host has filled the range
    if (memory_.hosts.size() == 1) {
      const Range slice = part_of(range.size(), comm_.size(), comm_.rank());
      finish_slice({range.begin + slice.begin, range.begin + slice.end}, {});
    } else {
      for (int64_t at = range.begin; at < range.end; at += kSegment)
        sum_segment({at, std::min(range.end, at + kSegment)});
    }
    memory_.barrier.wait();  // every rank of the host has written its slices
  }

 private:
  // Where a sum lies that some rank of this host holds when its passes are done.
  struct Place {
    size_t local;
    int buffer;
  };

  at::Tensor buffer_of(size_t local, int i) const {
    return memory_.segments[local].slice(0, i * numel_, (i + 1) * numel_);
  }

  void tree_changed() override {
    known_.clear();
    places_.clear();
    std::vector<std::vector<Range>> leaves;
    for (const std::vector<int>& ranks : memory_.hosts) {
      leaves.emplace_back();
      for (const int r : ranks) leaves.back().push_back(part_of(logical_ranks_, comm_.size(), r));
    }
    for (size_t local = 0; local < memory_.ranks().size(); ++local)
      for (const FoldPlan::Sum& sum : make_fold_plan(*tree_, leaves[memory_.host][local]).sums) {
        known_.push_back(sum.node);
        places_.push_back({local, sum.buffer});
      }
    host_nodes_.clear();
    for (const std::vector<Range>& of_host : leaves) host_nodes_.push_back(tree_->owned_subtrees(of_host));
    host_sums_.clear();
    for (const TreeNode node : host_nodes_[memory_.host]) host_sums_.emplace_back(*tree_, node, known_);
    std::vector<TreeNode> all = known_;
    for (size_t host = 0; host < memory_.hosts.size(); ++host)
      if (host != memory_.host) all.insert(all.end(), host_nodes_[host].begin(), host_nodes_[host].end());
    root_sum_ = std::make_unique<TreeSum>(*tree_, tree_->root(), all);
  }

  // The rank of a host that speaks for it about the slice of `rank`, which is on another host.
  int partner(size_t host, int rank) const {
    const std::vector<int>& ranks = memory_.hosts[host];
    return ranks[static_cast<size_t>(rank) % ranks.size()];
  }

  std::vector<const float*> local_inputs(int64_t begin) const {
    std::vector<const float*> inputs;
    for (const Place& place : places_)
      inputs.push_back(buffer_of(place.local, place.buffer).const_data_ptr<float>() + begin);
    return inputs;
  }

  // Buffer 0 of the ranks of this host, this rank's first.
  std::vector<float*> local_outputs(int64_t begin) const {
    std::vector<float*> outputs{buffer(0).mutable_data_ptr<float>() + begin};
    for (size_t local = 0; local < memory_.segments.size(); ++local)
      if (local != memory_.local) outputs.push_back(buffer_of(local, 0).mutable_data_ptr<float>() + begin);
    return outputs;
  }

  void finish_slice(Range slice, const std::vector<at::Tensor>& from_hosts) const {
    if (slice.size() == 0) return;
    std::vector<const float*> inputs = local_inputs(slice.begin);
    for (const at::Tensor& sum : from_hosts) inputs.push_back(sum.const_data_ptr<float>());
    root_sum_->run(*device_.math, inputs, local_outputs(slice.begin), slice.size());
  }

  at::Tensor empty(int64_t numel) const {
    return at::empty({numel}, at::TensorOptions(at::kFloat).device(device_.place));
  }

  // This host's subtree sums for another rank's slice; a sum that lies in a buffer as it stands is sent from there.
  std::vector<at::Tensor> host_part(Range slice) const {
    std::vector<at::Tensor> parts;
    for (const TreeSum& sum : host_sums_) {
      if (sum.only_input() >= 0) {
        const Place& place = places_[static_cast<size_t>(sum.only_input())];
        parts.push_back(buffer_of(place.local, place.buffer).slice(0, slice.begin, slice.end));
      } else {
        parts.push_back(empty(slice.size()));
        sum.run(*device_.math, local_inputs(slice.begin), {parts.back().mutable_data_ptr<float>()}, slice.size());
      }
    }
    return parts;
  }

  void sum_segment(Range segment) {
    const auto slice_of = [&](int rank) {
      const Range slice = part_of(segment.size(), comm_.size(), rank);
      return Range{segment.begin + slice.begin, segment.begin + slice.end};
    };
    const Range mine = slice_of(comm_.rank());
    std::vector<Message> sends;
    std::vector<Message> receives;
    std::vector<at::Tensor> from_hosts;
    std::vector<Range> spoken_for;  // slices whose partner on this host is this rank
    std::vector<Message> sums_out;  // of this rank's slice, to its partners
    std::vector<Message> sums_in;   // of the slices spoken for
    const at::Tensor result = buffer(0);
    for (size_t host = 0; host < memory_.hosts.size(); ++host) {
      if (host == memory_.host) continue;
      for (const int rank : memory_.hosts[host]) {
        const Range theirs = slice_of(rank);
        if (partner(memory_.host, rank) != comm_.rank() || theirs.size() == 0) continue;
        for (const at::Tensor& part : host_part(theirs)) sends.push_back({rank, part});
        sums_in.push_back({rank, result.slice(0, theirs.begin, theirs.end)});
        spoken_for.push_back(theirs);
      }
      if (mine.size() == 0) continue;
      for (size_t i = 0; i < host_nodes_[host].size(); ++i) {
        from_hosts.push_back(empty(mine.size()));
        receives.push_back({partner(host, comm_.rank()), from_hosts.back()});
      }
      sums_out.push_back({partner(host, comm_.rank()), result.slice(0, mine.begin, mine.end)});
    }
    comm_.exchange(sends, receives);
    finish_slice(mine, from_hosts);
    comm_.exchange(sums_out, sums_in);
    for (const Range& slice : spoken_for) {
      const std::vector<float*> outputs = local_outputs(slice.begin);
      for (size_t i = 1; i < outputs.size(); ++i) std::copy_n(outputs[0], slice.size(), outputs[i]);
    }
  }

  HostMemory memory_;
  std::vector<TreeNode> known_;  // sums that the ranks of this host hold, and where
  std::vector<Place> places_;
  std::vector<std::vector<TreeNode>> host_nodes_;  // what each host can add up on its own
  std::vector<TreeSum> host_sums_;                 // of this host's nodes, from known_
  std::unique_ptr<TreeSum> root_sum_;              // from known_ and the other hosts' nodes
};

}  // namespace

std::unique_ptr<BucketSum> make_canonical_sum(Communicator& comm, const Device& device, int64_t logical_ranks,
                                              int64_t numel) {
  return std::make_unique<CanonicalSum>(comm, device, logical_ranks, numel);
}

}  // namespace dtrain
