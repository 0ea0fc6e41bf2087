#include "commands/predict_member.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/checkpoint/tensors.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/pixels/original_mask.hpp"
#include "dtrain/model/network.hpp"

namespace dtrain {

namespace {

// As far as the configuration names them; of masks it may tell no more than how many there are.
std::optional<std::vector<std::string>> told_classes(const DataOptions& data) {
  if (!data.classes.empty()) return data.classes;
  if (!has_mask_files(data)) return data.format->class_names == nullptr ? std::nullopt : data.format->class_names(data);
  const auto count = data.format->class_count == nullptr ? std::nullopt : data.format->class_count(data);
  return count ? std::optional(mask_class_names(*count)) : std::nullopt;
}

// What the weights say, and the configuration where they say nothing.
std::vector<std::string> known_classes(const WeightsOrigin& origin, const DataOptions& data, const std::string& weights) {
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

}  // namespace

PredictMember::PredictMember(const Experiment& experiment, const std::string& weights, PictureInput input, Job& job)
    : experiment_(experiment), weights_(weights), input_(std::move(input)), job_(job) {
  const SafetensorsFile file = SafetensorsFile::read(weights);
  origin_ = weights_origin(file.metadata(), weights);
  origin_.classes = known_classes(origin_, experiment.data, weights);
  const ImageOptions& image = experiment.data.image;
  if (const std::string other = other_size(file.metadata(), weights, image.seen_height(), image.seen_width());
      job.is_root() && !other.empty())
    job.log().warning(other);
  const NetworkShape shape{.channels = image.channels,
                           .height = image.seen_height(),
                           .width = image.seen_width(),
                           .outputs = static_cast<int64_t>(origin_.classes.size())};
  replica_ = std::make_unique<Replica>(make_network(experiment.model, shape, experiment.seed),
                                       memory_format_for(*experiment.model.kind, job.device().place.type()),
                                       experiment.optimizer, job.device(), experiment.precision);
  fill_tensors(file, weights, replica_->model_tensors(origin_.prefix));
  replica_->network().eval();
  LossOptions loss = experiment.loss;  // of which the way from logits to probabilities alone counts
  loss.pos_weight_kind = LossOptions::PosWeight::none;
  loss_ = std::make_unique<Loss>(loss, experiment.task, std::vector<double>{}, job.device().place);
  DataOptions data = experiment.data;
  data.augment = {};
  data.loader.threads = loader_threads(experiment.data.loader, experiment.distributed.threads, job.cores());
  Delivery delivery;
  delivery.pinned = delivery.raw = !job.device().place.is_cpu();
  loader_ =
      std::make_unique<Loader>(input_.dataset, data, experiment.seed, replica_->memory_format(), untraced_, delivery);
  batches_ = std::make_unique<DeviceBatches>(*loader_, job.device());
}

int64_t PredictMember::usual_batch() const {
  const int64_t told = experiment_.distributed.logical_ranks;
  return largest_batch(experiment_.batch, told > 0 ? told : std::max<int64_t>(1, origin_.logical_ranks));
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
  return pixel_values_of(told.mask_values, told.classes, classes());
}

std::optional<PredictMember::Said> PredictMember::next() {
  const at::NoGradGuard no_grad;
  const auto batch = batches_->next();
  if (!batch) return std::nullopt;
  Said said;
  said.samples = batch->samples;
  for (const int64_t index : batch->samples)
    said.found.push_back(input_.pictures->take(input_.dataset.samples[static_cast<size_t>(index)]));
  const at::Tensor logits = replica_->forward(batch->images.to(job_.device().place));
  const bool masks = experiment_.task == Task::segmentation;
  said.probabilities = loss_->probabilities(masks ? logits : logits.to(at::kDouble)).cpu().contiguous();
  if (!said.probabilities.isfinite().all().item<bool>())
    throw DivergedError(weights_ + " gives probabilities that are not finite, as for " +
                        input_.dataset.samples[static_cast<size_t>(batch->samples.front())].path +
                        " or the pictures after it; use other weights");
  return said;
}

}  // namespace dtrain
