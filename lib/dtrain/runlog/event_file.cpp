#include "dtrain/runlog/event_file.hpp"

#include <cstring>
#include <vector>

#include "dtrain/base/hash.hpp"
#include "dtrain/io/records/protobuf_message.hpp"
#include "dtrain/io/records/record_writer.hpp"
#include "dtrain/io/records/tfrecord.hpp"

namespace dtrain {

namespace {

// Fields of Event, Summary and Summary.Value.
enum : uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum : uint32_t { kValue = 1, kTag = 1, kSimpleValue = 2, kImage = 4 };
enum : uint32_t { kHeight = 1, kWidth = 2, kColours = 3, kEncoded = 4 };  // of Summary.Image

constexpr size_t kLength = 12;  // of a record's data, with its checksum
constexpr size_t kChecksum = 4;
constexpr std::string_view kEpochTag = "epoch/epoch";

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string record_of(const ProtobufMessage& event) {
  std::vector<std::byte> record;
  append_tfrecord(bytes_of(event.bytes()), record);
  return {reinterpret_cast<const char*>(record.data()), record.size()};
}

template <typename Number>
Number number_at(std::string_view bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// The data of the first record; empty if it is torn or has not its checksums.
std::string_view first_record(std::string_view file) {
  if (file.size() < kLength + kChecksum) return {};
  const auto size = number_at<uint64_t>(file, 0);
  if (number_at<uint32_t>(file, 8) != masked_crc(crc32c(bytes_of(file.substr(0, 8))))) return {};
  if (size > file.size() - kLength - kChecksum) return {};
  const std::string_view data = file.substr(kLength, size);
  return number_at<uint32_t>(file, kLength + size) == masked_crc(crc32c(bytes_of(data))) ? data : std::string_view();
}

struct EventHead {
  int64_t step = 0;
  double epoch = 0;  // 0: not of an epoch
};

// Reads an event as they are made here: its time, its step, and the first of its scalars.
class HeadReader {
 public:
  explicit HeadReader(std::string_view event) : rest_(event) {}

  EventHead head() {
    EventHead head;
    constexpr uint32_t kOfEight = 1;
    if (!take(kWallTime << 3 | kOfEight) || rest_.size() < sizeof(double)) return head;
    rest_.remove_prefix(sizeof(double));
    if (!take(kStep << 3)) return head;
    head.step = static_cast<int64_t>(varint());
    if (!message(kSummary) || !message(kValue) || !message(kTag) || !rest_.starts_with(kEpochTag)) return head;
    rest_.remove_prefix(kEpochTag.size());
    constexpr uint32_t kOfFour = 5;
    if (take(kSimpleValue << 3 | kOfFour) && rest_.size() >= sizeof(float)) head.epoch = number_at<float>(rest_, 0);
    return head;
  }

 private:
  bool take(uint32_t key) {
    if (rest_.empty() || rest_.front() != static_cast<char>(key)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool message(uint32_t field) {
    constexpr uint32_t kOfBytes = 2;
    if (!take(field << 3 | kOfBytes)) return false;
    varint();  // its length
    return true;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  std::string_view rest_;
};

}  // namespace

std::string event_version(double wall_time) {
  return record_of(ProtobufMessage().real(kWallTime, wall_time).text(kFileVersion, "brain.Event:2"));
}

std::string event_of_scalars(double wall_time, int64_t step, std::span<const std::pair<std::string, double>> scalars) {
  ProtobufMessage summary;
  for (const auto& [tag, value] : scalars)
    summary.message(kValue, ProtobufMessage().text(kTag, tag).real(kSimpleValue, static_cast<float>(value)));
  return record_of(ProtobufMessage().real(kWallTime, wall_time).number(kStep, step).message(kSummary, summary));
}

// Of a big-endian number in a PNG file's first chunk.
static int64_t png_number(std::span<const std::byte> png, size_t offset) {
  int64_t number = 0;
  for (const std::byte byte : png.subspan(offset, 4)) number = number << 8 | std::to_integer<int64_t>(byte);
  return number;
}

std::string event_of_picture(double wall_time, int64_t step, std::string_view tag, std::span<const std::byte> png) {
  constexpr size_t kWidthAt = 16;
  constexpr size_t kHeightAt = 20;
  constexpr int64_t kRgb = 3;
  const std::string_view bytes(reinterpret_cast<const char*>(png.data()), png.size());
  const ProtobufMessage image = ProtobufMessage()
                                    .number(kHeight, png_number(png, kHeightAt))
                                    .number(kWidth, png_number(png, kWidthAt))
                                    .number(kColours, kRgb)
                                    .text(kEncoded, bytes);
  const ProtobufMessage value = ProtobufMessage().text(kTag, tag).message(kImage, image);
  return record_of(ProtobufMessage()
                       .real(kWallTime, wall_time)
                       .number(kStep, step)
                       .message(kSummary, ProtobufMessage().message(kValue, value)));
}

std::string events_until(std::string_view file, int64_t last_step, int64_t last_epoch) {
  std::string kept;
  for (std::string_view rest = file; !rest.empty();) {
    const std::string_view event = first_record(rest);
    if (event.empty()) break;
    const size_t size = kLength + event.size() + kChecksum;
    const EventHead head = HeadReader(event).head();
    if (head.step <= last_step && head.epoch <= static_cast<double>(last_epoch)) kept += rest.substr(0, size);
    rest.remove_prefix(size);
  }
  return kept;
}

}  // namespace dtrain
