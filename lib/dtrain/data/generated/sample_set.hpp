#pragma once
#include <cstdint>
#include <string>

#include "dtrain/data/generated/sample_pictures.hpp"

namespace dtrain {

/// What write_sample_set() made.
struct SampleSetReport {
  int64_t pictures = 0;      ///< without masks
  std::string next_command;  ///< a shell line that trains on it
};

/// Writes a small generated data set with known answers that a network can learn; the same bytes for the same arguments
/// (on machines with the same libjpeg, for chips).
///
/// xray   format nih_cxr14: images/PATIENT_VISIT.png, 256 × 256 grey, and Data_Entry_2017_v2020.csv with the official
///        header. Several pictures of each patient, all with the same body; each of the 14 findings is a different
///        mark in the lungs; three pictures of five have none. Default 256 pictures.
/// chips  format image_folder: good/ and defect/, 128 × 128 colour, JPEG and PNG; a scratch or a blot marks a defect.
///        Default 400.
/// cells  format image_mask: images/ and masks/ (255 = cell), 128 × 160 grey PNG; bright round cells on uneven light.
///        Default 48.
///
/// The command that is told next uses the configuration for the kind in configs/ of the working directory, or drafts
/// one where there is none.
///
/// `count` 0: the default. `size`: height and width of the pictures, 16 … 8192 each, 0 = those above; what they show is
/// stretched. The folder is created if necessary; pictures are made on `threads` threads, with the same bytes on any
/// number.
/// Throws UsageError for an unknown kind, a negative count, another size or a folder that is not empty, otherwise like
/// throw_errno.
SampleSetReport write_sample_set(const std::string& kind, const std::string& folder, int64_t count, uint64_t seed,
                                 PictureSize size = {}, size_t threads = 1);

}  // namespace dtrain
