#include "dtrain/data/pixels/raw_pictures.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <chrono>
#include <thread>

#include "batches.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "unit/data/folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

std::vector<float> finished(const Image& image, const ImageOptions& options, const PixelKind& kind,
                            const AugmentDraw& draw) {
  std::vector<std::byte> raw(static_cast<size_t>(kind.picture_bytes(options)));
  raw_image(image, options, kind, raw);
  const RawPicture picture{raw.data(), walk_of(draw, options), kind.bytes ? 1 : 0, kind.channels};
  std::vector<float> out(static_cast<size_t>(options.seen_height() * options.seen_width() * options.channels));
  host_math().finish_pictures(picture_form(options), &picture, 1, out.data());
  return out;
}

// Pictures of 16 × 16; every `larger`-th is larger, every `coloured`-th is coloured (0: none).
void make_pictures(const TempFolder& root, int n, int larger, int coloured) {
  for (int i = 0; i < n; ++i) {
    const int side = larger > 0 && i % larger == larger - 1 ? 21 : 16;
    root.picture(std::string(i % 2 == 0 ? "a" : "b") + "/" + std::to_string(i) + ".png",
                 random_image(side, side, coloured > 0 && i % coloured == 0 ? 3 : 1, static_cast<unsigned>(i)));
  }
}

DataOptions small(const std::string& format, const TempFolder& root, int64_t prefetch = 2) {
  DataOptions options = options_for(format, root.path());
  options.image.height = options.image.width = 16;
  options.image.window_height = options.image.window_width = 13;
  options.augment.random_window = true;
  options.augment.hflip = options.augment.vflip = options.augment.rot90 = 0.5;
  options.loader.threads = 2;
  options.loader.prefetch = prefetch;
  return options;
}

std::vector<BatchRequest> requests(int64_t samples, int64_t size, std::optional<int64_t> epoch) {
  std::vector<BatchRequest> out;
  for (int64_t at = 0; at < samples; at += size) {
    out.push_back({{}, epoch});
    for (int64_t i = at; i < std::min(samples, at + size); ++i)
      out.back().samples.push_back((i * 5 + epoch.value_or(0)) % samples);
  }
  return out;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kFloat) return at::equal(a, b);
  return at::equal(a.contiguous().view(at::kInt), b.contiguous().view(at::kInt));
}

// Epochs 0 to 2, and the set without augmentation, from a loader that finishes its batches and from one that leaves
// them raw, with and without a cache.
void check_raw(const Dataset& data, const DataOptions& options, int64_t samples) {
  Loader plain(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace);
  const auto all = static_cast<int64_t>(data.samples.size());
  struct RawWay {
    bool raw;
    bool cached;  // on the device
    bool shared;
  };
  for (const auto& [raw, cached, shared] :
       {RawWay{true, false, false}, RawWay{true, true, false}, RawWay{true, false, true}, RawWay{false, false, true}}) {
    PictureCache cache(all);
    SharedPictures pictures(all, 1 << 22, options.image, true);
    Loader loader(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace,
                  Delivery{.raw = raw, .cache = cached ? &cache : nullptr, .shared = shared ? &pictures : nullptr});
    DeviceBatches batches(loader, {}, cached ? &cache : nullptr);
    for (const auto epoch : std::vector<std::optional<int64_t>>{0, 1, 2, std::nullopt}) {
      plain.start(requests(samples, 5, epoch));
      batches.start(requests(samples, 5, epoch));
      const std::vector<Batch> expected = drain(plain);
      const std::vector<Batch> found = drain(batches);
      REQUIRE(found.size() == expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        INFO("batch " << i << " of epoch " << epoch.value_or(-1) << (raw ? ", raw" : "") << (cached ? ", cached" : "")
                      << (shared ? ", shared" : ""));
        CHECK(found[i].samples == expected[i].samples);
        CHECK(found[i].images.is_contiguous(at::MemoryFormat::ChannelsLast));
        CHECK(same_bits(found[i].images, expected[i].images));
        CHECK(same_bits(found[i].targets, expected[i].targets));
        CHECK_FALSE(found[i].raw.has_value());
      }
      const bool read_before = (cached || shared) && epoch != std::optional<int64_t>(0);
      // A thread still making a sample of a batch that was begun again reports what it has read when it is done with
      // it.
      const int64_t least = read_before ? 0 : plain.figures().bytes_read;
      for (int tries = 0; tries < 5000 && batches.figures().bytes_read < least; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      CHECK(batches.figures().bytes_read >= least);
      if (read_before) CHECK(batches.figures().bytes_read == 0);
    }
  }
}

}  // namespace

TEST_CASE("raw pictures, finished, have the bits of transform_image, whatever flips, turns, resizes and repeats") {
  unsigned seed = 0;
  for (const int64_t from : {1, 3})
    for (const int64_t to : {1, 3})
      for (const Resize resize : {Resize::squash, Resize::pad, Resize::crop})
        for (const std::array<int64_t, 2>& size : {std::array<int64_t, 2>{12, 12}, {9, 12}, {30, 17}, {12, 20}})
          for (const int bits : {8, 16}) {
            Image image = random_image(size[0], size[1], from, ++seed);
            if (bits == 16) {
              image.bits = 16;
              for (const uint8_t byte : image.bytes) image.words.push_back(static_cast<uint16_t>(byte * 251 + 7));
              image.bytes.clear();
            }
            ImageOptions options = canvas(12, 12, to, resize);
            if (seed % 3 == 0) options.range_low = 20;
            if (seed % 3 == 0) options.range_high = bits == 16 ? 40'000 : 180;
            if (seed % 2 == 0) options.window_height = options.window_width = 7;
            const PixelKind least = pixel_kind({size[0], size[1], from, bits}, options);
            for (int turn = 0; turn < 8; ++turn) {
              const AugmentDraw draw{.hflip = turn % 2 == 1,
                                     .vflip = turn > 5,
                                     .quarter_turns = turn % 4,
                                     .window = turn > 2,
                                     .window_y = 0.6,
                                     .window_x = 0.99};
              std::vector<float> expected(static_cast<size_t>(options.seen_height() * options.seen_width() * to));
              transform_image(image, options, draw, expected);
              for (const PixelKind& kind : {least, PixelKind{false, least.channels}, PixelKind{least.bytes, to}})
                REQUIRE(finished(image, options, kind, draw) == expected);
            }
          }
}

TEST_CASE("bytes are kept where 8 bits are neither resized nor turned to grey, one channel where all is grey") {
  const auto kind = [](int64_t height, int64_t channels, int bits, const ImageOptions& options) {
    return pixel_kind({height, 10, channels, bits}, options);
  };
  CHECK(kind(10, 1, 8, canvas(10, 10, 3)) == PixelKind{true, 1});
  CHECK(kind(10, 3, 8, canvas(10, 10, 3)) == PixelKind{true, 3});
  CHECK(kind(10, 3, 8, canvas(10, 10, 1)) == PixelKind{false, 1});
  CHECK(kind(10, 1, 16, canvas(10, 10, 3)) == PixelKind{false, 1});
  ImageOptions ranged = canvas(10, 10, 3);
  ranged.range_high = 255;
  CHECK(kind(10, 1, 8, ranged) == PixelKind{true, 1});
  ranged.range_high = 200;
  CHECK(kind(10, 1, 8, ranged) == PixelKind{false, 1});
  CHECK(kind(11, 1, 8, canvas(10, 10, 3)) == PixelKind{false, 1});
  CHECK(kind(8, 3, 8, canvas(10, 10, 3, Resize::pad)) == PixelKind{true, 3});
  CHECK(kind(12, 3, 8, canvas(10, 10, 3, Resize::crop)) == PixelKind{true, 3});
  CHECK(PixelKind{true, 3}.with({false, 1}) == PixelKind{false, 3});
  CHECK(PixelKind{false, 1}.holds({true, 1}));
  CHECK_FALSE(PixelKind{true, 3}.holds({false, 1}));
  CHECK_FALSE(PixelKind{false, 1}.holds({true, 3}));
}

TEST_CASE("a batch finished on the device has the bits of one that the loader finishes, cached or not") {
  for (const int larger : {0, 1, 3, 13})
    for (const int coloured : {0, 1, 4, 11}) {
      INFO("every " << larger << ". larger, every " << coloured << ". coloured");
      const TempFolder root;
      make_pictures(root, 17, larger, coloured);
      const DataOptions options = small("image_folder", root, 1 + larger % 3);
      check_raw(open_dataset(options, Task::from_format, 1), options, 17);
    }
}

TEST_CASE("masks are finished with their pictures, cached or not, also those of generated data") {
  const TempFolder root;
  for (int i = 0; i < 9; ++i) {
    Image mask = random_image(16, 16 + i % 2, 1, static_cast<unsigned>(i));
    for (uint8_t& value : mask.bytes) value = static_cast<uint8_t>(value % 3);
    root.picture("images/" + std::to_string(i) + ".png", random_image(16, 16 + i % 2, 1, 70));
    root.picture("masks/" + std::to_string(i) + ".png", mask);
  }
  DataOptions options = small("image_mask", root);
  options.image.channels = 1;
  options.image_mask.mask_values = {{1, 1}, {2, 2}};
  check_raw(open_dataset(options, Task::from_format, 1), options, 9);
  DataOptions made = options_for("synthetic", "");
  made.synthetic = {11, 3};
  made.image.height = made.image.width = 32;
  made.augment.hflip = made.augment.rot90 = 0.5;
  check_raw(open_dataset(made, Task::segmentation, 1), made, 11);
  check_raw(open_dataset(made, Task::multilabel, 1), made, 11);
}

TEST_CASE("what the cache holds needs no file any more, and its size is that of its pictures and masks") {
  const TempFolder root;
  for (int i = 0; i < 6; ++i) {
    root.picture("images/" + std::to_string(i) + ".png", random_image(16, 16, 1, static_cast<unsigned>(i)));
    root.picture("masks/" + std::to_string(i) + ".png", random_image(16, 16, 1, 1));
  }
  const DataOptions options = small("image_mask", root);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  PictureCache cache(6);
  Loader loader(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace, Delivery{.raw = true, .cache = &cache});
  DeviceBatches batches(loader, {}, &cache);
  batches.start({{{0, 3}, 1}, {{2, 5}, 1}});
  CHECK(drain(batches).size() == 2);
  CHECK(cache.holds(5));
  CHECK_FALSE(cache.holds(1));
  CHECK(cache.megabytes() * 1e6 == Approx(4 * 16 * 16 * 2));
  CHECK(kept_bytes({true, 1}, options.image, true) == 16 * 16 * 2);
  CHECK(kept_bytes({false, 3}, options.image, false) == 16 * 16 * 12);
  for (const Sample& sample : data.samples) std::filesystem::remove(root / sample.path);
  batches.start({{{5, 0, 3, 2}, 7}, {{2, 1}, 7}, {{0}, 7}});
  CHECK(batches.next()->images.size(0) == 4);
  CHECK(holds(error_of(66, [&] { batches.next(); }), data.samples[1].path));
  CHECK(batches.next()->samples == std::vector<int64_t>{0});
  CHECK_FALSE(batches.next().has_value());
}

TEST_CASE("a start drops raw batches of any kind, and the end never hangs") {
  const TempFolder root;
  make_pictures(root, 17, 6, 9);
  const DataOptions options = small("image_folder", root, 3);
  const Dataset data = open_dataset(options, Task::from_format, 1);
  for (int round = 0; round < 40; ++round) {
    PictureCache cache(17);
    Loader loader(data, options, 9, at::MemoryFormat::ChannelsLast, no_trace, Delivery{.raw = true, .cache = &cache});
    DeviceBatches batches(loader, {}, &cache);
    batches.start(requests(17, 4, 1));
    for (int i = 0; i < round % 4; ++i) batches.next();
    if (round % 2 == 0) continue;
    batches.start(requests(17, 4, 2));
    CHECK(drain(batches).size() == 5);
  }
}
