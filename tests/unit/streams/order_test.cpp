// WorkOrder, which finds work that nothing orders: on streams of its own, that no thread runs.
#include "support/host_gpu/order.hpp"

#include "support/catch.hpp"

using namespace dtrain::test;

namespace {

constexpr int64_t kFirst = 1000, kSecond = 1001;  // no other test uses these streams

// 64 bytes of the first stream.
class Memory {
 public:
  Memory() { WorkOrder::all().allocate(bytes_, sizeof bytes_, kFirst); }
  ~Memory() { free({}); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void write(int64_t stream, size_t from = 0, size_t count = 64) { work(stream, "a write", from, count, true); }
  void read(int64_t stream, size_t from = 0, size_t count = 64) { work(stream, "a read", from, count, false); }
  void free(const std::vector<int64_t>& lent) {
    if (!std::exchange(freed_, true)) WorkOrder::all().release(bytes_, lent);
  }

 private:
  void work(int64_t stream, const char* what, size_t from, size_t count, bool writes) {
    WorkOrder::all().issue(stream, what, {{bytes_ + from, count, writes}});
  }

  char bytes_[64] = {};
  bool freed_ = false;
};

size_t fault_count() { return WorkOrder::all().take_faults().size(); }
void event(int64_t from, int64_t to) { WorkOrder::all().hold(to, WorkOrder::all().reached(from)); }

}  // namespace

TEST_CASE("what one stream writes and another reads or writes needs an order, whichever comes first") {
  const bool second_writes = GENERATE(false, true), ordered = GENERATE(false, true);
  Memory memory;
  memory.write(kFirst);
  if (ordered) event(kFirst, kSecond);
  second_writes ? memory.write(kSecond) : memory.read(kSecond);
  CHECK(fault_count() == (ordered ? 0 : 1));
  memory.write(kFirst);
  CHECK(fault_count() == 1);
  event(kSecond, kFirst);
  memory.free({});
  CHECK(fault_count() == 0);
}

TEST_CASE("what several streams only read needs no order between them, but one with the next write") {
  Memory memory;
  memory.write(kFirst);
  event(kFirst, kSecond);
  memory.read(kSecond);
  memory.read(kFirst);
  CHECK(fault_count() == 0);
  memory.write(kFirst);
  CHECK(WorkOrder::all().take_faults() ==
        std::vector<std::string>{"a write on stream 1000 writes memory that a read on stream 1001 reads, and nothing "
                                 "orders the two"});
  event(kSecond, kFirst);
}

TEST_CASE("an event orders what was issued before it was recorded, and nothing after it") {
  Memory memory;
  memory.write(kFirst);
  const WorkOrder::Clock recorded = WorkOrder::all().reached(kFirst);
  memory.write(kFirst);
  WorkOrder::all().hold(kSecond, recorded);
  memory.read(kSecond);
  CHECK(fault_count() == 1);
  event(kSecond, kFirst);
}

TEST_CASE("events carry on what came before on other streams") {
  Memory memory;
  memory.write(kFirst);
  event(kFirst, kSecond + 1);
  event(kSecond + 1, kSecond);
  memory.write(kSecond);
  CHECK(fault_count() == 0);
  event(kSecond, kFirst);
}

TEST_CASE("what the host issues comes after what it has waited for") {
  Memory memory;
  memory.write(kFirst);
  WorkOrder::all().host_waited(WorkOrder::all().reached(kFirst));
  memory.read(kSecond);
  CHECK(fault_count() == 0);
  WorkOrder::all().host_waited(WorkOrder::all().reached(kSecond));
}

TEST_CASE("parts of a block count separately, down to a byte") {
  Memory memory;
  memory.write(kFirst, 0, 32);
  event(kFirst, kSecond);
  memory.write(kFirst, 0, 15);
  memory.write(kSecond, 15, 49);
  CHECK(fault_count() == 0);
  memory.read(kSecond, 14, 1);
  CHECK(fault_count() == 1);
  memory.read(kFirst, 15, 1);
  CHECK(fault_count() == 1);
  event(kSecond, kFirst);
}

TEST_CASE("memory that another stream may still use is freed too early, unless it was lent to that stream") {
  const bool lent = GENERATE(false, true);
  Memory memory;
  event(kFirst, kSecond);
  memory.read(kSecond);
  memory.free(lent ? std::vector<int64_t>{kSecond} : std::vector<int64_t>{});
  CHECK(fault_count() == (lent ? 0 : 1));
}

TEST_CASE("new memory may still be in earlier use by the stream that it is for") {
  WorkOrder::all().issue(kFirst, "something", {});
  Memory memory;
  memory.write(kSecond);
  CHECK(fault_count() == 1);
  event(kSecond, kFirst);
}

TEST_CASE("work on memory that is not the device's is found, and so is work beyond the end of a block") {
  Memory memory;
  int on_host = 0;
  WorkOrder::all().issue(kFirst, "something", {{&on_host, sizeof on_host, false}});
  CHECK(fault_count() == 1);
  memory.read(kFirst, 60, 5);
  CHECK(fault_count() == 1);
}
