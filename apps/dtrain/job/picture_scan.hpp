#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dtrain/advice/mask_advice.hpp"
#include "dtrain/advice/pixel_advice.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/log.hpp"
#include "dtrain/data/pixels/raw_pictures.hpp"
#include "dtrain/runlog/progress.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// What a look at pictures and masks found.
struct PictureFacts {
  int64_t looked = 0;                                      ///< samples whose pixels were looked at
  std::map<int64_t, Error> bad;                            ///< sample → why it cannot be used
  std::vector<std::vector<int64_t>> mask_pixels;           ///< segmentation: pixels of each class by sample, background
                                                           ///< first; of samples that were decoded
  std::map<std::string, std::vector<int64_t>> by_content;  ///< hash of the pixels → samples, ascending
  int64_t blank = 0;                                       ///< pictures of a single value, not in by_content
  PixelFacts pixels;                                       ///< of pictures that were decoded from files
  MaskFacts masks;                                         ///< likewise; `listed` is the data set's
  int64_t largest_bytes = 0;                               ///< of a decoded picture
  double hash_s = 0;                                       ///< of all cores: what hashing pixels cost
  PixelKind kind;                                          ///< that holds every picture
};

/// Looks at every picture and mask on all cores: decodes them, or with `quick` reads only the headers. What is wrong
/// with a sample is a finding; errors unrelated to a sample are thrown.
PictureFacts look_at_pictures(const Experiment& experiment, const Plan& plan, bool quick, ProgressMode progress,
                              const Log& log);

/// For the start of a training run: decodes at most 32 pictures of the training and validation parts, with their masks,
/// up to eight pairs of files in two parts whose sizes are equal, as those of copies are, and those whose names have
/// the least hashes, so the same in every start that has the time: no more of them once a second has passed, and none
/// if samples are made in memory. A sample that cannot be read is left to training, and where a read hangs nothing is
/// found after two seconds: its thread is left behind.
PictureFacts glance_at_pictures(const Experiment& experiment, const Plan& plan);

}  // namespace dtrain
