#pragma once
// Damage that every decoder must survive.
#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/io/pictures/image.hpp"
#include "support/catch.hpp"
#include "support/memory_watch.hpp"

namespace dtrain::test {

/// Decodes; false if it was refused by DataError. Anything else that is thrown fails the test.
inline bool decodes(std::span<const std::byte> file, const std::string& name) {
  try {
    const Image image = decode_image(file, name, ImageLimits{1 << 22});
    const auto samples = static_cast<size_t>(image.height * image.width * image.channels);
    CHECK((image.bits == 16 ? image.words.size() : image.bytes.size()) == samples);
    return true;
  } catch (const DataError& error) {
    const std::string sentence = error.what();
    if (!sentence.starts_with(name) || sentence.find('\n') != std::string::npos) FAIL(sentence);
    return false;
  }
}

/// Tries the file truncated at every byte, and with random changes of one to four bytes: refused, or a picture.
inline void check_damaged(const std::string& text, const std::string& name, int changes = 3000, unsigned seed = 1) {
  INFO("seed " << seed);
  const auto bytes_of = [](const std::string& t) { return std::as_bytes(std::span(t.data(), t.size())); };
  REQUIRE(decodes(bytes_of(text), name));
  const size_t step = text.size() / 2000 + 1;
  for (size_t length = 1; length + 1 < text.size(); length += step) decodes(bytes_of(text.substr(0, length)), name);
  std::mt19937 random(seed);
  for (int i = 0; i < changes; ++i) {
    std::string damaged = text;
    for (unsigned k = 0; k <= random() % 4; ++k)
      damaged[random() % (random() % 2 == 0 ? std::min<size_t>(damaged.size(), 64) : damaged.size())] =
          static_cast<char>(random());
    decodes(bytes_of(damaged), name);
  }
}

}  // namespace dtrain::test
