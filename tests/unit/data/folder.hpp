#pragma once
// Small data sets for the tests of this folder, made in a temporary folder.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"

namespace dtrain::test {

/// A folder that is removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dtrain-data-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = std::filesystem::canonical(pattern).string();
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  void text(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }
  /// The ending of `name` decides between JPEG and PNG.
  void picture(const std::string& name, const Image& image) const {
    const std::vector<std::byte> bytes = name.ends_with(".jpg") ? encode_jpeg(image) : encode_png(image);
    text(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void picture(const std::string& name) const { picture(name, Image{4, 4, 1, 8, std::vector<uint8_t>(16, 100), {}}); }

 private:
  std::string path_;
};

inline Image random_image(int64_t height, int64_t width, int64_t channels, unsigned seed) {
  std::mt19937 random(seed);
  Image image{height, width, channels, 8, std::vector<uint8_t>(static_cast<size_t>(height * width * channels)), {}};
  for (uint8_t& value : image.bytes) value = static_cast<uint8_t>(random() & 0xFF);
  return image;
}

inline DataOptions options_for(const std::string& format, const std::string& root) {
  DataOptions options;
  options.format = format_named(format);
  options.root = root;
  return options;
}

inline DataOptions nih(const TempFolder& root) {
  DataOptions options = options_for("nih_cxr14", root.path());
  options.labels = root / "labels.csv";
  return options;
}

/// What the network reads, with the usual mean and scale.
inline ImageOptions canvas(int64_t height, int64_t width, int64_t channels, Resize resize = Resize::squash) {
  ImageOptions options;
  options.height = height;
  options.width = width;
  options.channels = channels;
  options.resize = resize;
  return options;
}

/// No mean and scale: pixels in [0, 1] as the resize returns them.
inline ImageOptions plain(int64_t height, int64_t width, int64_t channels, Resize resize = Resize::squash) {
  ImageOptions options = canvas(height, width, channels, resize);
  options.mean.assign(static_cast<size_t>(channels), 0);
  options.std.assign(static_cast<size_t>(channels), 1);
  return options;
}

inline Dataset dataset_at(const DataOptions& options, Task task = Task::from_format) {
  return open_dataset(options, task, 1);
}

inline std::vector<std::string> paths_of(const Dataset& dataset) {
  std::vector<std::string> paths;
  for (const Sample& sample : dataset.samples) paths.push_back(sample.path);
  return paths;
}

/// The sentence of the error that `action` throws; its code is checked.
inline std::string error_of(int code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(error.code() == code);
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

}  // namespace dtrain::test
