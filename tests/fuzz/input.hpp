#pragma once
// One function per format: whatever the bytes are, they are read or refused with a DataError, and nothing else happens.
// libFuzzer (preset fuzz, see docs/contributing.md) calls it with made-up bytes, replay.cpp with the seeds.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/base/error.hpp"
#include "support/temporary_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace dtrain::fuzz {

inline std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

inline std::vector<std::byte> copy_of(const uint8_t* data, size_t size) {
  const auto bytes = bytes_of(data, size);
  return {bytes.begin(), bytes.end()};
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs `read`, which may refuse with a DataError.
template <typename Read>
int read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const DataError&) {
  }
  return 0;
}

/// The same, if other errors of the user are right as well, such as a configuration's; an error of ours never is.
template <typename Read>
int read_or_tell(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() == exit_code::kInternal) throw;
  }
  return 0;
}

/// A file in its own folder for readers that take a path; it gets the bytes of each input in turn.
class InputFile {
 public:
  explicit InputFile(const std::string& name) : path_(folder_ / name) {}

  const std::string& path() const { return path_; }
  std::string folder() const { return folder_.path(); }
  void write(std::string_view bytes) const {
    std::filesystem::remove(path_);  // some file systems write at once if a file is truncated and written again
    std::ofstream file(path_, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    check(file.good(), "an input can be written");
  }

 private:
  test::TemporaryFolder folder_;
  std::string path_;
};

}  // namespace dtrain::fuzz
