#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "dtrain/data/batches/loader.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/train/replica.hpp"
#include "dtrain/train/trainer.hpp"
#include "job/job.hpp"
#include "job/plan.hpp"

// From a plan to what training, evaluation and benchmarks are made of.

namespace dtrain {

/// The network of the plan with its initial weights, or those of model.weights on rank 0; `weights_line` says which.
std::shared_ptr<Network> make_planned_network(const Experiment& experiment, const Plan& plan, bool load_weights_file,
                                              std::string& weights_line);

/// The loss, with pos_weight resolved from the training part.
Loss make_planned_loss(const Experiment& experiment, const Plan& plan, c10::Device device = c10::kCPU);

/// The labels of the training part, for Loss::of_frequencies. Segmentation: masks are not read for this; it assumes as
/// many pixels in each class as outside it, the frequency with the largest loss.
LabelCounts training_labels(const Experiment& experiment, const Plan& plan);

/// True if data.augment does nothing to a picture of data.image.size but flips and quarter turns, which can come later.
bool keeps_raw(const Experiment& experiment);

/// Where decoded pictures are kept; null: nowhere.
struct PictureStores {
  const PictureCache* device = nullptr;
  SharedPictures* shared = nullptr;
};

/// How the loader delivers pictures: raw for a GPU, and for a cache on the device, if augmentation permits. `plan`
/// and `stores` outlive what is made of it.
Delivery planned_delivery(const Experiment& experiment, const Plan& plan, bool on_gpu,
                          const PictureStores& stores = {});

/// The loader, with its threads resolved for the `cores` of this rank (Job::cores). `plan`, `trace` and `stores`
/// outlive it.
std::unique_ptr<Loader> make_planned_loader(const Experiment& experiment, const Plan& plan, const Replica& replica,
                                            Trace& trace, int64_t cores, const PictureStores& stores = {});

/// What the configuration asks of a trainer; frequencies_loss, which depends on the data, is not set.
Trainer::Options planned_trainer_options(const Experiment& experiment, int64_t logical_ranks);

/// What a trainer works with beside its plan and its job; all outlive it.
struct TrainerTools {
  Replica& replica;
  const Loss& loss;
  const Schedule& schedule;
  BatchSource& batches;
  Trace& trace;
};
/// A trainer for the plan's training part on all ranks of the job, which construct it together. `plan` outlives it.
std::unique_ptr<Trainer> make_planned_trainer(const Trainer::Options& options, const Plan& plan, Job& job,
                                              const TrainerTools& tools);

}  // namespace dtrain
