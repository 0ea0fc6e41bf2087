#include "dtrain/data/store/packed_manifest.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/data/options.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/json.hpp"

namespace dtrain {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

static constexpr int kVersion = 1;
static constexpr std::string_view kChecksum = "\"crc32c\": \"";  // its first occurrence is the file's own checksum
static constexpr std::string_view kNoDigits = "00000000";

static uint32_t json_number(const std::string& digits) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) throw DataError("a checksum is not a number");
  return value;
}

static OrderedJson image_json(const PackedManifest& m) {
  OrderedJson image = {{"size", {m.height, m.width}}, {"channels", m.channels}, {"resize", m.resize}};
  if (!m.files.empty()) image["files"] = m.files;
  if (m.slices > 1) image["slices"] = m.slices;
  return image;
}

static OrderedJson json_of(const PackedManifest& m) {
  OrderedJson json = {
      {"crc32c", kNoDigits},
      {"format", "dtrain-" + m.to},
      {"version", kVersion},
      {"complete", m.complete},
      {"job_sha256", m.job},
      {"task", name_of(m.task)},
      {"classes", m.classes},
      {"codec", m.codec},
      {"image", image_json(m)},
      {"samples_per_shard", m.samples_per_shard},
      {"expand", m.expand},
      {"records", m.parts},
      {"split_sha256", m.split_sha256},
      {"source", {{"format", m.source_format}, {"data_sha256", m.source_sha256}, {"config_sha256", m.config_sha256}}}};
  if (m.jpeg_quality > 0) json["jpeg_quality"] = m.jpeg_quality;
  if (!m.mask_values.empty()) json["mask_values"] = m.mask_values;  // becomes a list of pairs
  json["shards"] = OrderedJson::array();
  for (const PackedManifest::Shard& shard : m.shards)
    json["shards"].push_back(
        {{"file", shard.file}, {"records", shard.records}, {"bytes", shard.bytes}, {"crc32c", hex8(shard.checksum)}});
  return json;
}

static int64_t count_in(const Json& object, const std::string& key, int64_t least = 0,
                        int64_t most = std::numeric_limits<int64_t>::max()) {
  return whole_number(object, key, least, most, "it");
}

static Task task_in(const Json& json) {
  const auto word = json.at("task").get<std::string>();
  if (const std::optional<Task> task = value_of<Task>(word)) return *task;
  throw DataError("its task is '" + word + "', which dtrain does not know");
}

static PackedManifest parsed_manifest(const Json& json) {
  PackedManifest m;
  constexpr std::string_view kPrefix = "dtrain-";
  const auto format = json.at("format").get<std::string>();
  if (!format.starts_with(kPrefix)) throw DataError("its format is '" + format + "', which dtrain pack does not write");
  m.to = format.substr(kPrefix.size());
  if (const Json& version = json.at("version"); version != kVersion)
    throw DataError("it is of version " +
                    (version.is_number_integer() ? std::to_string(version.get<int64_t>()) : kind_of(version)) +
                    ", and this build reads version " + std::to_string(kVersion));
  json.at("complete").get_to(m.complete);
  json.at("job_sha256").get_to(m.job);
  m.task = task_in(json);
  json.at("classes").get_to(m.classes);
  json.at("codec").get_to(m.codec);
  const Json& image = json.at("image");
  constexpr int64_t kLongest = 65536;  // the limit of data.image.size
  m.height = count_in({{"height", image.at("size").at(0)}}, "height", 1, kLongest);
  m.width = count_in({{"width", image.at("size").at(1)}}, "width", 1, kLongest);
  m.channels = count_in(image, "channels", 1, ImageOptions::kMostChannels);
  if (image.contains("files")) image.at("files").get_to(m.files);
  if (image.contains("slices")) m.slices = count_in(image, "slices", 1, ImageOptions::kMostChannels);
  image.at("resize").get_to(m.resize);
  m.samples_per_shard = count_in(json, "samples_per_shard");
  json.at("expand").get_to(m.expand);
  const Json& records = json.at("records");
  for (const auto& row : records.items()) m.parts[row.key()] = count_in(records, row.key());
  json.at("split_sha256").get_to(m.split_sha256);
  json.at("source").at("format").get_to(m.source_format);
  json.at("source").at("data_sha256").get_to(m.source_sha256);
  json.at("source").at("config_sha256").get_to(m.config_sha256);
  if (json.contains("jpeg_quality")) m.jpeg_quality = count_in(json, "jpeg_quality");
  m.mask_values = json.value("mask_values", m.mask_values);
  for (const auto& [value, number] : m.mask_values)
    if (number < 1 || number > static_cast<int64_t>(m.classes.size()) || number > 255)
      throw DataError("mask_values names the class " + std::to_string(number) + " of " +
                      std::to_string(m.classes.size()));
  for (const Json& shard : json.at("shards")) {
    m.shards.push_back(
        {shard.at("file"), count_in(shard, "records"), count_in(shard, "bytes"), json_number(shard.at("crc32c"))});
    const std::string& file = m.shards.back().file;
    if (file.empty() || file.starts_with('.') || file.find('/') != std::string::npos)
      throw DataError("a shard is called '" + file + "', which is not a plain name");
  }
  return m;
}

PackedManifest read_packed_manifest(const std::string& folder) {
  constexpr int64_t kMost = int64_t{64} << 20;  // about 500,000 shards
  const std::string path = folder + "/" + PackedManifest::kFile;
  if (!is_file(path))
    throw MissingError(
        "'" + folder + "' holds no " + PackedManifest::kFile +
        ", so dtrain pack did not write this folder; name the one that it wrote, or set data.format to what is here");
  std::string text = read_text(path, kMost);
  const size_t place = text.find(kChecksum);
  const std::string told = place == std::string::npos ? "" : text.substr(place + kChecksum.size(), kNoDigits.size());
  if (told.size() == kNoDigits.size()) text.replace(place + kChecksum.size(), kNoDigits.size(), kNoDigits);
  if (told != hex8(crc32c(std::as_bytes(std::span(text)))))
    throw DataError(path + " is damaged: its checksum is wrong; dtrain pack with the same options writes it again");
  try {
    return parsed_manifest(parse_json(text, "it"));
  } catch (const Json::exception&) {
    throw DataError(path + " is not a manifest of dtrain pack");
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  }
}

void write_packed_manifest(const PackedManifest& manifest, const std::string& folder) {
  std::string text = json_of(manifest).dump(1) + "\n";
  text.replace(text.find(kChecksum) + kChecksum.size(), kNoDigits.size(), hex8(crc32c(std::as_bytes(std::span(text)))));
  write_file_atomically(folder + "/" + PackedManifest::kFile, text);
}

}  // namespace dtrain
