#include "dtrain/data/split.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/scan.hpp"
#include "dtrain/io/file.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr int kLeftOut = 3;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors write it before UTF-8 text
constexpr std::array<const char*, 4> kParts = {"train", "valid", "test", "left out"};

int part_number(const std::string& name) {
  for (int part = 0; part < kLeftOut; ++part)
    if (name == kParts[static_cast<size_t>(part)]) return part;
  throw ConfigError("data.split names the part '" + name + "'; parts are train, valid and test");
}

using Parts = std::vector<int>;  // part of each sample

// --- by fraction

// Is the group evidence of a patient? In image folders it was cut from the file name, where "img", "0001.png" and the
// class's own name tell nothing; a patient's number does.
bool tells_patient(const Dataset& dataset, const Sample& sample) {
  if (sample.group.empty()) return false;
  if (dataset.format != DataFormat::image_folder) return true;
  const std::string& name = dataset.classes[static_cast<size_t>(sample.class_index)];
  return sample.group.find_first_of("0123456789") != std::string::npos && sample.group != name &&
         without_ending(base_name(sample.path)) != sample.group;
}

struct Group {
  uint64_t key = 0;
  std::string name;
  std::vector<int64_t> samples;
  int part = 0;
};

// All groups in the order of their keys; without patients every sample is one.
std::vector<Group> groups_of(const Dataset& dataset, const SplitOptions& options) {
  const bool by_patient = options.by == SplitOptions::By::patient;
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> places;
  bool named = false;
  for (size_t i = 0; i < dataset.samples.size(); ++i) {
    const Sample& sample = dataset.samples[i];
    named = named || tells_patient(dataset, sample);
    const std::string& name = by_patient && !sample.group.empty() ? sample.group : sample.path;
    const auto [place, first] = places.emplace(name, groups.size());
    if (first) groups.push_back({hash64(std::to_string(options.seed) + "/" + name), name, {}, 0});
    groups[place->second].samples.push_back(static_cast<int64_t>(i));
  }
  if (by_patient && !named && dataset.format == DataFormat::image_folder)
    throw ConfigError(
        "data.split.by patient: the file names tell no patients (a patient is what stands before the first '_' or '.', "
        "with a digit in it, as in 0012_3.png); use by: sample");
  if (by_patient && !named)
    throw ConfigError(
        "data.split.by patient: the data name no patients; use by: sample, or data.csv.group (of record files: "
        "data.tfrecord.group, data.webdataset.group)");
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.key != b.key ? a.key < b.key : a.name < b.name; });
  return groups;
}

// Gives groups to `part`: each one that brings it nearer to its share. A part with a share gets one group at least, as
// far as `reserve` groups stay for other parts.
void take_groups(std::vector<Group>& groups, int part, double share, int64_t samples, int64_t reserve) {
  const int64_t wanted = std::llround(share * static_cast<double>(samples));
  int64_t spare = std::count_if(groups.begin(), groups.end(), [](const Group& g) { return g.part == 0; }) - reserve;
  int64_t taken = 0;
  const auto size_of = [](const Group& group) { return static_cast<int64_t>(group.samples.size()); };
  for (Group& group : groups) {
    const int64_t size = size_of(group);
    if (group.part != 0 || spare <= 0 || std::abs(taken + size - wanted) >= std::abs(taken - wanted)) continue;
    group.part = part;
    taken += size;
    --spare;
  }
  if (taken > 0 || spare <= 0 || share <= 0) return;
  Group* smallest = nullptr;
  for (Group& group : groups)
    if (group.part == 0 && (smallest == nullptr || size_of(group) < size_of(*smallest))) smallest = &group;
  smallest->part = part;
}

// By order: as take_groups(), of samples that stay in their order.
int64_t last_samples(double share, int64_t samples, int64_t spare) {
  const int64_t wanted = std::llround(share * static_cast<double>(samples));
  return std::min(std::max<int64_t>(wanted, share > 0 ? 1 : 0), std::max<int64_t>(spare, 0));
}

void require_parts(const SplitOptions& options, const Parts& parts, const std::string& what_there_is) {
  for (const auto& [part, share] : {std::pair<int, double>{1, options.valid}, {2, options.test}}) {
    if (share <= 0 || std::find(parts.begin(), parts.end(), part) != parts.end()) continue;
    const std::string key = std::string("data.split.") + kParts[static_cast<size_t>(part)];
    throw ConfigError(key + " " + shortest(share) + " gets no sample: " + what_there_is +
                      " cannot fill training and every other part; add data, or set " + key + ": 0");
  }
}

Parts parts_by_fraction(const Dataset& dataset, const SplitOptions& options) {
  if (!(options.valid >= 0) || !(options.test >= 0) || options.valid + options.test >= 1)
    throw ConfigError("data.split.valid and data.split.test are shares of all samples, 0 or more, together below 1");
  const auto samples = static_cast<int64_t>(dataset.samples.size());
  Parts parts(dataset.samples.size(), 0);
  if (options.by == SplitOptions::By::order) {
    const int64_t others = options.valid > 0 ? 2 : 1;  // one sample each
    const int64_t test = last_samples(options.test, samples, samples - others);
    const int64_t valid = last_samples(options.valid, samples, samples - test - 1);
    std::fill(parts.end() - test, parts.end(), 2);
    std::fill(parts.end() - (test + valid), parts.end() - test, 1);
    require_parts(options, parts, count_of(samples, "sample"));
    return parts;
  }
  std::vector<Group> groups = groups_of(dataset, options);
  take_groups(groups, 1, options.valid, samples, options.test > 0 ? 2 : 1);
  take_groups(groups, 2, options.test, samples, 1);
  for (const Group& group : groups)
    for (const int64_t sample : group.samples) parts[static_cast<size_t>(sample)] = group.part;
  const auto there = static_cast<int64_t>(groups.size());
  require_parts(options, parts, count_of(there, options.by == SplitOptions::By::patient ? "patient" : "sample"));
  return parts;
}

// --- by list files and folders

std::string list_path(const Dataset& dataset, const std::string& file) {
  const bool elsewhere = file.starts_with('/') || file.starts_with("./") || file.starts_with("../");
  return elsewhere ? file : (fs::path(dataset.root) / file).string();
}

/// Reads list files: which sample each line names.
class ListReader {
 public:
  explicit ListReader(const Dataset& dataset) : dataset_(dataset), parts_(dataset.samples.size(), kLeftOut) {
    for (size_t i = 0; i < dataset.samples.size(); ++i) index_.add(dataset.samples[i].path, static_cast<int64_t>(i));
  }

  void read(const std::string& part, const std::string& file) {
    const std::string path = list_path(dataset_, file);
    std::error_code error;
    if (fs::status(path, error).type() == fs::file_type::not_found)
      throw MissingError("the list '" + path + "' of data.split.files." + part + " does not exist");
    std::istringstream text(read_text(path));
    std::string line;
    for (int64_t number = 1; std::getline(text, line); ++number) {
      if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
      if (!trimmed(line).empty())
        take(std::string(trimmed(line)), path + ":" + std::to_string(number), part_number(part));
    }
  }

  Parts finish() {
    raise<MissingError>(absent_, "data.split.files names pictures that are no samples of the data set");
    raise<DataError>(several_, "data.split.files names base names that several pictures have; write their paths");
    raise<DataError>(twice_, "data.split.files names pictures twice");
    return std::move(parts_);
  }

 private:
  void take(const std::string& line, const std::string& where, int part) {
    int64_t sample = find(line);
    const std::string word = line.substr(0, line.find_first_of(" \t"));
    if (sample == PathIndex::kNone) sample = find(word);
    if (sample == PathIndex::kNone) {
      absent_.push_back(where + ": '" + word + "'");
    } else if (sample == PathIndex::kSeveral) {
      several_.push_back(where + ": '" + word + "'");
    } else if (int& taken = parts_[static_cast<size_t>(sample)]; taken != kLeftOut) {
      twice_.push_back(where + ": '" + word + "', already in " + kParts[static_cast<size_t>(taken)]);
    } else {
      taken = part;
    }
  }

  int64_t find(const std::string& name) const { return index_.find(name.starts_with("./") ? name.substr(2) : name); }

  template <typename Thrown>
  static void raise(const std::vector<std::string>& lines, const std::string& sentence) {
    if (!lines.empty()) throw Thrown(sentence + " (" + std::to_string(lines.size()) + "):\n" + capped_list(lines));
  }

  const Dataset& dataset_;
  PathIndex index_;
  Parts parts_;
  std::vector<std::string> absent_;
  std::vector<std::string> several_;
  std::vector<std::string> twice_;
};

Parts parts_by_files(const Dataset& dataset, const SplitOptions& options) {
  ListReader reader(dataset);
  for (const auto& [part, file] : options.files) reader.read(part, file);
  return reader.finish();
}

Parts parts_by_folders(const Dataset& dataset, const SplitOptions& options) {
  Parts parts(dataset.samples.size(), kLeftOut);
  for (const auto& [part, named] : options.folders) {
    const int number = part_number(part);
    const std::string folder = beneath_root(dataset.root, named);
    bool any = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!lies_in(dataset.samples[i].path, folder)) continue;
      if (parts[i] != kLeftOut)
        throw DataError("data.split.folders: '" + dataset.samples[i].path + "' lies in two parts");
      parts[i] = number;
      any = true;
    }
    if (!any)
      throw MissingError("data.split.folders." + part + ": no sample lies in '" + named + "' under '" + dataset.root +
                         "'");
  }
  return parts;
}

Parts parts_by_name(const Dataset& dataset) {
  Parts parts;
  for (const Sample& sample : dataset.samples)
    parts.push_back(sample.part.empty() ? kLeftOut : part_number(sample.part));
  return parts;
}

Parts parts_of(const Dataset& dataset, const SplitOptions& options) {
  if (!options.files.empty() && !options.folders.empty())
    throw ConfigError("data.split.files and data.split.folders exclude each other; keep one");
  if (!options.files.empty()) return parts_by_files(dataset, options);
  if (!options.folders.empty()) return parts_by_folders(dataset, options);
  const bool told = std::any_of(dataset.samples.begin(), dataset.samples.end(),
                                [](const Sample& sample) { return !sample.part.empty(); });
  return told && !options.given ? parts_by_name(dataset) : parts_by_fraction(dataset, options);
}

// --- what a reader should know

// One line for each two parts that share groups: counts and file names, never the groups themselves.
std::vector<std::string> leak_warnings(const Dataset& dataset, const Parts& parts) {
  struct Seen {
    std::array<const Sample*, 3> first{};
  };
  std::map<std::string, Seen> groups;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Sample& sample = dataset.samples[i];
    if (parts[i] == kLeftOut || !tells_patient(dataset, sample)) continue;
    const Sample*& first = groups[sample.group].first[static_cast<size_t>(parts[i])];
    if (first == nullptr) first = &sample;
  }
  std::vector<std::string> warnings;
  for (const auto& [a, b] : {std::pair<size_t, size_t>{0, 1}, {0, 2}, {1, 2}}) {
    std::vector<std::string> pairs;
    for (const auto& [name, seen] : groups)
      if (seen.first[a] != nullptr && seen.first[b] != nullptr)
        pairs.push_back(seen.first[a]->path + " and " + seen.first[b]->path);
    if (pairs.empty()) continue;
    warnings.push_back("split leak: " + count_of(static_cast<int64_t>(pairs.size()), "patient") + " in both " +
                       kParts[a] + " and " + kParts[b] + ", as in\n" + capped_list(pairs, 3));
  }
  return warnings;
}

std::string hash_of(const Dataset& dataset, const Parts& parts) {
  constexpr char kEnd = '\0';
  Sha256 sha;
  for (size_t i = 0; i < parts.size(); ++i)
    sha.update(kParts[static_cast<size_t>(parts[i])] + std::string(1, kEnd) + dataset.samples[i].path + kEnd);
  return sha.hex_digest();
}

}  // namespace

Split split_dataset(const Dataset& dataset, const SplitOptions& options) {
  const Parts parts = parts_of(dataset, options);
  Split split;
  int64_t left_out = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto sample = static_cast<int64_t>(i);
    if (parts[i] == 0) split.train.push_back(sample);
    if (parts[i] == 1) split.valid.push_back(sample);
    if (parts[i] == 2) split.test.push_back(sample);
    if (parts[i] == kLeftOut) ++left_out;
  }
  if (split.train.empty()) throw ConfigError("data.split leaves no sample for training");
  split.sha256 = hash_of(dataset, parts);
  split.warnings = leak_warnings(dataset, parts);
  if (left_out > 0) split.warnings.push_back(count_of(left_out, "sample") + " in no part of data.split left out");
  return split;
}

}  // namespace dtrain
