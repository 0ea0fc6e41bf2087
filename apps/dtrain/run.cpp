#include "run.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "dtrain/advice/mask_advice.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/mask_values.hpp"
#include "dtrain/data/sampler.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/file_system.hpp"
#include "dtrain/io/safetensors.hpp"
#include "dtrain/model/weights.hpp"

namespace dtrain {

Plan make_plan(const Experiment& e, int64_t logical_ranks) {
  Plan plan;
  plan.dataset = open_dataset(e.data, e.task, e.seed);
  plan.split = split_dataset(plan.dataset, e.data.split);
  plan.logical_ranks = logical_ranks;
  plan.outputs = plan.dataset.classes;
  const auto classes = static_cast<int64_t>(plan.dataset.classes.size());
  plan.shape = {e.data.image.channels, e.data.image.seen_height(), e.data.image.seen_width(),
                e.model.outputs.value_or(classes)};
  if (plan.shape.outputs != classes)
    throw ConfigError("model.outputs is " + std::to_string(plan.shape.outputs) + ", but the data have " +
                      count_of(classes, "class", "classes") + " (" + join(plan.dataset.classes, ", ") +
                      "); set model.outputs=" + std::to_string(classes) + " or leave it out, or choose data.classes");
  if (e.task == Task::multiclass && classes < 2)
    throw ConfigError("the data have one class (" + join(plan.dataset.classes, ", ") +
                      "); a multiclass task needs two or more");
  require_enough_samples(static_cast<int64_t>(plan.split.train.size()), e.batch, logical_ranks);
  plan.local_batch = largest_batch(e.batch, logical_ranks);
  return plan;
}

void require_partners(const Experiment& e, const Plan& plan) {
  const AugmentOptions& a = e.data.augment;
  const int64_t fewest = full_global_batch(e.batch, plan.logical_ranks) / plan.logical_ranks;  // of a logical rank
  if ((a.mixup == 0 && a.cutmix == 0) || (plan.local_batch > 1 && fewest > 1)) return;
  throw ConfigError(std::string(a.mixup > 0 ? "data.augment.mixup" : "data.augment.cutmix") +
                    " mixes the pictures of one batch, and batch.global " + std::to_string(e.batch.global) + " gives " +
                    count_of(plan.logical_ranks, "logical rank") + " batches of one picture; raise it to at least " +
                    std::to_string(2 * plan.logical_ranks * e.batch.accumulate));
}

void require_ranks_fit(int ranks, int64_t logical_ranks) {
  if (ranks > logical_ranks)
    throw ConfigError("there are more processes (" + std::to_string(ranks) + ") than logical ranks (" +
                      std::to_string(logical_ranks) + "); start at most " + std::to_string(logical_ranks) +
                      ", or set distributed.logical_ranks");
}

std::shared_ptr<Network> make_planned_network(const Experiment& e, const Plan& plan, bool load_weights_file,
                                              std::string& weights_line) {
  auto network = make_network(e.model, plan.shape, e.seed);
  weights_line = e.model.weights.empty() ? "random start (seed " + std::to_string(e.seed) + ")"
                                         : "weights from " + e.model.weights;
  if (!e.model.weights.empty() && load_weights_file) weights_line = load_weights(*network, e.model.weights);
  return network;
}

Loss make_planned_loss(const Experiment& e, const Plan& plan, c10::Device device) {
  std::vector<double> pos_weight;
  if (e.loss.pos_weight_kind == LossOptions::PosWeight::list) {
    pos_weight = e.loss.pos_weight;
    if (static_cast<int64_t>(pos_weight.size()) != plan.shape.outputs)
      throw ConfigError("loss.pos_weight has " + count_of(static_cast<int64_t>(pos_weight.size()), "factor") +
                        ", but the network has " + count_of(plan.shape.outputs, "output"));
  } else if (e.loss.pos_weight_kind == LossOptions::PosWeight::balanced) {
    if (e.task != Task::multilabel)
      throw ConfigError(
          "loss.pos_weight: balanced counts labels per picture and needs task multilabel; give a list of factors");
    std::vector<std::vector<float>> targets;
    for (int64_t sample : plan.split.train) targets.push_back(plan.dataset.samples[static_cast<size_t>(sample)].labels);
    pos_weight = balanced_pos_weight(targets, plan.shape.outputs);
  }
  return Loss(e.loss, e.task, pos_weight, device);
}

LabelCounts training_labels(const Experiment& e, const Plan& plan) {
  const auto outputs = static_cast<size_t>(plan.shape.outputs);
  if (e.task == Task::segmentation) return {std::vector<double>(outputs, 1), std::vector<double>(outputs, 1), 2};
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
  data.loader.threads = loader_threads(e.data.loader, e.distributed.threads, cores);
  const bool on_gpu = !replica.device().place.is_cpu();
  return std::make_unique<Loader>(plan.dataset, data, e.seed, replica.memory_format(), trace,
                                  planned_delivery(e, plan, on_gpu, stores));
}

const std::vector<int64_t>& part_of_split(const Split& split, const std::string& part) {
  return part == "train" ? split.train : part == "test" ? split.test : split.valid;
}

std::string weights_sha256(const Experiment& e) {
  if (e.model.weights.empty()) return "";
  require_weights_file(e.model.weights);
  return Sha256().update(read_file(e.model.weights)).hex_digest();
}

std::string fingerprint(const Config& config, const Plan& plan, const std::string& weights_sha256, const Job& job) {
  std::string text;
  for (const auto& [key, value] : fingerprint_values(config)) text += key + "=" + value + "\n";
  if (!weights_sha256.empty()) text += "weights " + weights_sha256 + "\n";
  text += "data " + plan.dataset.manifest_sha256 + "\nsplit " + plan.split.sha256 + "\nlogical ranks " +
          std::to_string(plan.logical_ranks) + "\nthreads " + std::to_string(config.experiment.distributed.threads) +
          "\n";
  for (const auto& [name, version] : library_versions())
    if (name != "mpi") text += name + " " + version + "\n";
  for (const auto& [name, value] : job.device_facts()) text += name + " " + value + "\n";
  return sha256_hex(text);
}

std::unique_ptr<RunLock> lock_run_folder(const RunFolder& folder, const Job& job) {
  const char* slurm_job = std::getenv("SLURM_JOB_ID");
  auto lock = std::make_unique<RunLock>(
      folder.path(), "process " + std::to_string(getpid()) + " on " + host_name() +
                         (slurm_job != nullptr ? ", Slurm job " + std::string(slurm_job) : "") + ", since " +
                         utc_now());
  if (!lock->held())
    job.log().warning("the file system of " + folder.path() + " has no locks: see to it that no second job uses it");
  if (!lock->left_by().empty())
    job.log().info("taking over " + folder.path() + ": the job before did not end properly (" + lock->left_by() + ")");
  return lock;
}

bool best_is_of(const std::string& path, const TrainingState& state, const std::string& monitor, FileSystem& files) {
  FileSystem::Status status;
  const bool there = files.status(path, false, status) == 0;
  if (std::isnan(state.best_value) || !there) return std::isnan(state.best_value) && !there;
  try {
    const SafetensorsFile file = SafetensorsFile::read(path, true, files);  // whose metadata is referred to below
    const auto& stored = file.metadata();
    const auto says = [&](const std::string& key, const std::string& text) {
      const auto found = stored.find(key);
      return found != stored.end() && found->second == text;
    };
    return says("epoch", std::to_string(state.best_epoch)) && says(monitor, shortest(state.best_value));
  } catch (const DataError&) {
    return false;
  }
}

std::vector<std::string> figure_columns(Task task, const std::vector<std::string>& classes) {
  std::vector<std::string> columns;
  if (task == Task::multiclass) columns.push_back("train_accuracy");
  for (const std::string& name : figure_names(task, classes)) columns.push_back("valid_" + name);
  return columns;
}

void require_monitors(const Experiment& e, const Plan& plan) {
  EpochRow row;
  for (const std::string& column : figure_columns(e.task, plan.outputs)) row.figures.emplace_back(column, std::nullopt);
  monitored(row, e.checkpoint.best_monitor);
  if (e.schedule.decay.name == DecayName::plateau) monitored(row, e.schedule.decay.monitor);
}

void require_foreground(const Experiment& e, const Plan& plan) {
  if (e.task != Task::segmentation) return;
  std::optional<int64_t> first;  // whose mask can be decoded
  std::string bad;
  for (int64_t index : plan.split.train) {
    try {
      const std::vector<int64_t> counts =
          count_mask_pixels(read_mask(plan.dataset, e.data, index, e.seed), plan.shape.outputs);
      if (!first) first = index;
      if (std::any_of(counts.begin() + 1, counts.end(), [](int64_t count) { return count > 0; })) return;
    } catch (const DataError& error) {
      if (e.data.loader.on_bad_sample == BadSample::fail) throw;
      if (bad.empty()) bad = error.what();
    }
  }
  if (!first) throw DataError("no training mask can be decoded; of the first one: " + bad);
  if (plan.dataset.packed)
    throw DataError("no training mask holds any class: those of the packed set '" + e.data.root +
                    "' are background alone; mask_values of the configuration it is packed by decide that");
  const std::vector<int64_t> values = mask_values_found(plan.dataset, e.data, *first);
  std::vector<std::string> found;
  for (int64_t value : values) found.push_back(std::to_string(value));
  std::vector<std::string> listed;
  for (const auto& [value, name] : plan.dataset.mask_values) listed.push_back(std::to_string(value));
  const std::string fitting = mask_values_text(values);
  const std::string cure = !fitting.empty()    ? "set " + fitting
                           : values.size() > 1 ? "write masks with the values of classes alone, as PNG files"
                                               : "name the folder of the right masks with data.image_mask.masks";
  throw DataError("no training mask holds any class: " + mask_file(plan.dataset, *first) + " has the pixel values " +
                  join(found, ", ") + ", and data.image_mask.mask_values lists " + join(listed, ", ") + "; " + cure);
}

static EpochPlan epoch_of(const Experiment& e, const Plan& plan, int64_t epoch) {
  return {static_cast<int64_t>(plan.split.train.size()), plan.logical_ranks, e.batch, e.data.distribute, e.seed, epoch};
}

bool step_is_left(const Experiment& e, const Plan& plan, const TrainingState& state) {
  if (state.epoch >= e.epochs) return false;
  const EpochPlan epoch = epoch_of(e, plan, state.epoch);
  return state.cursor < epoch.cursor(epoch.steps());
}

void require_step_boundary(const Experiment& e, const Plan& plan, const TrainingState& state, const std::string& path) {
  const EpochPlan epoch = epoch_of(e, plan, state.epoch);
  for (int64_t step = 0; step <= epoch.steps(); ++step)
    if (epoch.cursor(step) == state.cursor) return;
  throw ConfigError(
      path + " stands inside an epoch, after " + count_of(state.cursor, "sample") +
      "; batch and data keys can change only at the end of an epoch: set them back, or resume from a checkpoint there");
}

FigureList valid_figures(const std::vector<Figure>& figures) {
  FigureList list;
  for (const Figure& figure : figures) list.emplace_back("valid_" + figure.name, figure.value);
  return list;
}

}  // namespace dtrain
