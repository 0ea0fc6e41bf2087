#include "dtrain/io/files/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

using nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kChecksumField = "\"crc32c.header\":\"";
constexpr size_t kChecksumDigits = 8;
constexpr size_t kMaxRank = 64;  // PyTorch's own limit

/// A name from a file, short enough for a message.
std::string shown(const std::string& name) {
  constexpr size_t kShown = 120;
  return "'" + (name.size() <= kShown ? name : name.substr(0, kShown) + "…") + "'";
}

/// Checks the format's grammar on nlohmann's parser events, so that no tree is built from an untrusted file:
///   { "__metadata__": {string: string, …}, name: {"dtype": string, "shape": [int, …], "data_offsets": [int, int]}, … }
class HeaderEvents : public nlohmann::json_sax<json> {
 public:
  HeaderEvents(SafetensorsHeader& header, const std::string& path) : header_(header), path_(path) {}

  bool null() override { unexpected(); }
  bool boolean(bool) override { unexpected(); }
  bool number_integer(number_integer_t) override { unexpected(); }
  bool number_float(number_float_t, const string_t&) override { unexpected(); }
  bool binary(binary_t&) override { unexpected(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) unexpected();
    if (value > static_cast<uint64_t>(INT64_MAX)) fail("a number that is too large");
    auto& numbers = place_ == Place::shape ? entry_.shape : offsets_;
    if (numbers.size() == (place_ == Place::shape ? kMaxRank : 2)) fail("too many numbers in '" + key_ + "'");
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, std::move(value)).second) fail("metadata " + shown(key_) + " twice");
    } else if (place_ == Place::entry && key_ == "dtype") {
      entry_.dtype = std::move(value);
    } else {
      unexpected();
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top && entry_.name == kMetadata) {
      if (std::exchange(metadata_seen_, true)) fail("'__metadata__' twice");
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      place_ = Place::entry;
    } else {
      unexpected();
    }
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::top) {
      entry_ = TensorEntry{};
      entry_.name = std::move(name);
      offsets_.clear();
      fields_seen_ = 0;
      return true;
    }
    key_ = std::move(name);
    if (place_ == Place::entry) see_field();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) take_entry();
    place_ = place_ == Place::top ? Place::start : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::entry || key_ == "dtype") unexpected();
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    throw DataError(path_ + " is not a safetensors file, or damaged: its header is not valid JSON at byte " +
                    std::to_string(kLengthBytes + static_cast<int64_t>(position)));
  }

 private:
  enum class Place { start, top, metadata, entry, shape, offsets };

  [[noreturn]] void fail(const std::string& what) const {
    const bool in_tensor = place_ == Place::entry || place_ == Place::shape || place_ == Place::offsets;
    throw DataError(path_ + ": the safetensors header holds " + what +
                    (in_tensor ? " (tensor " + shown(entry_.name) + ")" : ""));
  }

  [[noreturn]] void unexpected() const {
    if (place_ == Place::metadata) fail("metadata " + shown(key_) + " that is not a string");
    if (place_ == Place::top) fail("a value of " + shown(entry_.name) + " that describes no tensor");
    fail(place_ == Place::start ? "no object" : "a value of " + shown(key_) + " of the wrong kind");
  }

  void see_field() {
    const unsigned bit = key_ == "dtype" ? 1 : key_ == "shape" ? 2 : key_ == "data_offsets" ? 4 : 0;
    if (bit == 0) fail("an unknown field " + shown(key_));
    if ((fields_seen_ & bit) != 0) fail("'" + key_ + "' twice");
    fields_seen_ |= bit;
  }

  void take_entry() {
    if (fields_seen_ != 7) fail("no 'dtype', 'shape' or 'data_offsets'");
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1])
      fail("'data_offsets' that are not an ascending pair of numbers");
    if (bytes_per_element(entry_.dtype) == 0) fail("the unknown element type " + shown(entry_.dtype));
    entry_.begin = offsets_[0];
    entry_.bytes = offsets_[1] - offsets_[0];
    if (tensor_bytes(entry_.dtype, entry_.shape) != entry_.bytes) fail("a shape that does not match 'data_offsets'");
    header_.entries.push_back(std::move(entry_));
  }

  SafetensorsHeader& header_;
  const std::string& path_;
  Place place_ = Place::start;
  bool metadata_seen_ = false;
  unsigned fields_seen_ = 0;
  std::string key_;
  TensorEntry entry_;
  std::vector<int64_t> offsets_;
};

/// Checks that each byte of the data part belongs to exactly one tensor.
void check_layout(const std::vector<TensorEntry>& entries, int64_t data_bytes, const std::string& path) {
  std::vector<const TensorEntry*> sorted;
  for (const TensorEntry& entry : entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::tuple(a->begin, a->bytes) < std::tuple(b->begin, b->bytes);
  });
  int64_t reached = 0;
  for (const TensorEntry* entry : sorted) {
    if (entry->begin != reached)
      throw DataError(path + ": tensor " + shown(entry->name) +
                      (entry->begin > reached ? " begins after a hole" : " overlaps another") +
                      " in the data part; the file is damaged");
    reached += entry->bytes;
    if (reached > data_bytes)
      throw DataError(path + ": tensor " + shown(entry->name) +
                      " reaches beyond the end of the file; the file was cut, copy it again");
  }
  if (reached < data_bytes)
    throw DataError(path + ": " + with_commas(data_bytes - reached) +
                    " bytes after the last tensor belong to none; the file is damaged");
}

std::string json_string(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw DataError("a name or value for a safetensors header is not UTF-8: " +
                    shown(json(text).dump(-1, ' ', true, json::error_handler_t::replace)));
  }
}

template <typename Numbers>
std::string json_array(const Numbers& numbers) {
  std::vector<std::string> parts;
  for (int64_t number : numbers) parts.push_back(std::to_string(number));
  return "[" + join(parts, ",") + "]";
}

}  // namespace

int64_t bytes_per_element(const std::string& dtype) {
  static const std::map<std::string, int64_t, std::less<>> kBytes = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},    {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

std::optional<int64_t> tensor_bytes(const std::string& dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = bytes_per_element(dtype);
  if (bytes == 0) return std::nullopt;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  return bytes;
}

int64_t parse_header_length(std::span<const std::byte> start, int64_t file_size, const std::string& path) {
  if (file_size == 0) throw DataError(path + " is empty (0 bytes); a safetensors file is expected");
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.starts_with("PK\x03\x04") || text.starts_with("\x80\x02"))
    throw DataError(path + " is a PyTorch pickle (.pt, .pth); convert it with scripts/convert_weights first");
  if (text.starts_with("\x89HDF"))
    throw DataError(path +
                    " is an HDF5 file (.h5), as Keras writes; dtrain reads safetensors: scripts/convert_weights makes "
                    "such a file of those of a DenseNet "
                    "or ResNet");
  uint64_t length = 0;
  for (size_t i = start.size(); i-- > 0;) length = length << 8 | std::to_integer<uint64_t>(start[i]);
  if (start.size() < static_cast<size_t>(kLengthBytes) || length > static_cast<uint64_t>(kMaxHeaderBytes) ||
      static_cast<int64_t>(length) > file_size - kLengthBytes)
    throw DataError(path +
                    " is not a safetensors file, or was cut: the header it announces does not fit in it; name another, "
                    "or copy it again");
  return static_cast<int64_t>(length);
}

SafetensorsHeader parse_header(std::string_view text, int64_t data_bytes, const std::string& path) {
  if (!text.starts_with('{')) throw DataError(path + " is not a safetensors file: its header does not begin with '{'");
  SafetensorsHeader header;
  HeaderEvents events(header, path);
  json::sax_parse(text.begin(), text.end(), &events);
  check_layout(header.entries, data_bytes, path);
  return header;
}

std::string format_header(const SafetensorsHeader& header) {
  std::vector<std::string> metadata;
  for (const auto& [key, value] : header.metadata) metadata.push_back(json_string(key) + ":" + json_string(value));
  std::string text = "{\"__metadata__\":{" + join(metadata, ",") + "}";
  for (const TensorEntry& entry : header.entries)
    text += "," + json_string(entry.name) + ":{\"dtype\":" + json_string(entry.dtype) +
            ",\"shape\":" + json_array(entry.shape) +
            ",\"data_offsets\":" + json_array(std::array{entry.begin, entry.begin + entry.bytes}) + "}";
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (int shift = 0; shift < 64; shift += 8) length += static_cast<char>(text.size() >> shift & 0xFF);
  return length + text;
}

size_t header_checksum_place(std::string_view header) {
  const size_t field = header.find(kChecksumField);
  if (field == std::string_view::npos) return field;
  const size_t place = field + kChecksumField.size();
  const bool whole = header.size() > place + kChecksumDigits && header[place + kChecksumDigits] == '"';
  return whole ? place : std::string_view::npos;
}

std::string header_checksum(std::string_view length_and_header, size_t place) {
  const auto bytes = std::as_bytes(std::span(length_and_header.data(), length_and_header.size()));
  const std::string zeros(kChecksumDigits, '0');
  uint32_t crc = crc32c(bytes.first(place));
  crc = crc32c(std::as_bytes(std::span(zeros.data(), zeros.size())), crc);
  return hex8(crc32c(bytes.subspan(place + kChecksumDigits), crc));
}

}  // namespace dtrain
