#include "job/job_advice.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "dtrain/advice/class_advice.hpp"
#include "dtrain/advice/label_advice.hpp"
#include "dtrain/advice/mask_advice.hpp"
#include "dtrain/advice/memory_advice.hpp"
#include "dtrain/advice/patient_advice.hpp"
#include "dtrain/advice/pixel_advice.hpp"
#include "dtrain/advice/schedule_advice.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shards.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/dist/fold_plan.hpp"
#include "dtrain/optim/optimizer.hpp"
#include "dtrain/optim/schedule.hpp"
#include "dtrain/train/memory_plan.hpp"
#include "job/cache_plan.hpp"

namespace dtrain {
namespace {

const Sample& sample_of(const Plan& plan, int64_t index) { return plan.dataset.samples[static_cast<size_t>(index)]; }

// --- memory

MemoryNeeds needs_of(const Experiment& e, const Plan& plan, const Network& network, int64_t processes) {
  MemoryNeeds needs;
  for (const NamedTensor& parameter : network.named_parameters()) needs.parameters += parameter.tensor.numel();
  for (const NamedTensor& buffer : network.named_buffers())
    if (buffer.tensor.is_floating_point()) needs.buffers += buffer.tensor.numel();
  needs.states = static_cast<int64_t>(state_names(e.optimizer).size()) + (e.ema.decay > 0 ? 1 : 0);
  needs.gradient_buffers = most_fold_buffers(plan.logical_ranks, part_of(plan.logical_ranks, processes, 0));
  const auto samples = static_cast<int64_t>(plan.split.train.size());
  needs.pictures = std::min(plan.local_batch, (samples + plan.logical_ranks - 1) / plan.logical_ranks);
  needs.target_values = static_cast<int64_t>(plan.outputs.size()) *
                        (e.task == Task::segmentation ? plan.shape.height * plan.shape.width : int64_t{1});
  needs.batches_ahead = e.data.loader.pipeline == Pipeline::sequential ? 0 : e.data.loader.prefetch;
  if (adds_up_first(e.loss, e.task, plan.logical_ranks * e.batch.accumulate))  // those of a step stay for both passes
    needs.batches_ahead += part_of(plan.logical_ranks, processes, 0).size() * e.batch.accumulate - 1;
  const bool in_16_bits = e.precision == Precision::bf16 || e.precision == Precision::fp16;
  needs.value_bytes = in_16_bits ? 2 : 4;
  return needs;
}

// Memory of the loader's threads, each with a decoded picture, its file and its floats before and after placement; and
// of the table of samples.
double data_mb(const Experiment& e, const Plan& plan, const PictureFacts& pictures, int64_t processes) {
  const auto cores = static_cast<int64_t>(bound_cores().size());
  const int64_t threads = loader_threads(e.data.loader, e.distributed.threads, std::max<int64_t>(1, cores / processes));
  const ImageOptions& size = e.data.image;
  const int64_t of_thread = 2 * pictures.largest_bytes + 2 * 4 * size.height * size.width * size.channels;
  size_t table = 0;
  for (const Sample& sample : plan.dataset.samples)
    table += sizeof(Sample) + sample.path.capacity() + 4 * sample.labels.capacity();
  return (static_cast<double>(threads * of_thread) + static_cast<double>(table)) / 1e6;
}

bool freezes(const Experiment& e) { return std::ranges::any_of(e.optimizer.groups, &ParameterGroup::freeze); }

std::vector<double> gpus_for(const Experiment& e) {
  if (e.device == DeviceChoice::cpu) return {};
  const GpuDriver driver = ask_gpu_driver();
  std::vector<double> gpus_mb;
  if (no_gpu_reason(driver).empty())
    for (const Gpu& gpu : driver.gpus) gpus_mb.push_back(static_cast<double>(gpu.memory_mb));
  return gpus_mb;
}

std::vector<Finding> memory_findings(const JobToJudge& job) {
  const JobMemory& memory = job.memory;
  MemoryFacts facts;
  facts.processes = memory.processes;
  const double apart = memory.peers_mb + (memory.shares_cache ? memory.cache_mb : 0);  // once per host
  facts.process_mb = memory.process_mb() - apart;
  facts.saving_mb = memory.saving_mb;
  facts.picture_mb = memory.picture_mb;
  facts.pictures = memory.pictures;
  if (job.experiment.batch.global > 0) {
    facts.batch_key = "batch.global";
    facts.batch_factor = job.plan.logical_ranks * job.experiment.batch.accumulate;
  }
  facts.free_mb = static_cast<double>(memory.host.free_bytes) / 1e6;
  facts.limit_mb = static_cast<double>(memory.host.limit_bytes) / 1e6;
  facts.bound = memory.host.bound;
  if (memory.on_gpu) return gpu_memory_advice(facts, memory.gpus_mb);
  const std::vector<Finding> without_cache =
      memory.shares_cache ? cache_advice(memory.cache_mb, facts.free_mb) : std::vector<Finding>{};
  if (memory.shares_cache && without_cache.empty()) facts.shared_mb = memory.cache_mb;
  std::vector<Finding> found = memory_advice(facts);
  found.insert(found.end(), without_cache.begin(), without_cache.end());
  return found;
}

// --- steps

std::vector<Finding> schedule_findings(const Experiment& e, const Plan& plan) {
  ScheduleFacts facts;
  facts.samples = static_cast<int64_t>(plan.split.train.size());
  const EpochPlan epoch = planned_epoch(e, plan, 0);
  const Schedule schedule(e.schedule, e.optimizer.learning_rate, plan.logical_ranks, epoch.steps(), e.epochs);
  facts.steps_per_epoch = epoch.steps();
  facts.epochs = e.epochs;
  facts.logical_ranks = plan.logical_ranks;
  facts.global_batch = epoch.global_batch();
  facts.base_rate = schedule.base_rate();
  facts.scaled_rate = schedule.scaled_rate();
  facts.warmup_epochs = e.schedule.warmup.in_steps(epoch.steps()) / static_cast<double>(epoch.steps());
  std::vector<Finding> found = schedule_advice(facts);
  const double end = static_cast<double>(facts.steps_per_epoch * e.epochs);
  const Duration& thaw = e.optimizer.freeze_until;
  if (freezes(e) && thaw.in_steps(facts.steps_per_epoch) >= end)
    found.push_back({weight::kPoor + 1, "thaw_after_end",
                     "optimizer.freeze_until is " + thaw.text() + ", and the run has " + count_of(e.epochs, "epoch") +
                         " of " + count_of(facts.steps_per_epoch, "step") +
                         ": frozen groups never train; raise epochs, shorten it, or leave it out"});
  const DecayOptions& decay = e.schedule.decay;
  const bool steps = decay.name == DecayName::step;
  if (!steps && (decay.name != DecayName::multistep || decay.at.empty())) return found;
  const Duration& last = steps ? decay.every : decay.at.back();
  if (last.in_steps(facts.steps_per_epoch) >= end)
    found.push_back({weight::kPoor + 1, "decay_after_end",
                     std::string("schedule.decay.") + (steps ? "every is " : "at has a milestone at ") + last.text() +
                         ", and the run has " + count_of(e.epochs, "epoch") +
                         ": the rate does not fall there; raise epochs, or shorten it"});
  return found;
}

// Weights of the loss come from the labels of the part, not from what is drawn of it.
std::vector<Finding> sampling_findings(const Experiment& e) {
  const auto balanced = [](const OutputWeights& weights) { return weights.from == OutputWeights::From::balanced; };
  if (e.data.sampling != Sampling::balanced || (!balanced(e.loss.pos_weight) && !balanced(e.loss.class_weight)))
    return {};
  return {{weight::kPoor + 1, "balanced_twice",
           "data.sampling=balanced draws rare classes more often, and the loss weighs them again by their "
           "share of the files: leave out one of data.sampling and " +
               std::string(balanced(e.loss.pos_weight) ? "loss.pos_weight" : "loss.class_weight")}};
}

// --- classes and patients

// Patients, as far as the data identify them, with how many samples each has.
std::unordered_map<std::string_view, int64_t> patients_of(const Plan& plan, const std::vector<int64_t>& samples) {
  std::unordered_map<std::string_view, int64_t> patients;
  for (const int64_t index : samples)
    if (tells_patient(plan.dataset, sample_of(plan, index))) ++patients[sample_of(plan, index).group];
  return patients;
}

ClassFacts::Part part_facts(const JobToJudge& job, const std::string& name) {
  const std::vector<int64_t>& samples = part_of_split(job.plan.split, name);
  ClassFacts::Part part;
  part.name = name;
  part.samples = static_cast<int64_t>(samples.size());
  part.patients = static_cast<int64_t>(patients_of(job.plan, samples).size());
  part.positives.assign(job.plan.outputs.size(), 0);
  part.negatives = part.positives;
  std::vector<std::set<std::string_view>> patients(part.positives.size());
  std::vector<bool> of_unknown(part.positives.size());
  const bool masks_seen = !job.pictures.mask_pixels.empty();
  for (const int64_t index : samples) {
    const Sample& sample = sample_of(job.plan, index);
    const auto pixels = masks_seen ? job.pictures.mask_pixels[static_cast<size_t>(index)] : std::vector<int64_t>();
    for (size_t k = 0; k < part.positives.size(); ++k) {
      const bool own_class = sample.class_index == static_cast<int64_t>(k);
      const bool known = sample.labels.empty() || !std::isnan(sample.labels[k]);
      const bool shows = own_class || (k < sample.labels.size() && sample.labels[k] == 1) ||
                         (k + 1 < pixels.size() && pixels[k + 1] > 0);
      part.positives[k] += shows ? 1 : 0;
      part.negatives[k] += known && !shows ? 1 : 0;
      if (!shows) continue;
      if (tells_patient(job.plan.dataset, sample))
        patients[k].insert(sample.group);
      else
        of_unknown[k] = true;
    }
  }
  for (size_t k = 0; k < patients.size() && part.patients > 0; ++k)
    part.positive_patients.push_back(of_unknown[k] ? 0 : static_cast<int64_t>(patients[k].size()));
  return part;
}

std::vector<Finding> class_findings(const JobToJudge& job) {
  const SplitOptions& split = job.experiment.data.split;
  ClassFacts facts;
  facts.task = job.plan.dataset.task;
  facts.classes = job.plan.outputs;
  for (const char* name : {"train", "valid", "test"}) facts.parts.push_back(part_facts(job, name));
  facts.by_share = job.plan.split.by_share;
  const auto& samples = job.plan.dataset.samples;
  const bool named = split.files.contains("valid") ||
                     std::any_of(samples.begin(), samples.end(), [](const Sample& one) { return one.part == "valid"; });
  facts.shared_valid = facts.by_share || !named;
  facts.by_fold = split.folds > 0;
  facts.stratified = split.stratify;
  facts.counted =
      facts.task != Task::segmentation || job.pictures.looked == static_cast<int64_t>(job.plan.dataset.samples.size());
  return class_advice(facts);
}

std::vector<Finding> patient_findings(const JobToJudge& job) {
  const SplitOptions& split = job.experiment.data.split;
  std::vector<int64_t> all;
  for (const char* name : {"train", "valid", "test"}) {
    const std::vector<int64_t>& part = part_of_split(job.plan.split, name);
    all.insert(all.end(), part.begin(), part.end());
  }
  PatientFacts facts;
  for (const auto& [patient, samples] : patients_of(job.plan, all)) {
    ++facts.patients;
    facts.samples += samples;
  }
  facts.unused = job.plan.dataset.unused_patients;
  facts.group_key = job.plan.dataset.format->group_key;
  facts.by_share = job.plan.split.by_share;
  facts.by_patient = split.by == SplitOptions::By::patient;
  const auto& warnings = job.plan.split.warnings;
  facts.in_two_parts = std::count_if(warnings.begin(), warnings.end(), is_leak);
  return patient_advice(facts);
}

std::string what_names_classes(const DataOptions& data) {
  if (data.format->label_file != DataFormat::LabelFile::none) return std::string(base_name(data.labels));
  return data.format->classes_told_by;
}

// --- GPUs; the job may run on another machine

std::vector<Finding> gpu_findings(const Experiment& e) {
  const bool wants = e.device == DeviceChoice::cuda;
  if (!wants && e.distributed.backend != Backend::nccl) return {};
  const std::string reason = no_gpu_reason(ask_gpu_driver());
  if (reason.empty()) return {};
  return {{weight::kSmall, "no_gpu",
           std::string(wants ? "device is cuda" : "distributed.backend is nccl") + ", but " + reason +
               ": start the job where there is a GPU, or set " + (wants ? "device=auto" : "distributed.backend=auto")}};
}

// --- sentences that are printed already

std::vector<Finding> contradiction_findings(const JobToJudge& job) {
  std::vector<Finding> found;
  for (const std::string& sentence : contradictions(job.plan, job.pictures))
    found.push_back({weight::kWrong, "contradictory_labels", sentence + ": correct the labels, or take them out"});
  return found;
}

bool deals_anew(const std::string& warning) { return warning.starts_with("data.split of the configuration splits"); }

std::vector<Finding> split_findings(const JobToJudge& job) {
  const std::vector<std::string>& of_layout = job.plan.dataset.warnings;
  std::vector<Finding> found;
  for (const std::string& warning : job.plan.split.warnings) {
    if (is_leak(warning)) continue;
    if (std::find(of_layout.begin(), of_layout.end(), warning) != of_layout.end())
      found.push_back({weight::kWrong + 6, "layout", warning});
    else if (deals_anew(warning))
      found.push_back({weight::kWrong + 7, "split_outranks", warning});
    else
      found.push_back({weight::kPoor - 5, "left_out", warning});
  }
  return found;
}

// What pixels told; of some pictures only, it says of how many.
std::vector<Finding> picture_findings(const JobToJudge& job) {
  std::vector<Finding> all;
  for (const auto& found :
       {mask_advice(job.pictures.masks), pixel_advice(job.pictures.pixels), contradiction_findings(job)})
    all.insert(all.end(), found.begin(), found.end());
  const auto samples = static_cast<int64_t>(job.plan.dataset.samples.size());
  const int64_t looked = job.pictures.looked + static_cast<int64_t>(job.pictures.bad.size());
  if (looked < samples)
    for (Finding& one : all)
      one.sentence =
          "by a look at " + with_commas(looked) + " of " + count_of(samples, "picture") + ", " + one.sentence;
  return all;
}

}  // namespace

bool is_leak(const std::string& warning) { return shown(warning).starts_with("split leak"); }

JobMemory job_memory(const Experiment& e, const Plan& plan, const Network& network, const PictureFacts& pictures,
                     int64_t processes) {
  MemoryNeeds needs = needs_of(e, plan, network, processes);
  JobMemory memory;
  memory.processes = processes;
  memory.pictures = needs.pictures;
  memory.freezes = freezes(e);
  memory.gpus_mb = gpus_for(e);
  memory.on_gpu = !memory.gpus_mb.empty();
  const PassTape tape = network.tape(plan.shape, !memory.on_gpu && needs.value_bytes == sizeof(float));
  const MemoryPlan planned = plan_memory(tape, needs);
  if (!memory.on_gpu) memory.program_mb = program_mb(tape, processes) + data_mb(e, plan, pictures, processes);
  memory.weights_mb = planned.weights_mb;
  memory.pass_mb = planned.pass_mb * (memory.on_gpu && e.cuda_graphs ? 2 : 1);
  memory.saving_mb = planned.saving_mb;
  memory.shares_cache = e.data.loader.cache == PictureKeep::ram;
  if (memory.shares_cache) memory.cache_mb = ram_cache_mb(e, plan);
  if (e.data.loader.cache == PictureKeep::device)
    memory.cache_mb = plan_cache(e, plan, pictures.kind, static_cast<int>(processes), 0, e.epochs).megabytes;
  const double others = static_cast<double>(processes - 1) / static_cast<double>(processes);
  const bool windows = e.distributed.reduction == Reduction::canonical && !memory.on_gpu;
  if (windows) memory.peers_mb = others * 4 * static_cast<double>(needs.parameters + needs.buffers) / 1e6;
  needs.pictures *= 2;
  memory.picture_mb = (plan_memory(tape, needs).pass_mb - planned.pass_mb) / static_cast<double>(memory.pictures);
  memory.host = memory_budget();
  return memory;
}

std::vector<Finding> all_findings(const JobToJudge& job) {
  std::vector<Finding> all;
  const auto add = [&](const std::vector<Finding>& found) { all.insert(all.end(), found.begin(), found.end()); };
  add(memory_findings(job));
  add(label_advice(job.plan.outputs, what_names_classes(job.experiment.data)));
  add(class_findings(job));
  add(picture_findings(job));
  add(patient_findings(job));
  add(schedule_findings(job.experiment, job.plan));
  add(sampling_findings(job.experiment));
  add(split_findings(job));
  add(gpu_findings(job.experiment));
  return by_weight(all);
}

std::vector<std::string> content_leaks(const Plan& plan, const PictureFacts& pictures) {
  std::map<int64_t, std::string> part_of_sample;
  for (const char* part : {"train", "valid", "test"})
    for (int64_t index : part_of_split(plan.split, part)) part_of_sample[index] = part;
  const bool by_share = plan.split.by_share;
  std::vector<std::string> leaks;
  for (const auto& [content, samples] : pictures.by_content) {
    std::set<std::string> parts;
    std::vector<std::string> names;
    for (int64_t index : samples)
      if (const auto found = part_of_sample.find(index); found != part_of_sample.end()) {
        parts.insert(found->second);
        names.push_back(found->second + ": " + sample_of(plan, index).path);
      }
    if (parts.size() > 1)
      leaks.push_back(
          "split leak: the same picture is in several parts (" + join(names, ", ") + "); take all but one out" +
          (by_share ? ", or keep them together with data.split.by=patient if they belong to one patient" : ""));
  }
  std::sort(leaks.begin(), leaks.end());
  return leaks;
}

// Two of `samples`, pictures with equal pixels, that contradict each other in their class or in a label that both know;
// if there are none, the first one twice.
static std::pair<int64_t, int64_t> contradiction(const Plan& plan, const std::vector<int64_t>& samples) {
  for (const int64_t index : samples)
    if (sample_of(plan, index).class_index != sample_of(plan, samples[0]).class_index) return {samples[0], index};
  for (size_t k = 0; k < sample_of(plan, samples[0]).labels.size(); ++k) {
    std::optional<int64_t> known;
    for (const int64_t index : samples) {
      if (std::isnan(sample_of(plan, index).labels[k])) continue;
      if (!known) known = index;
      if (sample_of(plan, index).labels[k] != sample_of(plan, *known).labels[k]) return {*known, index};
    }
  }
  return {samples[0], samples[0]};
}

std::vector<std::string> contradictions(const Plan& plan, const PictureFacts& pictures) {
  int64_t count = 0;
  std::string first;
  for (const auto& [content, samples] : pictures.by_content) {
    const auto [one, other] = contradiction(plan, samples);
    if (one == other) continue;
    const std::string pair = sample_of(plan, one).path + " and " + sample_of(plan, other).path;
    if (count++ == 0 || pair < first) first = pair;
  }
  if (count == 0) return {};
  return {count_of(count, "picture") + (count == 1 ? " occurs" : " occur") +
          " more than once with different labels, such as " + first};
}

}  // namespace dtrain
