// How a folder of class folders may be meant where its names leave that open.
#include <algorithm>
#include <map>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/reading.hpp"

namespace dtrain {

namespace {

constexpr double kValidShare = 0.15;  // for validation where folders name only the training part

using Assigned = std::map<std::string, std::string>;  // part → folder

// All ways to give each part one of the folders with its name. At most eight.
std::vector<Assigned> assignments(const std::vector<std::string>& folders) {
  std::vector<Assigned> all = {{}};
  std::map<std::string, std::vector<std::string>> of_part;
  for (const std::string& folder : folders)
    if (const std::string part = part_within(folder); !part.empty()) of_part[part].push_back(folder);
  for (const auto& [part, choices] : of_part) {
    std::vector<Assigned> more;
    for (const Assigned& one : all)
      for (const std::string& folder : choices) {
        more.push_back(one);
        more.back()[part] = folder;
      }
    all = std::move(more);
  }
  if (all.size() > 8) all.resize(8);
  std::erase_if(all, [](const Assigned& one) { return one.empty(); });
  return all;
}

/// The readings of one folder; they share a family.
class FolderReadings {
 public:
  FolderReadings(const FolderLook& look, const std::string& base)
      : look_(look), base_(base), folders_(folders_with_pictures(look, base)) {
    std::erase_if(folders_, is_beside_the_data);
  }

  std::vector<Reading> all() {
    if (folders_.empty() || holds_masks()) return {};
    Reading plain = next(Reading::Trust::certain);
    plain.decides.clear();
    found_.push_back(std::move(plain));
    as_parts();
    as_classes();
    dealt_afresh();
    return std::move(found_);
  }

 private:
  // Pictures and masks, which are another format's: at the base, or in each part or sample.
  bool holds_masks() const {
    if (std::any_of(folders_.begin(), folders_.end(), sounds_like_masks)) return true;
    const std::vector<std::string> inner =
        folders_with_pictures(look_, (base_.empty() ? "" : base_ + "/") + folders_.front());
    return std::any_of(inner.begin(), inner.end(), sounds_like_masks);
  }

  Reading next(Reading::Trust trust) const {
    Reading reading = reading_of(image_folder_format(), whole_folder(look_, base_), look_);
    reading.trust = trust;
    reading.likelihood = 60 - static_cast<int>(base_.empty() ? 0 : std::count(base_.begin(), base_.end(), '/') + 1);
    reading.family = "folders of " + base_;
    reading.question = "which folders are parts of the data set, and which are classes";
    reading.sees = "one folder of pictures per class";
    if (!base_.empty()) reading.why["data.root"] = "all pictures are in this folder";
    return reading;
  }

  void as_parts() {
    for (const Assigned& parts : assignments(folders_)) {
      if (!parts.contains("train")) continue;
      Reading reading = next(Reading::Trust::offered);
      reading.options.split.folders = parts;
      reading.options.split.given = true;
      reading.options.split.valid = parts.contains("valid") ? 0 : kValidShare;
      reading.decides = {"data.split"};
      reading.why["data.split"] =
          "parts by folder" + std::string(parts.contains("valid") ? "" : "; a share validates") + without(parts);
      found_.push_back(reading);
      if (parts.size() < 2 || !any_flat_part()) continue;  // a part without class folders cannot be used
      const Assigned training = {{"train", parts.at("train")}};
      reading.options.split.folders = training;
      reading.options.split.valid = kValidShare;
      reading.why["data.split"] = "a share of the training folder validates" + without(training);
      found_.push_back(std::move(reading));
    }
  }

  std::string without(const Assigned& parts) const {
    std::vector<std::string> left;
    for (const std::string& folder : folders_)
      if (std::none_of(parts.begin(), parts.end(), [&](const auto& part) { return part.second == folder; }))
        left.push_back(folder + "/");
    return left.empty() ? "" : "; left out: " + join(left, ", ");
  }

  // Pictures lie in it, not in folders of classes.
  bool is_flat(const std::string& folder) const {
    const std::vector<std::string> pictures = pictures_in(look_, (base_.empty() ? "" : base_ + "/") + folder);
    return std::any_of(pictures.begin(), pictures.end(),
                       [](const std::string& picture) { return picture.find('/') == std::string::npos; });
  }
  bool any_flat_part() const {
    return std::any_of(folders_.begin(), folders_.end(),
                       [&](const std::string& f) { return !part_within(f).empty() && is_flat(f); });
  }

  // Folders named like parts, which hold pictures as the classes beside them do.
  void as_classes() {
    const auto named = [](const std::string& folder) { return !part_within(folder).empty(); };
    if (std::none_of(folders_.begin(), folders_.end(), named) || std::all_of(folders_.begin(), folders_.end(), named))
      return;
    if (!std::all_of(folders_.begin(), folders_.end(), [&](const std::string& f) { return is_flat(f); })) return;
    Reading reading = next(Reading::Trust::offered);
    reading.options.classes = folders_;
    reading.decides = {"data.classes"};
    reading.why["data.classes"] = "each folder is a class, those named like parts too";
    found_.push_back(std::move(reading));
  }

  // One pass, however many folders there are.
  bool parts_within() const {
    std::set<std::string> seen;
    for (const std::string& picture : pictures_in(look_, base_)) {
      const std::vector<std::string> folders = split_text(picture, '/');
      for (size_t i = 1; i + 1 < folders.size() && i < 3; ++i)
        if (seen.insert(folders[i]).second && !part_called(folders[i]).empty()) return true;
    }
    return false;
  }

  // Folders of parts within the classes cannot be used: only a person knows whether they may be mixed.
  void dealt_afresh() {
    if (!parts_within()) return;
    Reading reading = next(Reading::Trust::asked);
    reading.options.split.given = true;
    reading.options.split.valid = kValidShare;
    reading.decides = {"data.split"};
    reading.question = "whether the folders of parts inside the classes may be split again";
    reading.why["data.split"] = "splits all pictures again, those of test folders too; else move such folders away";
    found_.push_back(std::move(reading));
  }

  const FolderLook& look_;
  std::string base_;
  std::vector<std::string> folders_;
  std::vector<Reading> found_;
};

}  // namespace

std::vector<Reading> image_folder_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const std::string& base : layout_bases(look))
    for (Reading& reading : FolderReadings(look, base).all()) all.push_back(std::move(reading));
  return all;
}

}  // namespace dtrain
