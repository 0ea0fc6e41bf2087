#include "dtrain/config/habits.hpp"

#include <algorithm>
#include <iterator>

#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/schema.hpp"

namespace dtrain {

namespace {

constexpr const char* kNoAverage = "this version keeps no average of single epochs' weights; ema.decay is a moving one";
constexpr const char* kNoTracking =
    "this version supports no tracking service; epochs.csv and metrics.jsonl in the run folder have every figure, and "
    "output.tensorboard: true writes them for TensorBoard";
constexpr const char* kLauncher =
    "this version leaves processes to the launcher, as in mpirun -np 4 dtrain --config FILE";

constexpr Habit kHabits[] = {
    {"lr", "optimizer.learning_rate", ""},
    {"base_lr", "optimizer.learning_rate", ""},
    {"init_lr", "optimizer.learning_rate", ""},
    {"initial_lr", "optimizer.learning_rate", ""},
    {"wd", "optimizer.weight_decay", ""},
    {"optim", "optimizer.name", ""},
    {"opt", "optimizer.name", ""},
    {"optimizer_name", "optimizer.name", ""},
    {"optimizer.type", "optimizer.name", ""},
    {"grad_clip", "optimizer.clip_norm", ""},
    {"clip_grad", "optimizer.clip_norm", ""},
    {"gradient_clip", "optimizer.clip_norm", ""},
    {"gradient_clip_val", "optimizer.clip_norm", ""},
    {"max_grad_norm", "optimizer.clip_norm", ""},
    {"b", "batch.per_rank", ""},
    {"bs", "batch.per_rank", ""},
    {"batch.size", "batch.per_rank", ""},
    {"batch_size", "batch.per_rank", ""},
    {"batchsize", "batch.per_rank", ""},
    {"train_batch_size", "batch.per_rank", ""},
    {"per_device_train_batch_size", "batch.per_rank", ""},
    {"train_micro_batch_size_per_gpu", "batch.per_rank", ""},
    {"auto_scale_batch_size", "batch.per_rank=auto", ""},
    {"auto_find_batch_size", "batch.per_rank=auto", ""},
    {"autobatch", "batch.per_rank=auto", ""},
    {"auto_batch_size", "batch.per_rank=auto", ""},
    {"global_batch_size", "batch.global", ""},
    {"accumulate_grad_batches", "batch.accumulate", ""},
    {"accumulation_steps", "batch.accumulate", ""},
    {"grad_accum", "batch.accumulate", ""},
    {"gradient_accumulation_steps", "batch.accumulate", ""},
    {"drop_last", "batch.last=drop", ""},
    {"e", "epochs", ""},
    {"num_epochs", "epochs", ""},
    {"n_epochs", "epochs", ""},
    {"max_epochs", "epochs", ""},
    {"num_train_epochs", "epochs", ""},
    {"j", "data.loader.threads", ""},
    {"workers", "data.loader.threads", ""},
    {"num_workers", "data.loader.threads", ""},
    {"n_workers", "data.loader.threads", ""},
    {"num_threads", "data.loader.threads", ""},
    {"prefetch_factor", "data.loader.prefetch", ""},
    {"dataset", "data.root", ""},
    {"data.path", "data.root", ""},
    {"data.dir", "data.root", ""},
    {"data.folder", "data.root", ""},
    {"data_dir", "data.root", ""},
    {"data_path", "data.root", ""},
    {"data_root", "data.root", ""},
    {"dataset_path", "data.root", ""},
    {"train_dir", "data.root", ""},
    {"image_size", "data.image.size", ""},
    {"img_size", "data.image.size", ""},
    {"imgsz", "data.image.size", ""},
    {"input_size", "data.image.size", ""},
    {"resolution", "data.image.size", ""},
    {"in_channels", "data.image.channels", ""},
    {"num_channels", "data.image.channels", ""},
    {"channel_names", "data.image.files", ""},
    {"modalities", "data.image.files", ""},
    {"modality", "data.image.files", ""},
    {"n_slices", "data.image.slices", ""},
    {"num_slices", "data.image.slices", ""},
    {"context_slices", "data.image.slices", ""},
    {"data.split.train", "data.split.valid", ""},
    {"val_split", "data.split.valid", ""},
    {"valid_split", "data.split.valid", ""},
    {"validation_split", "data.split.valid", ""},
    {"val_size", "data.split.valid", ""},
    {"test_split", "data.split.test", ""},
    {"test_size", "data.split.test", ""},
    {"folds", "data.split.fold", ""},
    {"n_splits", "data.split.fold", ""},
    {"horizontal_flip", "data.augment.hflip", ""},
    {"fliplr", "data.augment.hflip", ""},
    {"vertical_flip", "data.augment.vflip", ""},
    {"flipud", "data.augment.vflip", ""},
    {"rotation", "data.augment.rotate", ""},
    {"degrees", "data.augment.rotate", ""},
    {"auto_augment", "data.augment.trivial_augment=true", ""},
    {"trivialaugment", "data.augment.trivial_augment=true", ""},
    {"trivialaugmentwide", "data.augment.trivial_augment=true", ""},
    {"ta_wide", "data.augment.trivial_augment=true", ""},
    {"arch", "model.name", ""},
    {"architecture", "model.name", ""},
    {"backbone", "model.name", ""},
    {"network", "model.name", ""},
    {"model_name", "model.name", ""},
    {"model.type", "model.name", ""},
    {"pretrained", "model.weights", ""},
    {"encoder_name", "model.encoder", ""},
    {"encoder_weights", "model.weights", ""},
    {"encoder_depth", "model.levels", ""},
    {"num_levels", "model.levels", ""},
    {"base_channels", "model.base_width", ""},
    {"init_features", "model.base_width", ""},
    {"num_classes", "model.outputs", ""},
    {"n_classes", "model.outputs", ""},
    {"drop_rate", "model.dropout", ""},
    {"batch_dice", "loss.dice", ""},
    {"enable_deep_supervision", "loss.deep_supervision", ""},
    {"criterion", "loss.name", ""},
    {"loss_fn", "loss.name", ""},
    {"loss_function", "loss.name", ""},
    {"loss.type", "loss.name", ""},
    {"scheduler", "schedule.decay.name", ""},
    {"lr_scheduler", "schedule.decay.name", ""},
    {"lr_schedule", "schedule.decay.name", ""},
    {"lr_policy", "schedule.decay.name", ""},
    {"schedule.name", "schedule.decay.name", ""},
    {"schedule.type", "schedule.decay.name", ""},
    {"schedule.gamma", "schedule.decay.factor", ""},
    {"scheduler.gamma", "schedule.decay.factor", ""},
    {"lr_scheduler.gamma", "schedule.decay.factor", ""},
    {"step_size", "schedule.decay.every", ""},
    {"milestones", "schedule.decay.at", ""},
    {"warmup_epochs", "schedule.warmup", ""},
    {"warmup_steps", "schedule.warmup", ""},
    {"amp", "precision=fp16", ""},
    {"use_amp", "precision=fp16", ""},
    {"fp16", "precision=fp16", ""},
    {"half", "precision=fp16", ""},
    {"bf16", "precision=bf16", ""},
    {"mixed_precision", "precision", ""},
    {"dtype", "precision", ""},
    {"random_seed", "seed", ""},
    {"manual_seed", "seed", ""},
    {"accelerator", "device", ""},
    {"bucket_cap_mb", "distributed.bucket_mb", ""},
    {"world_size", "distributed.logical_ranks", ""},
    {"save_every", "checkpoint.every", ""},
    {"save_freq", "checkpoint.every", ""},
    {"save_steps", "checkpoint.every", ""},
    {"save_total_limit", "checkpoint.keep", ""},
    {"save_top_k", "checkpoint.keep", ""},
    {"o", "output.dir", ""},
    {"out_dir", "output.dir", ""},
    {"output_dir", "output.dir", ""},
    {"save_dir", "output.dir", ""},
    {"log_dir", "output.dir", ""},
    {"logdir", "output.dir", ""},
    {"work_dir", "output.dir", ""},
    {"run_name", "name", ""},
    {"experiment", "name", ""},
    {"experiment_name", "name", ""},
    {"exp_name", "name", ""},
    {"class_weights", "loss.class_weight", ""},
    {"patience", "early_stop.patience", ""},
    {"early_stopping", "early_stop.patience", ""},
    {"earlystopping", "early_stop.patience", ""},
    {"early_stopping_patience", "early_stop.patience", ""},
    {"early_stop_patience", "early_stop.patience", ""},
    {"freeze", "optimizer.groups", ""},
    {"frozen", "optimizer.groups", ""},
    {"freeze_backbone", "optimizer.groups", ""},
    {"freeze_layers", "optimizer.groups", ""},
    {"freeze_epochs", "optimizer.freeze_until", ""},
    {"unfreeze_at_epoch", "optimizer.freeze_until", ""},
    {"unfreeze_backbone_at_epoch", "optimizer.freeze_until", ""},
    {"mask_postfix", "data.image_mask.mask_suffix", ""},
    {"ema_decay", "ema.decay", ""},
    {"model_ema", "ema.decay", ""},
    {"model_ema_decay", "ema.decay", ""},
    {"swa", "", kNoAverage},
    {"callbacks", "", kNoTracking},
    {"logger", "", kNoTracking},
    {"mlflow", "", kNoTracking},
    {"tensorboard", "output.tensorboard", ""},
    {"wandb", "", kNoTracking},
    {"sampler", "data.sampling", ""},
    {"oversample", "data.sampling=balanced", ""},
    {"balanced_sampling", "data.sampling=balanced", ""},
    {"weighted_sampler", "data.sampling=balanced", ""},
    {"layer_decay", "optimizer.groups", ""},
    {"param_groups", "optimizer.groups", ""},
    {"gpus", "", kLauncher},
    {"n", "", kLauncher},
    {"np", "", kLauncher},
    {"nproc", "", kLauncher},
    {"nproc_per_node", "", kLauncher},
    {"num_gpus", "", kLauncher},
    {"num_processes", "", kLauncher},
    {"devices", "", kLauncher},
};

std::string plain_name(const std::string& typed) {
  std::string name = lower_case(typed);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

const Habit* habit_named(const std::string& name) {
  const auto found =
      std::find_if(habits().begin(), habits().end(), [&](const Habit& habit) { return name == habit.name; });
  return found == habits().end() ? nullptr : &*found;
}

std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// The key of this name, or the only or first one whose last word it is; nobody means the list files of a part first.
std::string key_named(const std::string& name) {
  Experiment defaults;
  std::string found;
  for (const Key& key : describe(defaults)) {
    if (key.name == name) return name;
    const bool of_part = key.name.starts_with("data.split.files.") || key.name.starts_with("data.split.folders.");
    if (found.empty() && !of_part && last_word(key.name) == name) found = key.name;
  }
  return found;
}

std::string key_near(const std::string& name) {
  Experiment defaults;
  std::vector<std::string> words;
  for (const Key& key : describe(defaults)) words.push_back(last_word(key.name));
  const std::string near = name.size() < 4 ? "" : nearest_word(name, words);
  return near.empty() ? "" : key_named(near);
}

}  // namespace

const std::vector<Habit>& habits() {
  static const std::vector<Habit> all(std::begin(kHabits), std::end(kHabits));
  return all;
}

const Habit* habit_behind(const std::string& key) {
  const std::string name = plain_name(key);
  if (const Habit* whole = habit_named(name)) return whole;
  const Habit* found =
      nullptr;  // the last word that is a habit, unless another one says that this version has no such thing
  const std::vector<std::string> words = split_text(name, '.');
  for (size_t i = words.size(); i-- > 0;) {
    const Habit* habit =
        words[i].size() < 2 ? nullptr : habit_named(words[i]);  // a single letter can only be an option
    if (habit != nullptr && (found == nullptr || *habit->key == '\0')) found = habit;
  }
  return found;
}

std::string key_of_group(const std::string& group) {
  static const std::vector<std::pair<std::string, std::string>> likely = {
      {"model", "model.name"},
      {"loss", "loss.name"},
      {"data", "data.root"},
      {"data.split", "data.split.valid"},
      {"data.image", "data.image.size"},
      {"batch", "batch.per_rank"},
      {"optimizer", "optimizer.name"},
      {"schedule", "schedule.decay.name"},
      {"schedule.decay", "schedule.decay.name"},
      {"early_stop", "early_stop.patience"},
      {"ema", "ema.decay"},
      {"checkpoint", "checkpoint.every"},
      {"checkpoint.best", "checkpoint.best.monitor"},
      {"output", "output.dir"},
  };
  for (const auto& [name, key] : likely)
    if (name == group) return key;
  return "";
}

std::string value_here(const std::string& value, const std::vector<std::string>& offers) {
  static const std::vector<std::pair<std::string, std::string>> same = {
      {"gpu", "cuda"},
      {"16", "fp16"},
      {"half", "fp16"},
      {"float16", "fp16"},
      {"amp", "fp16"},
      {"16-mixed", "fp16"},
      {"bfloat16", "bf16"},
      {"bf16-mixed", "bf16"},
      {"32", "fp32"},
      {"float32", "fp32"},
      {"classification", "multiclass"},
      {"binary", "multiclass"},
      {"multi_label", "multilabel"},
      {"semantic_segmentation", "segmentation"},
      {"folder", "image_folder"},
      {"imagenet", "image_folder"},
      {"tfrecords", "tfrecord"},
      {"reduce_on_plateau", "plateau"},
      {"cosine_annealing", "cosine"},
      {"group", "patient"},
      {"random", "sample"},
  };
  const auto meant = [&](const std::string& theirs, const std::string& ours) {
    return plain_name(value) == plain_name(theirs) && std::find(offers.begin(), offers.end(), ours) != offers.end();
  };
  for (const auto& [theirs, ours] : same)
    if (meant(theirs, ours)) return ours;
  for (const LossKind* loss : losses())
    for (const std::string& theirs : loss->also_called)
      if (meant(theirs, loss->name)) return loss->name;
  return "";
}

std::string option_as_key(const std::string& option, const std::string& value, bool misspelt) {
  const std::string name = plain_name(option.substr(std::min(option.size(), option.find_first_not_of('-'))));
  const Habit* habit = habit_behind(name);
  if (habit != nullptr && *habit->key == '\0') return habit->instead;
  std::string key = habit != nullptr ? habit->key : key_named(name);
  if (key.empty()) key = key_of_group(name);
  if (key.empty() && misspelt) key = key_near(name);
  if (key.empty() || key.find('=') != std::string::npos) return key;
  const bool side =
      key == "data.image.size" && !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  return shell_word(key + "=" + (value.empty() ? "VALUE" : side ? "[" + value + ", " + value + "]" : value));
}

}  // namespace dtrain
