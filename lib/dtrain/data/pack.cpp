#include "dtrain/data/pack.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/shards.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/exchange_record.hpp"
#include "dtrain/data/scan.hpp"
#include "dtrain/data/stored_sample.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/packed_writer.hpp"
#include "dtrain/io/tar.hpp"
#include "dtrain/io/tfrecord.hpp"

namespace dtrain {

namespace {

constexpr std::array<const char*, 6> kTurns = {"", "vflip", "hflip", "rot90", "rot180", "rot270"};
constexpr std::array<const char*, 3> kTargets = {"packed", "tfrecord", "webdataset"};
constexpr std::array<const char*, 3> kEndings = {".dtpack", ".tfrecord", ".tar"};
constexpr std::array<const char*, 3> kResizes = {"squash", "pad", "crop"};

PackedPart part_of_name(const std::string& part) {
  return part == "train"   ? PackedPart::train
         : part == "valid" ? PackedPart::valid
         : part == "test"  ? PackedPart::test
                           : PackedPart::none;
}

std::array<uint8_t, 32> digest_of(const std::string& hex) {
  std::array<uint8_t, 32> digest{};
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(value(hex[2 * i]) * 16 + value(hex[2 * i + 1]));
  return digest;
}

// What decides every byte of the shards, the number of processes not among it.
std::string job_of(const PackedManifest& m, const PackOptions& options) {
  std::string text = "dtrain pack 1\n" + m.to + "\n" + m.codec + " " + std::to_string(m.jpeg_quality) + "\n" +
                     std::to_string(m.height) + " " + std::to_string(m.width) + " " + std::to_string(m.channels) + " " +
                     m.resize + "\n" + std::to_string(options.samples_per_shard) + "\n" + join(m.expand, ",") + "\n" +
                     std::to_string(static_cast<int>(m.task)) + "\n" + m.source_sha256 + "\n" + m.split_sha256 + "\n";
  return sha256_hex(text);
}

// Items of one sample stand together: it is decoded once for all its copies.
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

/// Runs work(0) … work(count - 1) on threads. What the lowest of them throws is thrown again; none begins after that.
class Crew {
 public:
  void run(size_t count, int threads, const std::function<void(size_t)>& work, const std::function<void()>& tick) {
    std::vector<std::jthread> crew;
    const size_t most = std::min(static_cast<size_t>(threads), count);
    working_ = most;
    try {
      for (size_t t = 0; t < most; ++t) crew.emplace_back([&] { take(count, work); });
      std::unique_lock lock(mutex_);
      while (!done_.wait_for(lock, std::chrono::milliseconds(200), [&] { return working_ == 0; })) {
        lock.unlock();
        tick();
        lock.lock();
      }
    } catch (...) {  // they end with what they are at
      next_ = count;
      throw;
    }
    crew.clear();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void take(size_t count, const std::function<void(size_t)>& work) {
    for (size_t i = next_++; i < count; i = next_++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        next_ = count;
        if (!error_ || i < failed_) error_ = std::current_exception();
        failed_ = std::min(failed_, i);
      }
    }
    const std::lock_guard lock(mutex_);
    if (--working_ == 0) done_.notify_all();
  }

  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable done_;
  size_t working_ = 0;
  size_t failed_ = SIZE_MAX;
  std::exception_ptr error_;
};

}  // namespace

const char* turn_name(PackTurn turn) { return kTurns[static_cast<size_t>(turn)]; }

PackTurn turn_named(const std::string& name) {
  for (size_t i = 1; i < kTurns.size(); ++i)
    if (name == kTurns[i]) return static_cast<PackTurn>(i);
  const std::vector<std::string> names(kTurns.begin() + 1, kTurns.end());
  const std::string near = nearest_word(name, names);
  throw UsageError("--expand '" + name + "' is none of " + join(names, ", ") +
                   (near.empty() ? "" : " (did you mean '" + near + "'?)"));
}

PackJob::PackJob(const Dataset& dataset, const Split& split, const DataOptions& data, uint64_t seed,
                 const PackOptions& options)
    : dataset_(dataset), data_(data), seed_(seed), options_(options) {
  for (const PackTurn turn : options.expand)
    if ((turn == PackTurn::rot90 || turn == PackTurn::rot270) && data.image.height != data.image.width)
      throw ConfigError("--expand " + std::string(turn_name(turn)) + " needs a square data.image.size, not " +
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
  m.to = kTargets[static_cast<size_t>(options.to)];
  m.task = dataset.task;
  m.classes = dataset.classes;
  m.mask_values = dataset.mask_values;
  m.codec = options.to == PackTo::packed || jpeg ? codec_name(options.codec) : "png";
  m.jpeg_quality = jpeg ? options.jpeg_quality : 0;
  m.height = data.image.height;
  m.width = data.image.width;
  m.channels = data.image.channels;
  m.resize = kResizes[static_cast<size_t>(data.image.resize)];
  m.samples_per_shard = options.samples_per_shard;
  for (const PackTurn turn : options.expand) m.expand.emplace_back(turn_name(turn));
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
      shards_[i].file = (part.empty() ? "none" : part) + numbers + kEndings[static_cast<size_t>(options_.to)];
    }
    begin = end;
  }
}

bool PackJob::has_groups() const {
  return std::all_of(dataset_.samples.begin(), dataset_.samples.end(),
                     [&](const Sample& sample) { return tells_patient(dataset_, sample); });
}

// Whether a file for other programs holds that many records, none of them damaged as far as its format tells.
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
  } catch (const DataError&) {  // damaged: it is written anew
  }
  return std::nullopt;
}

PackedManifest::Shard PackJob::write(size_t number, const std::string& folder, int threads,
                                     const std::function<void(int64_t done)>& tick) const {
  const PackShard& shard = shards_[number];
  const bool packed = options_.to == PackTo::packed;
  const std::vector<Range> samples = samples_of(shard.items);
  std::vector<PackedRecord> records(packed ? shard.items.size() : 0);
  std::vector<std::vector<std::byte>> exchanged(packed ? 0 : shard.items.size());
  const ExchangeRecords exchange(dataset_, options_);
  int64_t before = 0;  // records of the part in earlier shards
  for (size_t i = number; i > 0 && shards_[i - 1].part == shard.part; --i)
    before += static_cast<int64_t>(shards_[i - 1].items.size());
  std::atomic<int64_t> done{0};
  const auto store = [&](int64_t place, const StoredSample& stored) {
    const PackShard::Item& item = shard.items[static_cast<size_t>(place)];
    const Sample& sample = dataset_.samples[static_cast<size_t>(item.sample)];
    if (!packed) {
      exchanged[static_cast<size_t>(place)] = exchange.make(stored, item, before + place);
      return;
    }
    if (options_.codec == PackedCodec::jpeg && stored.picture.bits == 16)
      throw DataError("'" + sample.path + "' has 16 bits, which JPEG cannot hold; take --codec raw or deflate");
    PackedRecord& record = records[static_cast<size_t>(place)];
    record = make_packed_record(stored.picture, stored.mask ? &*stored.mask : nullptr, options_.codec,
                                options_.jpeg_quality);
    record.entry.part = part_of_name(shard.part);
    record.entry.class_index = sample.class_index;
    record.path = stored_path(sample, item.turn);
    record.group = tells_patient(dataset_, sample) ? sample.group : "";
    record.labels = sample.labels;
  };
  Crew().run(
      samples.size(), threads,
      [&](size_t i) {
        const StoredSample stored =
            stored_sample(dataset_, data_, shard.items[static_cast<size_t>(samples[i].begin)].sample, seed_);
        for (int64_t place = samples[i].begin; place < samples[i].end; ++place) {
          const PackTurn turn = shard.items[static_cast<size_t>(place)].turn;
          store(place, turn == PackTurn::none ? stored : turned(stored, turn));
          ++done;
        }
      },
      [&] { tick(done); });
  const std::string path = folder + "/" + shard.file;
  if (packed) {
    const auto labels = static_cast<int64_t>(dataset_.task == Task::multilabel ? dataset_.classes.size() : 0);
    write_packed_shard(path,
                       {options_.codec, static_cast<int64_t>(number), static_cast<int64_t>(shards_.size()), labels,
                        digest_of(manifest_.job)},
                       std::move(records));
    return find(number, folder).value();
  }
  exchanged.push_back(exchange.end());
  AtomicFile file(path);
  PackedManifest::Shard written{shard.file, static_cast<int64_t>(shard.items.size()), 0, 0};
  for (const std::vector<std::byte>& bytes : exchanged) {
    file.write(bytes);
    written.bytes += static_cast<int64_t>(bytes.size());
    written.checksum = crc32c(bytes, written.checksum);
  }
  file.commit();
  return written;
}

}  // namespace dtrain
