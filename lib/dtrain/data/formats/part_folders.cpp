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
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

constexpr std::array<const char*, 3> kOrder = {"train", "valid", "test"};

bool names_part(const PartFolders& folders, std::string_view part) {
  return std::any_of(folders.begin(), folders.end(), [&](const auto& entry) { return entry.first == part; });
}

PartFolders in_order(PartFolders folders) {
  const auto rank = [](const auto& entry) { return std::find(kOrder.begin(), kOrder.end(), entry.first); };
  std::sort(folders.begin(), folders.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return folders;
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

// "as in data.split.folders={…}"
std::string proposed(const PartFolders& folders) { return "as in " + split_folders_word(folders); }

// ", WAY" as the last, or the last but one, of several ways out.
std::string or_else(const DataOptions& options, const std::string& way) {
  const bool classes = options.format->folders == DataFormat::Folders::classes;
  if (!classes) return way.empty() ? "" : ", or " + way;
  return (way.empty() ? "" : ", " + way) + ", or list such a folder in data.classes if it is a class";
}

PartFolders one_of_each(const Seen& seen) {
  PartFolders folders;
  for (const char* part : kOrder)
    if (const auto found = seen.parts.find(part); found != seen.parts.end())
      folders.emplace_back(part, found->second.front());
  return folders;
}

void refuse_two_spellings(const DataOptions& options, const Seen& seen) {
  for (const auto& [part, folders] : seen.parts)
    if (folders.size() > 1)
      throw DataError("data.root '" + options.root + "' has several folders for one part (" + shown(folders) +
                      "); name the right one with data.split.folders, " + proposed(one_of_each(seen)) +
                      or_else(options, "merge them"));
}

// The parts, with what may be others of them: holdout/ beside train/, trainval/ beside test/.
PartFolders of_mixture(const Seen& seen) {
  PartFolders folders = one_of_each(seen);
  std::vector<std::string> names = seen.others;
  for (const auto& [part, folder] : folders) names.push_back(folder);
  for (const auto& [part, folder] : parts_among(names).proposal(true))
    if (!names_part(folders, part)) folders.emplace_back(part, folder);
  return in_order(folders);
}

void refuse_mixture(const DataOptions& options, const Seen& seen) {
  std::vector<std::string> classes;
  for (const std::string& folder : seen.others)
    if (!scan_beneath(options.root, folder, options.allow_links).pictures.empty()) classes.push_back(folder);
  if (!classes.empty())
    throw DataError("data.root '" + options.root + "' has folders named like parts (" + shown(all_parts(seen)) +
                    ") beside others with pictures (" + shown(classes) +
                    "), so it is unclear which are parts and which are not; name the parts, " +
                    proposed(of_mixture(seen)) + or_else(options, "move one kind away"));
}

void require_training(const DataOptions& options, const Seen& seen) {
  if (seen.parts.contains("train")) return;
  throw DataError("data.root '" + options.root + "' holds " + shown(all_parts(seen)) +
                  " but no folder for the training part, such as train/; name it with data.split.folders.train" +
                  or_else(options, ""));
}

// What would be classes, though all of it sounds like parts: seg_train/ beside seg_test/; train_station/ beside
// airport/ is a class.
void refuse_sounding_classes(const DataOptions& options, const Seen& seen) {
  std::vector<std::string> unlisted;
  for (const std::string& folder : seen.others)
    if (std::count(options.classes.begin(), options.classes.end(), folder) == 0) unlisted.push_back(folder);
  const SoundingParts sounding = parts_among(unlisted);
  using Kind = SoundingParts::Kind;
  if (sounding.kind == Kind::none) return;
  const bool folds = sounding.kind == Kind::folds || sounding.kind == Kind::pieces;
  const PartFolders proposal = sounding.proposal(true);
  const bool by_other_name = folds || proposal.size() < 2;
  if (by_other_name && (!options.classes.empty() || !seen.parts.empty())) return;
  const std::string root = "data.root '" + options.root + "' has folders ";
  const std::string or_list = ", or list these folders in data.classes if they are classes";
  if (!by_other_name) {
    const std::string cure = sounding.sets > 1
                                 ? "put those of each part into one folder, as in train/CLASS/ and test/CLASS/"
                                 : "name them, " + proposed(proposal);
    throw DataError(root + "that sound like parts (" + shown(sounding.names()) + ") and would be trained as classes; " +
                    cure + or_list);
  }
  const std::string count = std::to_string(sounding.all.size());
  throw DataError(root + "named nearly like parts or folds, and no other (" + shown(sounding.names()) +
                  "); name the parts, " + proposed(proposal) +
                  (folds ? ", or move the class folders of all into one and let " +
                               shell_word("data.split.fold=1 of " + count) + " deal " + count + " folds"
                         : "") +
                  or_list);
}

size_t pictures_in_folder(const std::string& folder) {
  return scan_folder(folder, folder, true, has_image_extension, AtFault::list).pictures.size();
}

// seg_train/images/ would be the picture of a sample called seg_train, and test/images/ beside images/ is not read.
void refuse_sounding_samples(const DataOptions& options, const Seen& seen, bool beside_images) {
  const auto pictures = [&](const std::string& folder) {
    const std::string whole = (fs::path(options.root) / folder / options.image_mask.images).string();
    return is_folder(whole) ? pictures_in_folder(whole) : size_t{0};
  };
  std::vector<std::string> candidates;
  size_t most = 0;
  for (const std::string& folder : seen.others) {
    const size_t found = pictures(folder);
    if (found > 0) candidates.push_back(folder);
    most = std::max(most, found);
  }
  const SoundingParts sounding = parts_among(candidates);
  const std::string root = "data.root '" + options.root + "' has ";
  if (beside_images) {
    PartFolders lone;
    for (const std::string& folder : candidates)
      if (const std::string part = part_called(folder); !part.empty() && !names_part(lone, part))
        lone.emplace_back(part, folder);
    if (sounding.kind != SoundingParts::Kind::none) lone = sounding.proposal(true);
    if (lone.empty()) return;
    std::vector<std::string> names;
    for (const auto& [part, folder] : lone) names.push_back(folder);
    throw DataError(root + "folders that sound like parts (" + shown(names) + ") beside " + options.image_mask.images +
                    "/, and they would be left out; name them, " + proposed(lone) + ", or move them away");
  }
  if (sounding.kind == SoundingParts::Kind::none) return;
  if (sounding.kind != SoundingParts::Kind::usual && most < 2) return;  // samples: one picture each
  throw DataError(root + "folders that sound like parts (" + shown(sounding.names()) +
                  ") and would be read as samples of one picture each; name them, " +
                  proposed(sounding.proposal(true)));
}

}  // namespace

PartFolders part_folders(const DataOptions& options, const std::string& images) {
  PartFolders folders = named_folders(options);
  if (names_part(folders, "train") || !is_folder(options.root)) return folders;
  const DataFormat::Folders kind = options.format->folders;
  const bool layout = kind != DataFormat::Folders::nothing;
  const std::string base = !images.empty() && is_folder((fs::path(options.root) / images).string()) ? images : "";
  Seen seen = look(options, base, folders);
  Seen beside;  // root/train/ beside root/IMAGES/
  if (!base.empty() && part_called(base.substr(0, base.find('/'))).empty()) beside = look(options, "", folders);
  for (const auto& [part, found] : beside.parts) {
    beside.others.insert(beside.others.end(), found.begin(), found.end());
    seen.others.push_back(found.front());
  }
  if (kind == DataFormat::Folders::classes) refuse_sounding_classes(options, seen);
  const bool flat = beneath_root(options.root, options.image_mask.images).empty();  // images: .
  if (kind == DataFormat::Folders::masks && !flat)
    refuse_sounding_samples(options, base.empty() ? seen : beside, !base.empty());
  if (seen.parts.empty()) return folders;
  if (!layout && (!seen.parts.contains("train") || seen.parts.size() + folders.size() < 2)) return folders;
  refuse_two_spellings(options, seen);
  if (layout) refuse_mixture(options, seen);
  if (layout) require_training(options, seen);
  for (const auto& [part, found] : seen.parts) folders.emplace_back(part, found.front());
  return in_order(std::move(folders));
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

namespace {

// Folders, and record files, with samples that have no part, by the folder that they are in.
std::map<std::string, std::vector<std::string>> folders_of(const Dataset& dataset) {
  std::map<std::string, std::set<std::string>> children;
  std::string last;
  for (const Sample& sample : dataset.samples) {
    const std::string folder = sample.path.substr(0, sample.path.rfind('/') + 1);
    if (folder == last || !sample.part.empty()) continue;
    last = folder;
    for (size_t begin = 0, end = 0; begin < folder.size(); begin = end + 1) {
      end = folder.find('/', begin);
      children[folder.substr(0, begin)].insert(folder.substr(begin, end - begin));
    }
  }
  std::map<std::string, std::vector<std::string>> folders;
  for (const auto& [parent, names] : children) {
    folders[parent].assign(names.begin(), names.end());
    std::sort(folders[parent].begin(), folders[parent].end(), natural_less);
  }
  return folders;
}

// Files of which each part has several cannot be named one by one.
std::string cure_of(const DataOptions& options, const SoundingParts& sounding, const PartFolders& proposal) {
  const bool folds = sounding.kind == SoundingParts::Kind::folds;
  if (folds || !options.format->record_files || sounding.all.size() == proposal.size())
    return "name them, " + proposed(proposal);
  return "put each part's into a folder of its own, train/ and so on";
}

}  // namespace

void judge_sounding_folders(const DataOptions& options, Dataset& dataset) {
  const SplitOptions& split = options.split;
  if (!split.files.empty() || !split.folders.empty()) return;
  for (const auto& [parent, names] : folders_of(dataset)) {
    const SoundingParts sounding = parts_among(names);
    if (sounding.kind == SoundingParts::Kind::none || sounding.kind == SoundingParts::Kind::pieces) continue;
    PartFolders proposal = sounding.proposal(false);
    for (auto& [part, folder] : proposal) folder = parent + folder;
    std::vector<std::string> folders;
    for (const std::string& name : sounding.names()) folders.push_back(parent + name);
    const std::string seen = "that sound like parts (" + shown(folders) + ")";
    const std::string cure = cure_of(options, sounding, proposal);
    if (!split.given)
      throw DataError("data.root '" + options.root + "' has folders or files " + seen +
                      ", and nothing says that they are; " + cure +
                      ", or let data.split.valid=0.1 deal all of them out at random");
    dataset.warnings.push_back("folders or files " + seen +
                               " are dealt out at random by data.split; if they are parts, " + cure +
                               ", and take the rest of data.split out");
    return;
  }
}

void tell_sounding_names(const DataOptions& options, Dataset& dataset) {
  if (!options.split.files.empty() || !options.split.folders.empty() || options.format->record_files) return;
  std::map<std::string, std::string> firsts;  // part → a picture
  for (const Sample& sample : dataset.samples) {
    const std::string_view name = base_name(sample.path);
    const std::string part = part_called(name.substr(0, name.find_first_of("-_. 0123456789")));
    if (part.empty() || !sample.part.empty()) return;
    firsts.emplace(part, sample.path);
  }
  if (!firsts.contains("train") || firsts.size() < 2) return;
  std::vector<std::string> some;
  for (const auto& [part, path] : firsts) some.push_back(printable(path));
  dataset.warnings.push_back("all pictures are named for parts (" + join(some, ", ") +
                             "), but data.split deals them out at random; if they are parts, write their names into "
                             "lists, one for each part, and name these with data.split.files");
}

void tell_unnamed_folders(const DataOptions& options, Dataset& dataset) {
  const DataFormat::Folders kind = options.format->folders;
  const bool named_all = options.split.folders.contains("train");
  const std::string images = beneath_root(options.root, options.image_mask.images);
  const std::string masks = beneath_root(options.root, options.image_mask.masks);
  const bool beside_images =
      kind == DataFormat::Folders::masks && !images.empty() && is_folder((fs::path(options.root) / images).string());
  if (kind == DataFormat::Folders::nothing || (!named_all && !beside_images)) return;
  const PartFolders named = named_folders(options);
  PartFolders parts;
  std::vector<std::string> others;
  for (const std::string& name : folders_in(options.root)) {
    const auto meets = [&](const auto& entry) { return lies_in(entry.second, name) || lies_in(name, entry.second); };
    const bool of_masks =
        kind == DataFormat::Folders::masks && (images.empty() || lies_in(images, name) || lies_in(masks, name));
    if (is_beside_the_data(name) || of_masks || std::any_of(named.begin(), named.end(), meets)) continue;
    const std::vector<std::string> inner = folders_in((fs::path(options.root) / name).string());
    const std::vector<std::string> wanted = kind == DataFormat::Folders::masks ? std::vector{images} : dataset.classes;
    const bool like_a_part = std::any_of(inner.begin(), inner.end(), [&](const std::string& folder) {
      return std::count(wanted.begin(), wanted.end(), folder) > 0;
    });
    if (pictures_in_folder((fs::path(options.root) / name).string()) == 0) continue;
    const std::string part = part_within(name);
    if (!part.empty() || (named_all && like_a_part))
      parts.emplace_back(part, name);
    else
      others.push_back(name);
  }
  if (!others.empty())
    dataset.notes.push_back(shown(others) +
                            " left out: " + (named_all ? "not named by data.split.folders" : "beside " + images + "/"));
  if (parts.empty()) return;
  PartFolders more = named;
  std::vector<std::string> names;
  for (const auto& [part, folder] : parts) {
    names.push_back(folder);
    if (!part.empty() && !names_part(more, part)) more.emplace_back(part, folder);
  }
  if (!named_all) {
    dataset.warnings.push_back(shown(names) + " left out: beside " + images +
                               "/; if these are parts, put each into a " + "folder of its own, as in test/" + images +
                               "/ and test/" + options.image_mask.masks + "/, else move them away");
    return;
  }
  dataset.warnings.push_back("data.split.folders leaves out " + shown(names) + " with pictures; " +
                             (more.size() > named.size()
                                  ? "to use such a folder, name it too, " + proposed(in_order(more))
                                  : "if they are meant, name them, or move them away"));
}

}  // namespace dtrain
