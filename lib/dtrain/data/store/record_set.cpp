#include "dtrain/data/store/record_set.hpp"

#include <algorithm>
#include <filesystem>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"

namespace dtrain {

namespace fs = std::filesystem;

/// Which files are open. The lock is held while a file is looked up, not while it is read.
struct RecordSet::State {
  struct Entry {
    std::shared_ptr<const RecordFile> file;  // null while closed
    int64_t size = -1;                       // when first opened
    uint64_t used = 0;                       // the value of `clock` at its last use
  };
  std::mutex mutex;
  std::vector<Entry> entries;
  std::vector<size_t> on_disk;  // numbers of the open files that hold a descriptor
  uint64_t clock = 0;
  int64_t decompressed = 0;
};

RecordSet::RecordSet(const DataOptions& options, std::vector<std::string> files)
    : root_(is_file(options.root) ? fs::path(options.root).parent_path().string() : options.root),
      decompressed_bytes_(options.loader.decompressed_mb * 1'000'000),
      files_(std::move(files)),
      state_(std::make_unique<State>()) {
  state_->entries.resize(files_.size());
}

RecordSet::~RecordSet() = default;

std::string RecordSet::whole_path(const std::string& name) const {
  return (fs::path(root_) / name).lexically_normal().string();
}

std::shared_ptr<const RecordFile> RecordSet::open(int64_t file) const {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  State::Entry& entry = state.entries[static_cast<size_t>(file)];
  entry.used = ++state.clock;
  if (entry.file) return entry.file;
  const std::string path = whole_path(files_[static_cast<size_t>(file)]);
  auto opened = std::make_shared<const RecordFile>(open_file(path, decompressed_bytes_ - state.decompressed));
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

void RecordSet::ask_ahead(const Sample& sample) const {
  constexpr int64_t kFrame = 16;  // what a TFRecord has around its data
  try {
    open(sample.place.file)->ask_ahead(sample.place.offset, sample.place.size + kFrame);
    for (const RecordPlace& mask : sample.mask_places)
      if (mask.offset != sample.place.offset) open(mask.file)->ask_ahead(mask.offset, mask.size);
  } catch (const Error&) {
  }
}

ImageHeader RecordSet::header_of(const StoredFile& file) const {
  return read_image_header(bytes_of(file), file.is_mask ? file.path : name_of(file));
}

std::string RecordSet::stamp(const Sample& sample) const {
  return std::to_string(changed_at(whole_path(files_[static_cast<size_t>(sample.place.file)]))) + " " +
         std::to_string(sample.place.offset);
}

std::string RecordSet::size_of(const StoredFile& file) const {
  return std::to_string(file.place.size) + " " + hex8(file.place.checksum);
}

}  // namespace dtrain
