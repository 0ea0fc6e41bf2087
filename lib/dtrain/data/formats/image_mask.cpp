#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/image_mask_cures.hpp"
#include "dtrain/data/formats/picture_channels.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/store/channel_files.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

/// Pictures and masks that belong together, because they share a stem or a sample's folder.
struct Pair {
  std::vector<std::string> images;  // relative to root
  std::vector<std::string> masks;
};
using Pairs = std::map<std::string, Pair>;

std::string slashed(const std::string& folder) { return folder.empty() ? "" : folder + "/"; }

bool holds_folder(const std::string& root, const std::string& relative) {
  return is_folder((fs::path(root) / relative).string());
}

FolderScan scan(const DataOptions& options, const std::string& folder) {
  return scan_beneath(options.root, folder, options.allow_links);
}

// What pairs a picture with its mask: the name without ending, in which masks may have a suffix.
std::string stem_of(const std::string& name, const std::string& suffix = "") {
  const std::string_view stem = without_ending(name);
  return std::string(stem.substr(0, stem.size() - suffix.size()));
}

bool has_suffix(const std::string& name, const std::string& suffix) { return without_ending(name).ends_with(suffix); }

// In stacks the pages pair, too.
std::string stem_and_page(const std::string& name, const std::string& suffix = "") {
  const int64_t page = picture_path(name).page;
  return stem_of(name, suffix) + (page > 0 ? "#" + std::to_string(page) : "");
}

// The last page of each stack among the pictures, by its stem; 0 for a picture of one page.
std::map<std::string, int64_t> last_pages(const std::vector<std::string>& pictures, const std::string& suffix) {
  std::map<std::string, int64_t> pages;
  for (const std::string& name : pictures) pages[stem_of(name, suffix)] = picture_path(name).page;
  return pages;
}

void require_equal_stacks(const std::vector<std::string>& images, const std::vector<std::string>& masks,
                          const std::string& of_first, const std::string& suffix) {
  std::vector<std::string> problems;
  const std::map<std::string, int64_t> of_masks = last_pages(masks, suffix);
  for (const auto& [name, page] : last_pages(images, of_first)) {
    const auto mask = of_masks.find(name);
    if (mask == of_masks.end() || mask->second == page) continue;
    problems.push_back(name + ": " + count_of(std::max<int64_t>(page, 1), "page") + ", its mask has " +
                       std::to_string(std::max<int64_t>(mask->second, 1)));
  }
  if (!problems.empty())
    throw DataError(with_list("stacks and their masks differ in their number of pages:", problems));
}

// The masks in a folder of their own; with a suffix each has it.
std::vector<std::string> masks_in(const DataOptions& options, const std::string& base, const std::string& folder) {
  const std::string& suffix = options.image_mask.mask_suffix;
  if (!holds_folder(options.root, folder))
    throw MissingError("the folder of masks '" + (fs::path(options.root) / folder).lexically_normal().string() +
                       "' does not exist; name it with data.image_mask.masks" + cure_for_masks(options, base));
  std::vector<std::string> masks = scan(options, folder).pictures;
  std::vector<std::string> without;
  for (const std::string& name : masks)
    if (!has_suffix(name, suffix)) without.push_back(slashed(folder) + name);
  if (!without.empty())
    throw DataError(
        with_list("'" + suffix + "' is missing before the ending of " + std::to_string(without.size()) + " of " +
                      count_of(static_cast<int64_t>(masks.size()), "mask") +
                      "; write in data.image_mask.mask_suffix what their names have there, or leave it out:",
                  without));
  return masks;
}

// root/IMAGES/name with root/MASKS/name, or name and suffix, for which both may be one folder.
void pair_by_stem(const DataOptions& options, const std::string& base, const std::string& images,
                  const std::string& masks, Pairs& pairs, Dataset& dataset) {
  const std::string& suffix = options.image_mask.mask_suffix;
  FolderScan found = scan(options, images);
  std::vector<std::string> of_masks;
  if (images == masks) {
    const auto first = std::stable_partition(found.pictures.begin(), found.pictures.end(),
                                             [&](const std::string& name) { return !has_suffix(name, suffix); });
    of_masks.assign(first, found.pictures.end());
    found.pictures.erase(first, found.pictures.end());
  } else {
    of_masks = masks_in(options, base, masks);
  }
  refuse_lost(found, options.root + "/" + images);
  keep_first_files(options, images, found.pictures, dataset);
  const std::string of_first = ChannelFiles(options.image.files).first_ending();
  require_equal_stacks(found.pictures, of_masks, of_first, suffix);
  for (const std::string& name : found.pictures)
    pairs[slashed(images) + stem_and_page(name, of_first)].images.push_back(slashed(images) + name);
  for (const std::string& name : of_masks)
    pairs[slashed(images) + stem_and_page(name, suffix)].masks.push_back(slashed(masks) + name);
}

// root/SAMPLE/IMAGES/name with all of root/SAMPLE/MASKS.
void pair_by_folder(const DataOptions& options, const std::string& base, Pairs& pairs, Dataset& dataset) {
  FolderScan found = scan(options, base);
  std::erase_if(found.foreign, [&](const std::string& name) {
    return !lies_in(name.substr(name.find('/') + 1), options.image_mask.images);
  });
  refuse_lost(found, options.root + "/" + base);
  const auto inner = [](const std::string& name) { return name.substr(name.find('/') + 1); };
  const auto key = [&](const std::string& name) { return slashed(base) + name.substr(0, name.find('/')); };
  std::vector<std::string> images;
  for (const std::string& name : found.pictures) {
    if (name.find('/') == std::string::npos) continue;
    if (lies_in(inner(name), options.image_mask.images)) images.push_back(name);
    if (lies_in(inner(name), options.image_mask.masks)) pairs[key(name)].masks.push_back(slashed(base) + name);
  }
  keep_first_files(options, base, images, dataset);
  for (const std::string& name : images) pairs[key(name)].images.push_back(slashed(base) + name);
}

// What the names of masks add to those of their images, as in a0_mask.png beside a0.png. Looks at masks without image
// whose name begins with that of an image without mask; "" if they add different suffixes, or there are none.
std::string suffix_of_masks(const Pairs& pairs) {
  const auto wants_mask = [&](const std::string& key) {
    const auto found = pairs.find(key);
    return found != pairs.end() && found->second.masks.empty();
  };
  std::set<std::string> suffixes;
  for (const auto& [key, pair] : pairs) {
    if (!pair.images.empty()) continue;
    size_t length = key.empty() ? 0 : key.size() - 1;
    while (length > 0 && !wants_mask(key.substr(0, length))) --length;
    if (length > 0) suffixes.insert(key.substr(length));
  }
  return suffixes.size() == 1 ? *suffixes.begin() : "";
}

// The same where masks lie among the pictures, a0_mask.png beside a0.png, and none of them has a mask.
std::string suffix_beside(const Pairs& pairs) {
  std::vector<std::string> without;
  for (const auto& [key, pair] : pairs)
    if (!pair.images.empty() && pair.masks.empty()) without.push_back(pair.images[0]);
  return suffix_of_masks_beside(without);
}

// The endings of pictures that seem to be channels of one, for data.image.files.
std::string channels_of_pairs(const Pairs& pairs) {
  std::vector<std::string> images, masks;
  for (const auto& [key, pair] : pairs) {
    if (pair.masks.empty()) images.push_back(key);
    if (pair.images.empty()) masks.push_back(key);
  }
  return channel_files_beside(images, masks);
}

// Checks that every pair has one picture, and masks in formats that keep pixel values: one, or several if the sample
// has its own folder.
void check_pairs(const DataOptions& options, const Pairs& pairs, bool one_mask) {
  std::vector<std::string> problems;
  size_t inexact = 0, several = 0;
  for (const auto& [key, pair] : pairs) {
    if (pair.images.empty()) problems.push_back("mask without image: " + pair.masks[0]);
    if (pair.masks.empty()) problems.push_back("image without mask: " + pair.images[0]);
    if (pair.images.size() > 1 && ++several > 0)
      problems.push_back((one_mask ? "two images of one name: " : "several images in the folder of one sample: ") +
                         pair.images[0] + ", " + pair.images[1]);
    if (one_mask && pair.masks.size() > 1)
      problems.push_back("two masks of one name: " + pair.masks[0] + ", " + pair.masks[1]);
    for (const std::string& mask : pair.masks)
      if (const std::string format = inexact_format(mask); !format.empty() && ++inexact > 0)
        problems.push_back("mask is a " + format + ", which changes pixel values: " + mask);
  }
  if (problems.empty()) return;
  if (inexact == problems.size())
    throw DataError(with_list("masks are of a format that changes pixel values (" +
                                  count_of(static_cast<int64_t>(inexact), "mask") + "); save them as PNG or TIFF:",
                              problems));
  const std::string suffix = suffix_of_masks(pairs);
  const std::string beside = one_mask ? suffix_beside(pairs) : "";
  std::string rule = one_mask ? "a mask has the name of its picture except for the ending; rename, add or remove"
                              : "rename, add or remove";
  if (const std::string files = channels_of_pairs(pairs); one_mask && !files.empty()) {
    rule = "pictures seem to have a file for each channel; write " + shell_word("data.image.files=" + files);
  } else if (!beside.empty()) {
    rule = "masks seem to lie beside their pictures, told apart by their names: " +
           masks_beside_words(options.image_mask.images, beside);
  } else if (!suffix.empty()) {
    rule = "masks have '" + suffix + "' after the names of their pictures; write " +
           shell_word("data.image_mask.mask_suffix=" + suffix);
  } else if (several == problems.size() && pairs.size() > 1) {
    rule = "folders that have " + options.image_mask.images + "/ and " + options.image_mask.masks +
           "/ of their own are samples of one picture each; if they are parts, name them, as in " +
           split_folders_word({{"train", pairs.begin()->first}, {"valid", pairs.rbegin()->first}}) +
           "; else put all pictures into one such pair of folders";
  }
  throw DataError(with_list("images and masks do not pair (" +
                                count_of(static_cast<int64_t>(problems.size()), "problem") + "); " + rule + ":",
                            problems));
}

void read_pairs(const DataOptions& options, const std::string& base, Dataset& dataset) {
  const std::string images = beneath_root(options.root, slashed(base) + options.image_mask.images);
  const std::string masks = beneath_root(options.root, slashed(base) + options.image_mask.masks);
  const std::string& suffix = options.image_mask.mask_suffix;
  if (images == masks && suffix.empty())
    throw ConfigError(
        "data.image_mask.images and data.image_mask.masks name the same folder, '" + options.image_mask.images +
        "', so each picture would be its own mask; put the masks into a separate folder, each named like its picture, "
        "or say what their names add to it: data.image_mask.mask_suffix");
  const bool paired = holds_folder(options.root, images);
  if (!paired && !suffix.empty())
    throw ConfigError("data.image_mask.mask_suffix is '" + suffix + "', but '" +
                      (fs::path(options.root) / images).lexically_normal().string() +
                      "' does not exist, and in a folder of its own a sample's masks have any names; leave it out, or "
                      "name the pictures' folder with data.image_mask.images");
  Pairs pairs;
  if (paired) {
    pair_by_stem(options, base, images, masks, pairs, dataset);
  } else {
    pair_by_folder(options, base, pairs, dataset);
  }
  if (pairs.empty() && is_folder((fs::path(options.root) / base / "imagesTr").string()))
    throw MissingError("'" + (fs::path(options.root) / base).string() +
                       "' has a folder imagesTr/, as nnU-Net's data sets do, but not the dataset.json that describes "
                       "one; copy it there from where the data set comes from");
  if (pairs.empty())
    throw MissingError("'" + (fs::path(options.root) / base).string() + "' holds neither pictures in " +
                       options.image_mask.images + "/ nor folders with " + options.image_mask.images + "/ and " +
                       options.image_mask.masks +
                       "/ in them; name them with data.image_mask.images and .masks, and where both lie in one folder "
                       "what the names of masks add, with data.image_mask.mask_suffix" +
                       cure_for_masks(options, base));
  check_pairs(options, pairs, paired);
  SampleTable table(dataset);
  for (auto& [key, pair] : pairs) {
    Sample sample;
    sample.path = pair.images[0];
    sample.masks = std::move(pair.masks);
    table.add(std::move(sample));
  }
}

}  // namespace

void set_mask_values(const std::map<int64_t, int64_t>& given, Dataset& dataset) {
  const std::map<int64_t, int64_t> mask_values = given.empty() ? std::map<int64_t, int64_t>{{255, 1}} : given;
  int64_t most = 0;
  for (const auto& [value, number] : mask_values) most = std::max(most, number);
  if (most > 255) throw ConfigError("data.image_mask.mask_values: a class is 1 … 255, not " + std::to_string(most));
  for (int64_t wanted = 1; wanted <= std::max<int64_t>(most, 1); ++wanted)
    if (std::none_of(mask_values.begin(), mask_values.end(), [&](const auto& entry) { return entry.second == wanted; }))
      throw ConfigError(
          "data.image_mask.mask_values gives no pixel value to class " + std::to_string(wanted) +
          "; classes are numbered 1, 2, … without a gap, and written {pixel value: class}, such as {255: 1}");
  dataset.classes = mask_class_names(most);
  dataset.mask_values = mask_values;
}

std::vector<std::string> mask_class_names(int64_t classes) {
  if (classes == 1) return {"foreground"};
  std::vector<std::string> names;
  for (int64_t i = 1; i <= classes; ++i) names.push_back(std::to_string(i));
  return names;
}

void group_stacks(Dataset& dataset) {
  std::set<std::string> files;
  for (const Sample& sample : dataset.samples) files.insert(picture_path(sample.path).file);
  if (files.size() < 2) return;
  for (Sample& sample : dataset.samples)
    if (const PicturePath path = picture_path(sample.path); path.page > 0) sample.group = path.file;
}

std::optional<std::vector<std::string>> mask_classes_told(const DataOptions& options) {
  if (options.image_mask.mask_values.empty()) return std::nullopt;  // known only from the data
  std::set<std::string> numbers;
  for (const auto& [pixel, number] : options.image_mask.mask_values) numbers.insert(std::to_string(number));
  return std::vector<std::string>(numbers.begin(), numbers.end());
}

std::optional<int64_t> mask_classes_count(const DataOptions& options) {
  int64_t most = 0;
  for (const auto& [pixel, number] : options.image_mask.mask_values) most = std::max(most, number);
  return most > 0 ? std::optional(most) : std::nullopt;
}

void check_mask_values(const DataOptions& options, KeyReport& report) {
  if (!report.sound({"data.image_mask.mask_values"})) return;
  std::set<int64_t> numbers;
  for (const auto& [pixel, number] : options.image_mask.mask_values) numbers.insert(number);
  if (static_cast<int64_t>(numbers.size()) != mask_classes_count(options).value_or(0))
    report.wrong(
        {"data.image_mask.mask_values"},
        "data.image_mask.mask_values must number its classes 1, 2, … without a gap; it is written {pixel value: "
        "class}, such as {255: 1}");
}

static void read_image_mask(const DataOptions& options, uint64_t /*seed*/, Dataset& dataset) {
  const std::string images = beneath_root(options.root, options.image_mask.images);
  if (is_nnunet(options)) {
    if (!options.image_mask.mask_suffix.empty())
      throw ConfigError("data.image_mask.mask_suffix has no effect in nnU-Net's layout, which '" + options.root +
                        "' has; leave it out");
    read_nnunet(options, dataset);
    part_folders(options, images);  // only checks: nnU-Net's folders are not parts, and none may be named like one
    return;
  }
  set_mask_values(options.image_mask.mask_values, dataset);
  const PartFolders parts = part_folders(options, images);
  dataset.own_parts = told_by_folders(parts);
  const bool at_root = holds_folder(options.root, images);
  if (at_root || parts.empty() || parts.front().first != "train") read_pairs(options, "", dataset);
  for (const auto& [part, folder] : parts)
    if (!at_root || !lies_in(folder, images)) read_pairs(options, folder, dataset);
  set_parts(parts, dataset.samples);
  group_stacks(dataset);
}

/// root/IMAGES/name + root/MASKS/name paired by stem, to which masks may add mask_suffix (both may then be one folder),
/// or one folder per sample, each with its own IMAGES/ (one
/// picture) and MASKS/, whose union is the mask; both layouts also under PART/. A stack is paired with a stack of as
/// many pages, page by page. Masks must not be JPEG, which changes pixel values. Classes: "foreground", or "1", "2" …
/// if mask_values has several. Or nnU-Net's layout, if root holds dataset.json and imagesTr/ but no IMAGES/:
/// imagesTr/CASE_0000.png and labelsTr/CASE.png, stacks page by page; classes and pixel values are the `labels` of
/// dataset.json unless mask_values is given; the channels are the files CASE_0000, CASE_0001 … of a case, where
/// channel_names counts so many. NIfTI, regions and an ignore label are refused.
const DataFormat& image_mask_format() {
  static const DataFormat kFormat = {
      .name = "image_mask",
      .wants = "a folder of pictures and one of masks, of the same names",
      .task_default = "segmentation",
      .tasks = [](const DataOptions&) { return std::vector{Task::segmentation}; },
      .open = read_image_mask,
      .check = [](const DataOptions& options, Task, KeyReport& report) { check_mask_values(options, report); },
      .readings = image_mask_readings,
      .class_names = mask_classes_told,
      .class_count = mask_classes_count,
      .class_keys = {"data.image_mask.mask_values"},
      .own_channels = nnunet_channels,
      .folders = DataFormat::Folders::masks,
      .has_masks = [](const DataOptions&) { return true; },
  };
  return kFormat;
}

}  // namespace dtrain
