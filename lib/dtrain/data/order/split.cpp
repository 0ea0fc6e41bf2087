#include "dtrain/data/order/split.hpp"

#include <algorithm>
#include <array>
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
#include "dtrain/data/order/split_shares.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

// In image folders the group was taken from the file name. "img", "0001.png" or the class's own name do not identify a
// patient, a name with a number does. A stack's whole name may be a patient, since only its pages differ.
bool tells_patient(const Dataset& dataset, const Sample& sample) {
  if (sample.group.empty()) return false;
  if (!dataset.format->guesses_groups) return true;
  const std::string& name = dataset.classes[static_cast<size_t>(sample.class_index)];
  return sample.group.find_first_of("0123456789") != std::string::npos && sample.group != name &&
         (picture_path(sample.path).page > 0 || without_ending(base_name(sample.path)) != sample.group);
}

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors write it before UTF-8 text

int part_number(const std::string& name) {
  for (int part = 0; part < kLeftOut; ++part)
    if (name == kParts[static_cast<size_t>(part)]) return part;
  throw ConfigError("data.split names the part '" + name + "'; parts are train, valid and test");
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
      if (dataset.format->drops_first_folder && slash != std::string::npos)
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
    raise<MissingError>(
        absent_, "data.split.files names pictures that are not samples of the data set; correct or remove these lines");
    raise<DataError>(several_, "data.split.files has base names that several pictures share; write their paths");
    raise<DataError>(twice_, "data.split.files names pictures twice; keep each in one list");
    return std::move(parts_);
  }

 private:
  void take(const std::string& line, const std::string& where, int part) {
    int64_t sample = find(line);
    const std::string word = line.substr(0, line.find_first_of(" \t"));
    if (sample == PathIndex::kNone) sample = find(word);
    const auto skipped = [this](const std::string& name) { return left_out_.find(name) != PathIndex::kNone; };
    if (sample == PathIndex::kNone && (skipped(line) || skipped(word))) {
      skipped_ = true;  // the label file's note reports it
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
  bool skipped_ = false;  // the list being read names some of left_out_
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
        throw DataError("data.split.folders: '" + dataset.samples[i].path + "' is in two parts");
      parts[i] = number;
      any = true;
    }
    if (!any)
      throw MissingError("data.split.folders." + part + ": no sample is in '" + named + "' under '" + dataset.root +
                         "'");
  }
  return parts;
}

// Takes parts from Sample::part for samples that have none yet.
void add_own_parts(const Dataset& dataset, Parts& parts) {
  for (size_t i = 0; i < parts.size(); ++i)
    if (const std::string& part = dataset.samples[i].part; parts[i] == kLeftOut && !part.empty())
      parts[i] = part_number(part);
}

std::string rest_note(const SplitOptions& options, const std::string& what_names) {
  const std::string share = options.folds > 0
                                ? "fold " + std::to_string(options.fold) + " of " + std::to_string(options.folds)
                                : "data.split.valid " + shortest(options.valid);
  return what_names + " no validation part: " + share +
         " of the training part validates, each known patient in one part";
}

// --- which of these decides

bool deals_any(const SplitOptions& options) { return options.folds > 0 || options.valid > 0 || options.test > 0; }

bool told(const Parts& own) {
  return std::any_of(own.begin(), own.end(), [](int part) { return part != kLeftOut; });
}

// If only folders named train/ and test/ exist, a share of the first validates. In formats without a folder layout, and
// for names of files, only if data.split is not given: earlier versions did so, and their splits must not change.
bool shares_the_rest(const Dataset& dataset, const SplitOptions& options, const Parts& own) {
  if (holds(own, 1)) return false;
  if (dataset.own_parts.by != OwnParts::By::folders) return false;
  const bool layout = dataset.format->folders != DataFormat::Folders::nothing;
  return layout ? options.test == 0 || !holds(own, 2) : !options.given;
}

Parts parts_by_column(const Dataset& dataset, const SplitOptions& options, const Parts& own, Split& split) {
  const std::string& what = dataset.own_parts.what;
  if (options.test > 0 && holds(own, 2))
    throw ConfigError("data.split.test has no effect here: " + what + " names the test part; take one of them out");
  if (options.given && holds(own, 1))
    throw ConfigError("data.split has no effect here: " + what + " names every part; take one of them out");
  if (holds(own, 1) || !deals_any(options)) return own;
  split.notes.push_back(rest_note(options, "the words in " + what + " name"));
  return deal_rest(dataset, options, own);
}

Parts parts_of(const Dataset& dataset, const SplitOptions& options, Split& split) {
  if (!options.files.empty() && !options.folders.empty())
    throw ConfigError("data.split.files and data.split.folders cannot be combined; keep one");
  Parts own(dataset.samples.size(), kLeftOut);
  if (!options.files.empty() || !options.folders.empty()) {
    Parts named = options.files.empty() ? parts_by_folders(dataset, options) : parts_by_files(dataset, options);
    if (!options.folders.empty() && dataset.own_parts.by == OwnParts::By::folders) add_own_parts(dataset, named);
    if (holds(named, 1) && !options.names("train")) std::replace(named.begin(), named.end(), kLeftOut, 0);
    return holds(named, 1) || !deals_any(options) ? named : deal_rest(dataset, options, named);
  }
  add_own_parts(dataset, own);
  if (dataset.own_parts.by == OwnParts::By::column) return parts_by_column(dataset, options, own, split);
  split.by_share = !told(own);
  if (split.by_share) return all_by_share(dataset, options);
  if (shares_the_rest(dataset, options, own)) {
    if (!deals_any(options)) return own;
    split.notes.push_back(rest_note(options, dataset.own_parts.what + (dataset.own_parts.one ? " names" : " name")));
    return deal_rest(dataset, options, own);
  }
  if (!options.given) return own;
  split.warnings.push_back("data.split of the configuration splits all samples again, also those of " +
                           (holds(own, 2) ? std::string("the test part") : std::string("other parts")) + " that " +
                           dataset.own_parts.what + (dataset.own_parts.one ? " gives" : " give") +
                           "; to use these, take data.split out of the configuration or write data.split=null");
  split.by_share = true;
  return all_by_share(dataset, options);
}

// --- what a reader should know

// One line for each pair of parts that share groups, with counts and file names, but never the groups themselves.
std::vector<std::string> leak_warnings(const Dataset& dataset, const Parts& parts, bool by_share) {
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
  const std::string cure =
      by_share ? "data.split.by=patient keeps each in one part" : "put all pictures of a patient into one part";
  std::vector<std::string> warnings;
  for (const auto& [a, b] : {std::pair<size_t, size_t>{0, 1}, {0, 2}, {1, 2}}) {
    std::vector<std::string> pairs;
    for (const auto& [name, seen] : groups)
      if (seen.first[a] != nullptr && seen.first[b] != nullptr)
        pairs.push_back(seen.first[a]->path + " and " + seen.first[b]->path);
    if (pairs.empty()) continue;
    warnings.push_back(with_list("split leak: " + count_of(static_cast<int64_t>(pairs.size()), "patient") +
                                     " in both " + kParts[a] + " and " + kParts[b] + " (" + cure + "), such as",
                                 pairs, 3));
  }
  return warnings;
}

// Samples that neither lists, folders nor the data themselves give a part.
std::string left_out_warning(const Dataset& dataset, const SplitOptions& options, const Parts& parts) {
  const auto count = std::count(parts.begin(), parts.end(), kLeftOut);
  if (count == 0) return "";
  const auto first = static_cast<size_t>(std::find(parts.begin(), parts.end(), kLeftOut) - parts.begin());
  const std::string them = count == 1 ? "it" : "them";
  const std::string key = options.files.empty() ? "folders" : "files";
  std::string cure = "give " + them + " a part with data.split.files or data.split.folders";
  if (options.names("train"))
    cure = (key == "files" ? "add " + them + " to a list" : "name the folder with " + them) + ", or take data.split." +
           key + ".train out: whatever no other " + (key == "files" ? "list" : "folder") + " has then trains";
  return count_of(count, "sample") + " in no part of data.split left out, such as " + dataset.samples[first].path +
         ": " + cure;
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
  Split split;
  split.warnings = dataset.warnings;
  const Parts parts = parts_of(dataset, options, split);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto sample = static_cast<int64_t>(i);
    if (parts[i] == 0) split.train.push_back(sample);
    if (parts[i] == 1) split.valid.push_back(sample);
    if (parts[i] == 2) split.test.push_back(sample);
  }
  if (split.train.empty()) {
    const auto list = options.files.find("train");
    throw ConfigError("data.split leaves no sample for training" +
                      (list == options.files.end() ? "; lower data.split.valid and data.split.test"
                                                   : "; its list of the training part, " + list->second +
                                                         ", names none: write a sample's path into each line"));
  }
  split.sha256 = hash_of(dataset, parts);
  for (const std::string& leak : leak_warnings(dataset, parts, split.by_share)) split.warnings.push_back(leak);
  if (const std::string left_out = left_out_warning(dataset, options, parts); !left_out.empty())
    split.warnings.push_back(left_out);
  return split;
}

// --- what weights were trained on

static constexpr size_t kDigits = 12;  // the chance that any of 30,000 patients is taken for one of 100,000 is 1e-5

// The original's path for "a.png@hflip", a copy that dtrain pack --expand made; others unchanged.
static std::string original_path(const Dataset& dataset, const Sample& sample) {
  const size_t at = sample.path.rfind('@');
  if (at == std::string::npos) return sample.path;
  const std::vector<std::string>& turns = dataset.turns;
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
