#include "dtrain/base/hash.hpp"
#include "dtrain/data/store/packed_manifest.hpp"
#include "input.hpp"

using namespace dtrain;

// manifest.json of a packed set. The first byte chooses whether its checksum is corrected first: with a wrong one most
// inputs would not reach the code behind it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const fuzz::InputFile file(PackedManifest::kFile);
  std::string text(fuzz::text_of(data + 1, size - 1));
  if (data[0] != 'a') {
    constexpr std::string_view kMark = "\"crc32c\": \"";
    const size_t place = text.find(kMark);
    if (place != std::string::npos && place + kMark.size() + 8 <= text.size()) {
      text.replace(place + kMark.size(), 8, "00000000");
      text.replace(place + kMark.size(), 8, hex8(crc32c(std::as_bytes(std::span(text)))));
    }
  }
  return fuzz::read_or_refuse([&] {
    file.write(text);
    const PackedManifest manifest = read_packed_manifest(file.folder());
    for (const auto& [value, number] : manifest.mask_values)
      check(number >= 1 && number <= static_cast<int64_t>(manifest.classes.size()), "a mask's value has a class");
    for (const PackedManifest::Shard& shard : manifest.shards)
      check(!shard.file.empty() && shard.file.find('/') == std::string::npos, "a shard lies in the folder");
  });
}
