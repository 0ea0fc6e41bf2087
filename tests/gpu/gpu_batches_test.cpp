#include <ATen/ops/mm.h>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "gpu.hpp"
#include "support/numbered_batches.hpp"

using namespace dtrain;

TEST_CASE("batches reach the GPU in order, whole, while it works on others, and a failure comes at its turn") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  test::NumberedBatches numbers({8, 3, 128, 128});
  DeviceBatches batches(numbers, *gpu);
  const at::Tensor heavy = test::heavy_matrix(*gpu);
  for (int start = 0; start < 2; ++start) {
    batches.start(std::vector<BatchRequest>(20));
    for (int64_t k = 1; k < 20; ++k) {
      const auto batch = batches.next();
      REQUIRE(batch.has_value());
      REQUIRE(batch->images.device() == gpu->place);
      REQUIRE(batch->samples == std::vector<int64_t>{k});
      const at::Tensor busy = at::mm(heavy, heavy);  // the batch is read after this
      REQUIRE(batch->images.eq(static_cast<double>(k)).all().item<bool>());
      REQUIRE(batch->targets.eq(static_cast<double>(-k)).all().item<bool>());
      if (start == 0 && k == 7) break;  // start() drops batches that are being made
    }
    if (start == 1) {
      CHECK_THROWS_AS(batches.next(), DataError);
      CHECK_FALSE(batches.next().has_value());
    }
  }
}

TEST_CASE("raw batches are finished on the GPU to the CPU's bits, from the cache too") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  DataOptions options;
  options.format = format_named("synthetic");
  options.synthetic = {40, 3};
  options.image.height = options.image.width = 64;
  options.augment.hflip = options.augment.vflip = options.augment.rot90 = 0.5;
  const Dataset data = open_dataset(options, Task::segmentation, 1);
  Trace trace(false);
  const auto format = at::MemoryFormat::ChannelsLast;
  Loader plain(data, options, 9, format, trace);
  PictureCache cache(40);
  Loader loader(data, options, 9, format, trace, Delivery{.pinned = true, .raw = true, .cache = &cache});
  DeviceBatches batches(loader, *gpu, &cache);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<BatchRequest> requests;
    for (int64_t i = 0; i < 40; i += 8)
      requests.push_back({{i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7}, epoch});
    plain.start(requests);
    batches.start(requests);
    while (const auto expected = plain.next()) {
      const auto found = batches.next();
      REQUIRE(found.has_value());
      CHECK(test::same_bits(found->images, expected->images));
      CHECK(test::same_bits(found->targets, expected->targets));
    }
    CHECK(cache.holds(39));
  }
}
