#include "nccl_stand_in.hpp"

#include <cstdlib>
#include <cstring>

namespace dtrain::test {

NcclResult StandInNccl::told(const std::string& call) const {
  const auto found = failing.find(call);
  return found == failing.end() ? NcclResult::success : found->second;
}

// Every call that a communicator carries out in the background.
NcclResult StandInNccl::begin(const std::string& call, const std::string& words, std::function<bool()> carry_out) {
  calls.push_back(words);
  if (pending_) return NcclResult::invalid_usage;
  if (const NcclResult result = told(call); result != NcclResult::success) return result;
  pending_ = hanging == call ? [] { return false; } : std::move(carry_out);
  looks_ = 3;
  return NcclResult::in_progress;
}

NcclResult StandInNccl::async_error(Handle, NcclResult& state) {
  state = NcclResult::success;
  if (pending_) {
    state = NcclResult::in_progress;
    if (--looks_ <= 0 && pending_()) {
      pending_ = nullptr;
      state = NcclResult::success;
    }
  } else {
    state = told("later");
  }
  return NcclResult::success;
}

NcclResult StandInNccl::get_unique_id(Id& id) {
  calls.emplace_back("get_unique_id");
  for (size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<char>(i * 7 + 1);
  return told("get_unique_id");
}

NcclResult StandInNccl::init_rank(Handle& comm, int ranks, const Id& id, int rank) {
  comm = this;
  id_given = id;
  const char* algorithm = std::getenv("NCCL_ALGO");
  algorithm_given = algorithm == nullptr ? "" : algorithm;
  rank_ = rank;
  ranks_ = ranks;
  const std::string key(id.bytes.data(), id.bytes.size());
  {
    const std::lock_guard lock(wire_->mutex);
    ++wire_->arrived[key];
  }
  return begin("init_rank", "init_rank " + std::to_string(rank) + " of " + std::to_string(ranks), [this, key] {
    const std::lock_guard lock(wire_->mutex);
    return wire_->arrived[key] >= ranks_;
  });
}

NcclResult StandInNccl::group_start() {
  calls.emplace_back("group_start");
  if (pending_ || in_group_) return NcclResult::invalid_usage;
  in_group_ = true;
  return told("group_start");
}

NcclResult StandInNccl::send(const void* data, size_t bytes, int peer, Handle) {
  calls.push_back("send " + std::to_string(bytes) + " to " + std::to_string(peer));
  if (pending_ || !in_group_) return NcclResult::invalid_usage;
  posts_.push_back({static_cast<const char*>(data), bytes, peer});
  return told("send");
}

NcclResult StandInNccl::receive(void* data, size_t bytes, int peer, Handle) {
  calls.push_back("receive " + std::to_string(bytes) + " from " + std::to_string(peer));
  if (pending_ || !in_group_) return NcclResult::invalid_usage;
  receives_.push_back({static_cast<char*>(data), bytes, peer});
  return told("receive");
}

NcclResult StandInNccl::group_end() {
  in_group_ = false;
  return begin("group_end", "group_end", [this] { return deliver(); });
}

// Puts what should be sent into the boxes, once, and takes what has arrived.
bool StandInNccl::deliver() {
  const std::lock_guard lock(wire_->mutex);
  for (const Post& post : posts_) wire_->boxes[{rank_, post.peer}].emplace_back(post.data, post.data + post.bytes);
  posts_.clear();
  while (!receives_.empty()) {
    const Receive& wanted = receives_.front();
    auto& box = wire_->boxes[{wanted.peer, rank_}];
    if (box.empty()) return false;
    if (box.front().size() != wanted.bytes) return false;  // sizes disagree: NCCL hangs too
    std::memcpy(wanted.data, box.front().data(), wanted.bytes);
    box.pop_front();
    receives_.erase(receives_.begin());
  }
  return true;
}

NcclResult StandInNccl::all_reduce(float* data, size_t numel, Handle) {
  auto own = std::make_shared<std::vector<float>>(data, data + numel);
  const size_t bytes = numel * sizeof(float);
  auto parts = std::make_shared<std::vector<std::vector<float>>>(static_cast<size_t>(ranks_), *own);
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    posts_.push_back({reinterpret_cast<const char*>(own->data()), bytes, peer});
    receives_.push_back({reinterpret_cast<char*>((*parts)[static_cast<size_t>(peer)].data()), bytes, peer});
  }
  return begin("all_reduce", "all_reduce " + std::to_string(numel), [this, data, numel, own, parts] {
    if (!deliver()) return false;
    for (size_t i = 0; i < numel; ++i) {
      float sum = 0;
      for (const std::vector<float>& part : *parts) sum += part[i];
      data[i] = sum;
    }
    return true;
  });
}

NcclResult StandInNccl::all_gather(void* all, size_t bytes, int rank, Handle) {
  char* parts = static_cast<char*>(all);
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank) continue;
    posts_.push_back({parts + static_cast<size_t>(rank) * bytes, bytes, peer});
    receives_.push_back({parts + static_cast<size_t>(peer) * bytes, bytes, peer});
  }
  return begin("all_gather", "all_gather " + std::to_string(bytes), [this] { return deliver(); });
}

NcclResult StandInNccl::finalize(Handle) {
  return begin("finalize", "finalize", [] { return true; });
}

NcclResult StandInNccl::destroy(Handle) {
  calls.emplace_back("destroy");
  return pending_ ? NcclResult::invalid_usage : NcclResult::success;
}

NcclResult StandInNccl::abort(Handle) {
  calls.emplace_back("abort");
  return NcclResult::success;
}

}  // namespace dtrain::test
