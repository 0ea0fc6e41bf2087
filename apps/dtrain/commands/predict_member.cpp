#include "commands/predict_member.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/pixels/original_mask.hpp"
#include "dtrain/model/class_maps.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/model/precision.hpp"
#include "dtrain/train/mirrored_views.hpp"

namespace dtrain {

namespace {

// As far as the configuration names them; of masks it may tell no more than how many there are.
std::optional<std::vector<std::string>> told_classes(const DataOptions& data) {
  if (!data.classes.empty()) return data.classes;
  if (!has_mask_files(data)) return data.format->class_names == nullptr ? std::nullopt : data.format->class_names(data);
  const auto count = data.format->class_count == nullptr ? std::nullopt : data.format->class_count(data);
  return count ? std::optional(mask_class_names(*count)) : std::nullopt;
}

}  // namespace

std::vector<std::string> known_classes(const WeightsOrigin& origin, const DataOptions& data,
                                       const std::string& weights) {
  const auto told = told_classes(data);
  if (origin.classes.empty() && told) return *told;
  if (origin.classes.empty())
    throw ConfigError(weights +
                      " does not name the classes of its network; name them with data.classes, in the order of its "
                      "outputs, or use best.safetensors or a checkpoint of a run");
  const bool counted = data.classes.empty() && has_mask_files(data);
  if (told && (counted ? told->size() != origin.classes.size() : *told != origin.classes))
    throw ConfigError(weights + " was trained for " +
                      count_of(static_cast<int64_t>(origin.classes.size()), "class", "classes") + " (" +
                      join(origin.classes, ", ") + "), but the configuration says " +
                      (counted ? count_of(static_cast<int64_t>(told->size()), "class", "classes") : join(*told, ", ")) +
                      "; leave out what it says of classes: the weights know them");
  return origin.classes;
}

PredictMember::PredictMember(const Experiment& experiment, const std::string& weights, const PredictViews& views,
                             Job& job)
    : experiment_(experiment), weights_(weights), views_(views), job_(job), pictures_(experiment.data.image) {
  const SafetensorsFile file = SafetensorsFile::read(weights);
  origin_ = weights_origin(file.metadata(), weights);
  origin_.classes = known_classes(origin_, experiment.data, weights);
  const ImageOptions& image = experiment.data.image;
  const NetworkShape shape{
      .channels = image.channels,
      .height = image.seen_height(),
      .width = image.seen_width(),
      .outputs = logits_for(experiment.loss, experiment.task, static_cast<int64_t>(origin_.classes.size())),
      .deep_supervision = experiment.loss.deep_supervision};
  replica_ = std::make_unique<Replica>(make_unfilled_network(experiment.model, shape),
                                       memory_format_for(*experiment.model.kind, job.device().place.type()),
                                       experiment.optimizer, job.device(), experiment.precision);
  fill_tensors(file, weights, replica_->model_tensors(origin_.prefix));
  replica_->network().eval();
  LossOptions loss = experiment.loss;  // of which the way from logits to probabilities alone counts
  loss.pos_weight = loss.class_weight = {};
  loss_ = std::make_unique<Loss>(loss, experiment.task, std::vector<double>{}, job.device().place);
  if (views_.maps && !replica_->network().ends_in_pooling())
    throw UsageError("--cam is for networks that end in global average pooling and one linear layer, and the " +
                     experiment_.model.kind->name + " of " + weights_ + " does not");
  if (experiment_.task != Task::segmentation) return;
  pictures_.window_height = pictures_.window_width = 0;
  if (pictures_ != image)
    tiling_.emplace(image.height, image.width, image.seen_height(), image.seen_width(), views_.tile_overlap);
}

int64_t PredictMember::usual_batch() const {
  const int64_t told = experiment_.distributed.logical_ranks;
  return largest_batch(experiment_.batch, told > 0 ? told : std::max<int64_t>(1, origin_.logical_ranks));
}

bool PredictMember::asks_data_for_masks() const {
  return experiment_.task == Task::segmentation && experiment_.data.image_mask.mask_values.empty() &&
         origin_.mask_values.empty();
}

// By the configuration where it names them, else by the file, else by the data that it was trained on.
std::vector<int64_t> PredictMember::pixel_values() const {
  const DataOptions& data = experiment_.data;
  Dataset told;
  if (!data.image_mask.mask_values.empty()) {
    set_mask_values(data.image_mask.mask_values, told);
  } else if (!origin_.mask_values.empty()) {
    return pixel_values_of(origin_.mask_values, static_cast<int64_t>(classes().size()));
  } else {
    try {
      told = open_dataset(data, experiment_.task, experiment_.seed);
    } catch (const Error& error) {
      throw ConfigError(weights_ +
                        " does not say which pixel values masks have, and the data that it was trained on cannot be "
                        "read (" +
                        error.what() + "); set data.image_mask.mask_values, as in \"{255: 1}\"");
    }
  }
  const auto count = static_cast<int64_t>(told.classes.size());
  if (told.mask_values.empty())  // generated masks, which have no files
    for (int64_t k = 1; k <= count; ++k) told.mask_values.emplace(count == 1 ? 255 : k, k);
  return pixel_values_of(told.mask_values, told.classes, classes());
}

// Probabilities, and maps if they are wanted, of what the network sees at once.
std::vector<at::Tensor> PredictMember::of_views(const at::Tensor& images, int64_t batch) {
  const auto views = views_.mirror ? mirrored_views(experiment_.task) : std::vector<std::vector<int64_t>>{{}};
  const bool masks = experiment_.task == Task::segmentation;
  return mean_over_views(images, views, [&](const at::Tensor& view) {
    job_.watchdog().enter(Section::evaluate, batch);
    const Network::PooledPass pass =
        views_.maps ? replica_->forward_pooled(view) : Network::PooledPass{replica_->forward(view), {}};
    at::Tensor logits = masks ? pass.logits : pass.logits.to(at::kDouble);
    if (fitted().temperature && !masks) logits = logits / *fitted().temperature;
    std::vector<at::Tensor> said{loss_->probabilities(logits)};
    if (views_.maps) said.push_back(class_activation_maps(replica_->network(), pass.maps));
    return said;
  });
}

// Every tile is a batch of its own, of all pictures, so that what is said of it does not depend on the others.
at::Tensor PredictMember::of_tiles(const at::Tensor& images, int64_t batch) {
  const ImageOptions& seen = experiment_.data.image;
  const auto plane = static_cast<size_t>(pictures_.height * pictures_.width);
  const auto tile_plane = static_cast<size_t>(seen.seen_height() * seen.seen_width());
  at::Tensor blended =
      at::zeros({images.size(0), static_cast<int64_t>(classes().size()), pictures_.height, pictures_.width});
  const std::span<float> sums(blended.mutable_data_ptr<float>(), static_cast<size_t>(blended.numel()));
  const size_t planes = sums.size() / plane;
  for (size_t t = 0; t < tiling_->tiles().size(); ++t) {
    const Tiling::Tile& tile = tiling_->tiles()[t];
    const at::Tensor part = images.slice(2, tile.top, tile.top + seen.seen_height())
                                .slice(3, tile.left, tile.left + seen.seen_width())
                                .contiguous(replica_->memory_format());
    const at::Tensor said = of_views(part, batch).front().cpu().contiguous();
    for (size_t p = 0; p < planes; ++p)
      tiling_->add(t, {said.const_data_ptr<float>() + p * tile_plane, tile_plane}, sums.subspan(p * plane, plane));
  }
  for (size_t p = 0; p < planes; ++p) tiling_->finish(sums.subspan(p * plane, plane));
  return blended;
}

PredictMember::Said PredictMember::say(const at::Tensor& images, int64_t batch) {
  const at::NoGradGuard no_grad;
  set_product_precision(experiment_.precision);
  const at::Tensor here = images.to(job_.device().place);
  if (tiling_) return {of_tiles(here, batch), {}};
  const std::vector<at::Tensor> said = of_views(here, batch);
  return {said.front().cpu().contiguous(), views_.maps ? said.back().cpu().contiguous() : at::Tensor()};
}

}  // namespace dtrain
