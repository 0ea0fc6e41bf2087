#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/data/formats/formats.hpp"

namespace dtrain {

namespace {

// What is drawn from each stream of Purpose::synthetic_data; the sample's number is also part of the key.
constexpr uint64_t kLabelStream = 0;
constexpr uint64_t kShapes = 1;
constexpr uint64_t kNoise = 2;

KeyedRandom stream(uint64_t seed, int64_t number, uint64_t what) {
  return KeyedRandom(seed, Purpose::synthetic_data, static_cast<uint64_t>(number), what);
}

// The sample's number is in its name, so that a choice of classes does not change it.
int64_t number_of(const Sample& sample) {
  int64_t number = -1;
  const char* end = sample.path.data() + sample.path.size();
  std::from_chars(sample.path.data() + sample.path.rfind('/') + 1, end, number);
  check(number >= 0, "a synthetic sample is named by its number");
  return number;
}

std::vector<bool> labels_of(Task task, int64_t classes, uint64_t seed, int64_t number) {
  KeyedRandom random = stream(seed, number, kLabelStream);
  std::vector<bool> labels(static_cast<size_t>(classes), false);
  if (task == Task::multiclass) {
    labels[random.below(labels.size())] = true;
  } else {
    for (auto&& label : labels) label = random.chance(0.25);
  }
  return labels;
}

struct Disc {
  double y = 0;
  double x = 0;
  double radius = 0;
  int64_t number = 1;  // class
};

std::vector<Disc> discs_of(const ImageOptions& image, int64_t classes, uint64_t seed, int64_t sample) {
  KeyedRandom random = stream(seed, sample, kShapes);
  std::vector<Disc> discs(3 + random.below(4));
  const double least = static_cast<double>(std::min(image.height, image.width));
  for (Disc& disc : discs) {
    disc.y = random.uniform(0, static_cast<double>(image.height));
    disc.x = random.uniform(0, static_cast<double>(image.width));
    disc.radius = random.uniform(0.06, 0.16) * least;
    disc.number = 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(classes)));
  }
  return discs;
}

// The class of each pixel; later discs cover earlier ones.
std::vector<uint8_t> painted(const ImageOptions& image, const std::vector<Disc>& discs) {
  std::vector<uint8_t> classes(static_cast<size_t>(image.height * image.width), 0);
  for (int64_t y = 0; y < image.height; ++y)
    for (const Disc& disc : discs) {
      const double dy = static_cast<double>(y) + 0.5 - disc.y;
      if (std::abs(dy) > disc.radius) continue;
      const double half = std::sqrt(disc.radius * disc.radius - dy * dy);
      const auto begin = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(disc.x - half - 0.5)));
      const auto end = std::min<int64_t>(image.width, static_cast<int64_t>(std::floor(disc.x + half - 0.5)) + 1);
      for (int64_t x = begin; x < end; ++x)
        classes[static_cast<size_t>(y * image.width + x)] = static_cast<uint8_t>(disc.number);
    }
  return classes;
}

// A wave of `cycles` over `length` pixels with a random phase.
std::vector<float> wave(int64_t length, int64_t cycles, KeyedRandom& random) {
  const double phase = random.uniform();
  std::vector<float> out(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const double turns = static_cast<double>(cycles * i) / static_cast<double>(length) + phase;
    out[static_cast<size_t>(i)] = static_cast<float>(std::cos(2 * std::numbers::pi * turns));
  }
  return out;
}

void add_pattern(std::vector<float>& light, const ImageOptions& image, int64_t k, int64_t classes, float height,
                 KeyedRandom& random) {
  const auto side = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(classes))));
  const std::vector<float> down = wave(image.height, 1 + k / side, random);
  const std::vector<float> across = wave(image.width, 1 + k % side, random);
  for (size_t y = 0; y < down.size(); ++y)
    for (size_t x = 0; x < across.size(); ++x) light[y * across.size() + x] += height * down[y] * across[x];
}

/// Pictures and masks that are made when asked for, with the size and channels of data.image. Labels are patterns that
/// flips and turns do not change: label k is a product of two cosines with its own frequencies. For segmentation a
/// picture shows bright discs on noise, brighter for higher classes.
class GeneratedStore final : public SampleStore {
 public:
  GeneratedStore(const DataOptions& options, Task task, uint64_t seed)
      : image_(options.image), synthetic_(options.synthetic), task_(task), seed_(seed) {}

  SampleFiles read(const Sample& /*sample*/, Wanted /*wanted*/) const override { return {}; }
  std::vector<Image> raw_masks(const Sample& /*sample*/, const SampleFiles& /*files*/) const override { return {}; }
  ImageHeader header(const Sample& /*sample*/) const override {
    return {image_.height, image_.width, image_.channels, 8};
  }
  std::string picture_name(const Sample& sample) const override { return sample.path; }
  std::string manifest_text(const Sample& /*sample*/) const override { return ""; }
  bool on_disk() const override { return false; }

  std::string manifest_head() const override {
    return "synthetic " + std::to_string(seed_) + " " + std::to_string(synthetic_.samples) + " " +
           std::to_string(synthetic_.classes) + " " + std::to_string(image_.height) + " " +
           std::to_string(image_.width) + " " + std::to_string(image_.channels) + '\0';
  }

  Image decode_picture(const Sample& sample, const SampleFiles& /*files*/) const override {
    const int64_t number = number_of(sample);
    const std::vector<float> light = light_of(number);
    Image picture{image_.height, image_.width, image_.channels, 8, {}, {}};
    const auto channels = static_cast<size_t>(picture.channels);
    picture.bytes.resize(light.size() * channels);
    std::vector<uint32_t> noise((picture.bytes.size() + 3) / 4);
    stream(seed_, number, kNoise).fill(noise);
    for (size_t i = 0; i < picture.bytes.size(); ++i) {
      const auto draw = static_cast<int>(noise[i / 4] >> (8 * (i % 4)) & 0x1F) - 16;  // uniform in -16 … 15
      picture.bytes[i] = static_cast<uint8_t>(std::clamp(light[i / channels] + static_cast<float>(draw), 0.0F, 255.0F));
    }
    return picture;
  }

  Image decode_mask(const Dataset& dataset, const Sample& sample, const SampleFiles& /*files*/) const override {
    Image mask{image_.height, image_.width, 1, 8, mask_of(number_of(sample)), {}};
    const std::vector<std::string> all = mask_class_names(synthetic_.classes);
    std::vector<uint8_t> table(256, 0);  // class drawn → its number among the chosen classes
    for (size_t k = 0; k < all.size(); ++k) {
      const auto place = std::find(dataset.classes.begin(), dataset.classes.end(), all[k]);
      if (place != dataset.classes.end()) table[k + 1] = static_cast<uint8_t>(place - dataset.classes.begin() + 1);
    }
    for (uint8_t& pixel : mask.bytes) pixel = table[pixel];
    return mask;
  }

 private:
  // The class of each pixel as drawn, 0 = background.
  std::vector<uint8_t> mask_of(int64_t number) const {
    return painted(image_, discs_of(image_, synthetic_.classes, seed_, number));
  }

  // Brightness before noise.
  std::vector<float> light_of(int64_t number) const {
    const int64_t classes = synthetic_.classes;
    const auto pixels = static_cast<size_t>(image_.height * image_.width);
    if (task_ == Task::segmentation) {
      std::vector<float> light(pixels, 80);
      const std::vector<uint8_t> mask = mask_of(number);
      for (size_t i = 0; i < pixels; ++i)
        if (mask[i] != 0) light[i] = 120 + 100 * static_cast<float>(mask[i]) / static_cast<float>(classes);
      return light;
    }
    std::vector<float> light(pixels, 128);
    const std::vector<bool> labels = labels_of(task_, classes, seed_, number);
    const float height = task_ == Task::multiclass ? 60 : 30;
    KeyedRandom random = stream(seed_, number, kShapes);
    for (size_t k = 0; k < labels.size(); ++k)
      if (labels[k]) add_pattern(light, image_, static_cast<int64_t>(k), classes, height, random);
    return light;
  }

  ImageOptions image_;
  SyntheticOptions synthetic_;
  Task task_;
  uint64_t seed_;
};

void make_synthetic(const DataOptions& options, uint64_t seed, Dataset& dataset) {
  if (dataset.task == Task::from_format) dataset.task = Task::multilabel;
  const int64_t classes = options.synthetic.classes;
  if (classes < 1 || options.synthetic.samples < 1)
    throw ConfigError("data.synthetic wants at least one sample and one class");
  if (dataset.task == Task::segmentation && classes > 255)
    throw ConfigError("data.synthetic.classes is at most 255 for segmentation, not " + std::to_string(classes));
  if (dataset.task == Task::segmentation) {
    dataset.classes = mask_class_names(classes);
  } else {
    for (int64_t k = 0; k < classes; ++k) dataset.classes.push_back("pattern_" + std::to_string(k));
  }
  dataset.store = std::make_shared<const GeneratedStore>(options, dataset.task, seed);
  SampleTable table(dataset);
  for (int64_t number = 0; number < options.synthetic.samples; ++number) {
    Sample sample;
    sample.path = "synthetic/" + std::to_string(number);
    if (dataset.task != Task::segmentation) {
      const std::vector<bool> labels = labels_of(dataset.task, classes, seed, number);
      if (dataset.task == Task::multilabel) sample.labels.assign(labels.begin(), labels.end());
      if (dataset.task == Task::multiclass)
        sample.class_index = std::find(labels.begin(), labels.end(), true) - labels.begin();
    }
    table.add(std::move(sample));
  }
}

}  // namespace

/// Samples are made in memory from `seed`.
const DataFormat& synthetic_format() {
  static const DataFormat kFormat = {
      .name = "synthetic",
      .tasks = [](const DataOptions&) { return std::vector<Task>(); },
      .open = make_synthetic,
      .class_count = [](const DataOptions& options) { return std::optional(options.synthetic.classes); },
      .class_keys = {"data.synthetic.classes"},
      .generated = true,
  };
  return kFormat;
}

}  // namespace dtrain
