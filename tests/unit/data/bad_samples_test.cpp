// data.loader.on_bad_sample: replace.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <map>

#include "batches.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/order/substitutes.hpp"
#include "support/records.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

/// Two classes of pictures, some of them damaged.
struct Damaged {
  explicit Damaged(int64_t samples, const std::vector<int64_t>& bad) {
    for (int64_t i = 0; i < samples; ++i)
      root.picture(std::string(i % 2 == 0 ? "a" : "b") + "/" + std::to_string(i) + ".png",
                   random_image(16, 16, 1, static_cast<unsigned>(i)));
    options = options_for("image_folder", root.path());
    options.image.height = options.image.width = 16;
    options.augment.hflip = options.augment.rot90 = 0.5;
    options.loader.threads = 2;
    data = open_dataset(options, Task::from_format, 1);
    for (int64_t i = 0; i < samples; ++i) part.push_back(i);
    for (const int64_t i : bad) root.text(path(i), "no picture at all");
  }
  const std::string& path(int64_t index) const { return data.samples[static_cast<size_t>(index)].path; }

  /// Batches of four, in a different order for each epoch.
  std::vector<BatchRequest> requests(int64_t epoch, bool may_replace = true) const {
    std::vector<BatchRequest> out;
    const auto n = static_cast<int64_t>(part.size());
    for (int64_t i = 0; i < n; ++i) {
      if (i % 4 == 0) out.push_back({{}, epoch, may_replace});
      out.back().samples.push_back((i * 7 + epoch) % n);
    }
    return out;
  }

  TempFolder root;
  DataOptions options;
  Dataset data;
  std::vector<int64_t> part;
};

void check_equal(const std::vector<Batch>& found, const std::vector<Batch>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].samples == expected[i].samples);
    CHECK(at::equal(found[i].images, expected[i].images));
    CHECK(at::equal(found[i].targets, expected[i].targets));
    REQUIRE(found[i].replaced.size() == expected[i].replaced.size());
    for (size_t k = 0; k < found[i].replaced.size(); ++k) {
      CHECK(found[i].replaced[k].sample == expected[i].replaced[k].sample);
      CHECK(found[i].replaced[k].substitute == expected[i].replaced[k].substitute);
      CHECK(found[i].replaced[k].reason == expected[i].replaced[k].reason);
    }
  }
}

}  // namespace

TEST_CASE("a bad sample is replaced by the picture and label of another, in its own augmentation") {
  const Damaged set(23, {3, 4, 10, 22});
  Loader loader(set.data, set.options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.substitutes = &set.part});
  std::map<int64_t, int64_t> substitutes;
  for (const int64_t epoch : {0, 1}) {
    loader.start(set.requests(epoch));
    int64_t replaced = 0;
    for (const Batch& batch : drain(loader))
      for (const Replaced& one : batch.replaced) {
        ++replaced;
        CHECK(holds(one.reason, set.path(one.sample)));
        CHECK((one.substitute != 3 && one.substitute != 4 && one.substitute != 10 && one.substitute != 22));
        const auto [known, is_new] = substitutes.try_emplace(one.sample, one.substitute);
        CHECK(known->second == one.substitute);  // the same in every epoch
        const auto place = static_cast<int64_t>(std::find(batch.samples.begin(), batch.samples.end(), one.sample) -
                                                batch.samples.begin());
        REQUIRE(place < static_cast<int64_t>(batch.samples.size()));
        CHECK(batch.targets[place].item<int64_t>() ==
              set.data.samples[static_cast<size_t>(one.substitute)].class_index);
        std::vector<float> expected(16 * 16 * 3);
        const AugmentDraw draw =
            draw_augmentation(set.options.augment, 9, epoch, set.data.samples[static_cast<size_t>(one.sample)].id);
        transform_image(read_picture(set.data, one.substitute), set.options.image, draw, expected);
        const at::Tensor pixels = batch.images[place].permute({1, 2, 0}).contiguous();
        CHECK(std::equal(expected.begin(), expected.end(), pixels.const_data_ptr<float>()));
      }
    CHECK(replaced == 4);
  }
}

TEST_CASE("what is replaced by what is the same for any threads, prefetch, pipeline and cache") {
  const Damaged set(29, {0, 5, 6, 7, 11, 28});
  Loader reference(set.data, set.options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.substitutes = &set.part});
  for (const int64_t threads : {1, 4})
    for (const auto keep : {PictureKeep::none, PictureKeep::ram, PictureKeep::device})
      for (const Pipeline pipeline : {Pipeline::parallel, Pipeline::sequential}) {
        DataOptions options = set.options;
        options.loader.threads = threads;
        options.loader.prefetch = 1 + threads;
        options.loader.pipeline = pipeline;
        SharedPictures shared(29, 1 << 20, options.image, true);
        PictureCache cache(29);
        Delivery delivery{.substitutes = &set.part};
        if (keep == PictureKeep::ram) delivery.shared = &shared;
        if (keep == PictureKeep::device) delivery.cache = &cache;
        delivery.raw = keep == PictureKeep::device;
        Loader loader(set.data, options, 9, at::MemoryFormat::ChannelsLast, no_trace, delivery);
        DeviceBatches batches(loader, {}, keep == PictureKeep::device ? &cache : nullptr);
        for (const int64_t epoch : {0, 1, 2}) {
          CAPTURE(threads, static_cast<int>(keep), static_cast<int>(pipeline), epoch);
          reference.start(set.requests(epoch));
          batches.start(set.requests(epoch));
          check_equal(drain(batches), drain(reference));
        }
        if (keep == PictureKeep::ram) CHECK(shared.kept() == 23);
      }
}

TEST_CASE("a request that may not replace fails as ever, and so does a part of nothing but bad samples") {
  const Damaged set(8, {2});
  Loader loader(set.data, set.options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.substitutes = &set.part});
  loader.start(set.requests(0, false));
  int failures = 0;
  for (int i = 0; i < 2; ++i) {
    try {
      loader.next();
    } catch (const DataError& error) {
      ++failures;
      CHECK(holds(error.what(), set.path(2)));
    }
  }
  CHECK(failures == 1);

  const Damaged ruin(4, {0, 1, 2, 3});
  Loader hopeless(ruin.data, ruin.options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.substitutes = &ruin.part});
  hopeless.start(ruin.requests(0));
  CHECK(holds(error_of(65, [&] { hopeless.next(); }), "none of 64 other samples"));
}

TEST_CASE("a file that has vanished says nothing about its sample: it is never replaced") {
  const Damaged set(8, {});
  std::filesystem::remove(set.root / set.path(5));
  Loader loader(set.data, set.options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.substitutes = &set.part});
  loader.start({{{5}, 0, true}});
  CHECK(holds(error_of(66, [&] { loader.next(); }), set.path(5)));
}

TEST_CASE("a record file that changes meanwhile says nothing about its samples: they are never replaced") {
  TempFolder root;
  const std::string picture = "a picture of no kind at all, with as many bytes as it takes";
  const auto write = [&](size_t length) {
    root.text("a.tar", tar_member("1.png", picture.substr(0, length)) + tar_member("1.cls", "0") +
                           tar_member("2.png", picture.substr(0, length)) + tar_member("2.cls", "1") + tar_end());
  };
  write(20);
  DataOptions options = options_for("webdataset", root.path());
  options.image.height = options.image.width = 16;
  const Dataset data = open_dataset(options, Task::from_format, 1);
  const std::vector<int64_t> part = {0, 1};
  Loader loader(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.substitutes = &part});
  std::filesystem::resize_file(root / "a.tar", 600);
  loader.start({{{1}, 0, true}});
  CHECK(holds(error_of(74, [&] { loader.next(); }), "meanwhile"));
}

TEST_CASE("substitutes are drawn from the part, keyed by seed and sample") {
  const std::vector<int64_t> part = {4, 8, 15, 16, 23, 42};
  const auto first = [&](uint64_t seed, uint64_t id) {
    Substitutes substitutes(seed, id, part);
    std::vector<int64_t> drawn;
    for (int i = 0; i < 12; ++i) drawn.push_back(substitutes.next());
    return drawn;
  };
  CHECK(first(1, 2) == first(1, 2));
  CHECK(first(1, 2) != first(1, 3));
  CHECK(first(1, 2) != first(2, 2));
  for (const int64_t drawn : first(1, 2)) CHECK(std::count(part.begin(), part.end(), drawn) == 1);
}
