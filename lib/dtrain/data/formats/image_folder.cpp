#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/scan.hpp"

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

// root/male/{ill, well}/ beside root/female/{ill, well, dead}/: which folders are the classes is a person's to say.
void refuse_equal_insides(const DataOptions& options, const Part& part) {
  if (!options.classes.empty() || part.classes.size() < 2) return;
  std::map<std::string, std::set<std::string>> insides;
  for (const std::string& picture : part.scan.pictures) {
    const size_t slash = picture.find('/');
    const std::string name = picture.substr(0, slash);
    if (slash == std::string::npos || !part.classes.contains(name)) continue;
    const size_t second = picture.find('/', slash + 1);
    if (second == std::string::npos) return;  // pictures of its own
    insides[name].insert(picture.substr(slash + 1, second - slash - 1));
  }
  if (insides.size() != part.classes.size()) return;
  std::set<std::string> common = insides.begin()->second, all;
  for (const auto& [name, folders] : insides) {
    std::erase_if(common, [&](const std::string& folder) { return !folders.contains(folder); });
    all.insert(folders.begin(), folders.end());
  }
  if (common.size() < 2 || 2 * common.size() < all.size()) return;
  const auto listed = [](const auto& names) {
    std::vector<std::string> some;
    for (const auto& name : names)
      if (some.size() < 5) some.push_back(printable(name));
    return join(some, ", ") + (names.size() > 5 ? ", …" : "");
  };
  const auto fewer = [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); };
  const std::string most =
      std::max_element(insides.begin(), insides.end(), fewer)->first;  // has all classes, or nearly
  const std::string other = *part.classes.rbegin() == most ? *part.classes.begin() : *part.classes.rbegin();
  const std::string example = part.folder.empty() ? ", as in " + split_folders_word({{"train", most}, {"valid", other}})
                                                  : " with data.split.folders";
  throw DataError("all class folders of '" + whole_path(options.root, part.folder) + "' (" + listed(part.classes) +
                  ") have folders in common and no picture of their own (" + listed(common) +
                  "), so it is unclear which of the two are the classes; if the outer ones are parts, name them" +
                  example +
                  "; if they are the classes, list them in data.classes; if they are sites or the like, put " +
                  "each inner folder's pictures into one folder");
}

Part read_part(const DataOptions& options, const std::string& name, const std::string& folder,
               const PartFolders& all_parts) {
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
    parts.push_back(read_part(options, name, folder, places));
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
  if (!options.split.folders.contains("train")) refuse_equal_insides(options, parts.front());
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
