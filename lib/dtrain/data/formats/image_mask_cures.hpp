#pragma once
#include <string>
#include <vector>

#include "dtrain/data/options.hpp"

namespace dtrain {

/// What the names of masks add to those of the pictures beside them, "_mask" of a.png and a_mask.png: if it sounds like
/// masks, or half of `pictures` have it and it pairs them all. "" if there is none, or several.
std::string suffix_of_masks_beside(const std::vector<std::string>& pictures);

/// "data.image_mask.images=F data.image_mask.masks=F data.image_mask.mask_suffix=_mask", as words of a command line.
std::string masks_beside_words(const std::string& folder, const std::string& suffix);

/// "[_0000, _0001]", if the names of `pictures` without a mask end in these numbers, and a mask of `masks` without a
/// picture has such a name without the number: channels of one picture, it seems. Else "". Names without the formats'
/// endings.
std::string channel_files_beside(const std::vector<std::string>& pictures, const std::vector<std::string>& masks);

/// Where pictures and masks of root/BASE seem to be, by the names of folders and files, as the end of a message: ";
/// masks seem to …: data.image_mask.…". "" if the names do not say.
std::string cure_for_masks(const DataOptions& options, const std::string& base);

}  // namespace dtrain
