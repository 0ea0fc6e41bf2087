#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/picture_channels.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/paths.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

/// One part of the data set: its class folders and their pictures.
struct Part {
  std::string name;               // "train" …; "" for pictures in no part's folder: all, or those to train on
  std::string folder;             // relative to root
  std::set<std::string> folders;  // all class folders
  std::set<std::string> classes;  // those of them that data.classes wants
  std::vector<std::string> left;  // folders with pictures that are none of the data (is_beside_the_data())
  FolderScan scan;
};

std::string whole_path(const std::string& root, const std::string& folder) {
  return folder.empty() ? root : (fs::path(root) / folder).string();
}

bool is_wanted(const DataOptions& options, const std::string& name) {
  return std::count(options.classes.begin(), options.classes.end(), name) > 0;
}

// Folders named like parts among the class folders, or inside them parts or what sounds like them; relative to the
// part's folder.
std::vector<std::string> parts_among_classes(const DataOptions& options, const Part& part) {
  std::set<std::string> found;
  for (const std::string& name : part.classes)
    if (!is_wanted(options, name) && !part_called(name).empty()) found.insert(name);
  std::map<std::string, std::set<std::string>> inside;  // folder → those in it
  std::string last;
  for (const std::string& picture : part.scan.pictures) {
    const std::string folder = picture.substr(0, picture.rfind('/') + 1);
    if (folder == last || !part.classes.contains(folder.substr(0, folder.find('/')))) continue;
    last = folder;
    for (size_t begin = folder.find('/') + 1, end = 0; begin < folder.size(); begin = end + 1) {
      end = folder.find('/', begin);
      const std::string name = folder.substr(begin, end - begin);
      if (!part_called(name).empty()) found.insert(folder.substr(0, end));
      inside[folder.substr(0, begin)].insert(name);
    }
  }
  for (const auto& [folder, names] : inside) {
    const SoundingParts sounding = parts_among({names.begin(), names.end()});
    if (sounding.kind == SoundingParts::Kind::pieces) continue;
    for (const std::string& name : sounding.names()) found.insert(folder + name);
  }
  return {found.begin(), found.end()};
}

// Without data.split it is unknown what such folders are for, and they are refused.
void judge_parts_among_classes(const DataOptions& options, const Part& part, Dataset& dataset) {
  const std::vector<std::string> found = parts_among_classes(options, part);
  if (found.empty()) return;
  const std::string whole = whole_path(options.root, part.folder);
  if (options.split.given) {
    dataset.notes.push_back(
        with_list("folders named like parts inside classes are split like all others, by data.split:", found, 5));
    return;
  }
  const std::string move = part.classes.size() == 1 ? "set data.root to '" + whole_path(whole, *part.classes.begin()) +
                                                          "' if the parts are there; else "
                                                    : "";
  throw DataError(
      with_list("'" + whole +
                    "' holds folders named like parts where format image_folder has classes, "
                    "root/CLASS/… or root/PART/CLASS/…; " +
                    move + "rename them, move them to PART/CLASS/, or let data.split.valid=0.1 deal all out at random:",
                found));
}

/// Where the pictures of class folders lie.
struct Insides {
  std::map<std::string, std::set<std::string>> folders;  // class folder → the folders in it that hold pictures
  size_t inside = 0;                                     // pictures in those
  size_t direct = 0;                                     // pictures of a class folder itself
};

Insides insides_of(const Part& part) {
  Insides found;
  for (const std::string& picture : part.scan.pictures) {
    const size_t slash = picture.find('/');
    const std::string name = picture.substr(0, slash);
    if (slash == std::string::npos || !part.classes.contains(name)) continue;
    const size_t second = picture.find('/', slash + 1);
    ++(second == std::string::npos ? found.direct : found.inside);
    if (second != std::string::npos) found.folders[name].insert(picture.substr(slash + 1, second - slash - 1));
  }
  return found;
}

std::string listed(const std::set<std::string>& names) {
  std::vector<std::string> some;
  for (const std::string& name : names)
    if (some.size() < 5) some.push_back(printable(name));
  return join(some, ", ") + (names.size() > 5 ? ", …" : "");
}

// "; if the outer ones are parts, name them, as in …": the one with most folders trains.
std::string if_parts(const Part& part, const Insides& insides) {
  const auto fewer = [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); };
  const auto most = std::max_element(insides.folders.begin(), insides.folders.end(), fewer);
  const auto other =
      most == std::prev(insides.folders.end()) ? insides.folders.begin() : std::prev(insides.folders.end());
  return "; if the outer ones are parts, name them" +
         (part.folder.empty() ? ", as in " + split_folders_word({{"train", most->first}, {"valid", other->first}})
                              : " with data.split.folders");
}

// root/male/{ill, well}/ beside root/female/{ill, well, dead}/: which folders are the classes is a person's to say.
// Where the two differ more, or have pictures of their own too, a warning.
void judge_insides(const DataOptions& options, const Part& part, Dataset& dataset) {
  if (!options.classes.empty() || part.classes.size() < 2) return;
  const Insides insides = insides_of(part);
  std::map<std::string, size_t> holders;  // inner folder → how many class folders have one of this name
  for (const auto& [name, folders] : insides.folders)
    for (const std::string& folder : folders) ++holders[folder];
  std::set<std::string> everywhere, repeated, outer;
  for (const auto& [folder, count] : holders) {
    if (count == part.classes.size()) everywhere.insert(folder);
    if (count > 1) repeated.insert(folder);
  }
  for (const auto& [name, folders] : insides.folders) outer.insert(name);
  const std::string whole = whole_path(options.root, part.folder);
  if (insides.direct == 0 && everywhere.size() > 1 && 2 * everywhere.size() >= holders.size())
    throw DataError("all class folders of '" + whole + "' (" + listed(part.classes) +
                    ") have folders in common and no picture of their own (" + listed(everywhere) +
                    "), so it is unclear which of the two are the classes" + if_parts(part, insides) +
                    "; if they are the classes, list them in data.classes; if they are sites or the like, put "
                    "each inner folder's pictures into one folder");
  if (!repeated.empty() && insides.inside > insides.direct)
    dataset.warnings.push_back("the class folders " + listed(outer) + " of '" + whole +
                               "' hold folders of the same names (" + listed(repeated) +
                               "), whose pictures count as those of the outer one" + if_parts(part, insides));
}

// images/ beside masks/, with pictures of the same names, would be two classes.
void refuse_masks_as_class(const DataOptions& options, const Part& part) {
  if (!options.classes.empty() || part.classes.size() != 2) return;
  std::string masks, images;
  for (const std::string& name : part.classes) (sounds_like_masks(name) ? masks : images) = name;
  if (masks.empty() || images.empty()) return;
  std::map<std::string, std::set<std::string>> stems;  // class folder → names of its pictures
  for (const std::string& picture : part.scan.pictures)
    if (const size_t slash = picture.find('/'); slash != std::string::npos)
      stems[picture.substr(0, slash)].insert(std::string(without_ending(picture.substr(slash + 1))));
  const auto both = std::count_if(stems[masks].begin(), stems[masks].end(),
                                  [&](const std::string& stem) { return stems[images].contains(stem); });
  if (both == 0 || static_cast<size_t>(2 * both) < stems[masks].size()) return;
  throw DataError(
      "'" + whole_path(options.root, part.folder) + "' holds " + images + "/ and " + masks +
      "/ with pictures of the same names, which would be two classes; if these are pictures and their masks, "
      "dtrain init drafts a configuration for them, and if they are classes, list both in data.classes");
}

Part read_part(const DataOptions& options, const std::string& name, const std::string& folder,
               const PartFolders& all_parts, Dataset& dataset) {
  Part part{name, folder, {}, {}, {}, {}};
  const std::string whole = whole_path(options.root, folder);
  if (!is_folder(whole))
    throw MissingError("the folder '" + whole + "' of the part '" + name +
                       "' does not exist; name existing folders with data.split.folders");
  for (const std::string& found : folders_in(whole)) {
    const bool holds_part = std::any_of(all_parts.begin(), all_parts.end(), [&](const auto& other) {
      return other.second != folder && lies_in(other.second, folder.empty() ? found : folder + "/" + found);
    });
    if (holds_part) continue;
    if (is_beside_the_data(found) && !is_wanted(options, found)) {
      part.left.push_back((folder.empty() ? "" : folder + "/") + found);
      continue;
    }
    part.folders.insert(found);
    if (!options.classes.empty() && !is_wanted(options, found)) continue;
    require_plain_name(found, "the name of a class folder in '" + whole + "',",
                       "rename it, or leave it out with data.classes");
    part.classes.insert(found);
  }
  for (const std::string& left : folders_left_out(whole))
    part.left.push_back((folder.empty() ? "" : folder + "/") + left);
  part.scan = scan_beneath(options.root, folder, options.allow_links);
  keep_first_files(options, folder, part.scan.pictures, dataset);
  std::erase_if(part.scan.foreign,
                [&](const std::string& file) { return !part.classes.contains(file.substr(0, file.find('/'))); });
  refuse_lost(part.scan, whole);
  if (part.folders.empty() && !name.empty()) {
    PartFolders others = all_parts;
    std::erase_if(others, [&](const auto& entry) { return entry.first == name; });
    throw DataError(
        "the folder '" + whole + "' of the part '" + name + "' holds " +
        (part.scan.pictures.empty() ? "no picture" : "pictures, but none in a class folder") +
        "; fill it, move it away, or name the folders to use" +
        (others.empty() || name == "train" ? " with data.split.folders" : ", as in " + split_folders_word(others)));
  }
  return part;
}

// Adds the samples of `part`; `all` is the sorted list of classes.
void add_samples(const Part& part, const std::vector<std::string>& all, Dataset& dataset) {
  std::vector<int64_t> counts(all.size(), 0);
  SampleTable table(dataset);
  const std::string prefix = part.folder.empty() ? "" : part.folder + "/";
  for (const std::string& picture : part.scan.pictures) {
    const size_t slash = picture.find('/');
    if (slash == std::string::npos) continue;  // not in a class folder
    const auto place = std::lower_bound(all.begin(), all.end(), picture.substr(0, slash));
    if (place == all.end() || *place != picture.substr(0, slash)) continue;  // data.classes leaves this class out
    Sample sample;
    sample.path = prefix + picture;
    sample.part = part.name;
    sample.group = group_of_name(picture);
    sample.class_index = place - all.begin();
    ++counts[static_cast<size_t>(sample.class_index)];
    table.add(std::move(sample));
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (part.classes.contains(all[i]) && counts[i] == 0)
      throw DataError("the class folder '" + whole_path(dataset.root, prefix + all[i]) +
                      "' holds no picture; fill it, remove it, or leave it out with data.classes");
}

// A class in another part but not in training is a mistake; one that only lacks validation pictures is worth a note.
void compare_parts(const std::vector<Part>& parts, const std::vector<std::string>& all, Dataset& dataset) {
  for (const Part& part : parts)
    for (const std::string& name : all) {
      if (part.classes.contains(name)) continue;
      const std::string where = whole_path(dataset.root, part.folder);
      if (part.name == "train" || part.name.empty())
        throw DataError("'" + where + "' lacks the class folder '" + name +
                        "', which another part has; add it, rename that one, or leave the class out with data.classes");
      dataset.notes.push_back("class '" + name + "' has no folder in '" + part.folder + "'");
    }
}

void note_leftovers(const std::vector<Part>& parts, Dataset& dataset) {
  std::vector<std::string> left;
  for (const Part& part : parts) left.insert(left.end(), part.left.begin(), part.left.end());
  for (std::string& folder : left) folder = printable(folder) + "/";
  if (left.size() > 5) left.resize(5);
  if (!left.empty())
    dataset.notes.push_back(
        join(left, ", ") + " left out: hidden, or made by a system or a viewer (data.classes takes one in as a class)");
  int64_t others = 0;
  int64_t beside = 0;
  for (const Part& part : parts) {
    others += part.scan.others;
    for (const std::string& picture : part.scan.pictures) beside += picture.find('/') == std::string::npos ? 1 : 0;
  }
  if (beside > 0) dataset.notes.push_back(count_of(beside, "picture") + " beside the class folders left out");
  if (others > 0) dataset.notes.push_back(count_of(others, "file") + " left out: not pictures by name");
}

void read_image_folder(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  PartFolders places = part_folders(options);
  dataset.own_parts = told_by_folders(places);
  const bool trains = !places.empty() && places.front().first == "train";
  if (!trains) places.insert(places.begin(), {"", ""});
  std::vector<Part> parts;
  std::set<std::string> folders;
  std::set<std::string> classes;
  for (const auto& [name, folder] : places) {
    parts.push_back(read_part(options, name, folder, places, dataset));
    folders.insert(parts.back().folders.begin(), parts.back().folders.end());
    classes.insert(parts.back().classes.begin(), parts.back().classes.end());
  }
  if (folders.empty())
    throw DataError("data.root '" + options.root +
                    "' holds no class folders; format image_folder wants one folder of "
                    "pictures per class, or train/ and valid/ with such folders in each");
  places_of(options.classes, {folders.begin(), folders.end()});  // checked here, where all classes are known
  dataset.classes.assign(classes.begin(), classes.end());
  for (const Part& part : parts) judge_parts_among_classes(options, part, dataset);
  refuse_masks_as_class(options, parts.front());
  if (!options.split.folders.contains("train")) judge_insides(options, parts.front(), dataset);
  for (const Part& part : parts) add_samples(part, dataset.classes, dataset);
  compare_parts(parts, dataset.classes, dataset);
  note_leftovers(parts, dataset);
}

}  // namespace

/// root/CLASS/…/picture, or root/PART/CLASS/…; classes sorted by name (bytes, as torchvision does). Group: the file
/// name up to its first '_' or '.'.
const DataFormat& image_folder_format() {
  static const DataFormat kFormat = {
      .name = "image_folder",
      .wants = "one folder of pictures per class",
      .task_default = "multiclass",
      .tasks = [](const DataOptions&) { return std::vector{Task::multiclass}; },
      .open = read_image_folder,
      .readings = image_folder_readings,
      .classes_told_by = "the names of the class folders",
      .folders = DataFormat::Folders::classes,
      .guesses_groups = true,
  };
  return kFormat;
}

}  // namespace dtrain
