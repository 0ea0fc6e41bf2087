#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cache_plan.hpp"
#include "commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/loader.hpp"
#include "dtrain/data/packed_set.hpp"
#include "dtrain/data/sampler.hpp"
#include "dtrain/io/file.hpp"
#include "dtrain/io/tiff_pages.hpp"
#include "dtrain/optim/optimizer.hpp"
#include "dtrain/optim/schedule.hpp"
#include "run.hpp"

namespace dtrain {
namespace {

using Json = nlohmann::ordered_json;

// What a look at every file found.
struct Findings {
  std::map<int64_t, Error> bad;                   // sample → why it cannot be used
  std::vector<std::vector<int64_t>> mask_pixels;  // segmentation: pixels of each class by sample, background first
  std::map<std::string, std::vector<int64_t>> by_content;  // hash of the file → samples
  double hash_s = 0;                                       // of all cores: what comparing the files' bytes cost
  PixelKind kind;                                          // that holds every picture
};

// The first bytes of a file tell its header, unless long profiles stand before it.
ImageHeader header_of(const std::string& path) {
  if (picture_path(path).page > 0) return read_image_header(read_picture_file(path), path);
  try {
    return read_image_header(read_file_start(path, 1 << 16), path);
  } catch (const DataError&) {
    return read_image_header(read_file(path), path);
  }
}

// Headers alone: sizes of picture and masks. A record is read whole, because its checksum is over all of it.
ImageHeader look_at_headers(const Dataset& dataset, int64_t index) {
  const Sample& sample = dataset.samples[static_cast<size_t>(index)];
  if (dataset.packed) {  // picture and mask have one size by their index
    const PackedEntry entry = dataset.packed->shard(sample.place).entry(sample.place.number);
    return {entry.height, entry.width, entry.channels, entry.bits};
  }
  SampleFiles files;
  if (dataset.records) files = read_sample_files(dataset, index);
  const ImageHeader picture = dataset.records ? read_image_header(files.picture, picture_name(dataset, index))
                                              : header_of(dataset.root + "/" + sample.path);
  for (size_t i = 0; i < sample.masks.size(); ++i) {
    const std::string& name = sample.masks[i];
    const ImageHeader mask =
        dataset.records ? read_image_header(files.masks[i], name) : header_of(dataset.root + "/" + name);
    if (mask.height != picture.height || mask.width != picture.width)
      throw DataError(sample.path + " is " + std::to_string(picture.height) + "x" + std::to_string(picture.width) +
                      ", but its mask " + name + " is " + std::to_string(mask.height) + "x" +
                      std::to_string(mask.width));
  }
  return picture;
}

// Looks at every picture and mask on all cores: decodes them, or reads the headers alone.
Findings look_at_pictures(const Experiment& e, const Plan& plan, bool quick) {
  const Dataset& dataset = plan.dataset;
  const bool on_disk = dataset.format != DataFormat::synthetic;
  Findings findings;
  findings.mask_pixels.resize(dataset.samples.size());
  std::mutex mutex;
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  const auto note_kind = [&](const ImageHeader& picture) {
    const PixelKind kind = pixel_kind(picture, e.data.image);
    const std::lock_guard lock(mutex);
    findings.kind = findings.kind.with(kind);
  };
  const auto look = [&](int64_t index) {
    if (quick && on_disk) return note_kind(look_at_headers(dataset, index));
    const SampleFiles files = read_sample_files(dataset, index);
    const Image picture = decode_picture(dataset, e.data, index, e.seed, files);
    if (dataset.task == Task::segmentation) {
      const Image mask = decode_mask(dataset, e.data, index, e.seed, files);
      require_same_size(dataset, index, picture, mask);
      findings.mask_pixels[static_cast<size_t>(index)] = count_mask_pixels(mask, plan.shape.outputs);
    }
    note_kind({picture.height, picture.width, picture.channels, picture.bits});
    if (!on_disk) return;
    const Stopwatch hashing;
    const std::string content = Sha256().update(files.picture_bytes()).hex_digest();
    const std::lock_guard lock(mutex);
    findings.by_content[content].push_back(index);
    findings.hash_s += hashing.seconds();
  };
  const auto work = [&] {
    for (size_t i = next++; i < dataset.samples.size(); i = next++) {
      try {
        look(static_cast<int64_t>(i));
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        findings.bad.emplace(static_cast<int64_t>(i), error);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = dataset.samples.size();
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t t = 0; t < bound_cores().size(); ++t) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
  return findings;
}

// Files of equal content in more than one part: what was trained on would be judged.
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
      leaks.push_back("split leak: the same file stands in several parts (" + join(names, ", ") + ")");
  }
  std::sort(leaks.begin(), leaks.end());
  return leaks;
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
      std::printf("%s  %-24s %5.1f %% of the pixels, in %s\n", part, plan.outputs[k - 1].c_str(), share,
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
    for (size_t k = 0; k < plan.outputs.size(); ++k) {
      std::printf("  %-24s %8s  %5.1f %%\n", plan.outputs[k].c_str(), with_commas(positive[k]).c_str(),
                  100.0 * static_cast<double>(positive[k]) / static_cast<double>(part.size()));
      counts["classes"][plan.outputs[k]] = positive[k];
    }
    if (plan.dataset.task == Task::multilabel) {
      std::printf("  %-24s %8s  %5.1f %%\n", "without any label", with_commas(without_any).c_str(),
                  100.0 * static_cast<double>(without_any) / static_cast<double>(part.size()));
      if (unknown > 0) std::printf("  %-24s %8s\n", "unknown labels", with_commas(unknown).c_str());
      counts["without_any_label"] = without_any;
    }
  }
  json["parts"][name] = counts;
}

void print_network(const Experiment& e, const Plan& plan, Json& json) {
  std::string weights_line;
  const auto network = make_planned_network(e, plan, true, weights_line);
  std::printf("network: %s\n  %-44s %-8s %-18s %12s %14s\n", weights_line.c_str(), "layer", "kind", "output",
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
    std::printf("  %-44s %-8s %-18s %12s %14.2f\n", layer.name.c_str(), layer.kind.c_str(), join(shape, "x").c_str(),
                with_commas(layer.parameters).c_str(), static_cast<double>(layer.flop) / 1e6);
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

}  // namespace

int run_check(const CheckCommand& command, const Config& config, const Log& log) {
  const Experiment& e = config.experiment;
  const int64_t v = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks : command.world_size;
  if (command.world_size > v)
    throw ConfigError("--world-size " + std::to_string(command.world_size) +
                      " is more than distributed.logical_ranks " + std::to_string(v));
  const Plan plan = make_plan(e, v);
  Json json;
  std::vector<std::string> warnings;
  std::printf("data: %s, %s, manifest %s\n", e.data.root.empty() ? "synthetic" : e.data.root.c_str(),
              count_of(static_cast<int64_t>(plan.dataset.samples.size()), "sample").c_str(),
              plan.dataset.manifest_sha256.substr(0, 12).c_str());
  for (const std::string& note : plan.dataset.notes) std::printf("  %s\n", note.c_str());
  for (const char* part : {"train", "valid", "test"}) print_part(plan, part, json);
  print_network(e, plan, json);
  print_schedule(e, plan, command.world_size, json);
  make_planned_loss(e, plan);
  require_monitors(e, plan);
  const std::string pictures = count_of(static_cast<int64_t>(plan.dataset.samples.size()), "picture");
  log.info((command.quick ? "reading the headers of " : "decoding ") + pictures + " …");
  const Stopwatch looking;
  const Findings findings = look_at_pictures(e, plan, command.quick);
  const double look_s = looking.seconds();
  std::printf("%s: %s in %s s on %s\n", command.quick ? "headers" : "pictures", pictures.c_str(),
              fixed(look_s, 1).c_str(), count_of(static_cast<int64_t>(bound_cores().size()), "core").c_str());
  if (findings.hash_s > 0)
    std::printf("  hashing their bytes, to find a file in two parts: %s s of one core\n",
                fixed(findings.hash_s, 2).c_str());
  if (e.task == Task::segmentation && !command.quick && findings.bad.empty()) {
    print_mask_shares(plan, findings, json);
    require_foreground(e, plan);
  }
  std::vector<std::string> leaks = content_leaks(plan, findings);
  for (const std::string& warning : plan.split.warnings)
    (warning.starts_with("split leak") ? leaks : warnings).push_back(warning);
  print_cache(e, plan, findings.kind, static_cast<int>(command.world_size), json);
  json["pictures_ok"] = plan.dataset.samples.size() - findings.bad.size();
  json["pictures_bad"] = findings.bad.size();
  json["look_s"] = look_s;
  json["hash_s"] = findings.hash_s;
  json["leaks"] = leaks;
  json["warnings"] = warnings;
  for (const std::string& warning : warnings) std::printf("warning: %s\n", warning.c_str());
  const bool good = findings.bad.empty() && leaks.empty();
  if (good)
    std::printf("all %s can be read; nothing stands against: mpirun -np %lld --bind-to none dtrain --config %s\n",
                pictures.c_str(), static_cast<long long>(command.world_size),
                command.config.sources.files.front().c_str());
  if (command.json) std::printf("%s\n", json.dump().c_str());
  std::fflush(stdout);
  if (good) return exit_code::kDone;
  std::vector<Error> errors;
  for (const auto& [index, error] : findings.bad) errors.push_back(error);
  for (const std::string& leak : leaks) errors.push_back(DataError(leak));
  const Error all = merge_errors(errors);
  throw Error(all.code(), count_of(static_cast<int64_t>(errors.size()), "finding") + " against this data set:\n" +
                              capped_list(split_text(all.what(), '\n')));
}

}  // namespace dtrain
