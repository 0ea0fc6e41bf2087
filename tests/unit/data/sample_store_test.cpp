// A data set without files: a made-up format and store of a few lines each, used by everything that is built on these
// interfaces.
#include "dtrain/data/store/sample_store.hpp"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cmath>
#include <set>

#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/order/split.hpp"
#include "dtrain/data/pack/pack.hpp"
#include "folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr int64_t kSamples = 24;
constexpr int64_t kBad = 17;

/// The picture of sample "7" is four pixels of that grey; its stored bytes are its name.
class NumberStore final : public SampleStore {
 public:
  SampleFiles read(const Sample& sample, Wanted /*wanted*/) const override {
    const auto bytes = std::as_bytes(std::span(sample.path));
    return {{bytes.begin(), bytes.end()}, {}, {}, {}};
  }
  Image decode_picture(const Sample& sample, const SampleFiles& files) const override {
    const int number =
        std::stoi(std::string(reinterpret_cast<const char*>(files.picture.data()), files.picture.size()));
    if (number == kBad) throw DataError(picture_name(sample) + " is an unlucky one");
    return {2, 2, 1, 8, std::vector<uint8_t>(4, static_cast<uint8_t>(number)), {}};
  }
  Image decode_mask(const Dataset&, const Sample&, const SampleFiles&) const override { return {}; }
  std::vector<Image> raw_masks(const Sample&, const SampleFiles&) const override { return {}; }
  ImageHeader header(const Sample&) const override { return {2, 2, 1, 8}; }
  std::string picture_name(const Sample& sample) const override { return "number " + sample.path; }
  std::string manifest_text(const Sample&) const override { return "4"; }
  bool reads_ahead() const override { return true; }
  void ask_ahead(const Sample&) const override { ++asked; }

  mutable std::atomic<int64_t> asked{0};
};

void open_numbers(const DataOptions&, uint64_t, Dataset& dataset) {
  dataset.classes = {"even", "odd"};
  dataset.store = std::make_shared<const NumberStore>();
  for (int64_t i = 0; i < kSamples; ++i) {
    Sample sample;
    sample.path = std::to_string(i);
    sample.group = "patient " + std::to_string(i / 3);
    sample.class_index = i % 2;
    dataset.samples.push_back(sample);
  }
}

const DataFormat& numbers_format() {
  static const DataFormat kFormat = {
      .name = "numbers",
      .tasks = [](const DataOptions&) { return std::vector{Task::multiclass}; },
      .open = open_numbers,
      .generated = true,
  };
  return kFormat;
}

DataOptions numbers() {
  DataOptions options;
  options.format = &numbers_format();
  options.image = plain(2, 2, 1);
  options.loader.threads = 2;
  options.split.by = SplitOptions::By::patient;
  options.split.valid = 0.25;
  return options;
}

Trace untraced(false);

// Every picture but the bad one.
std::vector<int64_t> all_good() {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < kSamples; ++i)
    if (i != kBad) samples.push_back(i);
  return samples;
}

}  // namespace

TEST_CASE("a format and a store made up in a test are opened and split like any other") {
  const Dataset data = open_dataset(numbers(), Task::from_format, 1);
  CHECK(data.task == Task::multiclass);
  CHECK(data.manifest_sha256.size() == 64);
  const Split split = split_dataset(data, numbers().split);
  CHECK(split.by_share);
  CHECK(split.warnings.empty());
  CHECK(split.train.size() + split.valid.size() == kSamples);
  std::set<std::string> trains;
  for (const int64_t i : split.train) trains.insert(data.samples[static_cast<size_t>(i)].group);
  for (const int64_t i : split.valid) CHECK(!trains.contains(data.samples[static_cast<size_t>(i)].group));
  CHECK(holds(error_of(78, [] { open_dataset(numbers(), Task::segmentation, 1); }), "task segmentation does not fit"));
}

TEST_CASE("the loader reads a store that it has never seen, asks it ahead, and passes its sentences on") {
  const Dataset data = open_dataset(numbers(), Task::from_format, 1);
  Loader loader(data, numbers(), 1, at::MemoryFormat::ChannelsLast, untraced);
  loader.start({{all_good(), std::nullopt}});
  const std::optional<Batch> batch = loader.next();
  REQUIRE(batch);
  for (size_t i = 0; i < all_good().size(); ++i) {
    const int64_t number = all_good()[i];
    CHECK(std::lround(batch->images[static_cast<int64_t>(i)][0][1][1].item<float>() * 255) == number);
    CHECK(batch->targets[static_cast<int64_t>(i)].item<int64_t>() == number % 2);
  }
  CHECK(loader.figures().bytes_read == 10 + 2 * (kSamples - 10 - 1));  // of their names
  CHECK(dynamic_cast<const NumberStore&>(*data.store).asked > 0);
  loader.start({{{1, kBad}, std::nullopt}});
  CHECK(holds(error_of(65, [&] { loader.next(); }), "number 17 is an unlucky one"));
}

TEST_CASE("what a made-up store holds is packed, and read back from the shards") {
  const TempFolder folder;
  Dataset data = open_dataset(numbers(), Task::from_format, 1);
  data.samples.erase(data.samples.begin() + kBad);
  const Split split = split_dataset(data, numbers().split);
  const PackJob job(data, split, numbers(), {.samples_per_shard = 5, .expand = {}});
  PackedManifest manifest = job.manifest();
  for (size_t k = 0; k < job.shards().size(); ++k)
    manifest.shards.push_back(job.write(k, folder.path(), 2, [](int64_t) {}));
  manifest.complete = true;
  write_packed_manifest(manifest, folder.path());
  const Dataset packed = open_dataset(options_for("packed", folder.path()), Task::from_format, 1);
  REQUIRE(packed.samples.size() == data.samples.size());
  CHECK(packed.classes == data.classes);
  for (size_t i = 0; i < packed.samples.size(); ++i) {
    CHECK(packed.samples[i].path == data.samples[i].path);
    const auto index = static_cast<int64_t>(i);
    CHECK(read_picture(packed, index).bytes == read_picture(data, index).bytes);
  }
}
