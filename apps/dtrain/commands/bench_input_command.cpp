// dtrain bench input: what the loader does, stage by stage, and the sequential pipeline against the parallel one.
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/data/batches/device_batches.hpp"
#include "dtrain/data/batches/epoch_requests.hpp"
#include "dtrain/data/pixels/transform.hpp"
#include "dtrain/dist/collectives.hpp"
#include "job/batch_estimate.hpp"
#include "job/planned_parts.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kWarmUpBatches = 3;  // the first ones find an empty queue

/// The first steps of training, as one rank takes them.
struct Work {
  std::vector<BatchRequest> requests;
  std::vector<size_t> passes;    // of this rank, by step
  std::vector<int64_t> samples;  // of all ranks, by step
};

Work first_steps(const Experiment& e, const Plan& plan, Job& job, size_t steps, bool reads_everything) {
  Work work;
  const Range mine = carried(job.comm(), plan.logical_ranks);
  for (int64_t epoch = 0; work.passes.size() < steps; ++epoch) {
    const EpochPlan order = planned_epoch(e, plan, epoch);
    std::vector<BatchRequest> requests =
        epoch_requests(order, plan.split.train,
                       {.logical_ranks = mine,
                        .epoch = epoch,
                        .may_replace = e.data.loader.on_bad_sample == BadSample::replace,
                        .reads_everything = reads_everything});
    auto request = requests.begin();
    for (int64_t step = 0; step < order.steps() && work.passes.size() < steps; ++step) {
      size_t passes = 0;
      for (int64_t v = mine.begin; v < mine.end; ++v) passes += order.micro_batches(step, v).size();
      for (size_t i = 0; i < passes; ++i) work.requests.push_back(std::move(*request++));
      work.passes.push_back(passes);
      work.samples.push_back(order.count(step));
    }
  }
  return work;
}

/// Per picture and mask, on one core; means over the ranks, which all work at the same time.
struct Stages {
  double read_ms = 0;
  double decode_ms = 0;
  double transform_ms = 0;  // resize, augment, normalise
  double batch_ms = 0;      // what a loader of one thread needs besides: memory, locks, labels
  double bytes = 0;         // read
  int64_t pictures = 0;     // measured, of all ranks

  double sum_ms() const { return read_ms + decode_ms + transform_ms + batch_ms; }
};

// The loader's own functions, one after another.
Stages stages_of_samples(const Experiment& e, const Plan& plan, const std::vector<int64_t>& samples) {
  Stages sum;
  const ImageOptions& size = e.data.image;
  const auto classes = static_cast<int64_t>(plan.dataset.classes.size());
  std::vector<float> picture_out(static_cast<size_t>(size.seen_height() * size.seen_width() * size.channels));
  std::vector<float> mask_out(static_cast<size_t>(size.seen_height() * size.seen_width() * classes));
  for (const int64_t index : samples) {
    Stopwatch watch;
    SampleFiles files;
    Image picture;
    Image mask;
    double read_s = 0;
    try {
      files = read_sample_files(plan.dataset, index);
      read_s = watch.seconds();
      watch.restart();
      picture = decode_picture(plan.dataset, index, files);
      if (plan.dataset.task == Task::segmentation) mask = decode_mask(plan.dataset, index, files);
    } catch (const DataError&) {
      if (e.data.loader.on_bad_sample == BadSample::fail) throw;
      continue;
    }
    ++sum.pictures;
    sum.bytes += static_cast<double>(files.bytes());
    sum.read_ms += read_s * 1e3;
    sum.decode_ms += watch.seconds() * 1e3;
    watch.restart();
    const uint64_t id = plan.dataset.samples[static_cast<size_t>(index)].id;
    const AugmentDraw draw = draw_augmentation(e.data.augment, e.seed, 0, id);
    transform_image(picture, size, draw, picture_out);
    if (plan.dataset.task == Task::segmentation) transform_mask(mask, size, draw, classes, mask_out);
    sum.transform_ms += watch.seconds() * 1e3;
  }
  return sum;
}

Stages measure_stages(const Experiment& e, const Plan& plan, const Work& work, Job& job, at::MemoryFormat format) {
  constexpr size_t kMost = 256;  // pictures of a rank
  std::vector<BatchRequest> requests;
  std::vector<int64_t> samples;
  for (const BatchRequest& request : work.requests) {
    if (!requests.empty() && samples.size() + request.samples.size() > kMost) break;
    requests.push_back({request.samples, 0, request.may_replace});
    samples.insert(samples.end(), request.samples.begin(), request.samples.end());
  }
  Trace trace(false);
  DataOptions data = e.data;
  data.loader.pipeline = Pipeline::sequential;
  Loader loader(plan.dataset, data, e.seed, format, trace, Delivery{.substitutes = &plan.split.train});
  const auto drain = [&] {
    loader.start(requests);
    while (loader.next()) continue;
  };
  drain();  // from here on files come from the page cache, as far as they fit
  barrier(job.comm());
  Stages stages = stages_of_samples(e, plan, samples);
  const Stopwatch whole;
  drain();
  const BatchSource::Figures made = loader.figures();
  stages.batch_ms = std::max(0.0, whole.seconds() - made.read_s - made.decode_s) * 1e3;
  at::Tensor sums = at::tensor({stages.read_ms, stages.decode_ms, stages.transform_ms, stages.batch_ms, stages.bytes,
                                static_cast<double>(stages.pictures)},
                               at::kDouble);
  sums = at::stack(all_gather(job.comm(), sums)).sum(0);
  const auto sum = sums.accessor<double, 1>();
  const double n = sum[5];
  return {.read_ms = sum[0] / n,
          .decode_ms = sum[1] / n,
          .transform_ms = sum[2] / n,
          .batch_ms = sum[3] / n,
          .bytes = sum[4] / n,
          .pictures = static_cast<int64_t>(n)};
}

struct Rate {
  double images_per_s = 0;
  double read_mb_per_s = 0;
  double step_ms_median = 0;
  double step_ms_p95 = 0;
  double data_wait_share = 0;
  int threads = 0;
};

void sleep_ms(double ms) { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms)); }

enum class Way {
  sequential,
  parallel,
  bytes,  // like parallel, but batches stay on the host as raw pictures, for a device to finish
};

}  // namespace

template <>
constexpr auto kWordsOf<Way> =
    std::to_array<Word<Way>>({{Way::sequential, "sequential"}, {Way::parallel, "parallel"}, {Way::bytes, "bytes"}});

namespace {

// Training without a network: a batch, a sleep, and a barrier after each step.
Rate measure_pipeline(const BenchInputCommand& command, const Experiment& e, const Plan& plan, Job& job, Way way) {
  const bool sequential = way == Way::sequential;
  const auto steps = static_cast<size_t>(command.steps + kWarmUpBatches);
  Work work = first_steps(e, plan, job, steps, sequential);
  DataOptions data = e.data;
  data.loader.pipeline = sequential ? Pipeline::sequential : Pipeline::parallel;
  data.loader.threads = loader_threads(e.data.loader, e.distributed.threads, job.cores());
  Delivery delivery = planned_delivery(e, plan, !job.device().place.is_cpu());
  if (way == Way::bytes) delivery.raw = true;
  delivery.load_s = command.load_ms / 1e3 / static_cast<double>(plan.local_batch);
  Trace trace(false);
  const at::MemoryFormat format =
      way == Way::bytes ? at::MemoryFormat::ChannelsLast : memory_format_for(*e.model.kind, job.device().place.type());
  Loader loader(plan.dataset, data, e.seed, format, trace, delivery);
  DeviceBatches finished(loader, job.device());
  BatchSource& batches = way == Way::bytes ? static_cast<BatchSource&>(loader) : finished;
  batches.start(std::move(work.requests));
  std::vector<double> step_ms;
  BatchSource::Figures before;
  Stopwatch measured;
  int64_t images = 0;
  for (size_t step = 0; step < steps; ++step) {
    job.watchdog().enter(Section::load, static_cast<int64_t>(step));
    if (step == kWarmUpBatches) {
      before = batches.figures();
      measured.restart();
    }
    const Stopwatch watch;
    for (size_t pass = 0; pass < work.passes[step]; ++pass) {
      check(batches.next().has_value(), "the loader has a batch for every pass");
      sleep_ms(command.train_ms);
    }
    barrier(job.comm());
    if (step < kWarmUpBatches) continue;
    step_ms.push_back(watch.seconds() * 1e3);
    images += work.samples[step];
  }
  const double seconds = measured.seconds();
  const BatchSource::Figures after = batches.figures();
  const at::Tensor sums =
      at::stack(all_gather(job.comm(), at::tensor({static_cast<double>(after.bytes_read - before.bytes_read),
                                                   after.wait_s - before.wait_s},
                                                  at::kDouble)))
          .sum(0);
  std::sort(step_ms.begin(), step_ms.end());
  Rate rate;
  rate.images_per_s = static_cast<double>(images) / seconds;
  rate.read_mb_per_s = sums[0].item<double>() / 1e6 / seconds;
  rate.step_ms_median = step_ms[step_ms.size() / 2];
  rate.step_ms_p95 = step_ms[std::min(step_ms.size() - 1, step_ms.size() * 95 / 100)];
  rate.data_wait_share = std::min(1.0, sums[1].item<double>() / job.size() / seconds);
  rate.threads = loader.threads();
  return rate;
}

std::string rate_text(double images_per_s) {
  return images_per_s < 100 ? fixed(images_per_s, 1) : with_commas(std::llround(images_per_s));
}

void print_stages(const Stages& stages) {
  std::printf("stages on one core, of %s with their files in the page cache\n",
              count_of(stages.pictures, "picture").c_str());
  std::printf("  %-12s %14s %14s %10s\n", "", "ms/picture", "images/s", "MB/s");
  const auto row = [](const char* name, double ms, double bytes) {
    std::printf("  %-12s %14.3f %14s %10s\n", name, ms, ms > 0 ? rate_text(1e3 / ms).c_str() : "-",
                bytes > 0 && ms > 0 ? fixed(bytes / 1e3 / ms, 1).c_str() : "");
  };
  row("read", stages.read_ms, stages.bytes);
  row("decode", stages.decode_ms, 0);
  row("transform", stages.transform_ms, 0);
  row("batch", stages.batch_ms, 0);
  row("all", stages.sum_ms(), stages.bytes);
}

OrderedJson stages_json(const Stages& stages) {
  return {{"pictures", stages.pictures},
          {"read_ms", stages.read_ms},
          {"decode_ms", stages.decode_ms},
          {"transform_ms", stages.transform_ms},
          {"batch_ms", stages.batch_ms},
          {"read_mb_per_s", stages.read_ms > 0 ? stages.bytes / 1e3 / stages.read_ms : 0},
          {"images_per_s", 1e3 / stages.sum_ms()}};
}

void print_rate(const char* name, const Rate& rate) {
  std::printf("  %-12s %8d %12s %10s %12s %12s %11s\n", name, rate.threads, rate_text(rate.images_per_s).c_str(),
              fixed(rate.read_mb_per_s, 1).c_str(), fixed(rate.step_ms_median, 2).c_str(),
              fixed(rate.step_ms_p95, 2).c_str(), fixed(100 * rate.data_wait_share, 1).c_str());
}

OrderedJson rate_json(const Rate& rate) {
  return {{"threads", rate.threads},
          {"images_per_s", rate.images_per_s},
          {"read_mb_per_s", rate.read_mb_per_s},
          {"step_ms_median", rate.step_ms_median},
          {"step_ms_p95", rate.step_ms_p95},
          {"data_wait_share", rate.data_wait_share}};
}

void print_head(const BenchInputCommand& command, const Config& config, const Plan& plan, const Job& job) {
  const ImageOptions& size = config.experiment.data.image;
  std::printf("input of %s: %s, %s; %s x %s x %s, %s x %s of %s, %s per rank\n",
              printable(config.experiment.name).c_str(), config.values.at("data.format").text.c_str(),
              count_of(static_cast<int64_t>(plan.split.train.size()), "training sample").c_str(),
              std::to_string(size.seen_height()).c_str(), std::to_string(size.seen_width()).c_str(),
              std::to_string(size.channels).c_str(), count_of(job.size(), "rank").c_str(),
              count_of(plan.logical_ranks, "logical rank").c_str(), std::to_string(plan.local_batch).c_str(),
              count_of(job.cores(), "core").c_str());
  if (config.experiment.data.loader.cache != PictureKeep::none)
    std::printf("  data.loader.cache is not used here: it would be read instead of the files\n");
  if (command.load_ms > 0)
    std::printf("  no file is read: each picture sleeps %s ms, a full batch %s ms on one thread\n",
                fixed(command.load_ms / static_cast<double>(plan.local_batch), 3).c_str(),
                shortest(command.load_ms).c_str());
}

}  // namespace

int run_bench_input(const BenchInputCommand& command, const Config& config, Job& job) {
  const Experiment& e = config.experiment;
  const int64_t v = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks : job.size();
  require_ranks_fit(job.size(), v);
  require_batch_number(e, "dtrain bench input");
  const Plan plan = make_plan(e, v);
  OrderedJson json = {{"ranks", job.size()},        {"logical_ranks", v},
                      {"cores", job.cores()},       {"local_batch", plan.local_batch},
                      {"steps", command.steps},     {"warmup_steps", kWarmUpBatches},
                      {"load_ms", command.load_ms}, {"train_ms", command.train_ms}};
  if (job.is_root()) print_head(command, config, plan, job);
  json["stages"] = nullptr;
  if (command.load_ms == 0) {
    const Work work = first_steps(e, plan, job, static_cast<size_t>(command.steps), false);
    const Stages stages =
        measure_stages(e, plan, work, job, memory_format_for(*e.model.kind, job.device().place.type()));
    json["stages"] = stages_json(stages);
    if (job.is_root()) print_stages(stages);
  }
  if (job.is_root()) {
    std::printf(
        "pipelines of %s, %s ms of training after each batch; images/s and MB/s of all ranks, median and p95 of %s\n",
        count_of(job.size(), "rank").c_str(), shortest(command.train_ms).c_str(),
        count_of(command.steps, "step").c_str());
    std::printf("  %-12s %8s %12s %10s %12s %12s %11s\n", "", "threads", "images/s", "MB/s", "step ms", "p95 ms",
                "data-wait %");
  }
  std::map<Way, Rate> rates;
  for (const auto& [way, name] : kWordsOf<Way>) {
    json[name] = nullptr;
    if (way == Way::bytes && (command.load_ms > 0 || !keeps_raw(e))) continue;
    rates[way] = measure_pipeline(command, e, plan, job, way);
    json[name] = rate_json(rates[way]);
    if (job.is_root()) print_rate(name, rates[way]);
  }
  const double speedup = rates[Way::parallel].images_per_s / rates[Way::sequential].images_per_s;
  json["speedup"] = speedup;
  json["versions"] = library_versions();
  if (!job.is_root()) return exit_code::kDone;
  std::printf("  parallel is %s times as fast as sequential: %s\n", fixed(speedup, 2).c_str(),
              "one thread when a batch is wanted, each rank reads all ranks' samples");
  if (rates.contains(Way::bytes))
    std::printf(
        "  bytes: parallel, up to pictures of %s x %s in host memory, which a GPU or data.loader.cache=device crops, "
        "flips and normalises\n",
        std::to_string(e.data.image.height).c_str(), std::to_string(e.data.image.width).c_str());
  if (command.json) std::printf("%s\n", printable(json.dump()).c_str());
  return exit_code::kDone;
}

}  // namespace dtrain
