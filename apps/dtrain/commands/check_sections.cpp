#include "commands/check_sections.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/short_number.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/device/tensor_memory.hpp"
#include "dtrain/optim/optimizer.hpp"
#include "dtrain/optim/schedule.hpp"
#include "job/cache_plan.hpp"

namespace dtrain {

// The outputs' names at the beginning of a table's rows, and how wide that column is.
static int name_columns(const Plan& plan, std::vector<std::string>& names) {
  for (const std::string& name : plan.outputs) names.push_back(printable(name));
  const int columns = cell_columns(names, 24);
  names = cells(names, columns);
  return columns;
}

static void tell_part(const Plan& plan, const std::string& name, CheckJson& json) {
  const std::vector<int64_t>& part = part_of_split(plan.split, name);
  CheckJson counts;
  int64_t without_any = 0;
  int64_t unknown = 0;
  std::vector<int64_t> positive(plan.outputs.size(), 0);
  for (int64_t index : part) {
    const Sample& sample = plan.dataset.samples[static_cast<size_t>(index)];
    bool any_label = false;
    for (size_t k = 0; k < sample.labels.size(); ++k) {
      any_label = any_label || sample.labels[k] == 1;
      unknown += std::isnan(sample.labels[k]) ? 1 : 0;
      positive[k] += sample.labels[k] == 1 ? 1 : 0;
    }
    if (sample.class_index >= 0) ++positive[static_cast<size_t>(sample.class_index)];
    without_any += any_label ? 0 : 1;
  }
  std::printf("%s: %s\n", name.c_str(), count_of(static_cast<int64_t>(part.size()), "sample").c_str());
  counts["samples"] = part.size();
  if (plan.dataset.task != Task::segmentation && !part.empty()) {
    std::vector<std::string> names;
    const int columns = name_columns(plan, names);
    for (size_t k = 0; k < plan.outputs.size(); ++k) {
      std::printf("  %s %8s  %5.1f %%\n", names[k].c_str(), with_commas(positive[k]).c_str(),
                  100.0 * static_cast<double>(positive[k]) / static_cast<double>(part.size()));
      counts["classes"][plan.outputs[k]] = positive[k];
    }
    if (plan.dataset.task == Task::multilabel) {
      std::printf("  %s %8s  %5.1f %%\n", cell("without any label", columns).c_str(), with_commas(without_any).c_str(),
                  100.0 * static_cast<double>(without_any) / static_cast<double>(part.size()));
      if (unknown > 0) std::printf("  %s %8s\n", cell("unknown labels", columns).c_str(), with_commas(unknown).c_str());
      counts["without_any_label"] = without_any;
      counts["unknown_labels"] = unknown;
    }
  }
  json["parts"][name] = counts;
}

void tell_parts(const Plan& plan, CheckJson& json) {
  for (const char* part : {"train", "valid", "test"}) tell_part(plan, part, json);
}

void tell_sampling(const Experiment& e, const Plan& plan) {
  const auto groups = sampled_groups(e.data.sampling, plan.dataset, plan.split.train);
  if (groups.empty()) return;
  std::printf("%s\n", printable(balance_text(groups, static_cast<int64_t>(plan.split.train.size()))).c_str());
}

void tell_mask_shares(const Plan& plan, const PictureFacts& pictures, CheckJson& json) {
  std::vector<std::string> names;
  name_columns(plan, names);
  for (const char* part : {"train", "valid", "test"}) {
    std::vector<int64_t> pixels(plan.outputs.size() + 1, 0);
    std::vector<int64_t> samples(plan.outputs.size() + 1, 0);
    int64_t all = 0;
    for (int64_t index : part_of_split(plan.split, part)) {
      const std::vector<int64_t>& counts = pictures.mask_pixels[static_cast<size_t>(index)];
      for (size_t k = 0; k < counts.size(); ++k) {
        pixels[k] += counts[k];
        samples[k] += counts[k] > 0 ? 1 : 0;
        all += counts[k];
      }
    }
    for (size_t k = 1; k < pixels.size() && all > 0; ++k) {
      const double share = 100.0 * static_cast<double>(pixels[k]) / static_cast<double>(all);
      std::printf("%-5s  %s %5.1f %% of the pixels, in %s\n", part, names[k - 1].c_str(), share,
                  count_of(samples[k], "mask").c_str());
      json["parts"][part]["pixel_percent"][plan.outputs[k - 1]] = share;
    }
  }
}

// How wide the column of a text of all layers is, at least `least`.
static int columns_of(const std::vector<Network::Layer>& layers, std::string (*text)(const Network::Layer&),
                      int least) {
  for (const Network::Layer& layer : layers) least = std::max(least, shown_columns(text(layer)));
  return least;
}

void tell_network(const Experiment& e, const Plan& plan, const Network& network, const std::string& weights_line,
                  CheckJson& json) {
  const std::vector<Network::Layer> layers = network.layers(plan.shape);
  const auto kinds = columns_of(
      layers, [](const Network::Layer& layer) { return layer.kind; }, 4);
  const auto names = columns_of(
      layers, [](const Network::Layer& layer) { return printable(layer.name); }, 5);
  std::printf("network: %s\n  %-*s  %-*s  %-15s %12s %14s\n", printable(weights_line).c_str(), names, "layer", kinds,
              "kind", "output", "parameters", "MFLOP forward");
  int64_t parameters = 0;
  int64_t flop = 0;
  for (const Network::Layer& layer : layers) {
    std::vector<std::string> shape;
    for (int64_t size : layer.output) shape.push_back(std::to_string(size));
    parameters += layer.parameters;
    flop += layer.flop;
    std::printf("  %-*s  %-*s  %-15s %12s %14.2f\n", names, printable(layer.name).c_str(), kinds, layer.kind.c_str(),
                join(shape, "x").c_str(), with_commas(layer.parameters).c_str(), static_cast<double>(layer.flop) / 1e6);
  }
  const auto states = static_cast<double>(state_names(e.optimizer).size() + (e.ema.decay > 0 ? 1 : 0));
  const double checkpoint_mb = static_cast<double>(parameters) * 4 / 1e6 * (1 + states);
  std::printf("  %s parameters; forward %.2f GFLOP per image, training about %.2f; checkpoint %.1f MB\n",
              with_commas(parameters).c_str(), static_cast<double>(flop) / 1e9, 3 * static_cast<double>(flop) / 1e9,
              checkpoint_mb);
  json["parameters"] = parameters;
  json["forward_gflop_per_image"] = static_cast<double>(flop) / 1e9;
  json["checkpoint_mb"] = checkpoint_mb;
}

void tell_schedule(const Experiment& e, const Plan& plan, int64_t processes, CheckJson& json) {
  const EpochPlan epoch = planned_epoch(e, plan, 0);
  const Schedule schedule(e.schedule, e.optimizer.learning_rate, plan.logical_ranks, epoch.steps(), e.epochs);
  std::printf("job: %s, %s; batch %lld per rank, %lld global; %s per epoch, last batch %lld; %s\n",
              count_of(processes, "process", "processes").c_str(), count_of(plan.logical_ranks, "logical rank").c_str(),
              static_cast<long long>(plan.local_batch), static_cast<long long>(epoch.global_batch()),
              count_of(epoch.steps(), "step").c_str(), static_cast<long long>(epoch.count(epoch.steps() - 1)),
              count_of(e.epochs, "epoch").c_str());
  std::printf("learning rate: base %s, scaled %s; first step %s", shortest(schedule.base_rate()).c_str(),
              four_digits(schedule.scaled_rate()).c_str(), four_digits(schedule.rate(0)).c_str());
  for (int64_t at : {e.epochs / 4, e.epochs / 2, e.epochs - 1})
    if (at > 0)
      std::printf(", epoch %lld %s", static_cast<long long>(at + 1),
                  four_digits(schedule.rate(at * epoch.steps())).c_str());
  std::printf("\n");
  json["steps_per_epoch"] = epoch.steps();
  json["global_batch"] = epoch.global_batch();
  json["scaled_learning_rate"] = schedule.scaled_rate();
  json["logical_ranks"] = plan.logical_ranks;
}

void tell_pictures(const Plan& plan, const PictureFacts& pictures, bool quick, double look_s, CheckJson& json) {
  std::printf("%s: %s in %s s on %s\n", quick ? "headers" : "pictures",
              count_of(static_cast<int64_t>(plan.dataset.samples.size()), "picture").c_str(), fixed(look_s, 1).c_str(),
              count_of(static_cast<int64_t>(bound_cores().size()), "core").c_str());
  if (pictures.hash_s > 0)
    std::printf("  hashing their pixels, to find a picture in two parts: %s s of one core\n",
                fixed(pictures.hash_s, 2).c_str());
  json["pictures_ok"] = plan.dataset.samples.size() - pictures.bad.size();
  json["pictures_bad"] = pictures.bad.size();
  json["pictures_blank"] = pictures.blank;
  json["look_s"] = look_s;
  json["hash_s"] = pictures.hash_s;
}

void tell_memory(const JobMemory& memory, CheckJson& json) {
  const bool exact = !memory.on_gpu && !memory.freezes && !tensors_have_gaps();
  const double spread = exact ? 0.1 : 0.25;  // what was measured lies within (docs/performance.md)
  const auto mb = [](double value) { return with_commas(std::llround(value)); };
  std::printf("memory: about %s MB per process%s (", mb(memory.process_mb()).c_str(),
              memory.on_gpu ? " on its GPU"
              : exact       ? ", give or take a tenth"
                            : ", give or take a quarter");
  if (!memory.on_gpu) std::printf("program and loader %s, ", mb(memory.program_mb).c_str());
  std::printf("weights, gradients and optimizer %s, passes of %s %s)", mb(memory.weights_mb + memory.peers_mb).c_str(),
              count_of(memory.pictures, "picture").c_str(), mb(memory.pass_mb).c_str());
  if (!memory.on_gpu)
    std::printf(", up to %s MB more in rank 0 while it saves; %s MB of %s MB that %s has are free",
                mb(memory.saving_mb).c_str(), mb(static_cast<double>(memory.host.free_bytes) / 1e6).c_str(),
                mb(static_cast<double>(memory.host.limit_bytes) / 1e6).c_str(), printable(memory.host.bound).c_str());
  std::printf("\n");
  json["memory_mb"] = memory.process_mb();
  json["memory_range_mb"] = {(1 - spread) * memory.process_mb(), (1 + spread) * memory.process_mb()};
  json["memory_saving_mb"] = memory.saving_mb;
  json["memory_free_mb"] = static_cast<double>(memory.host.free_bytes) / 1e6;
  json["memory_limit_mb"] = static_cast<double>(memory.host.limit_bytes) / 1e6;
}

void tell_cache(const Experiment& e, const Plan& plan, const PixelKind& kind, int processes, CheckJson& json) {
  if (e.data.loader.cache == PictureKeep::none) return;
  if (e.data.loader.cache == PictureKeep::ram) {
    const double need_mb = ram_cache_mb(e, plan);
    json["cache_mb"] = need_mb;
    std::printf("cache: about %s MB of each host's memory, shared by its processes; this one has %s MB free\n",
                fixed(need_mb, 1).c_str(), with_commas(static_cast<int64_t>(free_host_mb())).c_str());
    return;
  }
  CachePlan largest;
  for (int rank = 0; rank < processes; ++rank) {
    const CachePlan cache = plan_cache(e, plan, kind, processes, rank, e.epochs);
    if (cache.megabytes > largest.megabytes) largest = cache;
  }
  std::printf("cache: %s in the memory of each process's device\n", cache_text(e, largest).c_str());
  json["cache_mb"] = largest.megabytes;
}

void tell_findings(const std::vector<Finding>& findings, CheckJson& json) {
  json["worth_a_look"] = CheckJson::array();
  if (!findings.empty()) std::printf("worth a look, most important first:\n");
  for (size_t i = 0; i < findings.size(); ++i) {
    const std::string sentence = shown(findings[i].sentence);
    std::printf("  %zu. %s\n", i + 1, sentence.c_str());
    json["worth_a_look"].push_back(
        {{"weight", findings[i].weight}, {"name", findings[i].name}, {"sentence", sentence}});
  }
}

}  // namespace dtrain
