#include "dtrain/data/split.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
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
constexpr std::array<const char*, 4> kParts = {"train", "valid", "test", "left out"};

int part_number(const std::string& name) {
  for (int part = 0; part < kLeftOut; ++part)
    if (name == kParts[static_cast<size_t>(part)]) return part;
  throw ConfigError("data.split names the part '" + name + "'; parts are train, valid and test");
}

using Parts = std::vector<int>;  // part of each sample

// --- by fraction

struct Group {
  uint64_t key = 0;
  std::string name;
  std::vector<int64_t> samples;
};

std::vector<Group> groups_of(const Dataset& dataset, const SplitOptions& options) {
  const bool by_patient = options.by == SplitOptions::By::patient;
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> places;
  bool named = false;
  for (size_t i = 0; i < dataset.samples.size(); ++i) {
    const Sample& sample = dataset.samples[i];
    named = named || !sample.group.empty();
    const std::string& name = by_patient && !sample.group.empty() ? sample.group : sample.path;
    const auto [place, first] = places.emplace(name, groups.size());
    if (first) groups.push_back({hash64(std::to_string(options.seed) + "/" + name), name, {}});
    groups[place->second].samples.push_back(static_cast<int64_t>(i));
  }
  if (by_patient && !named)
    throw ConfigError("data.split.by patient: the data name no patients; use by: sample, or data.csv.group");
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.key != b.key ? a.key < b.key : a.name < b.name; });
  return groups;
}

// Gives groups from `next` on to `part`, as many as come nearest to `wanted` samples.
void take_groups(const std::vector<Group>& groups, size_t& next, int64_t wanted, int part, Parts& parts) {
  int64_t taken = 0;
  while (next < groups.size()) {
    const auto size = static_cast<int64_t>(groups[next].samples.size());
    if (std::abs(taken + size - wanted) >= std::abs(taken - wanted)) return;
    for (int64_t sample : groups[next].samples) parts[static_cast<size_t>(sample)] = part;
    taken += size;
    ++next;
  }
}

Parts parts_by_fraction(const Dataset& dataset, const SplitOptions& options) {
  if (!(options.valid >= 0) || !(options.test >= 0) || options.valid + options.test >= 1)
    throw ConfigError("data.split.valid and data.split.test are shares of all samples, 0 or more, together below 1");
  const auto samples = static_cast<int64_t>(dataset.samples.size());
  const int64_t valid = std::llround(options.valid * static_cast<double>(samples));
  const int64_t test = std::llround(options.test * static_cast<double>(samples));
  Parts parts(dataset.samples.size(), 0);
  if (options.by == SplitOptions::By::order) {
    std::fill(parts.end() - test, parts.end(), 2);
    std::fill(parts.end() - std::min(samples, test + valid), parts.end() - test, 1);
    return parts;
  }
  const std::vector<Group> groups = groups_of(dataset, options);
  size_t next = 0;
  take_groups(groups, next, valid, 1, parts);
  take_groups(groups, next, test, 2, parts);
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
    for (int64_t number = 1; std::getline(text, line); ++number)
      if (!trimmed(line).empty())
        take(std::string(trimmed(line)), path + ":" + std::to_string(number), part_number(part));
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

// Is the group evidence of a patient? In image folders it was cut from the file name, where "img", "0001.png" and the
// class's own name tell nothing; a patient's number does.
bool tells_patient(const Dataset& dataset, const Sample& sample) {
  if (sample.group.empty()) return false;
  if (dataset.format != DataFormat::image_folder) return true;
  const std::string& name = dataset.classes[static_cast<size_t>(sample.class_index)];
  return sample.group.find_first_of("0123456789") != std::string::npos && sample.group != name &&
         without_ending(base_name(sample.path)) != sample.group;
}

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
