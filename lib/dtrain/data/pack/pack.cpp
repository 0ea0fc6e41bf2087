#include "dtrain/data/pack/pack.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <optional>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/parallel.hpp"
#include "dtrain/base/shards.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/pack/exchange_record.hpp"
#include "dtrain/data/pack/stored_sample.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/packed/packed_writer.hpp"
#include "dtrain/io/records/tar.hpp"
#include "dtrain/io/records/tfrecord.hpp"

namespace dtrain {

namespace {

const char* ending_of(PackTo to) {
  return to == PackTo::packed ? ".dtpack" : to == PackTo::tfrecord ? ".tfrecord" : ".tar";
}

std::array<uint8_t, 32> digest_of(const std::string& hex) {
  std::array<uint8_t, 32> digest{};
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(value(hex[2 * i]) * 16 + value(hex[2 * i + 1]));
  return digest;
}

// All that decides the bytes of the shards; the number of processes does not.
std::string job_of(const PackedManifest& m, const PackOptions& options) {
  std::string text = "dtrain pack 1\n" + m.to + "\n" + m.codec + " " + std::to_string(m.jpeg_quality) + "\n" +
                     std::to_string(m.height) + " " + std::to_string(m.width) + " " + std::to_string(m.channels) + " " +
                     m.resize + "\n" + std::to_string(options.samples_per_shard) + "\n" + join(m.expand, ",") + "\n" +
                     std::to_string(static_cast<int>(m.task)) + "\n" + m.source_sha256 + "\n" + m.split_sha256 + "\n";
  return sha256_hex(text);
}

// The range of items of each sample. They are adjacent, so a sample is decoded once for all its copies.
std::vector<Range> samples_of(const std::vector<PackShard::Item>& items) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool next = i == 0 || items[i].sample != items[i - 1].sample;
    const auto place = static_cast<int64_t>(i);
    if (next) ranges.push_back({place, place});
    ranges.back().end = place + 1;
  }
  return ranges;
}

}  // namespace

PackTurn turn_named(const std::string& name) {
  if (const std::optional<PackTurn> turn = value_of<PackTurn>(name)) return *turn;
  const std::vector<std::string> names = words_of<PackTurn>();
  const std::string near = nearest_word(name, names);
  throw UsageError("--expand '" + name + "' is not one of " + join(names, ", ") +
                   (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

PackJob::PackJob(const Dataset& dataset, const Split& split, const DataOptions& data, const PackOptions& options)
    : dataset_(dataset), data_(data), options_(options) {
  if (data.image.is_stacked() && (options.to != PackTo::packed || options.codec == PackedCodec::jpeg))
    throw ConfigError(
        "data.image.files and data.image.slices make channels that are no colours, which only --to packed with --codec "
        "raw or deflate can store; a PNG or JPEG holds grey or colour");
  for (const PackTurn turn : options.expand)
    if ((turn == PackTurn::rot90 || turn == PackTurn::rot270) && data.image.height != data.image.width)
      throw ConfigError("--expand " + std::string(name_of(turn)) + " needs a square data.image.size, not " +
                        std::to_string(data.image.height) + " × " + std::to_string(data.image.width));
  std::vector<bool> in_part(dataset.samples.size(), false);
  for (const auto& [part, samples] :
       {std::pair("train", &split.train), {"valid", &split.valid}, {"test", &split.test}}) {
    for (const int64_t sample : *samples) in_part[static_cast<size_t>(sample)] = true;
    add_part(part, *samples);
  }
  std::vector<int64_t> others;
  for (size_t i = 0; i < in_part.size(); ++i)
    if (!in_part[i]) others.push_back(static_cast<int64_t>(i));
  add_part("", others);
  name_files();
  const bool jpeg = options.codec == PackedCodec::jpeg;
  PackedManifest& m = manifest_;
  m.to = name_of(options.to);
  m.task = dataset.task;
  m.classes = dataset.classes;
  m.mask_values = dataset.mask_values;
  m.codec = options.to == PackTo::packed || jpeg ? name_of(options.codec) : "png";
  m.jpeg_quality = jpeg ? options.jpeg_quality : 0;
  m.height = data.image.height;
  m.width = data.image.width;
  m.channels = data.image.channels;
  m.files = data.image.files;
  m.slices = data.image.slices;
  m.resize = name_of(data.image.resize);
  m.samples_per_shard = options.samples_per_shard;
  for (const PackTurn turn : options.expand) m.expand.emplace_back(name_of(turn));
  m.source_sha256 = dataset.manifest_sha256;
  m.split_sha256 = split.sha256;
  m.job = job_of(m, options);
}

void PackJob::add_part(const std::string& part, const std::vector<int64_t>& samples) {
  std::vector<PackShard::Item> items;
  for (const int64_t sample : samples) {
    items.push_back({sample, PackTurn::none});
    if (part == "train")
      for (const PackTurn turn : options_.expand) items.push_back({sample, turn});
  }
  if (items.empty()) return;
  const auto most = static_cast<size_t>(options_.samples_per_shard);
  for (size_t begin = 0; begin < items.size(); begin += most) {
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(begin);
    shards_.push_back({"", part, {first, first + static_cast<std::ptrdiff_t>(std::min(most, items.size() - begin))}});
  }
  records_ += static_cast<int64_t>(items.size());
  manifest_.parts[part.empty() ? "none" : part] = static_cast<int64_t>(items.size());
}

void PackJob::name_files() {
  for (size_t begin = 0; begin < shards_.size();) {
    size_t end = begin;
    while (end < shards_.size() && shards_[end].part == shards_[begin].part) ++end;
    for (size_t i = begin; i < end; ++i) {
      char numbers[64];
      std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu", i - begin, end - begin);
      const std::string& part = shards_[i].part;
      shards_[i].file = (part.empty() ? "none" : part) + numbers + ending_of(options_.to);
    }
    begin = end;
  }
}

bool PackJob::has_groups() const {
  return std::all_of(dataset_.samples.begin(), dataset_.samples.end(),
                     [&](const Sample& sample) { return tells_patient(dataset_, sample); });
}

// Whether a file for other programs holds so many records, none of them damaged as far as its format shows.
static bool holds_records(PackTo to, const std::string& path, const std::vector<std::byte>& bytes, int64_t records) {
  const RecordFile file(path, bytes);
  ByteWindow window(file);
  int64_t found = 0;
  try {
    if (to == PackTo::tfrecord) {
      TfRecordWalk walk(window);
      while (const auto place = walk.next()) {
        read_tfrecord(file, place->number, place->offset, place->size);
        ++found;
      }
    } else {
      TarWalk walk(window);
      while (const auto member = walk.next()) found += member->name.ends_with(".json") ? 1 : 0;
    }
  } catch (const DataError&) {
    return false;
  }
  return found == records;
}

std::optional<PackedManifest::Shard> PackJob::find(size_t number, const std::string& folder) const {
  const PackShard& shard = shards_[number];
  const std::string path = folder + "/" + shard.file;
  const auto records = static_cast<int64_t>(shard.items.size());
  if (!is_file(path)) return std::nullopt;
  if (options_.to != PackTo::packed) {
    const std::vector<std::byte> bytes = read_file(path);
    if (!holds_records(options_.to, path, bytes, records)) return std::nullopt;
    return PackedManifest::Shard{shard.file, records, static_cast<int64_t>(bytes.size()), crc32c(bytes)};
  }
  try {
    const PackedShard found{MappedFile(path)};
    const PackedShardInfo& info = found.info();
    if (info.job == digest_of(manifest_.job) && info.number == static_cast<int64_t>(number) &&
        found.records() == records)
      return PackedManifest::Shard{shard.file, records, found.bytes(), found.checksum()};
  } catch (const DataError&) {  // damaged: it is written again
  }
  return std::nullopt;
}

int64_t PackJob::records_before(size_t number) const {
  int64_t records = 0;
  for (size_t i = number; i > 0 && shards_[i - 1].part == shards_[number].part; --i)
    records += static_cast<int64_t>(shards_[i - 1].items.size());
  return records;
}

void PackJob::make_records(const PackShard& shard, int threads, const std::function<void(int64_t done)>& tick,
                           const std::function<void(int64_t place, const StoredSample& stored)>& store) const {
  const std::vector<Range> samples = samples_of(shard.items);
  std::atomic<int64_t> done{0};
  run_in_parallel(
      samples.size(), static_cast<size_t>(threads),
      [&](size_t i) {
        const StoredSample stored =
            stored_sample(dataset_, data_, shard.items[static_cast<size_t>(samples[i].begin)].sample);
        for (int64_t place = samples[i].begin; place < samples[i].end; ++place) {
          const PackTurn turn = shard.items[static_cast<size_t>(place)].turn;
          store(place, turn == PackTurn::none ? stored : turned(stored, turn));
          ++done;
        }
      },
      [&] { tick(done); });
}

PackedRecord PackJob::packed_record(const PackShard& shard, const PackShard::Item& item,
                                    const StoredSample& stored) const {
  const Sample& sample = dataset_.samples[static_cast<size_t>(item.sample)];
  if (options_.codec == PackedCodec::jpeg && stored.picture.bits == 16)
    throw DataError("'" + sample.path + "' has 16 bits, which JPEG cannot store; use --codec raw or deflate");
  PackedRecord record =
      make_packed_record(stored.picture, stored.mask ? &*stored.mask : nullptr, options_.codec, options_.jpeg_quality);
  record.entry.part = value_of<PackedPart>(shard.part).value_or(PackedPart::none);
  record.entry.class_index = sample.class_index;
  record.path = stored_path(sample, item.turn);
  record.group = tells_patient(dataset_, sample) ? sample.group : "";
  record.labels = sample.labels;
  return record;
}

PackedManifest::Shard PackJob::write(size_t number, const std::string& folder, int threads,
                                     const std::function<void(int64_t done)>& tick) const {
  return options_.to == PackTo::packed ? write_packed(number, folder, threads, tick)
                                       : write_exchanged(number, folder, threads, tick);
}

PackedManifest::Shard PackJob::write_packed(size_t number, const std::string& folder, int threads,
                                            const std::function<void(int64_t done)>& tick) const {
  const PackShard& shard = shards_[number];
  std::vector<PackedRecord> records(shard.items.size());
  make_records(shard, threads, tick, [&](int64_t place, const StoredSample& stored) {
    const auto i = static_cast<size_t>(place);
    records[i] = packed_record(shard, shard.items[i], stored);
  });
  const PackedShardInfo info{
      .codec = options_.codec,
      .number = static_cast<int64_t>(number),
      .count = static_cast<int64_t>(shards_.size()),
      .labels = static_cast<int64_t>(dataset_.task == Task::multilabel ? dataset_.classes.size() : 0),
      .job = digest_of(manifest_.job)};
  write_packed_shard(folder + "/" + shard.file, info, std::move(records));
  return find(number, folder).value();
}

PackedManifest::Shard PackJob::write_exchanged(size_t number, const std::string& folder, int threads,
                                               const std::function<void(int64_t done)>& tick) const {
  const PackShard& shard = shards_[number];
  const ExchangeRecords exchange(dataset_, options_);
  const int64_t before = records_before(number);
  std::vector<std::vector<std::byte>> records(shard.items.size());
  make_records(shard, threads, tick, [&](int64_t place, const StoredSample& stored) {
    const auto i = static_cast<size_t>(place);
    records[i] = exchange.make(stored, shard.items[i], before + place);
  });
  records.push_back(exchange.end());
  AtomicFile file(folder + "/" + shard.file);
  PackedManifest::Shard written{shard.file, static_cast<int64_t>(shard.items.size()), 0, 0};
  for (const std::vector<std::byte>& bytes : records) {
    file.write(bytes);
    written.bytes += static_cast<int64_t>(bytes.size());
    written.checksum = crc32c(bytes, written.checksum);
  }
  file.commit();
  return written;
}

}  // namespace dtrain
