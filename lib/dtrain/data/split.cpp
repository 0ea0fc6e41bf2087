#include "dtrain/data/split.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/group_dealer.hpp"
#include "dtrain/data/packed_set.hpp"
#include "dtrain/data/scan.hpp"
#include "dtrain/data/text_files.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/tiff_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

// In image folders the group was cut from the file name, where "img", "0001.png" and the class's own name tell nothing;
// a patient's number does. A stack's whole name may be one: its pages are what differs.
bool tells_patient(const Dataset& dataset, const Sample& sample) {
  if (sample.group.empty()) return false;
  if (dataset.format != DataFormat::image_folder) return true;
  const std::string& name = dataset.classes[static_cast<size_t>(sample.class_index)];
  return sample.group.find_first_of("0123456789") != std::string::npos && sample.group != name &&
         (picture_path(sample.path).page > 0 || without_ending(base_name(sample.path)) != sample.group);
}

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

double place_of(uint64_t hash) { return static_cast<double>(hash >> 11) * 0x1p-53; }

// What a group should be spread by: each class, or each label that is 1.
void count_labels(const Dataset& dataset, SampleGroup& group) {
  std::map<int64_t, int64_t> counts;
  for (const int64_t index : group.samples) {
    const Sample& sample = dataset.samples[static_cast<size_t>(index)];
    if (sample.class_index >= 0) ++counts[sample.class_index];
    for (size_t k = 0; k < sample.labels.size(); ++k)
      if (sample.labels[k] == 1) ++counts[static_cast<int64_t>(k)];
  }
  group.labels.assign(counts.begin(), counts.end());
}

// All groups in the order of their places; without patients every sample is one.
std::vector<SampleGroup> groups_of(const Dataset& dataset, const SplitOptions& options) {
  const bool by_patient = options.by == SplitOptions::By::patient;
  std::vector<SampleGroup> groups;
  std::unordered_map<std::string, size_t> known;
  bool named = false;
  for (size_t i = 0; i < dataset.samples.size(); ++i) {
    const Sample& sample = dataset.samples[i];
    named = named || tells_patient(dataset, sample);
    const std::string& name = by_patient && !sample.group.empty() ? sample.group : sample.path;
    const auto [entry, first] = known.emplace(name, groups.size());
    if (first) groups.push_back({name, place_of(hash64(std::to_string(options.seed) + "/" + name)), {}, {}});
    groups[entry->second].samples.push_back(static_cast<int64_t>(i));
  }
  if (by_patient && !named && dataset.format == DataFormat::image_folder)
    throw ConfigError(
        "data.split.by patient: the file names tell no patients (a patient is what stands before the first '_' or '.', "
        "with a digit in it, as in 0012_3.png); use by: sample");
  if (by_patient && !named)
    throw ConfigError(
        "data.split.by patient: the data name no patients; use by: sample, or data.csv.group (of record files: "
        "data.tfrecord.group, data.webdataset.group)");
  for (SampleGroup& group : groups) count_labels(dataset, group);
  std::sort(groups.begin(), groups.end(), [](const SampleGroup& a, const SampleGroup& b) {
    return a.place != b.place ? a.place < b.place : a.name < b.name;
  });
  return groups;
}

// Training and validation, or the folds.
int64_t bins_beside_test(const SplitOptions& options) {
  return options.folds > 0 ? options.folds : options.valid > 0 ? 2 : 1;
}

using Dealer = std::vector<size_t> (*)(const std::vector<SampleGroup>&, const std::vector<double>& shares);

// Part of each group: the test part is taken from the end of the line; what is left is a line of its own, for training
// and validation or for the folds.
std::vector<int> deal_parts(std::vector<SampleGroup>& groups, const SplitOptions& options, Dealer deal) {
  std::vector<int> parts(groups.size(), 2);
  std::vector<size_t> tested = deal(groups, {1 - options.test, options.test});
  auto left = std::count(tested.begin(), tested.end(), size_t{0});
  for (size_t g = 0; g < groups.size() && left < bins_beside_test(options); ++g)
    if (tested[g] == 1 && std::count(tested.begin() + static_cast<int64_t>(g) + 1, tested.end(), size_t{1}) > 0) {
      tested[g] = 0;  // a tiny set: the test part keeps one, the others must be enough for all
      ++left;
    }
  std::vector<SampleGroup> rest;
  std::vector<size_t> whose;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (tested[g] == 1) continue;
    groups[g].place = std::min(groups[g].place / (1 - options.test), 1.0);
    whose.push_back(g);
    rest.push_back(std::move(groups[g]));
  }
  const double valid = options.valid / (1 - options.test);
  std::vector<double> shares = {1 - valid, valid};
  if (options.folds > 0) shares.assign(static_cast<size_t>(options.folds), 1 / static_cast<double>(options.folds));
  const std::vector<size_t> dealt = deal(rest, shares);
  const size_t judged = options.folds > 0 ? static_cast<size_t>(options.fold - 1) : 1;
  for (size_t g = 0; g < rest.size(); ++g) {
    parts[whose[g]] = dealt[g] == judged ? 1 : 0;
    groups[whose[g]] = std::move(rest[g]);
  }
  return parts;
}

// By order: how many samples at the end a share is; one at least, as far as `spare` allows.
int64_t last_samples(double share, int64_t samples, int64_t spare) {
  const int64_t wanted = std::llround(share * static_cast<double>(samples));
  return std::min(std::max<int64_t>(wanted, share > 0 ? 1 : 0), std::max<int64_t>(spare, 0));
}

void require_parts(const SplitOptions& options, const Parts& parts, const std::string& what_there_is) {
  const auto holds = [&](int part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
  if (options.folds > 0 && !holds(1))
    throw ConfigError("data.split.fold " + std::to_string(options.fold) + " of " + std::to_string(options.folds) +
                      " gets no sample: " + what_there_is + " cannot fill every fold; add data, or ask for fewer");
  for (const auto& [part, share] : {std::pair<int, double>{1, options.valid}, {2, options.test}}) {
    if (share <= 0 || holds(part)) continue;
    const std::string key = std::string("data.split.") + kParts[static_cast<size_t>(part)];
    throw ConfigError(key + " " + shortest(share) + " gets no sample: " + what_there_is +
                      " cannot fill training and every other part; add data, or set " + key + ": 0");
  }
}

// The natural order: test at its end; before that validation, or the folds one after another.
Parts parts_by_order(const SplitOptions& options, int64_t samples) {
  Parts parts(static_cast<size_t>(samples), 0);
  const int64_t test = last_samples(options.test, samples, samples - bins_beside_test(options));
  const int64_t rest = samples - test;
  std::fill(parts.end() - test, parts.end(), 2);
  if (options.folds > 0) {
    for (int64_t i = rest * (options.fold - 1) / options.folds; i < rest * options.fold / options.folds; ++i)
      parts[static_cast<size_t>(i)] = 1;
  } else {
    const int64_t valid = last_samples(options.valid, samples, rest - 1);
    std::fill(parts.end() - (test + valid), parts.end() - test, 1);
  }
  return parts;
}

Parts parts_by_fraction(const Dataset& dataset, const SplitOptions& given) {
  SplitOptions options = given;
  if (options.folds > 0) options.valid = 0;
  if (!(options.valid >= 0) || !(options.test >= 0) || options.valid + options.test >= 1)
    throw ConfigError("data.split.valid and data.split.test are shares of all samples, 0 or more, together below 1");
  const auto samples = static_cast<int64_t>(dataset.samples.size());
  Parts parts(dataset.samples.size(), 0);
  if (options.by == SplitOptions::By::order) {
    parts = parts_by_order(options, samples);
    require_parts(options, parts, count_of(samples, "sample"));
    return parts;
  }
  std::vector<SampleGroup> groups = groups_of(dataset, options);
  const bool exact = options.stratify || dataset.format == DataFormat::synthetic;
  const std::vector<int> dealt = deal_parts(groups, options, exact ? deal_stratified : deal_by_place);
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int64_t sample : groups[g].samples) parts[static_cast<size_t>(sample)] = dealt[g];
  const auto there = static_cast<int64_t>(groups.size());
  require_parts(options, parts, count_of(there, options.by == SplitOptions::By::patient ? "patient" : "sample"));
  return parts;
}

// --- by list files and folders

/// Reads list files: which sample each line names.
class ListReader {
 public:
  explicit ListReader(const Dataset& dataset) : dataset_(dataset), parts_(dataset.samples.size(), kLeftOut) {
    for (size_t i = 0; i < dataset.samples.size(); ++i) index_.add(dataset.samples[i].path, static_cast<int64_t>(i));
    for (const std::string& name : dataset.left_out) {
      left_out_.add(name, 0);
      const size_t slash = name.find('/');  // CheXpert-v1.0-small/, which root may not have
      if (dataset.format == DataFormat::chexpert && slash != std::string::npos)
        left_out_.add(std::string_view(name).substr(slash + 1), 0);
    }
  }

  void read(const std::string& part, const std::string& file) {
    const std::string path = list_path(dataset_.root, file);
    std::error_code error;
    if (fs::status(path, error).type() == fs::file_type::not_found)
      throw MissingError("the list '" + path + "' of data.split.files." + part + " does not exist");
    std::istringstream text(read_text(path, kMostTableBytes));
    std::string line;
    skipped_ = false;
    for (int64_t number = 1; std::getline(text, line); ++number) {
      if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
      if (!trimmed(line).empty())
        take(std::string(trimmed(line)), path + ":" + std::to_string(number), part_number(part));
    }
    if (skipped_ && std::find(parts_.begin(), parts_.end(), part_number(part)) == parts_.end())
      throw MissingError("data.root '" + dataset_.root + "' holds no picture that '" + path +
                         "' names (data.on_missing: skip left them out); take data.split.files." + part + " out");
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
    const auto skipped = [this](const std::string& name) { return left_out_.find(name) != PathIndex::kNone; };
    if (sample == PathIndex::kNone && (skipped(line) || skipped(word))) {
      skipped_ = true;  // the label file's note tells of it
    } else if (sample == PathIndex::kNone) {
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
    if (!lines.empty()) throw Thrown(with_list(sentence + " (" + std::to_string(lines.size()) + "):", lines));
  }

  const Dataset& dataset_;
  PathIndex index_;
  PathIndex left_out_;
  bool skipped_ = false;  // the list that is being read names some of left_out_
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
  return split_by_share(dataset, options) ? parts_by_fraction(dataset, options) : parts_by_name(dataset);
}

// --- what a reader should know

// One line for each two parts that share groups: counts and file names, never the groups themselves.
std::vector<std::string> leak_warnings(const Dataset& dataset, const SplitOptions& options, const Parts& parts) {
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
  const std::string cure = split_by_share(dataset, options) ? "data.split.by=patient keeps each whole"
                                                            : "put all pictures of a patient into one part";
  std::vector<std::string> warnings;
  for (const auto& [a, b] : {std::pair<size_t, size_t>{0, 1}, {0, 2}, {1, 2}}) {
    std::vector<std::string> pairs;
    for (const auto& [name, seen] : groups)
      if (seen.first[a] != nullptr && seen.first[b] != nullptr)
        pairs.push_back(seen.first[a]->path + " and " + seen.first[b]->path);
    if (pairs.empty()) continue;
    warnings.push_back(with_list("split leak: " + count_of(static_cast<int64_t>(pairs.size()), "patient") +
                                     " in both " + kParts[a] + " and " + kParts[b] + " (" + cure + "), as in",
                                 pairs, 3));
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

bool split_by_share(const Dataset& dataset, const SplitOptions& options) {
  if (!options.files.empty() || !options.folders.empty()) return false;
  return options.given || std::none_of(dataset.samples.begin(), dataset.samples.end(),
                                       [](const Sample& sample) { return !sample.part.empty(); });
}

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
  split.warnings = leak_warnings(dataset, options, parts);
  if (left_out > 0) split.warnings.push_back(count_of(left_out, "sample") + " in no part of data.split left out");
  return split;
}

// --- what weights were trained on

static constexpr size_t kDigits = 12;  // a chance of 1e-5 that any of 30,000 patients is taken for one of 100,000

// Of a copy that dtrain pack --expand made, "a.png@hflip", its original's name.
static std::string original_path(const Dataset& dataset, const Sample& sample) {
  const size_t at = sample.path.rfind('@');
  if (!dataset.packed || at == std::string::npos) return sample.path;
  const std::vector<std::string>& turns = dataset.packed->manifest().expand;
  const bool copy = std::find(turns.begin(), turns.end(), sample.path.substr(at + 1)) != turns.end();
  return copy ? sample.path.substr(0, at) : sample.path;
}

static std::string digits_of(const Dataset& dataset, const Sample& sample) {
  const bool named = tells_patient(dataset, sample);
  return sha256_hex(named ? "patient " + sample.group : "path " + original_path(dataset, sample)).substr(0, kDigits);
}

std::string training_digits(const Dataset& dataset, const Split& split) {
  constexpr size_t kMost = 100'000;
  std::set<std::string> digits;
  for (const int64_t index : split.train)
    digits.insert(digits_of(dataset, dataset.samples[static_cast<size_t>(index)]));
  std::string text;
  if (digits.size() > kMost) return text;
  for (const std::string& own : digits) text += own;
  return text;
}

std::vector<int64_t> samples_among(const std::string& digits, const Dataset& dataset,
                                   const std::vector<int64_t>& samples) {
  std::unordered_set<std::string> known;
  for (size_t at = 0; at + kDigits <= digits.size(); at += kDigits) known.insert(digits.substr(at, kDigits));
  std::vector<int64_t> found;
  for (const int64_t index : samples)
    if (known.contains(digits_of(dataset, dataset.samples[static_cast<size_t>(index)]))) found.push_back(index);
  return found;
}

}  // namespace dtrain
