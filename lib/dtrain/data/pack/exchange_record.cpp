#include "dtrain/data/pack/exchange_record.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/io/records/record_writer.hpp"

namespace dtrain {

std::vector<std::byte> ExchangeRecords::make(const StoredSample& stored, const PackShard::Item& item,
                                             int64_t number) const {
  if (options_.to == PackTo::webdataset) return members(stored, item, number);
  std::vector<std::byte> record;
  append_tfrecord(example(stored, item), record);
  return record;
}

std::vector<std::byte> ExchangeRecords::end() const {
  std::vector<std::byte> bytes;
  if (options_.to == PackTo::webdataset) append_tar_end(bytes);
  return bytes;
}

std::vector<std::byte> ExchangeRecords::encoded(const Image& picture, const std::string& path) const {
  if (picture.bits == 16)
    throw DataError("'" + path + "' has 16 bits, and pictures for other programs are written with 8; leave --to out");
  return is_jpeg() ? encode_jpeg(picture, options_.jpeg_quality) : encode_png(picture);
}

std::string ExchangeRecords::group_of(const Sample& sample) const {
  return tells_patient(dataset_, sample) ? sample.group : "";
}

std::vector<std::byte> ExchangeRecords::example(const StoredSample& stored, const PackShard::Item& item) const {
  const Sample& sample = dataset_.samples[static_cast<size_t>(item.sample)];
  const std::string path = stored_path(sample, item.turn);
  ExampleWriter out;
  if (dataset_.task == Task::multiclass) {
    out.add_number("image/class/label", sample.class_index);
    out.add_text("image/class/text", dataset_.classes[static_cast<size_t>(sample.class_index)]);
  }
  if (dataset_.task == Task::multilabel) out.add_floats("image/class/label", sample.labels);
  out.add_text("image/filename", path);
  if (const std::string group = group_of(sample); !group.empty()) out.add_text("image/group", group);
  out.add_text("image/format", is_jpeg() ? "jpeg" : "png");
  out.add_number("image/height", stored.picture.height);
  out.add_number("image/width", stored.picture.width);
  out.add_bytes("image/encoded", encoded(stored.picture, path));
  if (stored.mask) out.add_bytes("image/segmentation/class/encoded", encode_png(*stored.mask));
  return out.message();
}

std::vector<std::byte> ExchangeRecords::members(const StoredSample& stored, const PackShard::Item& item,
                                                int64_t number) const {
  const Sample& sample = dataset_.samples[static_cast<size_t>(item.sample)];
  const std::string path = stored_path(sample, item.turn);
  char key[32];
  std::snprintf(key, sizeof key, "%09lld", static_cast<long long>(number));
  std::vector<std::byte> bytes;
  const auto add = [&](const std::string& extension, std::span<const std::byte> content) {
    append_tar_member(key + extension, content, bytes);
  };
  nlohmann::ordered_json json = {{"path", path}};
  if (const std::string group = group_of(sample); !group.empty()) json["group"] = group;
  if (dataset_.task == Task::multiclass) json["label"] = sample.class_index;
  if (dataset_.task == Task::multilabel) {
    json["label"] = nlohmann::ordered_json::array();
    for (const float label : sample.labels)
      json["label"].push_back(std::isnan(label) ? nlohmann::ordered_json(nullptr)
                                                : nlohmann::ordered_json(label > 0.5F ? 1 : 0));
  }
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string number_text = std::to_string(sample.class_index);
  add(is_jpeg() ? ".jpg" : ".png", encoded(stored.picture, path));
  if (dataset_.task == Task::multiclass) add(".cls", std::as_bytes(std::span(number_text)));
  if (stored.mask) add(".seg.png", encode_png(*stored.mask));
  add(".json", std::as_bytes(std::span(text)));
  return bytes;
}

}  // namespace dtrain
