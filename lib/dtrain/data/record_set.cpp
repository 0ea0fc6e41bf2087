#include "dtrain/data/record_set.hpp"

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/part_folders.hpp"
#include "dtrain/data/scan.hpp"
#include "dtrain/io/tar.hpp"
#include "dtrain/io/tf_example.hpp"
#include "dtrain/io/tfrecord.hpp"

namespace dtrain {

namespace fs = std::filesystem;

/// Which files are open. The lock is held for looking a file up, not for reading it.
struct RecordSet::State {
  struct Entry {
    std::shared_ptr<const RecordFile> file;  // null while it is closed
    int64_t size = -1;                       // when it was opened first
    uint64_t used = 0;                       // by `clock`
  };
  std::mutex mutex;
  std::vector<Entry> entries;
  std::vector<size_t> on_disk;  // numbers of the open files that hold a descriptor
  uint64_t clock = 0;
  int64_t decompressed = 0;
};

RecordSet::RecordSet(const DataOptions& options, std::vector<std::string> files)
    : options_(options), files_(std::move(files)), state_(std::make_unique<State>()) {
  if (is_file(options_.root)) options_.root = fs::path(options_.root).parent_path().string();
  state_->entries.resize(files_.size());
}

RecordSet::~RecordSet() = default;

std::shared_ptr<const RecordFile> RecordSet::open(int64_t file) const {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  State::Entry& entry = state.entries[static_cast<size_t>(file)];
  entry.used = ++state.clock;
  if (entry.file) return entry.file;
  const std::string path = (fs::path(options_.root) / files_[static_cast<size_t>(file)]).lexically_normal().string();
  const int64_t room = options_.loader.decompressed_mb * 1'000'000 - state.decompressed;
  auto opened = std::make_shared<const RecordFile>(
      options_.format == DataFormat::tfrecord ? open_tfrecord_file(path, room) : open_tar_file(path, room));
  if (entry.size >= 0 && entry.size != opened->size())
    throw IoError(path + " had " + with_commas(entry.size) + " bytes and now has " + with_commas(opened->size()) +
                  "; it was changed meanwhile");
  entry.size = opened->size();
  entry.file = opened;
  if (opened->in_memory()) {
    state.decompressed += opened->size();
    return opened;
  }
  if (state.on_disk.size() == kMostOpen) {
    const auto oldest = std::min_element(state.on_disk.begin(), state.on_disk.end(), [&](size_t a, size_t b) {
      return state.entries[a].used < state.entries[b].used;
    });
    state.entries[*oldest].file = nullptr;  // closed by the last thread that reads it
    state.on_disk.erase(oldest);
  }
  state.on_disk.push_back(static_cast<size_t>(file));
  return opened;
}

std::vector<std::byte> RecordSet::read(const RecordPlace& place, const std::string& feature) const {
  const std::shared_ptr<const RecordFile> file = open(place.file);
  if (options_.format == DataFormat::webdataset) {
    std::vector<std::byte> bytes(static_cast<size_t>(place.size));
    file->read(place.offset, bytes);
    return bytes;
  }
  const std::string name = tfrecord_name(file->path(), place.number, place.offset);
  const RecordFile record(file->path(), read_tfrecord(*file, place.number, place.offset, place.size));
  ByteWindow window(record);
  for (const FeaturePlace& found : find_features(window, 0, window.size(), name)) {
    if (found.name != feature) continue;
    const ByteRange range = byte_string(window, found, name);
    std::vector<std::byte> bytes(static_cast<size_t>(range.size));
    record.read(range.offset, bytes);
    return bytes;
  }
  throw DataError(name + " no longer has the feature '" + feature + "'");
}

std::vector<std::byte> RecordSet::read_picture(const Sample& sample) const {
  return read(sample.place, options_.tfrecord.image);
}

std::vector<std::byte> RecordSet::read_mask(const Sample& sample, size_t mask) const {
  return read(sample.mask_places[mask], options_.tfrecord.mask);
}

void RecordSet::ask_ahead(const Sample& sample) const {
  constexpr int64_t kFrame = 16;  // of a TFRecord, beside its data
  try {
    open(sample.place.file)->ask_ahead(sample.place.offset, sample.place.size + kFrame);
    for (const RecordPlace& mask : sample.mask_places)
      if (mask.offset != sample.place.offset) open(mask.file)->ask_ahead(mask.offset, mask.size);
  } catch (const Error&) {
  }
}

std::string RecordSet::name_of(const std::string& path, const RecordPlace& place) const {
  const auto whole = [&](const std::string& name) {
    return (fs::path(options_.root) / name).lexically_normal().string();
  };
  if (options_.format == DataFormat::tfrecord)
    return tfrecord_name(whole(files_[static_cast<size_t>(place.file)]), place.number, place.offset);
  return whole(path) + " at byte " + with_commas(place.offset);
}

// --- names of record files

static bool ends_in(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](const char* ending) { return name.ends_with(ending); });
}

// "-00001-of-00010", as TensorFlow numbers the files of one set; where it begins, npos if the name has none.
static size_t shard_number(const std::string& name) {
  const size_t of = name.rfind("-of-");
  const auto digits = [&](size_t begin, size_t end) {
    return begin < end && name.find_first_not_of("0123456789", begin) >= end;
  };
  if (of == std::string::npos || of == 0 || !digits(of + 4, name.size())) return std::string::npos;
  const size_t dash = name.rfind('-', of - 1);
  return dash != std::string::npos && digits(dash + 1, of) ? dash : std::string::npos;
}

static bool is_tfrecord_name(const std::string& file) {
  std::string name = lower_case(file);
  if (ends_in(name, {".gz", ".gzip", ".zlib", ".zz"})) name.resize(name.rfind('.'));
  if (shard_number(name) != std::string::npos) return true;
  return ends_in(name, {".tfrecord", ".tfrecords", ".tfrec", ".tfrecs", ".record", ".records"});
}

static bool is_tar_name(const std::string& file) { return ends_in(lower_case(file), {".tar", ".tar.gz", ".tgz"}); }

std::vector<std::string> find_record_files(const DataOptions& options) {
  const bool tfrecord = options.format == DataFormat::tfrecord;
  if (is_file(options.root)) return {std::string(base_name(options.root))};
  FolderScan scan =
      scan_folder(options.root, options.root, options.allow_links, tfrecord ? is_tfrecord_name : is_tar_name);
  if (scan.pictures.empty())
    throw DataError("data.root '" + options.root + "' holds no " +
                    (tfrecord
                         ? "TFRecord file: their names end in .tfrecord, .tfrec, .record or -00001-of-00010, .gz may "
                           "follow"
                         : "tar archive: their names end in .tar, .tar.gz or .tgz"));
  return std::move(scan.pictures);
}

std::string part_of_file(const std::string& file) {
  const std::string_view name = base_name(file);
  return part_called(name.substr(0, name.find_first_of("-_.0123456789")));
}

}  // namespace dtrain
