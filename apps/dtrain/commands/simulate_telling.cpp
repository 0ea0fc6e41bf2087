// What dtrain simulate prints.
#include "commands/simulate_telling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/cluster_file.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/terminal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/study/simulate/own_points.hpp"
#include "dtrain/study/simulate/published.hpp"

namespace dtrain {
namespace {

using SimulateJson = nlohmann::ordered_json;

std::string percent_of(double share) { return fixed(100 * share, 1) + " %"; }

std::string binds_text(const StepTime& step) {
  const Binds what = what_binds(step);
  return what == Binds::compute ? "compute" : std::string(name_of(what)) + " " + percent_of(share_of(what, step));
}

SimulateJson prediction_json(const ScalingPrediction& point) {
  const StepTime& step = point.step;
  const auto or_null = [](const std::optional<double>& value) { return value ? SimulateJson(*value) : SimulateJson(); };
  return {{"step_ms", 1e3 * step.seconds()},
          {"images_per_s", step.images_per_s()},
          {"speedup", point.speedup},
          {"efficiency", point.efficiency},
          {"serial_fraction", or_null(point.serial_fraction)},
          {"time_to_train_s", or_null(point.time_to_train_s)},
          {"node_hours", or_null(point.node_hours)},
          {"compute_ms", 1e3 * (step.compute_s + step.fixed_s)},
          {"straggler_ms", 1e3 * step.straggler_s},
          {"latency_ms", 1e3 * step.latency_s},
          {"bandwidth_ms", 1e3 * step.transfer_s},
          {"input_ms", 1e3 * step.input_s},
          {"binds", name_of(what_binds(step))}};
}

void tell_measured(const Simulation& simulation, SimulateJson& json) {
  const Measurement::Steps& steps = *simulation.measured.steps;
  const Workload& work = steps.workload;
  const Cluster& cluster = simulation.job.cluster;
  std::printf("measured: %s: %s, %s of %s images: %s ms a step; spread of a batch's time %s; %s MB of gradients\n",
              printable(simulation.measured.name).c_str(), count_of(steps.ranks, "rank").c_str(),
              count_of(steps.logical_ranks, "logical rank").c_str(), fixed(work.batch, 1).c_str(),
              fixed(1e3 * steps.step_s, 1).c_str(), percent_of(work.compute_sd_s / work.compute_s).c_str(),
              fixed(work.gradient_bytes / 1e6, 1).c_str());
  if (work.loader_images_per_s > 0)
    std::printf("loader: %s images/s of a rank\n", fixed(work.loader_images_per_s, 1).c_str());
  std::printf("cluster: %s (%s)\n", printable(cluster.name).c_str(), cluster_text(cluster).c_str());
  std::printf("ranks: %s\n",
              simulation.job.logical_ranks > 0
                  ? (count_of(simulation.job.logical_ranks, "logical rank") + ", shared by the ranks").c_str()
                  : "each with a batch of its own, as distributed.logical_ranks=auto has it");
  json["from"] = simulation.measured.name;
  json["cluster"] = {{"name", cluster.name},
                     {"ranks_per_node", cluster.ranks_per_node},
                     {"inside_latency_us", 1e6 * cluster.inside.latency_s},
                     {"inside_gb_per_s", cluster.inside.bytes_per_s / 1e9},
                     {"between_latency_us", 1e6 * cluster.between.latency_s},
                     {"between_gb_per_s", cluster.between.bytes_per_s / 1e9}};
  json["measured"] = {{"ranks", steps.ranks},
                      {"logical_ranks", steps.logical_ranks},
                      {"step_ms", 1e3 * steps.step_s},
                      {"compute_ms_per_batch", 1e3 * work.compute_s},
                      {"spread", work.compute_sd_s / work.compute_s},
                      {"gradient_mb", work.gradient_bytes / 1e6},
                      {"bucket_mb", work.bucket_bytes / 1e6},
                      {"images_per_batch", work.batch}};
  json["assumed"] = assumptions(simulation);
  for (const std::string& sentence : assumptions(simulation)) std::printf("assumed: %s\n", sentence.c_str());
  for (const std::string& note : simulation.measured.notes) std::printf("note: %s\n", shown(note).c_str());
}

// The point that was measured, as the model has it.
void tell_own_point(const Simulation& simulation, SimulateJson& json) {
  const Measurement::Steps& steps = *simulation.measured.steps;
  const double model_s =
      step_time(steps.workload, one_machine(simulation.measured), SumWay::canonical, steps.ranks, steps.logical_ranks)
          .seconds();
  json["measured"]["model_step_ms"] = 1e3 * model_s;
  if (steps.ranks > 1)
    std::printf("the measured point itself: %s ms a step, the model gives %s (%+.1f %%)\n",
                fixed(1e3 * steps.step_s, 1).c_str(), fixed(1e3 * model_s, 1).c_str(),
                100 * (model_s / steps.step_s - 1));
}

using Cells = std::vector<std::string>;

// Of one machine nothing is said about nodes.
Cells simulated_row(const SimulatedJob& job, int64_t ranks, bool one_machine, SimulateJson& json) {
  SimulateJson facts = {{"ranks", ranks}, {"nodes", job.cluster.nodes(ranks)}};
  const ScalingPrediction point = predict_scaling(job, SumWay::canonical, ranks);
  const auto of_nodes = [&](const std::string& text) { return one_machine ? "" : text; };
  const auto hours = point.node_hours;
  Cells row = {with_commas(ranks),
               of_nodes(with_commas(point.step.nodes)),
               fixed(1e3 * point.step.seconds(), 1),
               fixed(point.step.images_per_s(), 1),
               percent_of(point.efficiency),
               point.serial_fraction ? fixed(*point.serial_fraction, 4) : "",
               point.time_to_train_s ? clock_text(*point.time_to_train_s) : "",
               hours ? of_nodes(fixed(*hours, *hours < 10 ? 2 : 0)) : "",
               binds_text(point.step)};
  for (const Word<SumWay>& way : kWordsOf<SumWay>) {
    const ScalingPrediction its = predict_scaling(job, way.value, ranks);
    facts[way.text] = prediction_json(its);
    if (way.value != SumWay::canonical) row.push_back(percent_of(its.efficiency));
  }
  json["points"].push_back(facts);
  return row;
}

void tell_rows(const SimulatedJob& job, const std::vector<int64_t>& ranks, SimulateJson& json) {
  const bool one_machine =
      std::all_of(ranks.begin(), ranks.end(), [&](int64_t n) { return job.cluster.nodes(n) == 1; });
  std::vector<Cells> table = {{"ranks", "nodes", "step ms", "images/s", "efficiency", "serial", "train", "node hours",
                               "binds", "by ring", "hierarchical"}};
  json["points"] = SimulateJson::array();
  for (const int64_t n : ranks) table.push_back(simulated_row(job, n, one_machine, json));
  // Nor are other ways to sum shown where all are as fast.
  const auto as_fast = [](const Cells& row) { return row[9] == row[4] && row[10] == row[4]; };
  if (std::all_of(table.begin() + 1, table.end(), as_fast))
    for (auto row = table.begin() + 1; row != table.end(); ++row) (*row)[9] = (*row)[10] = "";
  for (const std::string& line : table_lines(table)) std::printf("  %s\n", line.c_str());
}

SimulateJson error_json(const PublishedError& error) {
  return {{"series", error.series->name},
          {"source", error.series->source},
          {"ranks", error.point.ranks},
          {"efficiency", error.point.efficiency},
          {"predicted_efficiency", error.predicted},
          {"error_points", error.points()}};
}

void tell_error(const PublishedError& error) {
  std::printf("  %s %6lld %10s %10s %+8.1f  %s\n", cell(error.series->name, 38).c_str(),
              static_cast<long long>(error.point.ranks), percent_of(error.point.efficiency).c_str(),
              percent_of(error.predicted).c_str(), error.points(),
              (error.series->apart.empty() ? error.series->source : error.series->apart).c_str());
}

void tell_own_points(SimulateJson& json) {
  std::printf(
      "\ndtrain's own steps of 8 logical ranks on 2 processes of one machine, predicted from one process alone and "
      "from\n"
      "two at the same time\n  %s %10s %17s %17s\n",
      cell("network", 45).c_str(), "measured", "from one", "from two");
  json["own"] = SimulateJson::array();
  const auto predicted = [](double seconds, double error) {
    return fixed(1e3 * seconds, 0) + " ms, " + (error < 0 ? "" : "+") + fixed(error, 1) + " %";
  };
  for (const OwnPoint& point : own_points()) {
    std::printf("  %s %7.0f ms %17s %17s\n", cell(point.name, 45).c_str(), 1e3 * point.step_s,
                predicted(point.from_one_s, point.error_from_one()).c_str(),
                predicted(point.from_two_s, point.error_from_two()).c_str());
    json["own"].push_back({{"network", point.name},
                           {"step_ms", 1e3 * point.step_s},
                           {"from_one_ms", 1e3 * point.from_one_s},
                           {"from_two_ms", 1e3 * point.from_two_s}});
  }
}

}  // namespace

std::vector<std::string> assumptions(const Simulation& simulation) {
  const Measurement::Steps& steps = *simulation.measured.steps;
  std::vector<std::string> all = {"backward takes two thirds of computing, and gradients become ready evenly over it"};
  if (!steps.spread_measured)
    all.push_back("the spread of a batch's time is that of the published series, " +
                  percent_of(published_errors().fit.spread) + ": too few steps were measured");
  if (!simulation.described)
    all.push_back(
        std::string("all ranks are on one machine with a core for each, whose memory is shared without loss; ") +
        (simulation.measured.inside ? "sums as dtrain bench comm measured them"
                                    : "sums at 10 GB/s; --from a file of dtrain bench comm --json measures that") +
        "; --cluster describes another");
  if (steps.ranks == 1 && steps.workload.loader_images_per_s <= 0)
    all.emplace_back("the loader keeps up; --from a file of dtrain bench input --json adds its limit");
  if (simulation.measured.length.samples == 0)
    all.emplace_back("no time to train: a benchmark knows no training set; --from a run's folder does");
  return all;
}

std::string pays_sentence(const SimulatedJob& job) {
  const int64_t last = pays_until(job, SumWay::canonical);
  const int64_t most = job.logical_ranks > 0 ? job.logical_ranks : kMostRanks;
  if (2 * last > most)
    return "more ranks pay up to " + with_commas(last) +
           (job.logical_ranks > 0 ? ", twice of which is more than the logical ranks" : "");
  const ScalingPrediction next = predict_scaling(job, SumWay::canonical, 2 * last);
  const bool few_steps = job.length.samples > 0 && static_cast<double>(job.length.samples) < 4 * next.step.images;
  const Binds what = what_binds(next.step);
  const std::string why = few_steps                ? "an epoch has few steps then"
                          : what == Binds::compute ? "start and evaluation weigh more"
                                                   : std::string(name_of(what)) + " takes " +
                                                         percent_of(share_of(what, next.step)) + " of a step";
  return "more ranks than " + with_commas(last) +
         " do not pay: twice as many would train less than 1.4 times as fast (" + why + ")";
}

void tell_simulation(const Simulation& simulation, const std::vector<int64_t>& ranks, SimulateJson& json) {
  tell_measured(simulation, json);
  tell_own_point(simulation, json);
  std::printf("\n");
  tell_rows(simulation.job, ranks, json);
  const std::string pays = pays_sentence(simulation.job);
  std::printf("\n%s\n", pays.c_str());
  json["pays_until_ranks"] = pays_until(simulation.job, SumWay::canonical);
}

void tell_published(SimulateJson& json) {
  const PublishedErrors& errors = published_errors();
  std::printf(
      "\npublished scaling, each series predicted from its network, batch, rate of one GPU and data sheet alone;\n"
      "the two or three figures fitted come from the other series\n  %s %6s %10s %10s %8s\n",
      cell("series", 38).c_str(), "ranks", "measured", "predicted", "points");
  for (const PublishedError& error : errors.counted) tell_error(error);
  std::printf("apart: not counted, because something else than computing and sums is in them\n");
  for (const PublishedError& error : errors.apart) tell_error(error);
  std::printf("fitted to all that count: spread %s, links at %s of their data sheets",
              percent_of(errors.fit.spread).c_str(), percent_of(errors.fit.link_share).c_str());
  for (const auto& [fabric, share] : errors.fit.fabric_share)
    std::printf(", %s at %s", fabric.c_str(), percent_of(share).c_str());
  std::printf("\n");
  SimulateJson& published = json["published"];
  published["counted"] = SimulateJson::array();
  published["apart"] = SimulateJson::array();
  for (const PublishedError& error : errors.counted) published["counted"].push_back(error_json(error));
  for (const PublishedError& error : errors.apart) {
    published["apart"].push_back(error_json(error));
    published["apart"].back()["why"] = error.series->apart;
  }
  published["fit"] = {{"spread", errors.fit.spread}, {"link_share", errors.fit.link_share}};
  tell_own_points(json);
}

void tell_published_error(SimulateJson& json) {
  const PublishedErrors& errors = published_errors();
  const OwnErrors own = own_errors();
  std::printf(
      "on %s published points this model is off by %s points of efficiency, on average, without having seen the "
      "series (%s without its whole source); on our own %s steps of 8 logical ranks on 2 processes by %s %% of the "
      "step "
      "from one process, %s %% from two at the same time; dtrain simulate --validate lists them\n",
      std::to_string(errors.counted.size()).c_str(), fixed(errors.mean_points, 1).c_str(),
      fixed(errors.mean_points_by_source, 1).c_str(), std::to_string(own_points().size()).c_str(),
      fixed(own.from_one, 1).c_str(), fixed(own.from_two, 1).c_str());
  json["published_points"] = errors.counted.size();
  json["published_error_points"] = errors.mean_points;
  json["published_error_points_without_source"] = errors.mean_points_by_source;
  json["own_error_percent_from_one"] = own.from_one;
  json["own_error_percent_from_two"] = own.from_two;
}

}  // namespace dtrain
