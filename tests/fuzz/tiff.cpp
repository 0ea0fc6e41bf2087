#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "dtrain/io/pictures/image.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"
#include "input.hpp"

using namespace dtrain;

namespace {

/// A file that gets every input in turn: pages are read from disk, without the bytes of the others.
class ScratchFile {
 public:
  ScratchFile() { std::filesystem::create_directories(folder_); }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }

  const std::string& holding(const uint8_t* data, size_t size) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path_;
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("dtrain-fuzz-" + std::to_string(::getpid()));
  std::string path_ = folder_ / "stack.tif";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ScratchFile scratch;
  const ImageLimits limits{.max_pixels = 1 << 20};
  fuzz::read_or_refuse([&] { decode_image(fuzz::bytes_of(data, size), "fuzz", limits); });
  const std::string& path = scratch.holding(data, size);
  const int64_t pages = std::min<int64_t>(3, count_pages(path));
  for (int64_t page = 1; page <= pages; ++page)
    fuzz::read_or_refuse([&] {
      const std::string name = path + "#" + std::to_string(page);
      const std::vector<std::byte> alone = read_picture_file(name);
      const ImageHeader header = read_image_header(alone, name, limits);
      const Image image = decode_image(alone, name, limits);
      check(image.height == header.height && image.width == header.width && image.channels == header.channels,
            "a page is what its header says");
    });
  return 0;
}
