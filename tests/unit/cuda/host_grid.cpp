#include "unit/cuda/host_grid.hpp"

#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "dtrain/base/error.hpp"

// The sections of all __shared__ variables; the linker defines the names if there are any.
extern "C" [[gnu::weak]] char __start_dtrain_shared;
extern "C" [[gnu::weak]] char __stop_dtrain_shared;

// What sanitizers want to know of fibers. Null without the sanitizer.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, size_t* old_size);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* tag);
[[gnu::weak]] void __tsan_release(void* tag);
}

namespace dtrain::test {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr unsigned kOrdered = 0;    // what was done before the switch happens before what is done after it
constexpr unsigned kUnordered = 1;  // __tsan_switch_to_fiber_no_sync

unsigned chosen_seed() {
  const char* given = std::getenv("DTRAIN_SEED");
  const unsigned seed =
      given == nullptr ? std::random_device{}() : static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  std::cout << "order of blocks and threads: DTRAIN_SEED=" << seed << "\n";
  return seed;
}

enum class State { not_started, waiting, finished };

// One thread of a block, block after block.
struct Fiber {
  ucontext_t context{};
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  void* fake_stack = nullptr;   // AddressSanitizer's
  void* race_thread = nullptr;  // ThreadSanitizer's
  State state = State::not_started;
};

// Functions that run on a fiber are not instrumented: what they share with the scheduler is no race of the kernel's.
#define ON_FIBER [[gnu::no_sanitize("thread")]]

class HostGrid {
 public:
  void run(unsigned blocks, unsigned threads, const std::function<void()>& thread) {
    if (__tsan_get_current_fiber != nullptr) race_scheduler_ = __tsan_get_current_fiber();
    thread_ = &thread;
    while (fibers_.size() < threads) fibers_.push_back(make_fiber());
    place_.grid.x = blocks;
    place_.block.x = threads;
    for (const unsigned block : shuffled(blocks)) {
      place_.block_index.x = block;
      run_block(threads);
    }
    acquire(done_);
  }

  // On the fiber of the thread that waits. For ThreadSanitizer a thread is ordered against those that reached the same
  // barrier: two tags in turn, as a thread may reach the next one before another has left this one.
  ON_FIBER void wait() {
    Fiber& fiber = *running_;
    char* tag = &barriers_[barrier_ % 2];
    if (race_scheduler_ != nullptr) __tsan_release(tag);
    fiber.state = State::waiting;
    leave(fiber);
    if (race_scheduler_ != nullptr) __tsan_acquire(tag);
  }

  ON_FIBER PlaceInGrid place() const { return place_; }

 private:
  std::vector<unsigned> shuffled(unsigned count) {
    std::vector<unsigned> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  void run_block(unsigned threads) {
    if (&__start_dtrain_shared != nullptr)
      std::memset(&__start_dtrain_shared, 0xFF,
                  static_cast<size_t>(&__stop_dtrain_shared - &__start_dtrain_shared));  // doubles and floats: NaN
    const unsigned before = barrier_;
    for (size_t waiting = threads; waiting > 0;) {
      waiting = 0;
      for (const unsigned thread : shuffled(threads)) {
        enter(thread);
        if (fibers_[thread]->state == State::waiting) ++waiting;
      }
      if (waiting > 0 && waiting < threads) {
        acquire(done_);  // for ThreadSanitizer what they did is over
        acquire(barriers_[barrier_ % 2]);
        fibers_.clear();  // their stacks hold nothing that needs a destructor
        throw InternalError("a barrier is reached by all threads of a block");
      }
      if (waiting > 0) ++barrier_;
    }
    if (barrier_ > before) acquire(done_);  // the next block uses the same shared memory
  }

  void acquire(char& tag) const {
    if (race_scheduler_ != nullptr) __tsan_acquire(&tag);
  }

  static std::unique_ptr<Fiber> make_fiber() {
    auto fiber = std::make_unique<Fiber>();
    if (__tsan_create_fiber != nullptr) fiber->race_thread = __tsan_create_fiber(0);
    ucontext_t& context = fiber->context;
    getcontext(&context);
    context.uc_stack.ss_sp = fiber->stack.get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, run_threads, 0);
    return fiber;
  }

  static void run_threads();

  ON_FIBER void run_thread() {
    Fiber& fiber = *running_;
    (*thread_)();
    if (race_scheduler_ != nullptr) __tsan_release(&done_);
    fiber.state = State::finished;
    leave(fiber);
  }

  void enter(unsigned thread) {
    Fiber& fiber = *fibers_[thread];
    running_ = &fiber;
    place_.thread_index.x = thread;
    void* fake_stack = nullptr;
    if (__sanitizer_start_switch_fiber != nullptr)
      __sanitizer_start_switch_fiber(&fake_stack, fiber.stack.get(), kStackBytes);
    if (race_scheduler_ != nullptr) __tsan_switch_to_fiber(fiber.race_thread, kOrdered);
    swapcontext(&scheduler_, &fiber.context);
    if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  }

  ON_FIBER void leave(Fiber& fiber) {
    if (__sanitizer_start_switch_fiber != nullptr)
      __sanitizer_start_switch_fiber(&fiber.fake_stack, scheduler_stack_, scheduler_bytes_);
    if (race_scheduler_ != nullptr) __tsan_switch_to_fiber(race_scheduler_, kUnordered);
    swapcontext(&fiber.context, &scheduler_);
    arrived(fiber.fake_stack);
  }

  ON_FIBER void arrived(void* fake_stack) {
    if (__sanitizer_finish_switch_fiber != nullptr)
      __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_bytes_);
  }

  std::mt19937 random_{chosen_seed()};
  PlaceInGrid place_;
  const std::function<void()>* thread_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // one for each number of a thread
  Fiber* running_ = nullptr;
  ucontext_t scheduler_{};
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_bytes_ = 0;
  unsigned barrier_ = 0;  // counts barriers
  // ThreadSanitizer's
  void* race_scheduler_ = nullptr;
  char barriers_[2] = {};
  char done_ = 0;
};

HostGrid& host_grid() {
  static HostGrid grid;
  return grid;
}

HostGrid* const grid_of_threads = &host_grid();

ON_FIBER void HostGrid::run_threads() {
  grid_of_threads->arrived(nullptr);
  for (;;) grid_of_threads->run_thread();
}

}  // namespace

ON_FIBER PlaceInGrid place_in_grid() { return grid_of_threads->place(); }

void run_grid(int blocks, int threads, const std::function<void()>& thread) {
  check(blocks > 0 && threads > 0 && threads <= 1024, "a grid has blocks of 1 to 1024 threads");
  host_grid().run(static_cast<unsigned>(blocks), static_cast<unsigned>(threads), thread);
}

ON_FIBER void wait_for_block() { grid_of_threads->wait(); }

}  // namespace dtrain::test
