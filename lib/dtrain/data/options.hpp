#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/base/task.hpp"
#include "dtrain/base/words.hpp"
#include "dtrain/data/format.hpp"

namespace dtrain {

/// The 14 observations of CheXpert (chexpert), in the order of its label files: their classes.
inline const std::vector<std::string>& chexpert_observations() {
  static const std::vector<std::string> kObservations = {"No Finding",       "Enlarged Cardiomediastinum",
                                                         "Cardiomegaly",     "Lung Opacity",
                                                         "Lung Lesion",      "Edema",
                                                         "Consolidation",    "Pneumonia",
                                                         "Atelectasis",      "Pneumothorax",
                                                         "Pleural Effusion", "Pleural Other",
                                                         "Fracture",         "Support Devices"};
  return kObservations;
}

/// How a label that CheXpert's radiologists were not sure of (-1) counts (Irvin et al. 2019: U-Ignore, U-Ones,
/// U-Zeros).
enum class Uncertain {
  ignore,  ///< unknown: in no loss and no metric
  ones,
  zeros,
};

template <>
inline constexpr auto kWordsOf<Uncertain> = std::to_array<Word<Uncertain>>({{Uncertain::ignore, "ignore"},
                                                                            {Uncertain::ones, "ones"},
                                                                            {Uncertain::zeros, "zeros"}});

/// What to do with rows of a label file whose pictures are not under data.root.
enum class OnMissing {
  fail,
  skip,  ///< left out and counted; an error if none is left
};

template <>
inline constexpr auto kWordsOf<OnMissing> = std::to_array<Word<OnMissing>>({{OnMissing::fail, "fail"},
                                                                            {OnMissing::skip, "skip"}});

/// `data.chexpert:`, for format chexpert.
struct ChexpertOptions {
  Uncertain uncertain = Uncertain::ignore;            ///< for every label that `uncertain_labels` does not name
  std::map<std::string, Uncertain> uncertain_labels;  ///< name of an observation → its own policy
  bool unmentioned_unknown = false;                   ///< an empty cell (not mentioned in the report): unknown; else 0
};

/// `data.csv:`, for format csv.
struct CsvOptions {
  std::string path = "path";        ///< column with the picture's path or base name
  std::vector<std::string> labels;  ///< one column per label, each 0, 1 or empty (unknown); or
  std::string label;                ///< one column with the class, or with several joined by `separator`
  std::string separator;            ///< "" : the label column holds one class
  std::string group;                ///< column with the patient or group; "" = none
  std::string split;                ///< column with the part, as part_called() knows its words; "" = none
};

/// `data.image_mask:`, for format image_mask.
struct ImageMaskOptions {
  std::string images = "images";           ///< folder of pictures under data.root, or under each sample's folder
  std::string masks = "masks";             ///< folder of masks, paired by stem; per sample: their union
  std::string mask_suffix = "";            ///< what a mask's stem adds to its picture's: "_mask"
  std::map<int64_t, int64_t> mask_values;  ///< pixel value → class 1, 2, …; other values are background; empty: {255:
                                           ///< 1}, in nnU-Net's layout what dataset.json says
};

/// `data.tfrecord:`, for format tfrecord: names of the features of a tf.train.Example.
struct TfRecordOptions {
  std::string image = "image/encoded";      ///< the bytes of a picture file
  std::string label = "image/class/label";  ///< a class, by number or name; multilabel: 0 or 1 for each class, or names
  std::vector<std::string> names;  ///< of the classes, in the order of numbers; empty = as found in the records
  std::string group;               ///< the patient or group; "" = none
  std::string mask;                ///< segmentation: the bytes of a mask's PNG file; "" = no masks
};

/// `data.webdataset:`, for format webdataset: extensions of a sample's files, "json:field" for a field of one.
struct WebDatasetOptions {
  std::vector<std::string> image = {"png", "jpg", "jpeg"};  ///< the picture: the first of these that a sample has
  std::string label = "cls";       ///< as TfRecordOptions::label; a text file: one name per line
  std::vector<std::string> names;  ///< as TfRecordOptions::names
  std::string group;
  std::string mask;
};

/// `data.synthetic:`, for format synthetic: pictures made in memory, with labels a network can learn.
struct SyntheticOptions {
  int64_t samples = 1000;
  int64_t classes = 14;
};

/// `data.split:`
struct SplitOptions {
  enum class By { sample, patient, order };
  double valid = 0.1;  ///< share of all samples, or of the training samples if `files`, `folders` or the data have no
                       ///< validation part, [0, 1); without effect with `folds`
  double test = 0;     ///< share likewise, [0, 1)
  By by = By::sample;  ///< patient: all samples of a group are in one part; order: the last ones of the
                       ///< natural order
  uint64_t seed = 1;
  bool stratify = false;  ///< shares exact, of every class too, instead of hashes (split.hpp); not by order
  int64_t fold = 0;       ///< K of `fold: K of N`, 1 … N: that fold validates, the others train
  int64_t folds = 0;      ///< N >= 2; 0: no folds
  std::map<std::string, std::string> files;    ///< part → list file, one path or base name per line
  std::map<std::string, std::string> folders;  ///< part → folder under data.root
  bool given = false;  ///< the configuration names a split; otherwise the data's own parts are used, if they have any

  bool names(const std::string& part) const { return files.contains(part) || folders.contains(part); }
};

template <>
inline constexpr auto kWordsOf<SplitOptions::By> = std::to_array<Word<SplitOptions::By>>(
    {{SplitOptions::By::sample, "sample"}, {SplitOptions::By::patient, "patient"}, {SplitOptions::By::order, "order"}});

enum class Resize { squash, pad, crop };

template <>
inline constexpr auto kWordsOf<Resize> =
    std::to_array<Word<Resize>>({{Resize::squash, "squash"}, {Resize::pad, "pad"}, {Resize::crop, "crop"}});

/// `data.image:`
struct ImageOptions {
  static constexpr int64_t kMostChannels = 16;

  int64_t height = 224;
  int64_t width = 224;
  /// Of what the network sees. 1 or 3: a grey picture is repeated, a coloured one converted to grey (ITU-R 601). With
  /// `files` or `slices` their number, at most kMostChannels.
  int64_t channels = 3;
  /// A picture is several files, one grey channel each, whose names differ in these endings, in the order of the
  /// channels: [_0000, _0001]. Empty: one file.
  std::vector<std::string> files;
  /// 2.5-D: a page of a stack is seen with its neighbours, so many pages in all, the page itself in the middle; beyond
  /// the ends of the stack its first or last page is repeated. Odd; 1: the page alone.
  int64_t slices = 1;
  Resize resize = Resize::squash;
  int64_t window_height = 0;  ///< what the network sees of height × width: the middle, with augment.random_window
  int64_t window_width = 0;   ///< any part; both 0: all of it
  /// Pixel values in the file, 8-bit or 16-bit, that become 0 and 1; what lies beyond is clamped. Both 0:
  /// from 0 to white, 255 or 65535 by the picture's own depth.
  double range_low = 0;
  double range_high = 0;
  std::vector<double> mean;  ///< of pixels in [0, 1], one per channel; empty: usual_mean()
  std::vector<double> std;

  bool operator==(const ImageOptions&) const = default;
  /// The channels are pictures of their own, and no colours.
  bool is_stacked() const { return !files.empty() || slices > 1; }
  /// Then: how many, and which of them (from 0) people are shown: the page itself, or the first file.
  int64_t stacked_channels() const { return files.empty() ? slices : static_cast<int64_t>(files.size()); }
  int64_t shown_channel() const { return files.empty() ? slices / 2 : 0; }
  /// Of what the network sees.
  int64_t seen_height() const { return window_height > 0 ? window_height : height; }
  int64_t seen_width() const { return window_width > 0 ? window_width : width; }
};

/// Mean and standard deviation if none are given: ImageNet's for 3 channels, as torchvision's networks expect; else 0.5
/// for each.
inline std::vector<double> usual_mean(int64_t channels) {
  if (channels == 3) return {0.485, 0.456, 0.406};
  return std::vector<double>(static_cast<size_t>(channels), 0.5);
}
inline std::vector<double> usual_std(int64_t channels) {
  if (channels == 3) return {0.229, 0.224, 0.225};
  return std::vector<double>(static_cast<size_t>(channels), 0.5);
}

/// `data.augment:`, for the training part only. Everything is off by default; docs/data.md gives sensible values.
/// "[-x, x]" and the like: each sample draws its own value, uniformly, in every epoch.
struct AugmentOptions {
  double hflip = 0;            ///< probability of mirroring left to right
  double vflip = 0;            ///< probability of mirroring top to bottom
  double rot90 = 0;            ///< probability of a turn by 90, 180 or 270 degrees (square images)
  bool random_window = false;  ///< the window of data.image is at a random place, not in the middle
  double random_crop_low = 0;  ///< share of the picture's area that is shown, (0, 1]; both 0: no random crop
  double random_crop_high = 0;
  double crop_aspect_low = 3.0 / 4;  ///< stretch of the crop, > 0, beyond what data.image.resize does to the picture
  double crop_aspect_high = 4.0 / 3;
  double rotate = 0;         ///< r: turned by [-r, r] degrees about the centre, [0, 180]
  double scale = 0;          ///< s: enlarged by a factor from [1-s, 1+s], [0, 1)
  double translate = 0;      ///< t: moved by [-t, t] of height and of width, [0, 1]
  double elastic = 0;        ///< standard deviation of the displacements in pixels of data.image.size
  int64_t elastic_grid = 3;  ///< n × n points are displaced, the rest is interpolated; >= 2
  double blur = 0;           ///< b: Gaussian blur with a standard deviation from [0, b], in pixels of data.image.size
  double brightness = 0;     ///< b: pixels × uniform [1-b, 1+b], [0, 1]
  double contrast = 0;       ///< c: distance from the picture's mean × uniform [1-c, 1+c], [0, 1]
  double gamma = 0;          ///< g: pixels to the power of a number from [1/(1+g), 1+g], uniform in its logarithm
  double noise = 0;          ///< n: Gaussian noise with a standard deviation from [0, n], white is 1; [0, 1]
  double cutout = 0;     ///< c: a rectangle of c × height by c × width becomes data.image.mean, for a grey file with
                         ///< channels 3 the mean of the three; [0, 1)
  bool trivial = false;  ///< trivial_augment: one operation of pixels/trivial_augment.hpp on each picture
  double mixup = 0;      ///< alpha of Beta(alpha, alpha), from which the share of a picture in its mixture is drawn
  double cutmix = 0;  ///< alpha likewise, for the share that is left when a rectangle of another picture is pasted in
};

/// Keys that are on and change the pixels of a decoded picture, which is impossible for bytes kept on a device.
inline std::vector<std::string> pixel_augmentations(const AugmentOptions& a) {
  const std::pair<const char*, bool> all[] = {{"random_crop", a.random_crop_high > 0},
                                              {"rotate", a.rotate > 0},
                                              {"scale", a.scale > 0},
                                              {"translate", a.translate > 0},
                                              {"elastic", a.elastic > 0},
                                              {"blur", a.blur > 0},
                                              {"brightness", a.brightness > 0},
                                              {"contrast", a.contrast > 0},
                                              {"gamma", a.gamma > 0},
                                              {"noise", a.noise > 0},
                                              {"cutout", a.cutout > 0},
                                              {"trivial_augment", a.trivial}};
  std::vector<std::string> keys;
  for (const auto& [key, on] : all)
    if (on) keys.push_back(std::string("data.augment.") + key);
  return keys;
}

/// Where decoded pictures are kept for later epochs.
enum class PictureKeep {
  none,
  ram,     ///< in memory that the processes of a host share
  device,  ///< in the memory of the device that computes: a GPU's, or this process's own
};

template <>
inline constexpr auto kWordsOf<PictureKeep> = std::to_array<Word<PictureKeep>>({{PictureKeep::none, "none"},
                                                                                {PictureKeep::ram, "ram"},
                                                                                {PictureKeep::device, "device"}});

/// What to do with a training sample that cannot be decoded. In the validation or test part it is always an error: a
/// metric over a different set of samples would be a different metric.
enum class BadSample {
  fail,
  replace,  ///< another sample of the training part takes its place
};

template <>
inline constexpr auto kWordsOf<BadSample> = std::to_array<Word<BadSample>>({{BadSample::fail, "fail"},
                                                                            {BadSample::replace, "replace"}});

/// How samples become batches. Both ways give the same bits.
enum class Pipeline {
  parallel,    ///< each process makes its own samples, on threads beside the one that computes
  sequential,  ///< for comparison, the traditional way: one sample after another when a batch is needed, and each
               ///< process reads and decodes those of all others too
};

template <>
inline constexpr auto kWordsOf<Pipeline> = std::to_array<Word<Pipeline>>({{Pipeline::parallel, "parallel"},
                                                                          {Pipeline::sequential, "sequential"}});

/// `data.loader:`
struct LoaderOptions {
  int64_t threads = 0;      ///< decoding threads per process; 0 = auto: the cores this process may use, less those that
                            ///< compute, at least 1; tuned during the first epoch (thread_tuner.hpp)
  int64_t prefetch = 2;     ///< batches kept ready ahead of the one in use, >= 1
  int64_t interleave = 10;  ///< records requested from the disk at once, >= 1; only for record files
  PictureKeep cache = PictureKeep::none;  ///< device: not with pixel_augmentations()
  int64_t decompressed_mb = 2148;         ///< most memory for compressed record files per process, 1e6 bytes, >= 1
  BadSample on_bad_sample = BadSample::fail;
  int64_t max_bad = 100;  ///< most samples that are replaced in an epoch, over all processes, >= 1
  Pipeline pipeline = Pipeline::parallel;
};

enum class Distribute { samples, batches };

template <>
inline constexpr auto kWordsOf<Distribute> = std::to_array<Word<Distribute>>({{Distribute::samples, "samples"},
                                                                              {Distribute::batches, "batches"}});

/// How often an epoch takes each sample of the training part.
enum class Sampling {
  uniform,   ///< once
  balanced,  ///< as many samples of each class, or of each pattern of labels (order/balance.hpp), as of any other
};

template <>
inline constexpr auto kWordsOf<Sampling> = std::to_array<Word<Sampling>>({{Sampling::uniform, "uniform"},
                                                                          {Sampling::balanced, "balanced"}});

/// `data:` of the configuration.
struct DataOptions {
  const DataFormat* format = &image_folder_format();  ///< one of data_formats(), never null
  std::string root;                                   ///< absolute
  std::string labels;                                 ///< absolute; of formats with a label file
  OnMissing on_missing = OnMissing::fail;             ///< only for formats with a label file
  ChexpertOptions chexpert;
  CsvOptions csv;
  ImageMaskOptions image_mask;
  SyntheticOptions synthetic;
  TfRecordOptions tfrecord;
  WebDatasetOptions webdataset;
  std::vector<std::string> classes;  ///< the classes to train, in this order; empty = all
  SplitOptions split;
  Sampling sampling = Sampling::uniform;  ///< balanced: not for segmentation
  Distribute distribute = Distribute::samples;
  ImageOptions image;
  AugmentOptions augment;
  LoaderOptions loader;
  bool allow_links = false;  ///< follow links that lead out of root
};

/// The data are pictures with masks on disk, whose pixels image_mask.mask_values turns into classes.
inline bool has_mask_files(const DataOptions& data) {
  return data.format->has_masks != nullptr && data.format->has_masks(data);
}

/// The task that the samples are for, as far as the configuration says. None if it is in the data (packed shards), or
/// free (generated pictures).
inline std::optional<Task> natural_task(const DataOptions& data) {
  const std::vector<Task> tasks = data.format->tasks(data);
  return tasks.empty() ? std::nullopt : std::optional(tasks.front());
}

/// `batch:` of the configuration.
struct BatchOptions {
  int64_t per_rank = 32;   ///< samples per logical rank and backward pass; 0 = auto: not settled yet
  int64_t global = 0;      ///< or: samples per step of all logical ranks together; 0 = per_rank × V × accumulate
  int64_t accumulate = 1;  ///< backward passes per logical rank and step, whose gradients add up
  bool drop_last = false;  ///< last: drop | short

  /// per_rank is what the run is still to find: nothing that computes with a batch may be given these.
  bool is_auto() const { return global == 0 && per_rank == 0; }
};

}  // namespace dtrain
