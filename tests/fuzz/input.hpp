#pragma once
// One function per format: whatever the bytes are, it is read or refused with a DataError, and nothing else happens.
// libFuzzer (preset fuzz, see docs/contributing.md) calls it with made-up bytes, replay.cpp with the seeds.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dtrain/base/error.hpp"

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

/// Runs `read`; a refusal is what it should be.
template <typename Read>
int read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const DataError&) {
  }
  return 0;
}

}  // namespace dtrain::fuzz
