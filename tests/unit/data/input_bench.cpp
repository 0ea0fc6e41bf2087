// Not run by CTest: what a picture costs on one thread, stage by stage, compared with plain libpng.
//
//   DTRAIN_PICTURES=DIR build/release/bin/test_data "[.input]"
//
// DIR holds PNG and JPEG files, all of which are read first. Stages take turns; the figures are medians of passes, of
// processor time, which other programs on the machine disturb less.
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>

#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "unit/data/folder.hpp"
#include "unit/io/plain_libpng.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

struct Stage {
  const char* name;
  std::function<void(size_t)> act;
  std::vector<double> ms{};  // per picture, by pass
};

Image read_by_libpng(const std::vector<std::byte>& file) {
  const ImageHeader header = read_image_header(file, "t.png");
  return {header.height, header.width, header.channels, header.bits, by_libpng(file).value(), {}};
}

double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void run_in_turn(std::vector<Stage>& stages, size_t pictures) {
  constexpr int kPasses = 9;
  for (int pass = -1; pass < kPasses; ++pass)
    for (Stage& stage : stages) {
      const double begin = processor_ms();
      for (size_t i = 0; i < pictures; ++i) stage.act(i);
      if (pass >= 0) stage.ms.push_back((processor_ms() - begin) / static_cast<double>(pictures));
    }
  for (Stage& stage : stages) {
    std::sort(stage.ms.begin(), stage.ms.end());
    const double median = stage.ms[kPasses / 2];
    std::printf("%-28s %8.3f ms (%.3f to %.3f) %8.0f images/s\n", stage.name, median, stage.ms.front(), stage.ms.back(),
                1e3 / median);
  }
}

}  // namespace

TEST_CASE("what a picture costs on one thread", "[.input]") {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // as the program does: memory stays with the process
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  const char* folder = std::getenv("DTRAIN_PICTURES");
  if (folder == nullptr) return skip("DTRAIN_PICTURES names no folder of pictures");
  std::vector<std::vector<std::byte>> files;
  std::vector<Image> pictures;
  bool all_png = true;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!has_image_extension(entry.path().string())) continue;
    files.push_back(read_file(entry.path().string()));
    pictures.push_back(decode_image(files.back(), entry.path().string()));
    all_png = all_png && entry.path().extension() == ".png" && pictures.back().bits == 8;
  }
  REQUIRE_FALSE(files.empty());
  ImageOptions options;
  options.height = options.width = 224;
  std::vector<float> tensor(224 * 224 * 3);
  const AugmentDraw draw{.hflip = true};
  const auto finish = [&](const Image& picture) { transform_image(picture, options, draw, tensor); };
  std::vector<Stage> stages = {{"decode", [&](size_t i) { decode_image(files[i], "t"); }},
                               {"resize, flip, normalise", [&](size_t i) { finish(pictures[i]); }},
                               {"both", [&](size_t i) { finish(decode_image(files[i], "t")); }}};
  if (all_png) {
    stages.push_back({"decode by libpng", [&](size_t i) { read_by_libpng(files[i]); }});
    stages.push_back({"both, with libpng", [&](size_t i) { finish(read_by_libpng(files[i])); }});
  }
  run_in_turn(stages, files.size());
}
