#pragma once
// An uncompressed grey TIFF file, written by the specification: one page for each picture.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "dtrain/io/pictures/image.hpp"

namespace dtrain::test {

inline std::string tiff_stack(const std::vector<Image>& pages) {
  std::string file = "II*";
  const auto put = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> 8 * i);
  };
  put(0, 1);
  put(8, 4);
  for (const Image& page : pages) {
    const size_t size = page.bytes.size() + 2 * page.words.size();
    const size_t pixels = file.size() + 2 + 8 * 12 + 4;
    put(8, 2);
    const auto field = [&](uint64_t tag, uint64_t value) {
      put(tag, 2);
      put(4, 2);  // LONG
      put(1, 4);
      put(value, 4);
    };
    field(256, static_cast<uint64_t>(page.width));
    field(257, static_cast<uint64_t>(page.height));
    field(258, static_cast<uint64_t>(page.bits));
    field(259, 1);  // not compressed
    field(262, 1);  // 0 is black
    field(273, pixels);
    field(278, static_cast<uint64_t>(page.height));
    field(279, size);
    put(&page == &pages.back() ? 0 : pixels + size + size % 2, 4);
    if (page.bits == 16) file.append(reinterpret_cast<const char*>(page.words.data()), size);
    if (page.bits == 8) file.append(reinterpret_cast<const char*>(page.bytes.data()), size);
    file.append(size % 2, '\0');
  }
  return file;
}

}  // namespace dtrain::test
