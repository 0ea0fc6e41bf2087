#include "dtrain/io/records/tf_example.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

constexpr int64_t kMaxFeatures = 10'000;
constexpr int64_t kMaxFeatureName = 1024;
constexpr size_t kMaxParts = 1000;
constexpr int64_t kMaxValues = int64_t{1} << 20;  // bytes of a feature that is read as texts or numbers

/// How a field's value is encoded.
enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Reads the fields of one protobuf message in turn.
class Message {
 public:
  Message(ByteWindow& bytes, int64_t offset, int64_t size, const std::string& name)
      : bytes_(bytes), at_(offset), end_(offset + size), name_(name) {}
  Message(ByteWindow& bytes, const ByteRange& range, const std::string& name)
      : Message(bytes, range.offset, range.size, name) {}

  bool at_end() const { return at_ == end_; }

  /// Moves to the next field and sets `number` and `wire`; the caller then calls exactly one of the readers below.
  bool next() {
    if (at_end()) return false;
    const uint64_t tag = varint();
    constexpr uint64_t kMaxTag = (uint64_t{1} << 32) - 1;
    if (tag > kMaxTag || tag >> 3 == 0) refuse("it holds a field without a number");
    number = static_cast<int64_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
      case 1:
      case 2:
      case 5:
        wire = static_cast<Wire>(tag & 7);
        return true;
      default:
        refuse("it holds a field of an unknown kind");
    }
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_end()) refuse("it ends within a number");
      const auto byte = std::to_integer<uint64_t>(bytes_.at(at_++, 1)[0]);
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("it holds a number of more than 64 bits");
  }

  ByteRange bytes() {
    const uint64_t size = varint();
    if (size > static_cast<uint64_t>(end_ - at_)) refuse("a length in it reaches beyond it");
    const ByteRange range{at_, static_cast<int64_t>(size)};
    at_ += range.size;
    return range;
  }

  float fixed32() {
    if (end_ - at_ < 4) refuse("it ends within a number");
    uint32_t bits = 0;
    const auto raw = bytes_.at(at_, 4);
    for (size_t i = 4; i-- > 0;) bits = bits << 8 | std::to_integer<uint32_t>(raw[i]);
    at_ += 4;
    return std::bit_cast<float>(bits);
  }

  void skip() {
    if (wire == Wire::varint) varint();
    if (wire == Wire::bytes) bytes();
    const int64_t fixed = wire == Wire::fixed32 ? 4 : wire == Wire::fixed64 ? 8 : 0;
    if (fixed > end_ - at_) refuse("it ends within a number");
    at_ += fixed;
  }

  /// True for field `wanted`, which must be a message or a string.
  bool is_bytes(int64_t wanted) const {
    if (number == wanted && wire != Wire::bytes) refuse("it is not a tf.train.Example");
    return number == wanted;
  }

  [[noreturn]] void refuse(const std::string& what) const { throw DataError(name_ + " cannot be read: " + what); }

  int64_t number = 0;
  Wire wire = Wire::varint;

 private:
  ByteWindow& bytes_;
  int64_t at_;
  int64_t end_;
  const std::string& name_;
};

std::string feature_name(ByteWindow& bytes, const ByteRange& range) {
  const auto raw = bytes.at(range.offset, range.size);
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

// One entry of the map: field 1 is its name, field 2 its value.
FeaturePlace read_entry(ByteWindow& bytes, const ByteRange& range, const std::string& name) {
  FeaturePlace place;
  place.offset = range.offset;  // if there is no value: an empty one
  Message entry(bytes, range, name);
  while (entry.next()) {
    if (entry.is_bytes(1)) {
      const ByteRange key = entry.bytes();
      if (key.size > kMaxFeatureName) entry.refuse("it has a feature whose name is longer than 1 KiB");
      place.name = feature_name(bytes, key);
    } else if (entry.is_bytes(2)) {
      const ByteRange value = entry.bytes();
      place.offset = value.offset;
      place.size = value.size;
    } else {
      entry.skip();
    }
  }
  return place;
}

enum class Kind { none, bytes = 1, floats = 2, int64s = 3 };

// The list that a Feature holds. If there are several kinds, the last counts; parts of one kind are joined, as protobuf
// prescribes.
struct Lists {
  Kind kind = Kind::none;
  std::vector<ByteRange> parts;
};

Lists lists_of(ByteWindow& bytes, const FeaturePlace& feature, const std::string& name) {
  Lists lists;
  Message message(bytes, feature.offset, feature.size, name);
  while (message.next()) {
    if (message.number > 3) {
      message.skip();
      continue;
    }
    if (!message.is_bytes(message.number)) continue;
    const auto kind = static_cast<Kind>(message.number);
    if (kind != lists.kind) lists.parts.clear();
    lists.kind = kind;
    lists.parts.push_back(message.bytes());
    if (lists.parts.size() > kMaxParts) message.refuse("it has a feature in more than 1,000 pieces");
  }
  return lists;
}

void add_number(double number, const std::string& text, FieldValues& out) {
  out.numbers.push_back(number);
  out.texts.push_back(text);
}

void add_float(float value, FieldValues& out) { add_number(value, shortest(value), out); }

void add_int64(uint64_t bits, FieldValues& out) {
  const auto value = static_cast<int64_t>(bits);
  add_number(static_cast<double>(value), std::to_string(value), out);
}

// The values of one list message: its field 1, packed or one by one.
void read_list(ByteWindow& bytes, Kind kind, const ByteRange& range, const std::string& name, FieldValues& out) {
  Message list(bytes, range, name);
  const Wire single = kind == Kind::floats ? Wire::fixed32 : kind == Kind::int64s ? Wire::varint : Wire::bytes;
  while (list.next()) {
    if (list.number != 1) {
      list.skip();
    } else if (kind == Kind::bytes) {
      list.is_bytes(1);
      out.texts.push_back(feature_name(bytes, list.bytes()));
    } else if (list.wire == Wire::bytes) {
      Message packed(bytes, list.bytes(), name);
      while (!packed.at_end())
        kind == Kind::floats ? add_float(packed.fixed32(), out) : add_int64(packed.varint(), out);
    } else if (list.wire == single) {
      kind == Kind::floats ? add_float(list.fixed32(), out) : add_int64(list.varint(), out);
    } else {
      list.refuse("it is not a tf.train.Example");
    }
  }
}

}  // namespace

std::vector<FeaturePlace> find_features(ByteWindow& bytes, int64_t offset, int64_t size, const std::string& name) {
  std::map<std::string, FeaturePlace> found;
  int64_t entries = 0;
  Message example(bytes, offset, size, name);
  while (example.next()) {
    if (example.number == 2 && example.wire == Wire::bytes)
      example.refuse("it is a tf.train.SequenceExample, and only tf.train.Example is");
    if (!example.is_bytes(1)) {
      example.skip();
      continue;
    }
    Message features(bytes, example.bytes(), name);
    while (features.next()) {
      if (!features.is_bytes(1)) {
        features.skip();
        continue;
      }
      FeaturePlace place = read_entry(bytes, features.bytes(), name);
      if (++entries > kMaxFeatures) features.refuse("it has more than 10,000 features");
      found.insert_or_assign(place.name, place);
    }
  }
  std::vector<FeaturePlace> places;
  for (auto& [key, place] : found) places.push_back(std::move(place));
  return places;
}

FieldValues read_feature(ByteWindow& bytes, const FeaturePlace& feature, const std::string& name) {
  if (feature.size > kMaxValues)
    throw DataError(name + ": its feature '" + feature.name + "' has " + with_commas(feature.size) +
                    " bytes, more than 1 MiB, the most that is read of a label or a group");
  const Lists lists = lists_of(bytes, feature, name);
  FieldValues values;
  values.numeric = lists.kind == Kind::floats || lists.kind == Kind::int64s;
  for (const ByteRange& part : lists.parts) read_list(bytes, lists.kind, part, name, values);
  return values;
}

ByteRange byte_string(ByteWindow& bytes, const FeaturePlace& feature, const std::string& name) {
  const Lists lists = lists_of(bytes, feature, name);
  std::vector<ByteRange> strings;
  for (const ByteRange& part : lists.parts) {
    if (lists.kind != Kind::bytes) break;
    Message list(bytes, part, name);
    while (list.next()) {
      if (!list.is_bytes(1)) {
        list.skip();
        continue;
      }
      strings.push_back(list.bytes());
      if (strings.size() > 1) break;
    }
  }
  if (strings.size() == 1) return strings[0];
  const bool numbers = lists.kind == Kind::floats || lists.kind == Kind::int64s;
  throw DataError(name + ": its feature '" + feature.name + "' holds " +
                  (numbers           ? "numbers"
                   : strings.empty() ? "nothing"
                                     : "several byte strings") +
                  ", where the bytes of one picture are expected");
}

}  // namespace dtrain
