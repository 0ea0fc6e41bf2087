#include "dtrain/dist/checked_communicator.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"

namespace dtrain {
namespace {

enum Kind : int64_t { kExchange, kAllReduce, kShare, kDuplicate };

// What one rank is about to do with another, in the form in which it is sent.
struct Header {
  int64_t number = 0;  // counts the calls between the two, from 1
  int64_t kind = kExchange;
  int64_t sent = 0;      // bytes
  int64_t received = 0;  // bytes
  int64_t sent_shape = 0;
  int64_t received_shape = 0;
};
constexpr int64_t kHeaderWords = sizeof(Header) / sizeof(int64_t);

bool fits(const Header& mine, const Header& theirs) {
  return mine.number == theirs.number && mine.kind == theirs.kind && mine.sent == theirs.received &&
         mine.received == theirs.sent && mine.sent_shape == theirs.received_shape &&
         mine.received_shape == theirs.sent_shape;
}

// Combines the number for the types and sizes of the messages so far with one more message.
int64_t shape_number(int64_t before, const at::Tensor& tensor) {
  std::vector<int64_t> words = {before, static_cast<int64_t>(tensor.scalar_type())};
  for (const int64_t size : tensor.sizes()) words.push_back(size);
  return 1 + static_cast<int64_t>(crc32c(std::as_bytes(std::span(words))));
}

std::string words_of(const Header& header) {
  const auto bytes = [](int64_t count) { return count_of(count, "byte"); };
  std::string what;
  switch (header.kind) {
    case kAllReduce:
      what = "all_reduce of " + bytes(header.sent);
      break;
    case kShare:
      what = "share of " + bytes(header.sent);
      break;
    case kDuplicate:
      what = "duplicate";
      break;
    default:
      if (header.sent_shape != 0) what = "sends " + bytes(header.sent);
      if (header.received_shape != 0) what += (what.empty() ? "receives " : ", receives ") + bytes(header.received);
  }
  return "exchange " + std::to_string(header.number) + " (" + what + ")";
}

class CheckedCommunicator final : public Communicator {
 public:
  CheckedCommunicator(std::unique_ptr<Communicator> inner, double limit_s)
      : inner_(std::move(inner)), limit_s_(limit_s), numbers_(static_cast<size_t>(inner_->size())) {
    inner_->limit_waits(limit_s);
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void limit_waits(double seconds) override {
    limit_s_ = seconds;
    inner_->limit_waits(seconds);
  }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    std::map<int, Header> headers;
    for (const Message& message : sends) {
      Header& header = headers[message.peer];
      header.sent += static_cast<int64_t>(message.data.nbytes());
      header.sent_shape = shape_number(header.sent_shape, message.data);
    }
    for (const Message& message : receives) {
      Header& header = headers[message.peer];
      header.received += static_cast<int64_t>(message.data.nbytes());
      header.received_shape = shape_number(header.received_shape, message.data);
    }
    compare(headers);
    inner_->exchange(sends, receives);
  }

  void all_reduce(at::Tensor& tensor) override {
    compare_with_all(kAllReduce, static_cast<int64_t>(tensor.nbytes()), shape_number(0, tensor));
    inner_->all_reduce(tensor);
  }

  HostMemory share(int64_t numel, c10::Device device) override {
    compare_with_all(kShare, numel * 4, 0);
    return inner_->share(numel, device);
  }

  // gather_slices() is not passed on: the default one uses exchange(), which compares each message.
  bool rings() const override { return inner_->rings(); }
  std::string all_reduce_transport() const override { return inner_->all_reduce_transport(); }
  void require_healthy() override { inner_->require_healthy(); }

  std::unique_ptr<Communicator> duplicate() override {
    compare_with_all(kDuplicate, 0, 0);
    return std::make_unique<CheckedCommunicator>(inner_->duplicate(), limit_s_);
  }

 private:
  void compare_with_all(Kind kind, int64_t bytes, int64_t shape) {
    std::map<int, Header> headers;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank()) headers[peer] = {0, kind, bytes, bytes, shape, shape};
    compare(headers);
  }

  // Numbers the headers, exchanges them with the peers, and compares them.
  void compare(std::map<int, Header>& headers) {
    if (headers.empty()) return;
    std::vector<Message> sends;
    std::vector<Message> receives;
    for (auto& [peer, header] : headers) {
      header.number = ++numbers_[static_cast<size_t>(peer)];
      sends.push_back({peer, at::empty({kHeaderWords}, at::kLong)});
      std::memcpy(sends.back().data.mutable_data_ptr(), &header, sizeof header);
      receives.push_back({peer, at::empty({kHeaderWords}, at::kLong)});
    }
    try {
      inner_->exchange(sends, receives);
    } catch (const CommError& error) {
      const auto& [peer, header] = *headers.begin();
      throw CommError("rank " + std::to_string(rank()) + " waits for rank " + std::to_string(peer) +
                      (headers.size() > 1 ? " and others" : "") + " at " + words_of(header) + ": " + error.what());
    }
    for (const Message& received : receives) {
      Header theirs;
      std::memcpy(&theirs, received.data.const_data_ptr(), sizeof theirs);
      const Header& mine = headers.at(received.peer);
      if (!fits(mine, theirs))
        throw InternalError("rank " + std::to_string(received.peer) + " is at " + words_of(theirs) + " where rank " +
                            std::to_string(rank()) + " is at " + words_of(mine) +
                            ": a collective was called out of order");
    }
  }

  std::unique_ptr<Communicator> inner_;
  double limit_s_;
  std::vector<int64_t> numbers_;  // calls with each rank so far
};

}  // namespace

std::unique_ptr<Communicator> with_order_checked(std::unique_ptr<Communicator> comm, double limit_s) {
  return std::make_unique<CheckedCommunicator>(std::move(comm), limit_s);
}

}  // namespace dtrain
