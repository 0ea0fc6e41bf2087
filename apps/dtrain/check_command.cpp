#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cache_plan.hpp"
#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/sampler.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/own_output.hpp"
#include "dtrain/optim/optimizer.hpp"
#include "dtrain/optim/schedule.hpp"
#include "picture_scan.hpp"
#include "preview.hpp"
#include "run.hpp"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

// Pictures of equal pixels in more than one part: what was trained on would be judged.
std::vector<std::string> content_leaks(const Plan& plan, const Findings& findings) {
  std::map<int64_t, std::string> part_of_sample;
  for (const char* part : {"train", "valid", "test"})
    for (int64_t index : part_of_split(plan.split, part)) part_of_sample[index] = part;
  std::vector<std::string> leaks;
  for (const auto& [content, samples] : findings.by_content) {
    std::set<std::string> parts;
    std::vector<std::string> names;
    for (int64_t index : samples)
      if (const auto found = part_of_sample.find(index); found != part_of_sample.end()) {
        parts.insert(found->second);
        names.push_back(found->second + ": " + plan.dataset.samples[static_cast<size_t>(index)].path);
      }
    if (parts.size() > 1)
      leaks.push_back("split leak: the same picture stands in several parts (" + join(names, ", ") + ")");
  }
  std::sort(leaks.begin(), leaks.end());
  return leaks;
}

// Two of `samples`, pictures of equal pixels, that contradict each other in their class or in a label that both know;
// the first twice where there are none.
std::pair<int64_t, int64_t> contradiction(const Dataset& dataset, const std::vector<int64_t>& samples) {
  const auto sample = [&](int64_t index) -> const Sample& { return dataset.samples[static_cast<size_t>(index)]; };
  for (const int64_t index : samples)
    if (sample(index).class_index != sample(samples[0]).class_index) return {samples[0], index};
  for (size_t k = 0; k < sample(samples[0]).labels.size(); ++k) {
    std::optional<int64_t> known;
    for (const int64_t index : samples) {
      if (std::isnan(sample(index).labels[k])) continue;
      if (!known) known = index;
      if (sample(index).labels[k] != sample(*known).labels[k]) return {*known, index};
    }
  }
  return {samples[0], samples[0]};
}

// Pictures that stand there more than once, labelled differently: one of the labels is wrong. Masks are not compared.
std::vector<std::string> contradictions(const Plan& plan, const Findings& findings) {
  int64_t count = 0;
  std::string first;
  for (const auto& [content, samples] : findings.by_content) {
    const auto [one, other] = contradiction(plan.dataset, samples);
    if (one == other) continue;
    const std::string pair = plan.dataset.samples[static_cast<size_t>(one)].path + " and " +
                             plan.dataset.samples[static_cast<size_t>(other)].path;
    if (count++ == 0 || pair < first) first = pair;
  }
  if (count == 0) return {};
  return {count_of(count, "picture") + (count == 1 ? " stands" : " stand") +
          " there more than once with different labels, as " + first};
}

// A name at the beginning of a table's row, and how wide that column is.
int name_columns(const Plan& plan) {
  std::vector<std::string> names;
  for (const std::string& name : plan.outputs) names.push_back(printable(name));
  return cell_columns(names, 24);
}

void print_mask_shares(const Plan& plan, const Findings& findings, Json& json) {
  for (const char* part : {"train", "valid", "test"}) {
    std::vector<int64_t> pixels(plan.outputs.size() + 1, 0);
    std::vector<int64_t> samples(plan.outputs.size() + 1, 0);
    int64_t all = 0;
    for (int64_t index : part_of_split(plan.split, part)) {
      const std::vector<int64_t>& counts = findings.mask_pixels[static_cast<size_t>(index)];
      for (size_t k = 0; k < counts.size(); ++k) {
        pixels[k] += counts[k];
        samples[k] += counts[k] > 0 ? 1 : 0;
        all += counts[k];
      }
    }
    for (size_t k = 1; k < pixels.size() && all > 0; ++k) {
      const double share = 100.0 * static_cast<double>(pixels[k]) / static_cast<double>(all);
      std::printf("%-5s  %s %5.1f %% of the pixels, in %s\n", part,
                  cell(printable(plan.outputs[k - 1]), name_columns(plan)).c_str(), share,
                  count_of(samples[k], "mask").c_str());
      json["parts"][part]["pixel_percent"][plan.outputs[k - 1]] = share;
    }
  }
}

void print_part(const Plan& plan, const std::string& name, Json& json) {
  const std::vector<int64_t>& part = part_of_split(plan.split, name);
  Json counts;
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
    const int columns = name_columns(plan);
    for (size_t k = 0; k < plan.outputs.size(); ++k) {
      std::printf("  %s %8s  %5.1f %%\n", cell(printable(plan.outputs[k]), columns).c_str(),
                  with_commas(positive[k]).c_str(),
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

void print_network(const Experiment& e, const Plan& plan, Json& json) {
  std::string weights_line;
  const auto network = make_planned_network(e, plan, true, weights_line);
  std::printf("network: %s\n  %-44s %-8s %-18s %12s %14s\n", printable(weights_line).c_str(), "layer", "kind", "output",
              "parameters", "MFLOP forward");
  int64_t parameters = 0;
  int64_t flop = 0;
  double activations = 0;
  for (const Network::Layer& layer : network->layers(plan.shape)) {
    std::vector<std::string> shape;
    double numel = 1;
    for (int64_t size : layer.output) {
      shape.push_back(std::to_string(size));
      numel *= static_cast<double>(size);
    }
    activations += numel;
    parameters += layer.parameters;
    flop += layer.flop;
    std::printf("  %-44s %-8s %-18s %12s %14.2f\n", printable(layer.name).c_str(), layer.kind.c_str(),
                join(shape, "x").c_str(), with_commas(layer.parameters).c_str(), static_cast<double>(layer.flop) / 1e6);
  }
  const double weights_mb = static_cast<double>(parameters) * 4 / 1e6;
  const auto states = static_cast<double>(state_names(e.optimizer).size());
  const bool in_16_bits = e.precision == Precision::bf16 || e.precision == Precision::fp16;
  const double copy_mb = in_16_bits ? weights_mb / 2 : 0;  // the weights that a pass computes with
  const double own_mb = weights_mb * (2 + states) + copy_mb;
  const double memory_mb = own_mb + activations * (in_16_bits ? 2 : 4) * static_cast<double>(plan.local_batch) / 1e6;
  std::printf("  %s parameters; forward %.2f GFLOP an image, training about %.2f\n", with_commas(parameters).c_str(),
              static_cast<double>(flop) / 1e9, 3 * static_cast<double>(flop) / 1e9);
  std::printf(
      "  memory per process about %.0f MB (weights, gradients, optimizer %.0f MB; activations of %s the rest); "
      "checkpoint %.1f MB\n",
      memory_mb, own_mb, count_of(plan.local_batch, "image").c_str(), weights_mb * (1 + states));
  json["parameters"] = parameters;
  json["forward_gflop_per_image"] = static_cast<double>(flop) / 1e9;
  json["memory_mb"] = memory_mb;
  json["checkpoint_mb"] = weights_mb * (1 + states);
}

void print_cache(const Experiment& e, const Plan& plan, const PixelKind& kind, int processes, Json& json) {
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

void print_schedule(const Experiment& e, const Plan& plan, int64_t processes, Json& json) {
  const EpochPlan epoch(static_cast<int64_t>(plan.split.train.size()), plan.logical_ranks, e.batch, e.data.distribute,
                        e.seed, 0);
  const Schedule schedule(e.schedule, e.optimizer.learning_rate, plan.logical_ranks, epoch.steps(), e.epochs);
  std::printf("job: %s, %s; batch %lld a rank, %lld global; %s an epoch, last batch %lld; %s\n",
              count_of(processes, "process", "processes").c_str(), count_of(plan.logical_ranks, "logical rank").c_str(),
              static_cast<long long>(plan.local_batch), static_cast<long long>(epoch.global_batch()),
              count_of(epoch.steps(), "step").c_str(), static_cast<long long>(epoch.count(epoch.steps() - 1)),
              count_of(e.epochs, "epoch").c_str());
  std::printf("learning rate: base %s, scaled %s; first step %s", shortest(schedule.base_rate()).c_str(),
              shortest(schedule.scaled_rate()).c_str(), shortest(schedule.rate(0)).c_str());
  for (int64_t at : {e.epochs / 4, e.epochs / 2, e.epochs - 1})
    if (at > 0)
      std::printf(", epoch %lld %s", static_cast<long long>(at + 1),
                  shortest(schedule.rate(at * epoch.steps())).c_str());
  std::printf("\n");
  json["steps_per_epoch"] = epoch.steps();
  json["global_batch"] = epoch.global_batch();
  json["scaled_learning_rate"] = schedule.scaled_rate();
  json["logical_ranks"] = plan.logical_ranks;
}

// Samples by the names that the data set gives them.
Json sample_paths(const Plan& plan, const std::vector<int64_t>& samples) {
  Json names = Json::array();
  for (const int64_t index : samples) names.push_back(plan.dataset.samples[static_cast<size_t>(index)].path);
  return names;
}

std::vector<std::string> shown_each(std::vector<std::string> messages) {
  for (std::string& message : messages) message = shown(message);
  return messages;
}

// Paths may be no UTF-8.
std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// What trains with the same configuration.
std::string training_line(const CheckCommand& command) {
  std::string line = "mpirun -np " + std::to_string(command.world_size) + " --bind-to none dtrain";
  for (const std::string& file : command.config.sources.files) line += " --config " + shell_word(file);
  for (const std::string& word : command.config.sources.overrides) line += " " + shell_word(word);
  return line;
}

// For the file: each sample that is counted by name.
Json with_names(Json json, const Plan& plan, const Findings& findings) {
  json["bad"] = Json::array();
  for (const auto& [index, error] : findings.bad)
    json["bad"].push_back({{"path", plan.dataset.samples[static_cast<size_t>(index)].path},
                           {"code", error.code()},
                           {"error", shown(error.what())}});
  std::map<int64_t, Json> duplicates;  // by the first of them
  for (const auto& [content, samples] : findings.by_content)
    if (samples.size() > 1) duplicates[samples.front()] = sample_paths(plan, samples);
  json["duplicates"] = Json::array();
  for (const auto& [first, names] : duplicates) json["duplicates"].push_back(names);
  return json;
}

constexpr const char* kCheckReport = "dtrain-check-1";

/// Of what is known so far; `written`: the file holds all of it.
struct CheckReport {
  Json json = {{"report", kCheckReport}, {"version", DTRAIN_VERSION}};
  bool written = false;
};

int look_and_tell(const CheckCommand& command, const Config& config, const Log& log, CheckReport& report) {
  Json& json = report.json;
  const Experiment& e = config.experiment;
  const int64_t v = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks : command.world_size;
  if (command.world_size > v)
    throw ConfigError("--world-size " + std::to_string(command.world_size) +
                      " is more than distributed.logical_ranks " + std::to_string(v));
  json["format"] = config.values.at("data.format").text;
  json["root"] = e.data.root;
  const Plan plan = make_plan(e, v);
  json["data_sha256"] = plan.dataset.manifest_sha256;
  json["split_sha256"] = plan.split.sha256;
  json["notes"] = plan.dataset.notes;
  for (const std::string& note : plan.split.notes) json["notes"].push_back(note);
  std::vector<std::string> warnings;
  std::printf("data: %s, %s, manifest %s\n", e.data.root.empty() ? "synthetic" : printable(e.data.root).c_str(),
              count_of(static_cast<int64_t>(plan.dataset.samples.size()), "sample").c_str(),
              plan.dataset.manifest_sha256.substr(0, 12).c_str());
  for (const std::string& note : plan.dataset.notes) std::printf("  %s\n", shown(note).c_str());
  std::printf("split %s\n", plan.split.sha256.substr(0, 12).c_str());
  for (const std::string& note : plan.split.notes) std::printf("  %s\n", shown(note).c_str());
  for (const char* part : {"train", "valid", "test"}) print_part(plan, part, json);
  print_network(e, plan, json);
  print_schedule(e, plan, command.world_size, json);
  make_planned_loss(e, plan);
  require_partners(e, plan);
  require_monitors(e, plan);
  const std::string pictures = count_of(static_cast<int64_t>(plan.dataset.samples.size()), "picture");
  log.info((command.quick ? "reading the headers of " : "decoding ") + pictures + " …");
  const Stopwatch looking;
  const Findings findings = look_at_pictures(e, plan, command.quick, command.progress, log);
  const double look_s = looking.seconds();
  std::printf("%s: %s in %s s on %s\n", command.quick ? "headers" : "pictures", pictures.c_str(),
              fixed(look_s, 1).c_str(), count_of(static_cast<int64_t>(bound_cores().size()), "core").c_str());
  if (findings.hash_s > 0)
    std::printf("  hashing their pixels, to find a picture in two parts: %s s of one core\n",
                fixed(findings.hash_s, 2).c_str());
  if (findings.blank > 0) std::printf("  %s of one value throughout\n", count_of(findings.blank, "picture").c_str());
  if (e.task == Task::segmentation && !command.quick && findings.bad.empty()) {
    print_mask_shares(plan, findings, json);
    require_foreground(e, plan);
  }
  std::vector<std::string> leaks = content_leaks(plan, findings);
  for (const std::string& warning : plan.split.warnings)
    (shown(warning).starts_with("split leak") ? leaks : warnings).push_back(warning);
  for (const std::string& warning : contradictions(plan, findings)) warnings.push_back(warning);
  print_cache(e, plan, findings.kind, static_cast<int>(command.world_size), json);
  json["pictures_ok"] = plan.dataset.samples.size() - findings.bad.size();
  json["pictures_bad"] = findings.bad.size();
  json["pictures_blank"] = findings.blank;
  json["look_s"] = look_s;
  json["hash_s"] = findings.hash_s;
  json["leaks"] = shown_each(leaks);
  json["warnings"] = shown_each(warnings);
  for (const std::string& warning : warnings) std::printf("warning: %s\n", shown(warning).c_str());
  const bool good = findings.bad.empty() && leaks.empty();
  if (good)
    std::printf("all %s can be read; nothing stands against: %s\n", pictures.c_str(),
                printable(training_line(command)).c_str());
  std::vector<Error> errors;
  const auto attempt = [&](const auto& write) {  // what was found is told all the same
    try {
      write();
    } catch (const Error& error) {
      errors.push_back(error);
    }
  };
  report.written = true;
  attempt([&] {
    write_file_atomically(command.output, dump(with_names(json, plan, findings), 2) + "\n");
    log.info("written: " + command.output);
  });
  attempt([&] {
    if (command.preview.empty()) return;
    write_preview(config, plan, findings, command.preview);
    std::printf("preview: %s\n", printable(command.preview).c_str());
  });
  if (command.json) std::printf("%s\n", printable(dump(json)).c_str());
  std::fflush(stdout);
  if (good && errors.empty()) return exit_code::kDone;
  if (good) throw errors.front();
  for (const auto& [index, error] : findings.bad) errors.push_back(error);
  for (const std::string& leak : leaks) errors.push_back(DataError(leak));
  const Error all = merge_errors(errors);
  throw Error(all.code(),
              with_list(count_of(static_cast<int64_t>(errors.size()), "finding") + " against this data set:",
                        lines_of(all.what())));
}

}  // namespace

int run_check(const CheckCommand& command, const Config& config, const Log& log) {
  require_own_output(command.output, "report of a check",
                     {std::string("\"report\": \"") + kCheckReport, "\"data_sha256\": \""});
  if (!command.preview.empty()) require_own_output(command.preview, "contact sheet", {kContactSheetMark});
  CheckReport report;
  try {
    return look_and_tell(command, config, log, report);
  } catch (const Error& error) {
    if (report.written) throw;
    report.json["code"] = error.code();
    report.json["error"] = shown(error.what());
    try {
      write_file_atomically(command.output, dump(report.json, 2) + "\n");
    } catch (const Error&) {
      // what is wrong with the data comes first
    }
    throw;
  }
}

}  // namespace dtrain
