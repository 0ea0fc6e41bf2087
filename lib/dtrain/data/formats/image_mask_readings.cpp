// Which folders may hold pictures and which their masks.
#include <algorithm>
#include <map>
#include <set>

#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/formats/part_folders.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace {

using Stems = std::set<std::string>;

Stems stems_in(const FolderLook& look, const std::string& folder) {
  Stems stems;
  for (const std::string& picture : pictures_in(look, folder))
    stems.insert(std::string(without_ending(picture)) + "#" + std::to_string(picture_path(picture).page));
  return stems;
}

// What the names of all masks add to those of pictures, "_seg"; "" if some are otherwise.
std::string suffix_between(const Stems& images, const Stems& masks) {
  const auto plain = [](const std::string& stem) { return stem.substr(0, stem.rfind('#')); };
  std::set<std::string> names;
  for (const std::string& stem : images) names.insert(plain(stem));
  if (masks.empty()) return "";
  const std::string first = plain(*masks.begin());
  for (size_t length = first.size() - 1; length > 0; --length) {
    if (!names.contains(first.substr(0, length))) continue;
    const std::string suffix = first.substr(length);
    const bool all = std::all_of(masks.begin(), masks.end(), [&](const std::string& stem) {
      const std::string mask = plain(stem);
      return mask.ends_with(suffix) && names.contains(mask.substr(0, mask.size() - suffix.size()));
    });
    if (all) return suffix;
  }
  return "";
}

/// A folder of pictures and one of masks, relative to the base or to each part or sample in it.
struct FolderPair {
  std::string images;
  std::string masks;
  bool certain = false;  // by the name of the masks
  bool equal = false;    // the same names in both
  std::string suffix{};  // what those of the masks add
};

/// Finds them among the folders in `base`.
class FolderPairs {
 public:
  FolderPairs(const FolderLook& look, std::string base)
      : look_(look), base_(std::move(base)), folders_(folders_with_pictures(look, base_)) {}

  std::vector<FolderPair> all() const {
    const std::vector<std::string> inner = common_inner();
    std::vector<FolderPair> pairs;
    if (inner.size() >= 2 && inner.size() <= 6 && std::any_of(inner.begin(), inner.end(), sounds_like_masks))
      pairs = of_parts_or_samples(inner);
    if (pairs.empty()) pairs = among(folders_, base_);
    std::stable_sort(pairs.begin(), pairs.end(), [](const FolderPair& a, const FolderPair& b) {
      return a.certain != b.certain ? a.certain : a.equal && !b.equal;
    });
    return pairs;
  }

 private:
  std::string beneath(const std::string& folder) const { return base_.empty() ? folder : base_ + "/" + folder; }

  // Pairs of names that are equal; where one is named for masks, also if it fits no other folder.
  std::vector<FolderPair> among(const std::vector<std::string>& folders, const std::string& base) const {
    constexpr size_t kMostFolders = 12;  // beyond that they are samples or classes
    std::vector<FolderPair> pairs;
    if (folders.size() < 2 || folders.size() > kMostFolders) return pairs;
    std::map<std::string, Stems> stems;
    for (const std::string& folder : folders)
      stems[folder] = stems_in(look_, (base.empty() ? "" : base + "/") + folder);
    for (const std::string& masks : folders)
      for (const std::string& images : folders) {
        if (images == masks || sounds_like_masks(images)) continue;
        const bool named = sounds_like_masks(masks);
        const bool equal = stems.at(images) == stems.at(masks);
        if (equal || (named && folders.size() == 2))
          pairs.push_back(
              {images, masks, named, equal, equal ? "" : suffix_between(stems.at(images), stems.at(masks))});
      }
    return pairs;
  }

  // The folders in each of the parts, or samples, that are in at least nine of ten of them.
  std::vector<std::string> common_inner() const {
    constexpr size_t kLookedAt = 30;
    std::map<std::string, size_t> counts;
    const size_t looked = std::min(folders_.size(), kLookedAt);
    for (size_t i = 0; i < looked; ++i)
      for (const std::string& inner : folders_with_pictures(look_, beneath(folders_[i]))) ++counts[inner];
    std::vector<std::string> common;
    for (const auto& [name, count] : counts)
      if (10 * count >= 9 * looked) common.push_back(name);
    return common;
  }

  std::vector<FolderPair> of_parts_or_samples(const std::vector<std::string>& inner) const {
    const bool parts = std::all_of(folders_.begin(), folders_.end(),
                                   [](const std::string& name) { return !part_called(name).empty(); });
    if (parts) return among(inner, beneath(folders_.front()));
    std::vector<FolderPair> pairs;  // each sample has one picture and any number of masks
    for (const std::string& masks : inner)
      for (const std::string& images : inner)
        if (images != masks && sounds_like_masks(masks) && !sounds_like_masks(images) &&
            pictures_in(look_, beneath(folders_.front() + "/" + images)).size() == 1)
          pairs.push_back({images, masks, true, true});
    return pairs;
  }

  const FolderLook& look_;
  std::string base_;
  std::vector<std::string> folders_;
};

/// Pictures named like another one and "_mask", all in one folder.
struct MasksBeside {
  int64_t masks = 0;
  std::string folder;              // of all pictures, relative to the root; "." for the root, or folders of parts in it
  std::set<std::string> suffixes;  // "_mask"
};

MasksBeside masks_beside(const FolderLook& look) {
  const Stems stems = stems_in(look, "");
  MasksBeside found;
  std::set<std::string> folders;
  for (const std::string& picture : look.pictures) {
    const std::string stem(without_ending(picture));
    folders.insert(stem.substr(0, stem.find_last_of('/') == std::string::npos ? 0 : stem.find_last_of('/')));
    const size_t mark = stem.find_last_of("_-.");
    if (mark == std::string::npos || !sounds_like_masks(std::string_view(stem).substr(mark + 1)) ||
        !stems.contains(stem.substr(0, mark) + "#0"))
      continue;
    ++found.masks;
    found.suffixes.insert(stem.substr(mark));
  }
  const auto is_part = [](const std::string& folder) { return !part_called(folder).empty(); };
  if (std::all_of(folders.begin(), folders.end(), is_part))
    found.folder = ".";
  else if (folders.size() == 1)
    found.folder = folders.begin()->empty() ? "." : *folders.begin();
  return found;
}

// Both in one folder, told apart by what follows the name.
Reading reading_beside(const FolderLook& look, const MasksBeside& found) {
  Reading mixed = reading_of(image_mask_format(), look.root, look);
  mixed.family = "masks beside pictures";
  mixed.sees = "pictures and masks, of which " + with_commas(found.masks) + " lie beside their pictures";
  mixed.question = "which pictures are masks";
  const bool told = found.suffixes.size() == 1 && !found.folder.empty();
  mixed.trust = told ? Reading::Trust::offered : Reading::Trust::asked;
  mixed.likelihood = told ? 80 : 30;
  if (!told) {
    mixed.sees += ": name that folder as images and as masks, and what follows the name in mask_suffix";
    return mixed;
  }
  mixed.options.image_mask.images = mixed.options.image_mask.masks = found.folder;
  mixed.options.image_mask.mask_suffix = *found.suffixes.begin();
  mixed.decides = {"data.image_mask.images", "data.image_mask.masks", "data.image_mask.mask_suffix"};
  mixed.why["data.image_mask.images"] = mixed.why["data.image_mask.masks"] = "pictures and masks lie in one folder";
  mixed.why["data.image_mask.mask_suffix"] = "what the names of masks add to those of their pictures";
  return mixed;
}

}  // namespace

std::vector<Reading> image_mask_readings(const FolderLook& look) {
  std::vector<Reading> all;
  for (const std::string& base : layout_bases(look)) {
    Reading first = reading_of(image_mask_format(), whole_folder(look, base), look);
    first.family = "masks of " + base;
    first.question = "which folder holds the masks";
    first.sees = "pictures and their masks";
    if (!base.empty()) first.why["data.root"] = "all pictures are in this folder";
    if (is_nnunet(first.options)) {
      first.likelihood = 95;
      first.sees = "nnU-Net's layout: imagesTr/, labelsTr/ and dataset.json";
      all.push_back(first);
      continue;
    }
    for (const FolderPair& pair : FolderPairs(look, base).all()) {
      Reading reading = first;
      reading.options.image_mask.images = pair.images;
      reading.options.image_mask.masks = pair.masks;
      reading.likelihood = pair.certain ? 90 : 65;  // if the values are those of masks (the caller looks)
      reading.trust = pair.certain ? Reading::Trust::certain : Reading::Trust::offered;
      if (!pair.certain) reading.decides = {"data.image_mask.images", "data.image_mask.masks"};
      reading.why["data.image_mask.images"] = "pictures";
      reading.why["data.image_mask.masks"] =
          pair.equal ? "masks, each with the name of its picture" : "masks, by the folder's name";
      reading.options.image_mask.mask_suffix = pair.suffix;
      if (!pair.suffix.empty())
        reading.why["data.image_mask.mask_suffix"] = "what the names of masks add to those of their pictures";
      all.push_back(std::move(reading));
    }
  }
  if (all.empty())
    if (const MasksBeside beside = masks_beside(look); beside.masks > 0) all.push_back(reading_beside(look, beside));
  return all;
}

}  // namespace dtrain
