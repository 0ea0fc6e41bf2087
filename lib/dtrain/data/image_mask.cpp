#include <algorithm>
#include <filesystem>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats.hpp"
#include "dtrain/data/scan.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

/// Pictures and masks that belong together, by what pairs them: a stem, or a sample's folder.
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

// root/IMAGES/name with root/MASKS/name.
void pair_by_stem(const DataOptions& options, const std::string& images, const std::string& masks, Pairs& pairs) {
  if (!holds_folder(options.root, masks))
    throw MissingError("the folder of masks '" + (fs::path(options.root) / masks).lexically_normal().string() +
                       "' does not exist; name it with data.image_mask.masks");
  for (const std::string& name : scan(options, images).pictures)
    pairs[slashed(images) + std::string(without_ending(name))].images.push_back(slashed(images) + name);
  for (const std::string& name : scan(options, masks).pictures)
    pairs[slashed(images) + std::string(without_ending(name))].masks.push_back(slashed(masks) + name);
}

// root/SAMPLE/IMAGES/name with all of root/SAMPLE/MASKS.
void pair_by_folder(const DataOptions& options, const std::string& base, Pairs& pairs) {
  for (const std::string& name : scan(options, base).pictures) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    const std::string inner = name.substr(slash + 1);
    const std::string key = slashed(base) + name.substr(0, slash);
    if (lies_in(inner, options.image_mask.images)) pairs[key].images.push_back(slashed(base) + name);
    if (lies_in(inner, options.image_mask.masks)) pairs[key].masks.push_back(slashed(base) + name);
  }
}

// Every pair has one picture, and masks that are PNG: one, or several where the sample has a folder of its own.
void check_pairs(const Pairs& pairs, bool one_mask) {
  std::vector<std::string> problems;
  for (const auto& [key, pair] : pairs) {
    if (pair.images.empty()) problems.push_back("mask without image: " + pair.masks[0]);
    if (pair.masks.empty()) problems.push_back("image without mask: " + pair.images[0]);
    if (pair.images.size() > 1) problems.push_back("two images of one name: " + pair.images[0] + ", " + pair.images[1]);
    if (one_mask && pair.masks.size() > 1)
      problems.push_back("two masks of one name: " + pair.masks[0] + ", " + pair.masks[1]);
    for (const std::string& mask : pair.masks)
      if (!lower_case(mask).ends_with(".png"))
        problems.push_back("mask is no PNG, and JPEG changes pixel values: " + mask);
  }
  if (!problems.empty())
    throw DataError("images and masks do not pair (" + count_of(static_cast<int64_t>(problems.size()), "problem") +
                    "):\n" + capped_list(problems));
}

void read_pairs(const DataOptions& options, const std::string& base, Dataset& dataset) {
  const std::string images = beneath_root(options.root, slashed(base) + options.image_mask.images);
  const std::string masks = beneath_root(options.root, slashed(base) + options.image_mask.masks);
  const bool paired = holds_folder(options.root, images);
  Pairs pairs;
  if (paired) {
    pair_by_stem(options, images, masks, pairs);
  } else {
    pair_by_folder(options, base, pairs);
  }
  if (pairs.empty())
    throw MissingError("'" + (fs::path(options.root) / base).string() + "' holds neither pictures in " +
                       options.image_mask.images + "/ nor folders with " + options.image_mask.images + "/ and " +
                       options.image_mask.masks + "/ in them; name them with data.image_mask.images and .masks");
  check_pairs(pairs, paired);
  for (auto& [key, pair] : pairs) {
    Sample sample;
    sample.path = pair.images[0];
    sample.masks = std::move(pair.masks);
    dataset.samples.push_back(std::move(sample));
  }
}

int64_t checked_class_count(const std::map<int64_t, int64_t>& mask_values) {
  int64_t most = 0;
  for (const auto& [value, number] : mask_values) most = std::max(most, number);
  if (most > 255) throw ConfigError("data.image_mask.mask_values: a class is 1 … 255, not " + std::to_string(most));
  for (int64_t wanted = 1; wanted <= std::max<int64_t>(most, 1); ++wanted)
    if (std::none_of(mask_values.begin(), mask_values.end(), [&](const auto& entry) { return entry.second == wanted; }))
      throw ConfigError("data.image_mask.mask_values gives no pixel value to class " + std::to_string(wanted) +
                        "; classes are numbered 1, 2, … without a gap");
  return most;
}

}  // namespace

std::vector<std::string> mask_class_names(int64_t classes) {
  if (classes == 1) return {"foreground"};
  std::vector<std::string> names;
  for (int64_t i = 1; i <= classes; ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::string> mask_classes(const ImageMaskOptions& options) {
  return mask_class_names(checked_class_count(options.mask_values));
}

void read_image_mask(const DataOptions& options, Dataset& dataset) {
  dataset.classes = mask_classes(options.image_mask);
  auto parts = part_folders(options.root, options.split);
  const bool whole = parts.empty() || holds_folder(options.root, beneath_root(options.root, options.image_mask.images));
  if (whole) return read_pairs(options, "", dataset);
  for (const auto& [part, folder] : parts) read_pairs(options, folder, dataset);
}

}  // namespace dtrain
