#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dtrain/checkpoint/state.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/data/dataset.hpp"
#include "dtrain/data/loader.hpp"
#include "dtrain/data/split.hpp"
#include "dtrain/metrics/figures.hpp"
#include "dtrain/model/loss.hpp"
#include "dtrain/model/network.hpp"
#include "dtrain/runlog/run_folder.hpp"
#include "dtrain/runlog/run_lock.hpp"
#include "dtrain/runlog/run_log.hpp"
#include "dtrain/train/replica.hpp"
#include "job.hpp"

namespace dtrain {

/// What a configuration stands for once its data have been looked at: the same on every rank.
struct Plan {
  Dataset dataset;
  Split split;
  NetworkShape shape;
  int64_t logical_ranks = 1;         ///< V
  int64_t local_batch = 1;           ///< largest batch of a logical rank, and the batch of evaluation
  std::vector<std::string> outputs;  ///< names of the network's outputs
};

/// Opens the data set, splits it, and checks what only both together can tell: outputs against classes, ranks against
/// V. Throws ConfigError, DataError, MissingError.
Plan make_plan(const Experiment& experiment, int64_t logical_ranks);

/// Throws ConfigError where data.augment mixes the pictures of a batch and full batches have one picture.
void require_partners(const Experiment& experiment, const Plan& plan);

/// Throws ConfigError when there are more processes than logical ranks.
void require_ranks_fit(int ranks, int64_t logical_ranks);

/// The network of the plan with its initial weights, or those of model.weights on rank 0; `weights_line` tells which.
std::shared_ptr<Network> make_planned_network(const Experiment& experiment, const Plan& plan, bool load_weights_file,
                                              std::string& weights_line);

/// The loss, with pos_weight resolved from the training part.
Loss make_planned_loss(const Experiment& experiment, const Plan& plan, c10::Device device = c10::kCPU);

/// The labels of the training part, as Loss::of_frequencies wants them. Segmentation: masks are not read for this; as
/// many pixels in each class as outside of it, which no frequency makes harder to tell.
LabelCounts training_labels(const Experiment& experiment, const Plan& plan);

/// True where data.augment leaves a picture of data.image.size as it is but for flips and quarter turns, which can come
/// later.
bool keeps_raw(const Experiment& experiment);

/// Where decoded pictures are kept; null: nowhere.
struct PictureStores {
  const PictureCache* device = nullptr;
  SharedPictures* shared = nullptr;
};

/// How the loader hands pictures over: raw for a GPU, and for a store on the device, where augmentation permits. `plan`
/// and `stores` outlive what is made of it.
Delivery planned_delivery(const Experiment& experiment, const Plan& plan, bool on_gpu,
                          const PictureStores& stores = {});

/// The loader, with its threads resolved for the `cores` of this rank (Job::cores). `plan`, `trace` and `stores`
/// outlive it.
std::unique_ptr<Loader> make_planned_loader(const Experiment& experiment, const Plan& plan, const Replica& replica,
                                            Trace& trace, int64_t cores, const PictureStores& stores = {});

/// Indices into Dataset::samples of one part.
const std::vector<int64_t>& part_of_split(const Split& split, const std::string& part);

/// SHA-256 of the file model.weights; "" where none is named. Throws MissingError.
std::string weights_sha256(const Experiment& experiment);

/// Hash of everything a run's result depends on; equal fingerprints give equal results.
std::string fingerprint(const Config& config, const Plan& plan, const std::string& weights_sha256, const Job& job);

/// Keeps other jobs out of the run folder, which is there; names in the log a job that was ended before it could
/// give it back. Throws as RunLock.
std::unique_ptr<RunLock> lock_run_folder(const RunFolder& folder, const Job& job);

/// Whether best.safetensors at `path` is what the state says of it: of state.best_epoch, with state.best_value under
/// `monitor`; not there where the state has no best yet. A damaged file is not.
bool best_is_of(const std::string& path, const TrainingState& state, const std::string& monitor, FileSystem& files);

/// Columns of epochs.csv after the fixed ones.
std::vector<std::string> figure_columns(Task task, const std::vector<std::string>& classes);

/// Throws ConfigError when checkpoint.best or a plateau watches a column that this run will not have.
void require_monitors(const Experiment& experiment, const Plan& plan);

/// Segmentation: throws DataError when no training mask holds any class, naming the pixel values that are there.
void require_foreground(const Experiment& experiment, const Plan& plan);

/// Whether a run in this state, between two steps of this plan, has a step left in the epoch that it stands in.
bool step_is_left(const Experiment& experiment, const Plan& plan, const TrainingState& state);

/// Throws ConfigError when a checkpoint inside an epoch does not stand between two steps of this plan.
void require_step_boundary(const Experiment& experiment, const Plan& plan, const TrainingState& state,
                           const std::string& path);

/// Figures under the names of epochs.csv ("valid_" + name).
FigureList valid_figures(const std::vector<Figure>& figures);

}  // namespace dtrain
