#include "dtrain/data/formats/part_folders.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/scan.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 3> kOrder = {"train", "valid", "test"};

bool names_part(const PartFolders& folders, std::string_view part) {
  return std::any_of(folders.begin(), folders.end(), [&](const auto& entry) { return entry.first == part; });
}

PartFolders named_folders(const DataOptions& options) {
  PartFolders folders;
  for (const char* part : kOrder)
    if (const auto named = options.split.folders.find(part); named != options.split.folders.end())
      folders.emplace_back(part, beneath_root(options.root, named->second));
  return folders;
}

/// The folders of root, or of IMAGES/ in it, sorted by their names: those of parts, and others.
struct Seen {
  std::map<std::string, std::vector<std::string>> parts;  // part → folders relative to root
  std::vector<std::string> others;
};

Seen look(const DataOptions& options, const std::string& base, const PartFolders& named) {
  Seen seen;
  for (const std::string& name : folders_in((fs::path(options.root) / base).string())) {
    if (is_beside_the_data(name) && std::count(options.classes.begin(), options.classes.end(), name) == 0) continue;
    const std::string folder = base.empty() ? name : base + "/" + name;
    const bool taken =
        std::any_of(named.begin(), named.end(), [&](const auto& entry) { return lies_in(entry.second, folder); });
    const bool is_class = std::count(options.classes.begin(), options.classes.end(), name) > 0;
    const std::string part = is_class ? "" : part_called(name);
    if (taken || (!part.empty() && names_part(named, part))) continue;
    (part.empty() ? seen.others : seen.parts[part]).push_back(folder);
  }
  return seen;
}

std::string shown(const std::vector<std::string>& folders) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(folders.size(), kMost); ++i) names.push_back(printable(folders[i]) + "/");
  if (folders.size() > kMost) names.emplace_back("…");
  return join(names, ", ");
}

std::vector<std::string> all_parts(const Seen& seen) {
  std::vector<std::string> folders;
  for (const char* part : kOrder)
    if (const auto found = seen.parts.find(part); found != seen.parts.end())
      folders.insert(folders.end(), found->second.begin(), found->second.end());
  return folders;
}

void refuse_two_spellings(const DataOptions& options, const Seen& seen) {
  for (const auto& [part, folders] : seen.parts)
    if (folders.size() > 1)
      throw DataError("data.root '" + options.root + "' has several folders for one part (" + shown(folders) +
                      "); name the right one with data.split.folders." + part +
                      ", merge them, or list them in data.classes if they are classes");
}

void refuse_mixture(const DataOptions& options, const Seen& seen) {
  std::vector<std::string> classes;
  for (const std::string& folder : seen.others)
    if (!scan_beneath(options.root, folder, options.allow_links).pictures.empty()) classes.push_back(folder);
  if (!classes.empty())
    throw DataError("data.root '" + options.root + "' has folders named like parts (" + shown(all_parts(seen)) +
                    ") beside others with pictures (" + shown(classes) +
                    "), so it is unclear which are parts and which are classes; move one kind away, name the parts "
                    "with data.split.folders, or list such a folder in data.classes if it is a class");
}

void require_training(const DataOptions& options, const Seen& seen) {
  if (seen.parts.contains("train")) return;
  throw DataError("data.root '" + options.root + "' holds " + shown(all_parts(seen)) +
                  " but no folder for the training part, such as train/; name it with data.split.folders.train, or "
                  "list such a folder in data.classes if it is a class");
}

// "(Train 2017)" → "train"; letters beyond ASCII stay.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : lower_case(std::string(name)))
    if ((c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80) letters += c;
  return letters;
}

/// A name with a part among its words: "seg_train" is train of "seg_".
struct Compound {
  std::string part;  // "" for none
  std::string rest;
};

Compound compound(const std::string& name) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find_first_of("_- .", at), name.size());
    if (const std::string part = part_called(std::string_view(name).substr(at, end - at)); !part.empty())
      return {part, lower_case(name.substr(0, at) + name.substr(end))};
    at = end + 1;
  }
  return {};
}

// "trainA", "xtest", "trn", "fold 3": hardly the name of a class where all classes are called so.
bool is_nearly_a_part(const std::string& name) {
  const std::string word = letters_of(name);
  for (const std::string_view part : {"train", "valid", "val", "test"})
    if (word.size() == part.size() + 1 && (word.starts_with(part) || word.ends_with(part))) return true;
  if (word == "trn" || word == "tst") return true;
  const bool numbered = name.find_first_of("0123456789") != std::string::npos;
  return numbered && (word == "fold" || word == "split" || word == "part" || word == "subset");
}

void refuse_nothing_but_parts(const DataOptions& options, const Seen& seen) {
  if (!options.classes.empty() || seen.others.size() < 2) return;
  if (!std::all_of(seen.others.begin(), seen.others.end(), is_nearly_a_part)) return;
  throw DataError("data.root '" + options.root + "' has folders named nearly like parts or folds, and no other (" +
                  shown(seen.others) + "); name the parts, as in " +
                  shell_word("data.split.folders={train: " + printable(seen.others.front()) +
                             ", valid: " + printable(seen.others.back()) + "}") +
                  ", or list these folders in data.classes if they are classes");
}

// seg_train/ beside seg_test/ are not classes, so they are refused; train_station/ beside airport/ is one.
void refuse_what_sounds_like_parts(const DataOptions& options, const Seen& seen) {
  std::map<std::string, std::map<std::string, std::string>> found;  // rest → part → folder
  for (const std::string& folder : seen.others)
    if (std::count(options.classes.begin(), options.classes.end(), folder) == 0)
      if (const Compound name = compound(folder); !name.part.empty()) found[name.rest].emplace(name.part, folder);
  for (const auto& [rest, parts] : found) {
    if (parts.size() < 2) continue;
    std::vector<std::string> names;
    std::vector<std::string> words;
    for (const auto& [part, folder] : parts) {
      names.push_back(folder);
      words.push_back(part + ": " + printable(folder));
    }
    throw DataError("data.root '" + options.root + "' has folders that sound like parts (" + shown(names) +
                    ") and would be trained as classes; name them, as in " +
                    shell_word("data.split.folders={" + join(words, ", ") + "}") +
                    ", or list them in data.classes if they are classes");
  }
}

}  // namespace

std::string part_called(std::string_view name) {
  std::string word = letters_of(name);
  for (const std::string_view behind : {"sets", "set", "data", "split"})  // "training data set"
    if (word.size() > behind.size() && word.ends_with(behind)) word.resize(word.size() - behind.size());
  if (word.ends_with('s')) word.pop_back();
  for (const auto& [part, words] :
       {std::pair<const char*, std::vector<std::string_view>>{"train", {"train", "training"}},
        {"valid", {"valid", "val", "validation", "dev"}},
        {"test", {"test", "testing"}}})
    if (std::find(words.begin(), words.end(), word) != words.end()) return part;
  return "";
}

std::string part_within(std::string_view name) { return compound(std::string(name)).part; }

PartFolders part_folders(const DataOptions& options, const std::string& images) {
  PartFolders folders = named_folders(options);
  if (names_part(folders, "train") || !is_folder(options.root)) return folders;
  const bool layout = options.format->folders != DataFormat::Folders::nothing;
  const std::string base = !images.empty() && is_folder((fs::path(options.root) / images).string()) ? images : "";
  Seen seen = look(options, base, folders);
  if (!base.empty() && part_called(base.substr(0, base.find('/'))).empty())  // root/train/ beside root/IMAGES/
    for (auto& [part, beside] : look(options, "", folders).parts) seen.others.push_back(beside.front());
  if (options.format->folders == DataFormat::Folders::classes) {
    refuse_what_sounds_like_parts(options, seen);
    if (seen.parts.empty()) refuse_nothing_but_parts(options, seen);
  }
  if (seen.parts.empty()) return folders;
  if (!layout && (!seen.parts.contains("train") || seen.parts.size() + folders.size() < 2)) return folders;
  refuse_two_spellings(options, seen);
  if (layout) refuse_mixture(options, seen);
  if (layout) require_training(options, seen);
  for (const auto& [part, found] : seen.parts) folders.emplace_back(part, found.front());
  const auto rank = [](const auto& entry) { return std::find(kOrder.begin(), kOrder.end(), entry.first); };
  std::sort(folders.begin(), folders.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return folders;
}

OwnParts told_by_folders(const PartFolders& folders) {
  std::vector<std::string> names;
  for (const auto& [part, folder] : folders) names.push_back(printable(folder) + "/");
  const bool one = names.size() == 1;
  return {OwnParts::By::folders, (one ? "the folder " : "the folders ") + join(names, ", "), one};
}

void set_parts(const PartFolders& folders, std::vector<Sample>& samples) {
  for (Sample& sample : samples)
    for (const auto& [part, folder] : folders)
      if (sample.part.empty() && lies_in(sample.path, folder)) sample.part = part;
}

}  // namespace dtrain
