#include "dtrain/data/formats/image_mask_cures.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/part_names.hpp"
#include "dtrain/data/formats/scan.hpp"
#include "dtrain/data/reading.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/pictures/picture_pages.hpp"

namespace dtrain {

namespace fs = std::filesystem;

std::string suffix_of_masks_beside(const std::vector<std::string>& pictures) {
  std::set<std::string> stems;
  for (const std::string& name : pictures) stems.insert(std::string(without_ending(name)));
  std::map<std::string, size_t> counts;
  for (const std::string& stem : stems) {
    const size_t mark = stem.find_last_of("_-.");
    if (mark == std::string::npos || stem.find('/', mark) != std::string::npos) continue;
    if (stems.contains(stem.substr(0, mark))) ++counts[stem.substr(mark)];
  }
  std::erase_if(counts, [&](const auto& entry) {
    return !sounds_like_masks(std::string_view(entry.first).substr(1)) && 2 * entry.second != stems.size();
  });
  return counts.size() == 1 ? counts.begin()->first : "";
}

std::string channel_files_beside(const std::vector<std::string>& pictures, const std::vector<std::string>& masks) {
  constexpr size_t kDigits = 4;
  const std::set<std::string> bare(masks.begin(), masks.end());
  std::set<std::string> numbers;
  bool named_so = false;
  for (const std::string& picture : pictures) {
    const size_t mark = picture.rfind('_');
    if (mark == std::string::npos || picture.size() - mark != kDigits + 1 ||
        picture.find_first_not_of("0123456789", mark + 1) != std::string::npos)
      return "";
    numbers.insert(picture.substr(mark));
    named_so = named_so || bare.contains(picture.substr(0, mark));
  }
  if (!named_so || numbers.size() < 2 || std::ssize(numbers) > ImageOptions::kMostChannels) return "";
  return "[" + join({numbers.begin(), numbers.end()}, ", ") + "]";
}

std::string masks_beside_words(const std::string& folder, const std::string& suffix) {
  const std::string name = folder.empty() ? "." : folder;
  return shell_word("data.image_mask.images=" + name) + " " + shell_word("data.image_mask.masks=" + name) + " " +
         shell_word("data.image_mask.mask_suffix=" + suffix);
}

namespace {

std::vector<std::string> pictures_of(const std::string& folder) {
  return scan_folder(folder, folder, true, has_image_extension, AtFault::list).pictures;
}

// The folders in which the pictures are, "" for those in none.
std::set<std::string> first_folders(const std::vector<std::string>& pictures) {
  std::set<std::string> folders;
  for (const std::string& name : pictures)
    folders.insert(name.find('/') == std::string::npos ? "" : name.substr(0, name.find('/')));
  return folders;
}

bool is_part(const std::string& folder) { return !part_called(folder).empty(); }

}  // namespace

std::string cure_for_masks(const DataOptions& options, const std::string& base) {
  const std::string whole = (fs::path(options.root) / base).string();
  const std::string images = (fs::path(whole) / options.image_mask.images).string();
  const bool named = is_folder(images);
  const std::vector<std::string> pictures = pictures_of(named ? images : whole);
  const std::set<std::string> folders = first_folders(pictures);
  if (const std::string suffix = suffix_of_masks_beside(pictures); !suffix.empty()) {
    const bool deeper = !named && folders.size() == 1 && !is_part(*folders.begin());
    return "; masks seem to lie beside their pictures, told apart by their names: " +
           masks_beside_words(named    ? options.image_mask.images
                              : deeper ? *folders.begin()
                                       : ".",
                              suffix);
  }
  std::vector<std::string> of_masks, others;
  for (const std::string& folder : named ? folders_in(whole) : std::vector<std::string>(folders.begin(), folders.end()))
    if (!lies_in(options.image_mask.images, folder) || !named)
      (sounds_like_masks(folder) ? of_masks : others).push_back(folder);
  const auto names_part = [](const std::string& folder) { return !part_within(folder).empty(); };
  if (!named && of_masks.size() > 1 && std::all_of(of_masks.begin(), of_masks.end(), names_part))
    return "; where folders are parts, each has such folders of its own, as in train/" + options.image_mask.images +
           "/, train/" + options.image_mask.masks + "/, test/" + options.image_mask.images + "/ and test/" +
           options.image_mask.masks + "/";
  if (of_masks.size() != 1) return "";
  const std::string words = shell_word("data.image_mask.masks=" + of_masks[0]);
  if (named) return "; by its name that is " + of_masks[0] + "/: " + words;
  if (others.size() != 1 || others[0].empty()) return "";
  return "; by their names these are " + others[0] + "/ and " + of_masks[0] +
         "/: " + shell_word("data.image_mask.images=" + others[0]) + " " + words;
}

}  // namespace dtrain
