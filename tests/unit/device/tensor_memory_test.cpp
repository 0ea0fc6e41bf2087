#include "dtrain/device/tensor_memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>

#include <thread>
#include <vector>

#include "dtrain/base/memory.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

using namespace dtrain;

// For this process, once.
static void keep() {
  static const bool kept = [] {
    keep_tensor_memory();
    return true;
  }();
  (void)kept;
}

TEST_CASE("the same large tensors come to lie at the same places, whatever small ones are made between") {
  if (test::kSanitized) return test::skip("LibTorch's own memory is used under a sanitizer");
  keep();
  std::vector<at::Tensor> small;
  const auto places = [&small] {
    std::vector<void*> found;
    std::vector<at::Tensor> step;
    for (const int64_t size : {300'000, 70'000, 1'000'000, 70'000}) {
      step.push_back(at::empty({size}));
      small.push_back(at::ones({100}));
      found.push_back(step.back().data_ptr());
    }
    return found;
  };
  CHECK(places() == places());
}

TEST_CASE("tensors of all sizes keep their values, from any thread and across threads") {
  keep();
  std::vector<at::Tensor> made(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < made.size(); ++i)
      threads.emplace_back([&, i] {
        for (int64_t size = 1; size < 2'000'000; size *= 3)
          made[i] = at::cat({at::full({size}, static_cast<double>(i)), at::full({17}, static_cast<double>(i))});
      });
  }
  for (size_t i = 0; i < made.size(); ++i) CHECK(at::equal(made[i], at::full_like(made[i], static_cast<double>(i))));
  at::Tensor grown = at::ones({10});
  grown.resize_({1'000'000});  // copies what was there
  CHECK(grown.narrow(0, 0, 10).sum().item<float>() == 10);
  CHECK(at::empty({0}).numel() == 0);
}

TEST_CASE("memory by address alone is taken and given back as well") {
  keep();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  for (const size_t bytes : {size_t{10}, size_t{1'000'000}}) {
    void* data = allocator->raw_allocate(bytes);
    CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
    allocator->raw_deallocate(data);
  }
}

TEST_CASE("a tensor that no memory holds is refused in LibTorch's words") {
  if (test::kSanitized) return test::skip("it limits memory");
  keep();
  CHECK_THROWS_WITH(at::empty({int64_t{1} << 55}), Catch::Contains("can't allocate memory"));
}

TEST_CASE("memory that no tensor holds goes back to the kernel when asked") {
  if (test::kSanitized) return test::skip("it measures memory");
  keep();
  constexpr int64_t kFloats = 25'000'000;
  const at::Tensor stays = at::ones({1000});
  at::ones({kFloats}).sum();
  const int64_t before = resident_memory("self").held;
  give_back_tensor_memory();
  CHECK(before - resident_memory("self").held > 3 * kFloats);
  CHECK(stays.sum().item<float>() == 1000);
}
