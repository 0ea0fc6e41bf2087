#pragma once
#include <memory>
#include <string>

#include "dtrain/device/nccl_api.hpp"

namespace dtrain::test {

/// Another NcclApi, call by call: to override one and make it wrong.
class ForwardingNccl : public NcclApi {
 public:
  explicit ForwardingNccl(std::unique_ptr<NcclApi> real) : real_(std::move(real)) {}

  c10::DeviceType memory() const override { return real_->memory(); }
  NcclResult get_unique_id(Id& id) override { return real_->get_unique_id(id); }
  NcclResult init_rank(Handle& comm, int ranks, const Id& id, int rank) override {
    return real_->init_rank(comm, ranks, id, rank);
  }
  NcclResult async_error(Handle comm, NcclResult& state) override { return real_->async_error(comm, state); }
  NcclResult group_start() override { return real_->group_start(); }
  NcclResult group_end() override { return real_->group_end(); }
  NcclResult send(const void* data, size_t bytes, int peer, Handle comm) override {
    return real_->send(data, bytes, peer, comm);
  }
  NcclResult receive(void* data, size_t bytes, int peer, Handle comm) override {
    return real_->receive(data, bytes, peer, comm);
  }
  NcclResult all_reduce(float* data, size_t numel, Handle comm) override {
    return real_->all_reduce(data, numel, comm);
  }
  NcclResult all_gather(void* all, size_t bytes, int rank, Handle comm) override {
    return real_->all_gather(all, bytes, rank, comm);
  }
  NcclResult finalize(Handle comm) override { return real_->finalize(comm); }
  NcclResult destroy(Handle comm) override { return real_->destroy(comm); }
  NcclResult abort(Handle comm) override { return real_->abort(comm); }
  std::string last_error(Handle comm) override { return real_->last_error(comm); }
  std::string version() override { return real_->version(); }

 private:
  std::unique_ptr<NcclApi> real_;
};

}  // namespace dtrain::test
