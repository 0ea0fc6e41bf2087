#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtrain/io/files/safetensors.hpp"

namespace dtrain {

// The grammar of a safetensors header, apart from files: used only by SafetensorsFile and write_safetensors(). A file
// is 8 length bytes (little-endian), the header (JSON, padded with spaces), the data part.

inline constexpr int64_t kLengthBytes = 8;
/// The format's own cap on the header.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;             ///< in the order of the text
  std::map<std::string, std::string> metadata;  ///< with the checksums, as it stands
};

/// Length that the 8 bytes state, checked against the cap and the size of the file. Throws DataError.
int64_t parse_header_length(std::span<const std::byte> start, int64_t file_size, const std::string& path);

/// Strict: only what the format names, nothing twice, tensors that fill `data_bytes` exactly. Memory and depth are
/// bounded by the text. Throws DataError.
SafetensorsHeader parse_header(std::string_view json, int64_t data_bytes, const std::string& path);

/// The length bytes and the header: metadata first, then `entries` in their order, padded so that the data part begins
/// at a multiple of 8. Throws DataError for text that is not UTF-8.
std::string format_header(const SafetensorsHeader& header);

/// Where in a header (with or without the length bytes) the 8 hex digits of crc32c.header begin; npos if there are
/// none. Unambiguous: within a JSON string the quotes of this pattern would be escaped.
size_t header_checksum_place(std::string_view header);

/// CRC32C over the length bytes and the header with the 8 digits at `place` read as 00000000, as 8 hex digits.
std::string header_checksum(std::string_view length_and_header, size_t place);

/// Bytes of a tensor; nothing if the product does not fit, the dtype is unknown or an extent is negative.
std::optional<int64_t> tensor_bytes(const std::string& dtype, const std::vector<int64_t>& shape);

}  // namespace dtrain
