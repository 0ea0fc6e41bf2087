#include "job/planned_parts.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/batches/computing_cores.hpp"
#include "dtrain/model/weights.hpp"

namespace dtrain {

std::shared_ptr<Network> make_planned_network(const Experiment& e, const Plan& plan, bool load_weights_file,
                                              std::string& weights_line) {
  auto network = make_network(e.model, plan.shape, e.seed);
  weights_line = e.model.weights.empty() ? "random start (seed " + std::to_string(e.seed) + ")"
                                         : "weights from " + e.model.weights;
  if (!e.model.weights.empty() && load_weights_file) weights_line = load_weights(*network, e.model.weights);
  return network;
}

LabelCounts training_labels(const Experiment& e, const Plan& plan) {
  const auto outputs = static_cast<size_t>(plan.shape.outputs);
  if (e.task == Task::segmentation) {  // half of the pixels, or all alike where one excludes the others
    const bool exclusive = has_background(loss_in_use(e.loss, e.task), e.task, plan.shape.outputs);
    const double others = exclusive ? static_cast<double>(outputs) - 1 : 1;
    return {std::vector<double>(outputs, 1), std::vector<double>(outputs, others), 1 + others};
  }
  LabelCounts counts{std::vector<double>(outputs, 0), std::vector<double>(outputs, 0),
                     static_cast<double>(plan.split.train.size())};
  for (const int64_t index : plan.split.train) {
    const Sample& sample = plan.dataset.samples[static_cast<size_t>(index)];
    if (e.task == Task::multiclass) {
      ++counts.positive[static_cast<size_t>(sample.class_index)];
      continue;
    }
    for (size_t k = 0; k < outputs; ++k)
      if (!std::isnan(sample.labels[k])) ++(sample.labels[k] > 0.5F ? counts.positive : counts.negative)[k];
  }
  return counts;
}

// The factors of loss.`key`; none without it.
static std::vector<double> planned_weights(const Experiment& e, const Plan& plan, const OutputWeights& weights,
                                           const std::string& key) {
  const auto factors = static_cast<int64_t>(weights.list.size());
  if (weights.from == OutputWeights::From::list && factors != plan.shape.outputs)
    throw ConfigError("loss." + key + " has " + count_of(factors, "factor") + ", but the network has " +
                      count_of(plan.shape.outputs, "output") + " (" + join(plan.outputs, ", ") +
                      "); give one for each");
  if (weights.from != OutputWeights::From::balanced) return weights.list;
  if (e.task == Task::multiclass) return balanced_class_weight(training_labels(e, plan).positive);
  if (e.task != Task::multilabel)
    throw ConfigError("loss." + key +
                      ": balanced counts labels per picture and needs task multilabel; give a list of factors");
  std::vector<std::vector<float>> targets;
  for (int64_t sample : plan.split.train) targets.push_back(plan.dataset.samples[static_cast<size_t>(sample)].labels);
  return balanced_pos_weight(targets, plan.shape.outputs);
}

Loss make_planned_loss(const Experiment& e, const Plan& plan, c10::Device device) {
  const bool of_classes = reads(loss_in_use(e.loss, e.task), "class_weight");
  return Loss(e.loss, e.task,
              planned_weights(e, plan, of_classes ? e.loss.class_weight : e.loss.pos_weight,
                              of_classes ? "class_weight" : "pos_weight"),
              device);
}

bool keeps_raw(const Experiment& e) { return pixel_augmentations(e.data.augment).empty(); }

Delivery planned_delivery(const Experiment& e, const Plan& plan, bool on_gpu, const PictureStores& stores) {
  Delivery delivery;
  delivery.pinned = on_gpu;
  delivery.raw = stores.device != nullptr || (on_gpu && keeps_raw(e));
  delivery.cache = stores.device;
  delivery.shared = stores.shared;
  delivery.substitutes = &plan.split.train;
  delivery.tune_threads = e.data.loader.threads == 0;
  return delivery;
}

std::unique_ptr<Loader> make_planned_loader(const Experiment& e, const Plan& plan, const Replica& replica, Trace& trace,
                                            int64_t cores, const PictureStores& stores) {
  DataOptions data = e.data;
  const bool on_gpu = !replica.device().place.is_cpu();
  data.loader.threads = loader_threads(e.data.loader, computing_cores(e.distributed.threads, on_gpu, cores), cores);
  return std::make_unique<Loader>(plan.dataset, data, e.seed, replica.memory_format(), trace,
                                  planned_delivery(e, plan, on_gpu, stores));
}

Trainer::Options planned_trainer_options(const Experiment& e, int64_t logical_ranks) {
  return {.task = e.task,
          .seed = e.seed,
          .logical_ranks = logical_ranks,
          .distributed = e.distributed,
          .l2_kernels = e.loss.l2_kernels,
          .clip_norm = e.optimizer.clip_norm,
          .batch = e.batch,
          .sampling = e.data.sampling,
          .distribute = e.data.distribute,
          .skip_not_finite = e.skip_not_finite,
          .cuda_graphs = e.cuda_graphs,
          .mix = {.mixup = e.data.augment.mixup, .cutmix = e.data.augment.cutmix},
          .loader = e.data.loader,
          .freeze_until = e.optimizer.freeze_until,
          .resolutions = 1 + (e.loss.deep_supervision ? lower_logits_of(e.model) : 0),
          .adds_up_first = adds_up_first(e.loss, e.task, logical_ranks * e.batch.accumulate)};
}

std::unique_ptr<Trainer> make_planned_trainer(const Trainer::Options& options, const Plan& plan, Job& job,
                                              const TrainerTools& tools) {
  return std::make_unique<Trainer>(Trainer::Parts{.replica = tools.replica,
                                                  .loss = tools.loss,
                                                  .schedule = tools.schedule,
                                                  .loader = tools.batches,
                                                  .comm = job.comm(),
                                                  .watchdog = job.watchdog(),
                                                  .dataset = plan.dataset,
                                                  .train = plan.split.train,
                                                  .trace = tools.trace},
                                   options, job.gradient_comm(options.distributed.reduction));
}

}  // namespace dtrain
