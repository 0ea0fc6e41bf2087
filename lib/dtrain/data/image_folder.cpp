#include <algorithm>
#include <filesystem>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats.hpp"
#include "dtrain/data/scan.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

/// One part of the data set (or all of it, where root holds no parts): its class folders and their pictures.
struct Part {
  std::string name;               // "train" …, "" for the whole
  std::string folder;             // relative to root
  std::set<std::string> folders;  // all class folders
  std::set<std::string> classes;  // of these, the ones that data.classes wants
  FolderScan scan;
};

std::string whole_path(const std::string& root, const std::string& folder) {
  return folder.empty() ? root : (fs::path(root) / folder).string();
}

Part read_part(const DataOptions& options, const std::string& name, const std::string& folder) {
  Part part{name, folder, {}, {}, {}};
  const std::string whole = whole_path(options.root, folder);
  if (!is_folder(whole)) throw MissingError("the folder '" + whole + "' of the part '" + name + "' does not exist");
  for (const std::string& found : folders_in(whole)) {
    part.folders.insert(found);
    if (!options.classes.empty() && std::count(options.classes.begin(), options.classes.end(), found) == 0) continue;
    require_plain_name(found, "the name of a class folder in '" + whole + "',",
                       "rename it, or leave it out with data.classes");
    part.classes.insert(found);
  }
  part.scan = scan_beneath(options.root, folder, options.allow_links);
  std::erase_if(part.scan.foreign,
                [&](const std::string& file) { return !part.classes.contains(file.substr(0, file.find('/'))); });
  refuse_lost(part.scan, whole);
  return part;
}

// Adds the samples of `part`; `all` is the sorted list of classes.
void add_samples(const Part& part, const std::vector<std::string>& all, Dataset& dataset) {
  std::vector<int64_t> counts(all.size(), 0);
  SampleTable table(dataset);
  const std::string prefix = part.folder.empty() ? "" : part.folder + "/";
  for (const std::string& picture : part.scan.pictures) {
    const size_t slash = picture.find('/');
    if (slash == std::string::npos) continue;  // beside the class folders
    const auto place = std::lower_bound(all.begin(), all.end(), picture.substr(0, slash));
    if (place == all.end() || *place != picture.substr(0, slash)) continue;  // a class that data.classes leaves out
    Sample sample;
    sample.path = prefix + picture;
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

// A class that is validated but never trained is a mistake; one that only lacks validation pictures is worth a note.
void compare_parts(const std::vector<Part>& parts, const std::vector<std::string>& all, Dataset& dataset) {
  for (const Part& part : parts)
    for (const std::string& name : all) {
      if (part.classes.contains(name)) continue;
      const std::string where = whole_path(dataset.root, part.folder);
      if (part.name == "train")
        throw DataError("'" + where + "' lacks the class folder '" + name + "', which another part has");
      dataset.notes.push_back("class '" + name + "' has no folder in '" + part.folder + "'");
    }
}

void note_leftovers(const std::vector<Part>& parts, Dataset& dataset) {
  int64_t others = 0;
  int64_t beside = 0;
  for (const Part& part : parts) {
    others += part.scan.others;
    for (const std::string& picture : part.scan.pictures) beside += picture.find('/') == std::string::npos ? 1 : 0;
  }
  if (beside > 0) dataset.notes.push_back(count_of(beside, "picture") + " beside the class folders left out");
  if (others > 0) dataset.notes.push_back(count_of(others, "file") + " left out: no picture by name");
}

}  // namespace

void read_image_folder(const DataOptions& options, Dataset& dataset) {
  auto places = part_folders(options.root, options.split);
  if (places.empty()) places.emplace_back("", "");
  std::vector<Part> parts;
  std::set<std::string> folders;
  std::set<std::string> classes;
  for (const auto& [name, folder] : places) {
    parts.push_back(read_part(options, name, folder));
    folders.insert(parts.back().folders.begin(), parts.back().folders.end());
    classes.insert(parts.back().classes.begin(), parts.back().classes.end());
  }
  if (folders.empty())
    throw DataError("data.root '" + options.root +
                    "' holds no class folders; format image_folder wants one folder of "
                    "pictures per class, or train/ and valid/ with such folders in each");
  places_of(options.classes, {folders.begin(), folders.end()});  // here all of them are known
  dataset.classes.assign(classes.begin(), classes.end());
  for (const Part& part : parts) add_samples(part, dataset.classes, dataset);
  compare_parts(parts, dataset.classes, dataset);
  note_leftovers(parts, dataset);
}

}  // namespace dtrain
