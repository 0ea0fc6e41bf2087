#include "drawing/preview.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "drawing/drawn_sample.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/pixels/contact_sheet.hpp"
#include "dtrain/io/pictures/png_text.hpp"
#include "dtrain/train/mixing.hpp"

namespace dtrain {
namespace {

constexpr size_t kRows = 6;
constexpr int64_t kDraws = 5;

// What a sample shows, to choose different ones: its classes.
std::set<int64_t> classes_of(const Sample& sample) {
  std::set<int64_t> classes;
  if (sample.class_index >= 0) classes.insert(sample.class_index);
  for (size_t k = 0; k < sample.labels.size(); ++k)
    if (sample.labels[k] == 1) classes.insert(static_cast<int64_t>(k));
  return classes;
}

// In the order of the first epoch, but first those that show a class not seen before.
std::vector<int64_t> choose_samples(const Experiment& e, const Plan& plan, const std::set<int64_t>& bad) {
  const auto count = static_cast<int64_t>(plan.split.train.size());
  std::vector<int64_t> usable;
  const EpochPlan order(count, 1, BatchOptions{.per_rank = count, .global = 0, .accumulate = 1, .drop_last = false},
                        Distribute::samples, e.seed, 0);
  for (const int64_t place : order.places(0, 0)) {
    const int64_t sample = plan.split.train[static_cast<size_t>(place)];
    if (!bad.contains(sample)) usable.push_back(sample);
  }
  if (usable.empty()) throw DataError("no preview: no picture of the training part can be read");
  std::vector<int64_t> chosen;
  std::set<int64_t> shown;
  const auto choose = [&](bool of_new_classes) {
    for (const int64_t index : usable) {
      if (chosen.size() == kRows) return;
      const std::set<int64_t> classes = classes_of(plan.dataset.samples[static_cast<size_t>(index)]);
      const bool is_new = std::any_of(classes.begin(), classes.end(), [&](int64_t k) { return !shown.contains(k); });
      if ((of_new_classes && !is_new) || std::find(chosen.begin(), chosen.end(), index) != chosen.end()) continue;
      chosen.push_back(index);
      shown.insert(classes.begin(), classes.end());
    }
  };
  choose(true);
  choose(false);
  return chosen;
}

// "cat", "Edema, Effusion, Mass ?", "no label"; an unknown label has a question mark.
std::string label_text(const Plan& plan, const at::Tensor& targets, int64_t i) {
  if (plan.dataset.task == Task::multiclass) return plan.outputs[static_cast<size_t>(targets[i].item<int64_t>())];
  std::vector<std::string> names;
  for (int64_t k = 0; k < targets.size(1); ++k) {
    const auto label = targets[i][k].item<float>();
    if (std::isnan(label)) names.push_back(plan.outputs[static_cast<size_t>(k)] + " ?");
    if (label == 1) names.push_back(plan.outputs[static_cast<size_t>(k)]);
  }
  return names.empty() ? "no label" : join(names, ", ");
}

SheetTile tile_of(const Plan& plan, const MixedBatch& batch, int64_t i, const ImageOptions& image) {
  SheetTile tile{drawn_picture(batch.images, i, image), {}};
  const int64_t n = batch.images.size(0);
  if (plan.dataset.task == Task::segmentation) {
    const at::Tensor mask = batch.targets[i] * batch.share + batch.targets[n + i] * (1 - batch.share);
    overlay_mask(tile.picture, drawn_classes(mask));
    if (batch.share != 1) tile.caption.push_back(fixed(batch.share, 2) + " + " + fixed(1 - batch.share, 2));
    return tile;
  }
  if (batch.share == 1) {
    tile.caption.push_back(label_text(plan, batch.targets, i));
  } else {
    tile.caption.push_back(fixed(batch.share, 2) + " " + label_text(plan, batch.targets, i));
    tile.caption.push_back(fixed(1 - batch.share, 2) + " " + label_text(plan, batch.targets, n + i));
  }
  return tile;
}

// "augment: hflip 0.5, rotate 10"
std::string augment_text(const Config& config) {
  const std::string prefix = "data.augment.";
  std::vector<std::string> on;
  for (const auto& [key, value] : config.values)
    if (key.starts_with(prefix) && value.origin != "default" && value.text != "0" && value.text != "none" &&
        value.text != "false")
      on.push_back(key.substr(prefix.size()) + " " + value.text);
  return on.empty() ? "no augmentation" : "augment: " + join(on, ", ");
}

}  // namespace

std::vector<std::byte> preview_sheet(const Config& config, const Plan& plan, const std::set<int64_t>& bad) {
  const Experiment& e = config.experiment;
  const std::vector<int64_t> samples = choose_samples(e, plan, bad);
  std::vector<BatchRequest> requests{{samples, std::nullopt}};
  for (int64_t epoch = 0; epoch < kDraws; ++epoch) requests.push_back({samples, epoch});
  Trace trace(false);
  Loader loader(plan.dataset, e.data, e.seed, at::MemoryFormat::Contiguous, trace);
  loader.start(std::move(requests));
  const PictureForm form = picture_form(e.data.image);
  const MixOptions mix{.mixup = e.data.augment.mixup, .cutmix = e.data.augment.cutmix};
  std::vector<SheetRow> rows;
  for (const int64_t index : samples) rows.push_back({plan.dataset.samples[static_cast<size_t>(index)].path, {}});
  std::vector<std::string> columns;
  for (int64_t draw = 0; const std::optional<Batch> batch = loader.next(); ++draw) {
    columns.push_back(draw == 0 ? "evaluation" : "epoch " + std::to_string(draw));
    const MixDraw how = draw == 0 ? MixDraw{} : draw_mix(mix, e.seed, draw, 0);
    const MixedBatch mixed = mix_batch(how, batch->images, batch->targets, plan.dataset.task == Task::segmentation);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].tiles.push_back(tile_of(plan, mixed, static_cast<int64_t>(i), e.data.image));
  }
  std::vector<SheetKey> key;
  if (plan.dataset.task == Task::segmentation)
    for (size_t k = 0; k < plan.outputs.size(); ++k)
      key.push_back({plan.outputs[k], class_colour(static_cast<int64_t>(k) + 1)});
  const std::string size =
      std::to_string(form.height) + " x " + std::to_string(form.width) + " x " + std::to_string(form.channels);
  const Image sheet = contact_sheet(
      {e.name + ": " + count_of(static_cast<int64_t>(plan.split.train.size()), "training sample") + ", " + size,
       augment_text(config)},
      columns, rows, key);
  return with_png_text(encode_png(sheet), "Software", kContactSheetMark);
}

}  // namespace dtrain
