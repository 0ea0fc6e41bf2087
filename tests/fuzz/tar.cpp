#include "dtrain/io/records/tar.hpp"

#include "dtrain/io/records/field_values.hpp"
#include "input.hpp"

using namespace dtrain;

// Headers get a correct checksum first; without one most inputs would not reach the code behind it.
static std::vector<std::byte> sealed(std::vector<std::byte> bytes) {
  for (size_t at = 0; at + 512 <= bytes.size(); at += 512) {
    if (bytes[at + 257] != std::byte{'u'}) continue;
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i < 148 || i > 155 ? std::to_integer<unsigned>(bytes[at + i]) : 0;
    for (size_t i = 0; i < 6; ++i) bytes[at + 148 + i] = static_cast<std::byte>('0' + (sum >> (3 * (5 - i)) & 7));
    bytes[at + 154] = std::byte{0};
    bytes[at + 155] = std::byte{' '};
  }
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::read_or_refuse([&] {
    const RecordFile file("fuzz", sealed(fuzz::copy_of(data, size)));
    ByteWindow bytes(file);
    TarWalk walk(bytes);
    while (const auto member = walk.next()) {
      webdataset_name(member->name);
      std::vector<std::byte> content(static_cast<size_t>(member->size));
      file.read(member->offset, content);
      const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
      fuzz::read_or_refuse([&] { json_field(text, "label", "fuzz"); });
    }
  });
}
