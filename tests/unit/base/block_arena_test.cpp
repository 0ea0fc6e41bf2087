#include "dtrain/base/block_arena.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "dtrain/base/memory.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace dtrain;

constexpr size_t kMegabyte = 1'000'000;

TEST_CASE("blocks of an arena lie at cache lines, and what is given back is the next one's") {
  BlockArena arena;
  void* first = arena.take(3 * kMegabyte);
  void* second = arena.take(1);
  REQUIRE(first != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
  CHECK(reinterpret_cast<uintptr_t>(second) % 64 == 0);
  CHECK(arena.holds(first));
  CHECK_FALSE(arena.holds(&arena));
  std::memset(first, 1, 3 * kMegabyte);
  arena.give_back(first);
  CHECK(arena.take(3 * kMegabyte) == first);
}

TEST_CASE("threads that take and give back blocks never share one") {
  BlockArena arena;
  const auto use = [&arena](unsigned char mark) {
    for (size_t i = 0; i < 400; ++i) {
      const size_t bytes = 1 + i * 137 % 20'000;
      auto* block = static_cast<unsigned char*>(arena.take(bytes));
      if (block == nullptr) return false;
      std::memset(block, mark, bytes);
      std::this_thread::yield();
      for (size_t at = 0; at < bytes; at += 61)
        if (block[at] != mark) return false;
      arena.give_back(block);
    }
    return true;
  };
  std::vector<char> whole(4, 0);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < whole.size(); ++i)
      threads.emplace_back([&, i] { whole[i] = use(static_cast<unsigned char>(i + 1)); });
  }
  CHECK(whole == std::vector<char>(4, 1));
}

TEST_CASE("trim gives the memory of gaps to the kernel, and no block's") {
  if (test::kSanitized) return test::skip("it measures memory");
  BlockArena arena;
  constexpr size_t kSize = 64 * kMegabyte;
  auto* kept = static_cast<unsigned char*>(arena.take(kSize));
  void* gap = arena.take(kSize);
  auto* last = static_cast<unsigned char*>(arena.take(kSize));
  void* behind = arena.take(kSize);
  for (void* block : {static_cast<void*>(kept), gap, static_cast<void*>(last), behind}) std::memset(block, 7, kSize);
  arena.give_back(gap);
  arena.give_back(behind);
  const int64_t before = resident_memory("self").held;
  arena.trim();
  const int64_t released = before - resident_memory("self").held;
  CHECK(released == Approx(2.0 * kSize).epsilon(0.1));
  CHECK(kept[kSize - 1] == 7);
  CHECK(last[0] == 7);
  CHECK(last[kSize - 1] == 7);
}

// What `run` gives, in a process of its own.
template <class Run>
static bool in_child(const Run& run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("where the kernel gives no more an arena gives no block, and goes on with smaller ones") {
  if (test::kSanitized) return test::skip("it limits memory");
  CHECK(in_child([] {
    const rlimit limit{256 * kMegabyte, 256 * kMegabyte};
    ::setrlimit(RLIMIT_DATA, &limit);
    BlockArena arena;
    void* small = arena.take(kMegabyte);
    return small != nullptr && arena.take(300 * kMegabyte) == nullptr && arena.take(kMegabyte) != nullptr;
  }));
  BlockArena arena;
  CHECK(arena.take(size_t{1} << 50) == nullptr);  // more than the host has
}

TEST_CASE("where addresses are limited an arena reserves none") {
  if (test::kSanitized) return test::skip("it limits memory");
  CHECK(in_child([] {
    const rlimit limit{size_t{1} << 40, size_t{1} << 40};
    ::setrlimit(RLIMIT_AS, &limit);
    BlockArena arena;
    return arena.take(1) == nullptr && !arena.holds(&arena);
  }));
}
