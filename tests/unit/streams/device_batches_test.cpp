// Batches on their way to a GPU: the loader's copies on a stream of their own, and the cache on the device.
#include "dtrain/data/batches/device_batches.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "support/catch.hpp"
#include "support/numbered_batches.hpp"
#include "the_host_gpu.hpp"

using namespace dtrain;
using test::faults;
using test::the_host_gpu;

TEST_CASE("a batch is read after its copy and kept until it has been read, while the next one is on its way") {
  test::NumberedBatches numbers({8, 3, 16, 16});
  DeviceBatches batches(numbers, the_host_gpu());
  for (int start = 0; start < 2; ++start) {
    batches.start(std::vector<BatchRequest>(20));
    at::Tensor images = at::zeros({8, 3, 16, 16}, at::TensorOptions(at::kFloat).device(the_host_gpu().place));
    at::Tensor targets = at::zeros({8, 5}, images.options());
    const int64_t last = start == 0 ? 7 : 19;  // start() drops batches that are being made
    for (int64_t k = 1; k <= last; ++k) {
      const auto batch = batches.next();
      REQUIRE(batch.has_value());
      REQUIRE(batch->samples == std::vector<int64_t>{k});
      images.add_(batch->images);  // the host lets go of the batch without a wait for this
      targets.add_(batch->targets);
    }
    const auto sum = static_cast<double>(last * (last + 1) / 2);
    CHECK(images.cpu().eq(sum).all().item<bool>());
    CHECK(targets.cpu().eq(-sum).all().item<bool>());
    if (start == 0) continue;
    CHECK_THROWS_AS(batches.next(), DataError);
    CHECK_FALSE(batches.next().has_value());
  }
  CHECK(faults().empty());
}

TEST_CASE("batches are copied and finished on another stream than the network's") {
  const int64_t stream = 0;  // this thread's
  const auto before = test::WorkOrder::all().counts()[stream];
  test::NumberedBatches numbers({8, 3, 16, 16});
  DeviceBatches batches(numbers, the_host_gpu());
  batches.start(std::vector<BatchRequest>(5));
  for (int k = 1; k < 5; ++k) batches.next();
  CHECK(test::WorkOrder::all().counts()[stream] == before);
}

TEST_CASE("raw batches are finished on the device to the CPU's bits, from the cache too") {
  const Task task = GENERATE(Task::segmentation, Task::multilabel);
  DataOptions options;
  options.format = format_named("synthetic");
  options.synthetic = {20, 3};
  options.image.height = options.image.width = 24;
  options.augment.hflip = options.augment.vflip = options.augment.rot90 = 0.5;
  const Dataset data = open_dataset(options, task, 1);
  Trace trace(false);
  const auto format = at::MemoryFormat::ChannelsLast;
  Loader plain(data, options, 9, format, trace);
  PictureCache cache(20);
  Loader loader(data, options, 9, format, trace, Delivery{.pinned = true, .raw = true, .cache = &cache});
  DeviceBatches batches(loader, the_host_gpu(), &cache);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<BatchRequest> requests;
    for (int64_t i = 0; i < 20; i += 4) requests.push_back({{i, i + 1, i + 2, i + 3}, epoch});
    plain.start(requests);
    batches.start(requests);
    while (const auto expected = plain.next()) {
      const auto found = batches.next();
      REQUIRE(found.has_value());
      CHECK(at::equal(found->images.cpu(), expected->images));
      CHECK(at::equal(found->targets.cpu(), expected->targets));
    }
    CHECK(cache.holds(19));
  }
  CHECK(faults().empty());
}
