#include "dtrain/io/files/safetensors_header.hpp"
#include "input.hpp"

using namespace dtrain;

// A whole file: length bytes, header, data. What is accepted must be written again and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kLengthBytes) return 0;
  return fuzz::read_or_refuse([&] {
    const auto file_bytes = static_cast<int64_t>(size);
    const int64_t length = parse_header_length(fuzz::bytes_of(data, kLengthBytes), file_bytes, "fuzz");
    const std::string_view json = fuzz::text_of(data, size).substr(kLengthBytes, static_cast<size_t>(length));
    const int64_t data_bytes = file_bytes - kLengthBytes - length;
    const SafetensorsHeader header = parse_header(json, data_bytes, "fuzz");
    const std::string again = format_header(header);
    const SafetensorsHeader same = parse_header(again.substr(kLengthBytes), data_bytes, "fuzz");
    check(same.entries.size() == header.entries.size() && same.metadata == header.metadata,
          "a header comes back as it was written");
  });
}
