#include "job/plan.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "dtrain/advice/mask_advice.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/metrics/options.hpp"

namespace dtrain {

// Where the one class folder holds folders itself, the root may be one folder too high.
static std::string deeper_root(const DataOptions& data, const Plan& plan) {
  if (data.format->folders != DataFormat::Folders::classes || plan.dataset.own_parts.by != OwnParts::By::nothing)
    return "";
  std::set<std::string> inner;
  for (const Sample& sample : plan.dataset.samples) {
    const std::vector<std::string> folders = split_text(sample.path, '/');
    if (folders.size() < 3) return "";
    inner.insert(folders[1]);
  }
  const std::string root = (std::filesystem::path(data.root) / plan.dataset.classes.front()).string();
  return inner.size() < 2 ? ""
                          : "; or, if its folders " + join({inner.begin(), inner.end()}, ", ") +
                                " are the classes, set " + shell_word("data.root=" + root);
}

Plan make_plan(const Experiment& e, int64_t logical_ranks) {
  Plan plan;
  plan.dataset = open_dataset(e.data, e.task, e.seed);
  plan.split = split_dataset(plan.dataset, e.data.split);
  plan.logical_ranks = logical_ranks;
  plan.outputs = plan.dataset.classes;
  const auto classes = static_cast<int64_t>(plan.dataset.classes.size());
  plan.shape = {.channels = e.data.image.channels,
                .height = e.data.image.seen_height(),
                .width = e.data.image.seen_width(),
                .outputs = logits_for(e.loss, e.task, classes),
                .deep_supervision = e.loss.deep_supervision};
  if (e.model.outputs.value_or(classes) != classes)
    throw ConfigError("model.outputs is " + std::to_string(*e.model.outputs) + ", but the data have " +
                      count_of(classes, "class", "classes") + " (" + join(plan.dataset.classes, ", ") +
                      "); set model.outputs=" + std::to_string(classes) + " or leave it out, or choose data.classes");
  if (e.task == Task::multiclass && classes < 2)
    throw ConfigError("the data in '" + e.data.root + "' have one class (" + join(plan.dataset.classes, ", ") +
                      "); a multiclass task needs two or more: add samples of another class" +
                      (e.data.classes.empty() ? "" : ", or list more in data.classes") + deeper_root(e.data, plan));
  require_distinct_names(e.task, plan.outputs);
  require_enough_samples(static_cast<int64_t>(plan.split.train.size()), e.batch, logical_ranks);
  plan.local_batch = largest_batch(e.batch, logical_ranks);
  return plan;
}

void require_partners(const Experiment& e, const Plan& plan) {
  const AugmentOptions& a = e.data.augment;
  const int64_t fewest = full_global_batch(e.batch, plan.logical_ranks) / plan.logical_ranks;  // per logical rank
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

EpochPlan planned_epoch(const Experiment& e, const Plan& plan, int64_t epoch) {
  return {static_cast<int64_t>(plan.split.train.size()),
          plan.logical_ranks,
          e.batch,
          e.data.distribute,
          e.seed,
          epoch,
          sampled_groups(e.data.sampling, plan.dataset, plan.split.train)};
}

const std::vector<int64_t>& part_of_split(const Split& split, const std::string& part) {
  return part == "train" ? split.train : part == "test" ? split.test : split.valid;
}

void require_foreground(const Experiment& e, const Plan& plan) {
  if (e.task != Task::segmentation) return;
  std::optional<int64_t> first;  // the first sample whose mask can be decoded
  std::string bad;
  for (int64_t index : plan.split.train) {
    try {
      const std::vector<int64_t> counts =
          count_mask_pixels(read_mask(plan.dataset, index), static_cast<int64_t>(plan.outputs.size()));
      if (!first) first = index;
      if (std::any_of(counts.begin() + 1, counts.end(), [](int64_t count) { return count > 0; })) return;
    } catch (const DataError& error) {
      if (e.data.loader.on_bad_sample == BadSample::fail) throw;
      if (bad.empty()) bad = error.what();
    }
  }
  if (!first) throw DataError("no training mask can be decoded; of the first one: " + bad);
  if (const std::string why = plan.dataset.store->why_background(); !why.empty())
    throw DataError("no training mask holds any class: " + why);
  const std::vector<int64_t> values = mask_values_found(plan.dataset, *first);
  std::vector<std::string> found;
  for (int64_t value : values) found.push_back(std::to_string(value));
  std::vector<std::string> listed;
  for (const auto& [value, name] : plan.dataset.mask_values) listed.push_back(std::to_string(value));
  const std::string fitting = mask_values_text(values);
  const std::string cure = !fitting.empty()    ? "set " + fitting
                           : values.size() > 1 ? "write masks as PNG files with only the values of classes"
                                               : "name the folder of the right masks with data.image_mask.masks";
  throw DataError("no training mask holds any class: " + mask_file(plan.dataset, *first) + " has the pixel values " +
                  join(found, ", ") + ", and data.image_mask.mask_values lists " + join(listed, ", ") + "; " + cure);
}

}  // namespace dtrain
