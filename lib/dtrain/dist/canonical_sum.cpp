// The canonical sum. A segment of the buffers is cut into one slice per rank of the job, its owner, which finishes the
// tree for it. On every host one rank, the slice's partner there, adds up the host's own subtrees for the slice and
// sends them to the owner. So only sums of whole subtrees travel between hosts; if subtrees and hosts are aligned,
// that is as many bytes as in a ring over hosts.
//
// SharedSum, if the ranks of a host share memory:
//   1. A partner reads the buffers of all ranks of its host, and sends.
//   2. The owner adds up the rest of the tree from what arrives and from its own host's buffers, and writes the
//      sum into buffer 0 of every rank of its host.
//   3. It sends the sum to the partners, which write it into their hosts' buffers.
// The same code serves one host, where there are no messages, and hosts of one rank, where no memory is shared.
//
// MessageSum, if they do not (GPUs):
//   1. Inside a host each rank sends its sums for the slice to the partner, or to the owner if that is on this host.
//   2. The partner adds up and sends; the owner finishes.
//   3. All ranks gather the slices.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"
#include "dtrain/dist/tree_sum.hpp"

namespace dtrain {
namespace {

// Floats added up and sent at a time between ranks, which bounds the copies. Larger on a GPU, which has the memory and
// where each call costs time.
constexpr int64_t kSegment = int64_t{1} << 20;
constexpr int64_t kGpuSegment = int64_t{1} << 24;

// What both have in common: which rank holds which subtrees.
class CanonicalSum : public BucketSum {
 protected:
  // Where a sum is that some rank of this host holds when its passes are done.
  struct Place {
    size_t local;  // the rank's number on this host
    int buffer;
  };

  CanonicalSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel, HostMemory memory)
      : BucketSum(comm, device, logical_ranks, numel), memory_(std::move(memory)) {}

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

  // The slice's partner on a host: the rank that sends and receives for the slice of `rank`; on that rank's own host
  // the rank itself.
  int partner(size_t host, int rank) const {
    const std::vector<int>& ranks = memory_.hosts[host];
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return rank;
    return ranks[static_cast<size_t>(rank) % ranks.size()];
  }

  at::Tensor empty(int64_t numel) const {
    return at::empty({numel}, at::TensorOptions(at::kFloat).device(device_.place));
  }

  HostMemory memory_;
  std::vector<Place> places_;                      // of the sums that the ranks of this host hold
  std::vector<std::vector<TreeNode>> host_nodes_;  // what each host can add up on its own
  std::vector<TreeSum> host_sums_;                 // of this host's nodes, from the sums at places_
  std::unique_ptr<TreeSum> root_sum_;              // from those and the other hosts' nodes

 private:
  std::vector<TreeNode> known_;  // the nodes of the sums at places_
};

class SharedSum final : public CanonicalSum {
 public:
  SharedSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel, int count,
            HostMemory memory)
      : CanonicalSum(comm, device, logical_ranks, numel, std::move(memory)) {
    for (int i = 0; i < count; ++i) buffers_.push_back(buffer_of(memory_.local, i));
  }

  std::string transport() const override {
    const size_t hosts = memory_.hosts.size();
    if (comm_.size() == 1) return "one process";
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
  at::Tensor buffer_of(size_t local, int i) const {
    return memory_.segments[local].slice(0, i * numel_, (i + 1) * numel_);
  }

  std::vector<const float*> local_inputs(int64_t begin) const {
    std::vector<const float*> inputs;
    for (const Place& place : places_)
      inputs.push_back(buffer_of(place.local, place.buffer).const_data_ptr<float>() + begin);
    return inputs;
  }

  // Buffer 0 of each rank of this host, beginning with this rank's.
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

  // This host's subtree sums for another rank's slice; a sum that is already in a buffer is sent from there.
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
    std::vector<Range> spoken_for;  // slices that this rank is the partner for
    std::vector<Message> sums_out;  // of this rank's slice, to its partners
    std::vector<Message> sums_in;   // of the slices in spoken_for
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
};

class MessageSum final : public CanonicalSum {
 public:
  MessageSum(Communicator& comm, const Device& device, int64_t logical_ranks, int64_t numel, int count,
             HostMemory memory)
      : CanonicalSum(comm, device, logical_ranks, numel, std::move(memory)) {
    for (int i = 0; i < count; ++i) buffers_.push_back(memory_.segments[0].slice(0, i * numel_, (i + 1) * numel_));
  }

  std::string transport() const override {
    if (comm_.size() == 1) return "one process";
    const size_t hosts = memory_.hosts.size();
    const bool grouped = hosts > 1 && hosts < static_cast<size_t>(comm_.size());
    return "messages (" + memory_.note + ")" +
           (grouped ? ", within each of " + std::to_string(hosts) + " hosts, then between them" : "");
  }

  void sum(Range range) override {
    const int64_t most = device_.place.is_cpu() ? kSegment : kGpuSegment;
    for (int64_t at = range.begin; at < range.end; at += most) sum_segment({at, std::min(range.end, at + most)});
  }

 private:
  // For one slice, a pointer to the sum at each of places_: in this rank's buffers, or in `arrived` from the host's
  // other ranks.
  using Inputs = std::vector<const float*>;

  Range slice_of(Range segment, int rank) const {
    const Range slice = slice_of_rank(segment.size(), comm_.size(), rank);
    return {segment.begin + slice.begin, segment.begin + slice.end};
  }

  // Step 1. Returns the sums of all ranks of this host for each slice that this rank owns or is the partner for, by
  // the slice's owner.
  std::map<int, Inputs> gather_in_host(Range segment, std::vector<at::Tensor>& arrived) {
    std::vector<Message> sends;
    std::vector<Message> receives;
    std::map<int, Inputs> inputs;
    for (int owner = 0; owner < comm_.size(); ++owner) {
      const Range slice = slice_of(segment, owner);
      if (slice.size() == 0) continue;
      const int speaker = partner(memory_.host, owner);
      for (const Place& place : places_) {
        const bool own = place.local == memory_.local;
        const at::Tensor part = own ? buffer(place.buffer).slice(0, slice.begin, slice.end) : at::Tensor();
        if (speaker != comm_.rank()) {
          if (own) sends.push_back({speaker, part});
          continue;
        }
        if (!own) {
          arrived.push_back(empty(slice.size()));
          receives.push_back({memory_.ranks()[place.local], arrived.back()});
        }
        inputs[owner].push_back((own ? part : arrived.back()).const_data_ptr<float>());
      }
      if (speaker == comm_.rank()) inputs.try_emplace(owner);  // the host may have no sum at all
    }
    comm_.exchange(sends, receives);
    return inputs;
  }

  // Step 2. Sends this host's subtrees for slices of other hosts' ranks; returns theirs for this rank's slice.
  std::vector<at::Tensor> exchange_between_hosts(Range segment, const std::map<int, Inputs>& inputs) {
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (const auto& [owner, of_slice] : inputs) {
      if (owner == comm_.rank()) continue;
      const Range slice = slice_of(segment, owner);
      for (const TreeSum& sum : host_sums_) {
        const int only = sum.only_input();
        if (only >= 0 && places_[static_cast<size_t>(only)].local == memory_.local) {
          const int own = places_[static_cast<size_t>(only)].buffer;
          sends.push_back({owner, buffer(own).slice(0, slice.begin, slice.end)});
        } else {
          sends.push_back({owner, empty(slice.size())});
          sum.run(*device_.math, of_slice, {sends.back().data.mutable_data_ptr<float>()}, slice.size());
        }
      }
    }
    const int64_t length = slice_of(segment, comm_.rank()).size();
    std::vector<at::Tensor> from_hosts;
    for (size_t host = 0; host < memory_.hosts.size() && length > 0; ++host)
      for (size_t i = 0; i < host_nodes_[host].size() && host != memory_.host; ++i) {
        from_hosts.push_back(empty(length));
        receives.push_back({partner(host, comm_.rank()), from_hosts.back()});
      }
    comm_.exchange(sends, receives);
    return from_hosts;
  }

  void sum_segment(Range segment) {
    std::vector<at::Tensor> arrived;
    std::map<int, Inputs> inputs = gather_in_host(segment, arrived);
    const std::vector<at::Tensor> from_hosts = exchange_between_hosts(segment, inputs);
    const Range mine = slice_of(segment, comm_.rank());
    if (mine.size() > 0) {
      Inputs& all = inputs.at(comm_.rank());
      for (const at::Tensor& sum : from_hosts) all.push_back(sum.const_data_ptr<float>());
      root_sum_->run(*device_.math, all, {buffer(0).mutable_data_ptr<float>() + mine.begin}, mine.size());
    }
    at::Tensor sums = buffer(0).slice(0, segment.begin, segment.end);
    comm_.gather_slices(sums);
  }
};

}  // namespace

std::unique_ptr<BucketSum> make_canonical_sum(Communicator& comm, const Device& device, int64_t logical_ranks,
                                              int64_t numel) {
  int count = 1;
  for (int r = 0; r < comm.size(); ++r)
    count = std::max(count, most_fold_buffers(logical_ranks, part_of(logical_ranks, comm.size(), r)));
  HostMemory memory = comm.share(numel * count, device.place);
  if (memory.note.empty())
    return std::make_unique<SharedSum>(comm, device, logical_ranks, numel, count, std::move(memory));
  return std::make_unique<MessageSum>(comm, device, logical_ranks, numel, count, std::move(memory));
}

}  // namespace dtrain
