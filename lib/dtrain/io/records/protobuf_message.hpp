#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dtrain {

static_assert(std::endian::native == std::endian::little, "protobuf's numbers of fixed width are little-endian");

/// A protobuf message in the making, in the wire format of https://protobuf.dev/programming-guides/encoding/: fields
/// under their numbers, in the order of the calls. A field that is added twice is in it twice, as repeated fields are.
class ProtobufMessage {
 public:
  /// int32, int64, uint64, bool and enums; a negative one takes ten bytes.
  ProtobufMessage& number(uint32_t field, int64_t value) {
    varint(uint64_t{field} << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtobufMessage& real(uint32_t field, float value) { return fixed(uint64_t{field} << 3 | 5, value); }
  ProtobufMessage& real(uint32_t field, double value) { return fixed(uint64_t{field} << 3 | 1, value); }
  /// Strings, bytes and packed numbers.
  ProtobufMessage& text(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtobufMessage& message(uint32_t field, const ProtobufMessage& value) { return text(field, value.bytes_); }
  /// A number of a packed field: only in a message of nothing else, which then goes into text().
  ProtobufMessage& packed(int64_t value) {
    varint(static_cast<uint64_t>(value));
    return *this;
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <typename Value>
  ProtobufMessage& fixed(uint64_t key, Value value) {
    varint(key);
    const auto raw = std::bit_cast<std::array<char, sizeof(Value)>>(value);
    bytes_.append(raw.data(), raw.size());
    return *this;
  }

  std::string bytes_;
};

}  // namespace dtrain
