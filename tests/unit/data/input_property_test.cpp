// What the input promises for any numbers: every sample once, whichever process makes it, and the same pixels.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>

#include "batches.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr int64_t kMostSamples = 90;
constexpr uint64_t kSeed = 7;

uint64_t bytes_hash(const void* data, size_t bytes) {
  return hash64(std::string_view(static_cast<const char*>(data), bytes));
}

/// What a job does, without how it is carried out.
struct Input {
  int64_t samples = 0;
  int64_t logical_ranks = 1;
  BatchOptions batch;
  Distribute distribute = Distribute::samples;
  int64_t epochs = 2;
  bool with_bad = false;  // samples that cannot be decoded belong to the part, and are replaced
};

/// How it is carried out: none of this may affect the result.
struct Way {
  int64_t processes = 1;
  int64_t threads = 1;
  int64_t prefetch = 1;
  PictureKeep cache = PictureKeep::none;
  Pipeline pipeline = Pipeline::parallel;
  bool raw = false;  // flips, turns and normalising are left to DeviceBatches, as for a GPU
};

/// One row for each batch of an epoch: its key (step, logical rank, pass), its samples, a hash of images and targets.
struct Row {
  std::vector<int64_t> samples;
  uint64_t pixels = 0;
  std::vector<int64_t> replaced;  // sample, substitute, …
  bool operator==(const Row&) const = default;
};
using Rows = std::map<std::array<int64_t, 4>, Row>;  // by epoch too

class Folder {
 public:
  Folder() {
    for (int64_t i = 0; i < kMostSamples; ++i) {
      const int64_t side = i % 5 == 0 ? 11 : 8;
      root_.picture(std::string(i % 2 == 0 ? "a" : "b") + "/" + std::to_string(i) + ".png",
                    random_image(side, 8, i % 7 == 0 ? 3 : 1, static_cast<unsigned>(i)));
    }
    options_ = options_for("image_folder", root_.path());
    options_.image.height = options_.image.width = 8;
    options_.augment.hflip = options_.augment.vflip = options_.augment.rot90 = 0.5;
    data_ = open_dataset(options_, Task::from_format, 1);
    for (size_t i = 0; i < data_.samples.size(); i += 9) root_.text(data_.samples[i].path, "no picture");
  }
  const Dataset& data() const { return data_; }
  const DataOptions& options() const { return options_; }

 private:
  TempFolder root_;
  DataOptions options_;
  Dataset data_;
};

// A part of `samples` of the folder's pictures, the bad ones among them or not.
std::vector<int64_t> part_of_folder(int64_t samples, bool bad) {
  std::vector<int64_t> part;
  for (int64_t i = 0; static_cast<int64_t>(part.size()) < samples; ++i)
    if (bad || i % 9 != 0) part.push_back(i);
  return part;
}

uint64_t hash_of(const Batch& batch) {
  const at::Tensor images = batch.images.permute({0, 2, 3, 1}).contiguous();
  return bytes_hash(images.const_data_ptr(), images.nbytes()) * 31 +
         bytes_hash(batch.targets.const_data_ptr(), batch.targets.nbytes());
}

// What process `process` gets, epoch by epoch; `shared` is its host's.
class Process {
 public:
  Process(const Folder& folder, const Input& input, const Way& way, int64_t process, SharedPictures* shared,
          const std::vector<int64_t>& part)
      : input_(input),
        way_(way),
        mine_(part_of(input.logical_ranks, way.processes, process)),
        part_(part),
        cache_(static_cast<int64_t>(folder.data().samples.size())),
        loader_(folder.data(), options_of(folder, way), kSeed, at::MemoryFormat::ChannelsLast, no_trace,
                delivery(shared)),
        batches_(loader_, {}, keeps() ? &cache_ : nullptr) {}

  void run_epoch(int64_t epoch, Rows& rows) {
    const EpochPlan plan(input_.samples, input_.logical_ranks, input_.batch, input_.distribute, kSeed, epoch);
    batches_.start(
        epoch_requests(plan, part_, {mine_, 0, epoch, input_.with_bad, way_.pipeline == Pipeline::sequential}));
    for (int64_t step = 0; step < plan.steps(); ++step)
      for (int64_t v = mine_.begin; v < mine_.end; ++v)
        for (int64_t pass = 0; pass < static_cast<int64_t>(plan.micro_batches(step, v).size()); ++pass) {
          const std::optional<Batch> batch = batches_.next();
          REQUIRE(batch.has_value());
          Row row{batch->samples, hash_of(*batch), {}};
          for (const Replaced& one : batch->replaced)
            row.replaced.insert(row.replaced.end(), {one.sample, one.substitute});
          REQUIRE(rows.emplace(std::array{epoch, step, v, pass}, std::move(row)).second);
        }
    REQUIRE_FALSE(batches_.next().has_value());
  }

 private:
  bool keeps() const { return way_.cache == PictureKeep::device; }
  static DataOptions options_of(const Folder& folder, const Way& way) {
    DataOptions options = folder.options();
    options.loader.threads = way.threads;
    options.loader.prefetch = way.prefetch;
    options.loader.pipeline = way.pipeline;
    return options;
  }
  Delivery delivery(SharedPictures* shared) const {
    return {.raw = keeps() || way_.raw, .cache = keeps() ? &cache_ : nullptr, .shared = shared, .substitutes = &part_};
  }

  const Input& input_;
  Way way_;
  Range mine_;
  const std::vector<int64_t>& part_;
  PictureCache cache_;
  Loader loader_;
  DeviceBatches batches_;
};

Rows carry_out(const Folder& folder, const Input& input, const Way& way) {
  const std::vector<int64_t> part = part_of_folder(input.samples, input.with_bad);
  SharedPictures shared(static_cast<int64_t>(folder.data().samples.size()), 1 << 20, folder.options().image, true);
  std::vector<std::unique_ptr<Process>> processes;
  for (int64_t p = 0; p < way.processes; ++p)
    processes.push_back(
        std::make_unique<Process>(folder, input, way, p, way.cache == PictureKeep::ram ? &shared : nullptr, part));
  Rows rows;
  for (int64_t epoch = 0; epoch < input.epochs; ++epoch)
    for (const auto& process : processes) process->run_epoch(epoch, rows);
  return rows;
}

// Complete and disjoint: each epoch's batches hold each sample of the part once, except those that `last: drop` omits.
void check_coverage(const Input& input, const Rows& rows) {
  const std::vector<int64_t> part = part_of_folder(input.samples, input.with_bad);
  std::map<int64_t, std::vector<int64_t>> seen;
  for (const auto& [key, row] : rows) seen[key[0]].insert(seen[key[0]].end(), row.samples.begin(), row.samples.end());
  REQUIRE(static_cast<int64_t>(seen.size()) == input.epochs);
  for (auto& [epoch, samples] : seen) {
    std::sort(samples.begin(), samples.end());
    CHECK(std::adjacent_find(samples.begin(), samples.end()) == samples.end());
    CHECK(std::includes(part.begin(), part.end(), samples.begin(), samples.end()));
    const int64_t full = full_global_batch(input.batch, input.logical_ranks);
    const auto n = static_cast<int64_t>(samples.size());
    CHECK(n == (input.batch.drop_last ? input.samples - input.samples % full : input.samples));
  }
}

// Drawn by our own generator, which draws the same numbers on every machine.
class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  int64_t from(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_of(int64_t n) { return from(1, n) == 1; }

 private:
  std::mt19937_64 random_;
};

Input draw_input(Draws& draws) {
  Input input;
  input.logical_ranks = draws.from(1, 9);
  if (draws.one_of(3)) {
    input.batch.global = draws.from(input.logical_ranks, input.logical_ranks + 20);
  } else {
    input.batch.per_rank = draws.from(1, 6);
  }
  input.batch.accumulate = draws.one_of(3) ? draws.from(2, 3) : 1;
  input.batch.drop_last = draws.one_of(4);
  input.distribute = draws.one_of(2) ? Distribute::samples : Distribute::batches;
  input.with_bad = draws.one_of(4);
  const int64_t full = full_global_batch(input.batch, input.logical_ranks);
  const int64_t most = input.with_bad ? kMostSamples : kMostSamples - 10;
  const int64_t alone = input.with_bad ? 2 : 1;  // the first sample is bad, the second is not
  const int64_t least = std::max(alone, input.batch.drop_last ? full : input.logical_ranks);
  input.samples = draws.from(std::min(least, most), most);
  if (least > most) input.batch.drop_last = false;
  return input;
}

Way draw_way(Draws& draws, const Input& input) {
  Way way;
  way.processes = draws.from(1, input.logical_ranks);
  way.threads = draws.from(1, 4);
  way.prefetch = draws.from(1, 5);
  way.cache = static_cast<PictureKeep>(draws.from(0, 2));
  if (draws.one_of(4)) way.pipeline = Pipeline::sequential;
  way.raw = draws.one_of(2);
  return way;
}

void check_case(const Folder& folder, unsigned seed) {
  CAPTURE(seed);
  Draws draws(seed);
  const Input input = draw_input(draws);
  const Rows plain = carry_out(folder, input, {});
  check_coverage(input, plain);
  const Way way = draw_way(draws, input);
  CAPTURE(input.samples, input.logical_ranks, input.batch.per_rank, input.batch.global, way.processes, way.threads,
          way.prefetch, static_cast<int>(way.cache), static_cast<int>(way.pipeline), way.raw);
  const Rows rows = carry_out(folder, input, way);
  const bool same = rows == plain;
  CHECK(same);
}

unsigned drawn_seed(const char* what) {
  const char* given = std::getenv("DTRAIN_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}() % 1'000'000;
  std::cout << what << ": first case DTRAIN_SEED=" << seed << "\n";
  return seed;
}

}  // namespace

TEST_CASE("any numbers, processes, threads, prefetch, pipeline and cache: every sample once, the same pixels") {
  const Folder folder;
  const unsigned first = drawn_seed("input");
  for (unsigned seed = 0; seed < 100; ++seed) check_case(folder, seed);
  for (unsigned i = 0; i < 100; ++i) check_case(folder, first + i);
}

TEST_CASE("the same for thousands of cases", "[.campaign]") {
  const Folder folder;
  const unsigned first = drawn_seed("input");
  for (unsigned i = 0; i < 5000; ++i) check_case(folder, first + i);
}
