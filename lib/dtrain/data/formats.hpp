#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/base/memory.hpp"
#include "dtrain/data/dataset.hpp"
#include "dtrain/data/part_folders.hpp"

namespace dtrain {

/// Puts samples into a data set, and asks for the memory that its table takes. Throws as MemoryDraw::take().
class SampleTable {
 public:
  explicit SampleTable(Dataset& dataset)
      : samples_(dataset.samples), memory_("the table of the samples of " + dataset.root, "take fewer samples") {}
  /// `beside`: bytes that the caller keeps with it.
  void add(Sample sample, int64_t beside = 0);

 private:
  std::vector<Sample>& samples_;
  MemoryDraw memory_;
};

// Each format's share of open_dataset(): fills classes, samples (without ids, in any order) and notes of `dataset`,
// whose task, format and root are set. What is thrown is described there.

void read_image_folder(const DataOptions& options, Dataset& dataset);
void read_nih_cxr14(const DataOptions& options, Dataset& dataset);
void read_chexpert(const DataOptions& options, Dataset& dataset);
void read_csv(const DataOptions& options, Dataset& dataset);
void read_image_mask(const DataOptions& options, Dataset& dataset);
/// nnU-Net's layout of image_mask.
bool is_nnunet(const DataOptions& options);
void read_nnunet(const DataOptions& options, Dataset& dataset);
void read_tfrecords(const DataOptions& options, Dataset& dataset);
void read_webdataset(const DataOptions& options, Dataset& dataset);
void read_packed(const DataOptions& options, Dataset& dataset);
void make_synthetic(const DataOptions& options, uint64_t seed, Dataset& dataset);

/// Where each name of data.classes stands in `classes`. Throws ConfigError for a name that is not there, with the names
/// that are, and for one named twice.
std::vector<int64_t> places_of(const std::vector<std::string>& wanted, const std::vector<std::string>& classes);

/// Pixels of a synthetic sample, of the size and channels that `options.image` asks for. Labels are patterns that stay
/// what they are under flips and turns: label k is a product of two cosines of frequencies of its own.
Image synthetic_picture(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed);

/// Its mask: 0, or class 1 … of data.synthetic.classes. Bright discs on noise; brighter for higher classes.
Image synthetic_mask(const Dataset& dataset, const DataOptions& options, int64_t index, uint64_t seed);

/// Classes and mask_values of `dataset` from a map of pixel value → class 1, 2, … as the configuration gives it; empty:
/// {255: 1}. Throws ConfigError unless the classes are 1 … n <= 255 without a gap.
void set_mask_values(const std::map<int64_t, int64_t>& mask_values, Dataset& dataset);

/// Pages of one stack are slices of one volume: their group is the stack's name. Not where all are of one stack, which
/// no split could leave whole.
void group_stacks(Dataset& dataset);

/// "foreground" for one class, else "1", "2" …
std::vector<std::string> mask_class_names(int64_t classes);

}  // namespace dtrain
