#include "dtrain/data/batches/loader.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "batches.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/batches/computing_cores.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

// Two classes of `n` pictures of different sizes, colours and file types.
static void make_mixed_pictures(const TempFolder& root, int n) {
  for (int i = 0; i < n; ++i)
    root.picture(std::string(i % 2 == 0 ? "a" : "b") + "/" + std::to_string(i) + (i % 3 == 0 ? ".jpg" : ".png"),
                 random_image(20 + i, 30 - i % 7, i % 4 == 0 ? 1 : 3, static_cast<unsigned>(i)));
}

static DataOptions small_turned(const std::string& format, const TempFolder& root, int64_t threads = 2,
                                int64_t prefetch = 2) {
  DataOptions options = options_for(format, root.path());
  options.image.height = options.image.width = 16;
  options.augment.hflip = options.augment.vflip = options.augment.rot90 = 0.5;
  options.augment.brightness = options.augment.contrast = 0.3;
  options.loader.threads = threads;
  options.loader.prefetch = prefetch;
  return options;
}

static std::vector<BatchRequest> requests_backwards(int64_t samples, int64_t size, std::optional<int64_t> epoch) {
  std::vector<BatchRequest> out;
  for (int64_t at = 0; at < samples; at += size) {
    out.push_back({{}, epoch});
    for (int64_t i = at; i < std::min(samples, at + size); ++i) out.back().samples.push_back(samples - 1 - i);
  }
  return out;
}

static int times_in(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// The total seconds of a trace's spans of this name.
static double seconds_in(const std::string& events, const std::string& name) {
  double microseconds = 0;
  for (size_t at = events.find("\"name\":\"" + name + "\""); at != std::string::npos;
       at = events.find("\"name\":\"" + name + "\"", at + 1))
    microseconds += std::stod(events.substr(events.find("\"dur\":", at) + 6));
  return microseconds / 1e6;
}

// Whether all other threads of this process sleep, which means that they wait: one with work would be running or ready.
static bool other_threads_wait() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    const size_t state = stat.rfind(") ");
    if (state != std::string::npos && stat[state + 2] != 'S') return false;
  }
  return true;
}

TEST_CASE("batches are the same for any number of threads, prefetch and memory layout") {
  const TempFolder root;
  make_mixed_pictures(root, 23);
  std::vector<Batch> first;
  for (const int64_t threads : {1, 2, 5})
    for (const int64_t prefetch : {1, 3, 50})
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const DataOptions options = small_turned("image_folder", root, threads, prefetch);
        const Dataset data = open_dataset(options, Task::from_format, 1);
        Loader loader(data, options, 9, format, no_trace);
        CHECK(loader.threads() == threads);
        loader.start(requests_backwards(23, 5, 4));
        const std::vector<Batch> batches = drain(loader);
        REQUIRE(batches.size() == 5);
        CHECK(batches[0].images.is_contiguous(format));
        CHECK(batches[4].images.sizes() == at::IntArrayRef({3, 3, 16, 16}));
        if (first.empty()) first = batches;
        for (size_t i = 0; i < 5; ++i) {
          CHECK(batches[i].samples == first[i].samples);
          CHECK(at::equal(batches[i].images, first[i].images));
          CHECK(at::equal(batches[i].targets, first[i].targets));
        }
      }
}

TEST_CASE("a batch holds what decode and transform give, keyed by epoch and sample") {
  const TempFolder root;
  make_mixed_pictures(root, 6);
  const DataOptions options = small_turned("image_folder", root);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Loader loader(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace);
  loader.start({{{2, 4}, std::nullopt}, {{2, 4}, 7}, {{4, 2}, 7}, {{2, 4}, 8}});
  const std::vector<Batch> batches = drain(loader);
  REQUIRE(batches.size() == 4);
  std::vector<float> expected(16 * 16 * 3);
  transform_image(read_picture(data, 4), options.image, {}, expected);
  const at::Tensor pixels = batches[0].images[1].permute({1, 2, 0}).contiguous();
  CHECK(std::equal(expected.begin(), expected.end(), pixels.const_data_ptr<float>()));
  CHECK(at::equal(batches[1].images[0], batches[2].images[1]));
  CHECK_FALSE(at::equal(batches[0].images, batches[1].images));
  CHECK_FALSE(at::equal(batches[1].images, batches[3].images));
  CHECK(batches[0].targets.scalar_type() == at::kLong);
  CHECK(batches[0].targets[0].item<int64_t>() == data.samples[2].class_index);
}

TEST_CASE("labels of several kinds come as the loss wants them") {
  DataOptions options = options_for("synthetic", "");
  options.synthetic = {10, 3};
  options.image.height = options.image.width = 32;
  const Dataset labels = open_dataset(options, Task::multilabel, 1);
  Loader loader(labels, options, 1, at::MemoryFormat::Contiguous, no_trace);
  loader.start({{{0, 9, 5}, std::nullopt}});
  const Batch batch = *loader.next();
  CHECK(batch.targets.sizes() == at::IntArrayRef({3, 3}));
  for (int64_t k = 0; k < 3; ++k)
    CHECK(batch.targets[1][k].item<float>() == labels.samples[9].labels[static_cast<size_t>(k)]);

  const Dataset masks = open_dataset(options, Task::segmentation, 1);
  Loader other(masks, options, 1, at::MemoryFormat::ChannelsLast, no_trace);
  other.start({{{7, 3}, std::nullopt}});
  const Batch planes = *other.next();
  CHECK(planes.targets.sizes() == at::IntArrayRef({2, 3, 32, 32}));
  const Image mask = read_mask(masks, 3);
  for (int64_t k = 0; k < 3; ++k)
    CHECK(planes.targets[1][k].sum().item<float>() ==
          static_cast<float>(std::count(mask.bytes.begin(), mask.bytes.end(), k + 1)));
}

TEST_CASE("an image and its mask move together through the loader") {
  const TempFolder root;
  for (int i = 0; i < 8; ++i) {
    Image mask = random_image(16, 16, 1, static_cast<unsigned>(i));
    for (uint8_t& value : mask.bytes) value = value > 128 ? 255 : 0;
    root.picture("images/" + std::to_string(i) + ".png", mask);  // the image shows its own mask
    root.picture("masks/" + std::to_string(i) + ".png", mask);
  }
  DataOptions options = small_turned("image_mask", root);
  options.image.channels = 1;
  options.image.mean = {0};
  options.image.std = {1};
  options.augment.brightness = options.augment.contrast = 0;
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Loader loader(data, options, 3, at::MemoryFormat::ChannelsLast, no_trace);
  loader.start(requests_backwards(8, 4, 1));
  for (const Batch& batch : drain(loader)) CHECK(at::equal(batch.images, batch.targets));
}

TEST_CASE("an error arrives with the batch it belongs to, and the loader goes on") {
  const TempFolder root;
  make_mixed_pictures(root, 12);
  const DataOptions options = small_turned("image_folder", root, 3, 4);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  root.text(data.samples[4].path, "no picture at all");
  std::filesystem::remove(root / data.samples[5].path);
  Loader loader(data, options, 9, at::MemoryFormat::Contiguous, no_trace);
  for (int again = 0; again < 5; ++again) {
    loader.start({{{0, 1}, 1}, {{2, 4, 5}, 1}, {{5, 4}, 1}, {{6, 7}, 1}});
    CHECK(loader.next()->samples == std::vector<int64_t>{0, 1});
    CHECK(holds(error_of(65, [&] { loader.next(); }), data.samples[4].path));
    CHECK(holds(error_of(66, [&] { loader.next(); }), data.samples[5].path));
    CHECK(loader.next()->samples == std::vector<int64_t>{6, 7});
    CHECK_FALSE(loader.next().has_value());
  }
}

TEST_CASE("a mask of another size than its image is refused with both names") {
  const TempFolder root;
  root.picture("images/1.png", random_image(8, 8, 1, 1));
  root.picture("masks/1.png", random_image(8, 9, 1, 1));
  const DataOptions options = small_turned("image_mask", root);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Loader loader(data, options, 9, at::MemoryFormat::Contiguous, no_trace);
  loader.start({{{0}, std::nullopt}});
  const std::string sentence = error_of(65, [&] { loader.next(); });
  CHECK(holds(sentence, "images/1.png"));
  CHECK(holds(sentence, "masks/1.png"));
}

TEST_CASE("start drops what is left, and the end never hangs, however early") {
  const TempFolder root;
  make_mixed_pictures(root, 12);
  const DataOptions options = small_turned("image_folder", root, 3, 2);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  for (int round = 0; round < 60; ++round) {
    Loader loader(data, options, 9, at::MemoryFormat::Contiguous, no_trace);
    if (round % 4 == 0) continue;
    loader.start(requests_backwards(12, 5, 1));
    for (int i = 0; i < round % 4 - 1; ++i) loader.next();
    if (round % 2 == 0) loader.start({{{3}, std::nullopt}, {{}, std::nullopt}});
    if (round % 6 == 0) {
      CHECK(loader.next()->samples == std::vector<int64_t>{3});
      CHECK(loader.next()->images.size(0) == 0);
      CHECK_FALSE(loader.next().has_value());
    }
  }
  Loader idle(data, options, 9, at::MemoryFormat::Contiguous, no_trace);
  CHECK_FALSE(idle.next().has_value());
  idle.start({});
  CHECK_FALSE(idle.next().has_value());
}

TEST_CASE("no more batches than asked for are made ahead, and the figures count since start") {
  const TempFolder root;
  make_mixed_pictures(root, 20);
  const DataOptions options = small_turned("image_folder", root, 2, 3);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Loader loader(data, options, 9, at::MemoryFormat::Contiguous, no_trace);
  int64_t all = 0;
  int64_t ahead = 0;
  for (int64_t i = 0; i < 20; ++i) {
    const auto bytes =
        static_cast<int64_t>(std::filesystem::file_size(root / data.samples[static_cast<size_t>(i)].path));
    all += bytes;
    if (i >= 8) ahead += bytes;  // requests_backwards() begins with the last sample: three batches of four
  }
  loader.start(requests_backwards(20, 4, 1));
  const Stopwatch waiting;
  while (waiting.seconds() < 60 && !(loader.figures().bytes_read >= ahead && other_threads_wait()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(loader.figures().bytes_read == ahead);
  CHECK(drain(loader).size() == 5);
  const Loader::Figures figures = loader.figures();
  CHECK(figures.bytes_read == all);
  CHECK(figures.queue_fill > 0);
  CHECK(figures.queue_fill <= 1);
  CHECK(figures.wait_s >= 0);
  loader.start({});
  CHECK(loader.figures().bytes_read == 0);
  CHECK(loader.figures().read_s == 0);
  CHECK(loader.figures().decode_s == 0);
}

// Compared with the timeline of the same work, measured at the same time, so that it holds at any speed and load.
TEST_CASE("the time of reading and decoding is counted, each for itself, and is no more than the threads have") {
  const TempFolder root;
  for (int i = 0; i < 6; ++i) {
    root.picture("images/" + std::to_string(i) + ".png", random_image(300, 300, 3, 1));
    root.picture("masks/" + std::to_string(i) + ".png", random_image(300, 300, 1, 1));
  }
  for (const int64_t threads : {1, 3}) {
    const DataOptions options = small_turned("image_mask", root, threads);
    const Dataset data = open_dataset(options, Task::from_format, 1);
    Trace trace(true);
    Loader loader(data, options, 9, at::MemoryFormat::Contiguous, trace);
    const Stopwatch stopwatch;
    loader.start(requests_backwards(6, 2, 1));
    CHECK(drain(loader).size() == 3);
    const Loader::Figures figures = loader.figures();
    const double all = static_cast<double>(threads) * stopwatch.seconds();
    const std::string events = trace.events_json(0, "host");
    const double reading = seconds_in(events, "read");
    const double decoding = seconds_in(events, "decode") + seconds_in(events, "transform");
    constexpr double kRounded = 1e-7;  // each event to a nanosecond
    CHECK(reading > 0);
    CHECK(decoding > 0);
    CHECK(figures.read_s >= reading - kRounded);
    CHECK(figures.decode_s >= decoding - kRounded);
    CHECK(figures.read_s + figures.decode_s <= all + kRounded);
    CHECK(figures.read_s + decoding <= all + kRounded);
  }
}

TEST_CASE(
    "a trace shows reading, decoding and transforming of every sample, by batch, in lanes of the loader's threads") {
  const TempFolder root;
  make_mixed_pictures(root, 7);
  const DataOptions options = small_turned("image_folder", root, 2, 2);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Trace trace(true);
  {
    Loader loader(data, options, 9, at::MemoryFormat::Contiguous, trace);
    for (int again = 0; again < 2; ++again) {
      loader.start(requests_backwards(7, 3, 1));
      CHECK(drain(loader).size() == 3);
    }
  }
  const std::string events = trace.events_json(0, "host");
  CHECK(times_in(events, "\"name\":\"read\"") == 14);
  CHECK(times_in(events, "\"name\":\"decode\"") == 14);
  CHECK(times_in(events, "\"name\":\"transform\"") == 14);
  CHECK(times_in(events, "\"n\":0}") == 18);
  CHECK(times_in(events, "\"n\":2}") == 6);
  CHECK(times_in(events, "\"loader 0\"") == 1);
  CHECK(times_in(events, "\"loader 1\"") == 1);
  CHECK(times_in(events, "\"thread_name\"") == 2);
}

TEST_CASE("the number of threads is as asked, or what the process may use less those that compute") {
  LoaderOptions options;
  options.threads = 7;
  CHECK(loader_threads(options, 100, 8) == 7);
  options.threads = 0;
  CHECK(loader_threads(options, 1, 8) == 7);
  CHECK(loader_threads(options, 8, 8) == 1);
  CHECK(loader_threads(options, 0, 1) == 1);
}

TEST_CASE("a GPU's process keeps cores for the threads that feed the GPU, but at most half of them") {
  CHECK(computing_cores(1, false, 8) == 1);
  CHECK(computing_cores(3, false, 8) == 3);
  CHECK(computing_cores(1, true, 16) == 4);
  CHECK(computing_cores(1, true, 8) == 4);
  CHECK(computing_cores(1, true, 6) == 3);
  CHECK(computing_cores(1, true, 1) == 1);
}

TEST_CASE("threads that are tuned while batches are taken change none of them") {
  const TempFolder root;
  make_mixed_pictures(root, 12);
  const DataOptions options = small_turned("image_folder", root, 2, 2);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Loader plain(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace);
  Loader tuned(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace, {.tune_threads = true});
  std::vector<BatchRequest> many;
  for (int64_t i = 0; i < 200; ++i) many.push_back({{i % 12, (i * 5) % 12}, i / 6});
  for (int again = 0; again < 2; ++again) {
    plain.start(many);
    tuned.start(many);
    for (size_t i = 0; i < many.size(); ++i) CHECK(at::equal(tuned.next()->images, plain.next()->images));
    CHECK(tuned.threads() >= 1);
    CHECK(tuned.threads() <= 12);
  }
}

TEST_CASE("threads are tuned by the waits of training, in whichever of its epochs") {
  const TempFolder root;
  make_mixed_pictures(root, 4);
  const DataOptions options = small_turned("image_folder", root, 1, 2);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  Loader loader(data, options, 9, at::MemoryFormat::Contiguous, no_trace, {.load_s = 0.002, .tune_threads = true});
  const auto run = [&](size_t batches, std::optional<int64_t> epoch) {
    loader.start(std::vector<BatchRequest>(batches, BatchRequest{{0, 1}, epoch}));
    drain(loader);
    return loader.threads();
  };
  CHECK(run(60, std::nullopt) == 1);  // evaluation
  CHECK(run(18, 0) == 1);             // one batch less than a window, besides those that are ignored after a start
  CHECK(run(18, 1) == 1);
  CHECK(run(19, 2) == 2);
}

/// While it exists no thread can be started, since there is no memory for a stack.
struct NoThreads {
  NoThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 47);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_;
};

TEST_CASE("threads that cannot be started are done without, but for the first") {
  const TempFolder root;
  make_mixed_pictures(root, 4);
  const DataOptions options = small_turned("image_folder", root, 1, 2);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  const auto make = [&] {
    return std::make_unique<Loader>(data, options, 9, at::MemoryFormat::Contiguous, no_trace,
                                    Delivery{.load_s = 0.002, .tune_threads = true});
  };
  const auto loader = make();
  const NoThreads none;
  CHECK_THROWS_AS(make(), std::system_error);
  loader->start(std::vector<BatchRequest>(60, BatchRequest{{0, 1}, 0}));
  CHECK(drain(*loader).size() == 60);
  CHECK(loader->threads() == 1);
}
