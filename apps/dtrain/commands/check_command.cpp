#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "commands/check_scaling.hpp"
#include "commands/check_sections.hpp"
#include "commands/commands.hpp"
#include "drawing/drawn_sample.hpp"
#include "drawing/preview.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/data/formats/picture_input.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/own_output.hpp"
#include "dtrain/optim/groups.hpp"
#include "job/batch_estimate.hpp"
#include "job/epoch_columns.hpp"
#include "job/job_advice.hpp"
#include "job/picture_scan.hpp"
#include "job/planned_parts.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

// As a start of the training finds it: throws ConfigError for optimizer.groups that do not fit the network.
void require_rules(const OptimizerOptions& options, const Network& network) {
  std::vector<std::string> names;
  std::vector<int64_t> dimensions;
  for (const NamedTensor& parameter : network.named_parameters()) {
    names.push_back(parameter.name);
    dimensions.push_back(parameter.tensor.dim());
  }
  parameter_rules(options, names, dimensions);
}

// The names that the data set gives to samples.
CheckJson sample_paths(const Plan& plan, const std::vector<int64_t>& samples) {
  CheckJson names = CheckJson::array();
  for (const int64_t index : samples) names.push_back(plan.dataset.samples[static_cast<size_t>(index)].path);
  return names;
}

std::vector<std::string> shown_each(std::vector<std::string> messages) {
  for (std::string& message : messages) message = shown(message);
  return messages;
}

// Paths may not be UTF-8.
std::string dump(const CheckJson& json, int indent = -1) {
  return json.dump(indent, ' ', false, CheckJson::error_handler_t::replace);
}

// The command that trains with the same configuration. One process needs no launcher.
std::string training_line(const CheckCommand& command) {
  std::string line = command.world_size == 1
                         ? "dtrain"
                         : "mpirun -np " + std::to_string(command.world_size) + " --bind-to none dtrain";
  for (const std::string& file : command.config.sources.files) line += " --config " + shell_word(file);
  for (const std::string& word : command.config.sources.overrides) line += " " + shell_word(word);
  return line;
}

// For the file: the name of each sample that is counted.
CheckJson with_names(CheckJson json, const Plan& plan, const PictureFacts& pictures) {
  json["bad"] = CheckJson::array();
  for (const auto& [index, error] : pictures.bad)
    json["bad"].push_back({{"path", plan.dataset.samples[static_cast<size_t>(index)].path},
                           {"code", error.code()},
                           {"error", shown(error.what())}});
  std::map<int64_t, CheckJson> duplicates;  // by the first of them
  for (const auto& [content, samples] : pictures.by_content)
    if (samples.size() > 1) duplicates[samples.front()] = sample_paths(plan, samples);
  json["duplicates"] = CheckJson::array();
  for (const auto& [first, names] : duplicates) json["duplicates"].push_back(names);
  return json;
}

constexpr const char* kCheckReport = "dtrain-check-1";

/// What has been found so far; `written`: the file holds all of it.
struct CheckReport {
  CheckJson json = {{"report", kCheckReport}, {"version", program_version()}};
  bool written = false;
};

int64_t logical_ranks_of(const CheckCommand& command, const Experiment& e) {
  const int64_t v = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks : command.world_size;
  if (command.world_size > v)
    throw ConfigError("--world-size " + std::to_string(command.world_size) +
                      " is more than distributed.logical_ranks " + std::to_string(v) +
                      "; set distributed.logical_ranks to that or more, or start fewer processes");
  return v;
}

void tell_data(const Experiment& e, const Plan& plan, CheckJson& json) {
  json["data_sha256"] = plan.dataset.manifest_sha256;
  json["split_sha256"] = plan.split.sha256;
  json["notes"] = plan.dataset.notes;
  for (const std::string& note : plan.split.notes) json["notes"].push_back(note);
  std::printf("data: %s, %s, manifest %s\n", printable(e.data.root.empty() ? e.data.format->name : e.data.root).c_str(),
              count_of(static_cast<int64_t>(plan.dataset.samples.size()), "sample").c_str(),
              plan.dataset.manifest_sha256.substr(0, 12).c_str());
  for (const std::string& note : plan.dataset.notes) std::printf("  %s\n", shown(note).c_str());
  std::printf("split %s\n", plan.split.sha256.substr(0, 12).c_str());
  for (const std::string& note : plan.split.notes) std::printf("  %s\n", shown(note).c_str());
}

PictureFacts look_at_data(const CheckCommand& command, const Experiment& e, const Plan& plan, const Log& log,
                          CheckJson& json) {
  std::fflush(stdout);  // so that messages are in the right place when both streams go into one file
  log.info((command.quick ? "reading the headers of " : "decoding ") +
           count_of(static_cast<int64_t>(plan.dataset.samples.size()), "picture") + " …");
  const Stopwatch looking;
  PictureFacts pictures = look_at_pictures(e, plan, command.quick, command.progress, log);
  tell_pictures(plan, pictures, command.quick, looking.seconds(), json);
  if (e.task == Task::segmentation && !command.quick && pictures.bad.empty()) {
    tell_mask_shares(plan, pictures, json);
    require_foreground(e, plan);
  }
  return pictures;
}

/// What speaks against the job: leaks, and other errors and findings.
struct Judgement {
  std::vector<std::string> leaks;
  std::vector<Finding> findings;
  bool good = false;
};

Judgement judge(const JobToJudge& job, CheckJson& json) {
  Judgement judgement;
  judgement.leaks = content_leaks(job.plan, job.pictures);
  std::vector<std::string> warnings = contradictions(job.plan, job.pictures);
  for (const std::string& warning : job.plan.split.warnings)
    (is_leak(warning) ? judgement.leaks : warnings).push_back(warning);
  judgement.findings = all_findings(job);
  judgement.good = job.pictures.bad.empty() && judgement.leaks.empty();
  json["leaks"] = shown_each(judgement.leaks);
  json["warnings"] = shown_each(warnings);
  tell_findings(judgement.findings, json);
  return judgement;
}

// The command that trains comes last.
void tell_what_is_next(const CheckCommand& command, const Plan& plan, const Judgement& judgement) {
  if (!judgement.good) return;
  const auto found = static_cast<int64_t>(judgement.findings.size());
  const std::string rest = found == 0   ? "nothing speaks against it; next"
                           : found == 1 ? "look at the one thing above, then"
                                        : "look at the " + std::to_string(found) + " things above, then";
  const std::string all = count_of(static_cast<int64_t>(plan.dataset.samples.size()), "picture");
  const std::string pictures = plan.dataset.samples.size() == 1 ? "the one picture" : "all " + all;
  if (command.quick)
    std::printf(
        "the headers of %s can be read; pixels were not looked at, so damaged, blank or equal pictures%s may "
        "be left: dtrain check without --quick finds them\n",
        pictures.c_str(), plan.dataset.task == Task::segmentation ? " and unknown values of masks" : "");
  std::printf("%s%s: %s\n", command.quick ? "" : (pictures + " can be read; ").c_str(), rest.c_str(),
              printable(training_line(command)).c_str());
}

[[noreturn]] void refuse(const PictureFacts& pictures, const Judgement& judgement, std::vector<Error> errors) {
  for (const auto& [index, error] : pictures.bad) errors.push_back(error);
  for (const std::string& leak : judgement.leaks) errors.push_back(DataError(leak));
  const Error all = merge_errors(errors);
  throw Error(all.code(), with_list(count_of(static_cast<int64_t>(errors.size()), "finding") +
                                        " against this data set; repair or take out:",
                                    lines_of(all.what())));
}

// A start of the training finds it by trials; here an estimate has to do.
void estimate_batch(const CheckCommand& command, Config& config, Plan& plan, const Network& network, CheckJson& json) {
  const Experiment& e = config.experiment;
  const int64_t middling = std::min(kMiddlingBatch, most_useful_batch(e, plan));
  const int64_t batch =
      estimated_batch(e, plan, memory_with(e, plan, network, command.world_size, middling, plan.logical_ranks));
  json["batch_per_rank_estimate"] = batch;
  std::printf(
      "batch.per_rank: auto: about %s by the estimate of memory, taken from here on; a start of the training finds "
      "what fits, and stores it\n",
      std::to_string(batch).c_str());
  settle_batch(config, batch);
  plan.local_batch = batch;
}

int look_and_tell(const CheckCommand& command, const Config& given, const Log& log, CheckReport& report) {
  CheckJson& json = report.json;
  Config config = given;
  const Experiment& e = config.experiment;
  const int64_t v = logical_ranks_of(command, e);
  json["format"] = config.values.at("data.format").text;
  json["root"] = e.data.root;
  Plan plan = make_plan(e, v);
  tell_data(e, plan, json);
  tell_parts(plan, json);
  tell_sampling(e, plan);
  std::string weights_line;
  const auto network = make_planned_network(e, plan, true, weights_line);
  require_rules(e.optimizer, *network);
  tell_network(e, plan, *network, weights_line, json);
  if (e.batch.is_auto()) estimate_batch(command, config, plan, *network, json);
  tell_schedule(e, plan, command.world_size, json);
  tell_scaling({command.world_size, command.from, command.cluster}, e, plan, *network, json);
  make_planned_loss(e, plan);
  require_partners(e, plan);
  require_monitors(e, plan);
  const PictureFacts pictures = look_at_data(command, e, plan, log, json);
  const JobMemory memory = job_memory(e, plan, *network, pictures, command.world_size);
  tell_memory(memory, json);
  tell_cache(e, plan, pictures.kind, static_cast<int>(command.world_size), json);
  const Judgement judgement = judge({e, plan, pictures, memory}, json);
  tell_what_is_next(command, plan, judgement);
  std::vector<Error> errors;
  const auto attempt = [&](const auto& write) {  // a failed write must not hide what was found
    try {
      write();
    } catch (const Error& error) {
      errors.push_back(error);
    }
  };
  report.written = true;
  attempt([&] {
    write_file_atomically(command.output, dump(with_names(json, plan, pictures), 2) + "\n");
    std::fflush(stdout);
    log.info("written: " + command.output);
  });
  attempt([&] {
    if (command.preview.empty()) return;
    std::set<int64_t> bad;
    for (const auto& [sample, error] : pictures.bad) bad.insert(sample);
    const std::vector<std::byte> sheet = preview_sheet(config, plan, bad);
    AtomicFile out(command.preview);
    out.write(sheet);
    out.commit();
    std::printf("preview: %s\n", printable(command.preview).c_str());
  });
  if (command.json) std::printf("%s\n", printable(dump(json)).c_str());
  std::fflush(stdout);
  if (!judgement.good) refuse(pictures, judgement, errors);
  if (!errors.empty()) throw errors.front();
  return exit_code::kDone;
}

}  // namespace

// Said before every picture is decoded.
static void require_folder_of(const std::string& option, const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code unread;
  if (!folder.empty() && !std::filesystem::is_directory(folder, unread))
    throw MissingError(option + " " + file + ": the folder '" + folder.string() +
                       "' does not exist; create it, or name another file");
}

int run_check(const CheckCommand& command, const Config& config, const Log& log) {
  require_folder_of("--output", command.output);
  if (!command.preview.empty()) require_folder_of("--preview", command.preview);
  require_own_output(command.output, "report of a check",
                     {std::string("\"report\": \"") + kCheckReport, "\"data_sha256\": \""});
  if (!command.preview.empty()) require_own_output(command.preview, "contact sheet", {kContactSheetMark});
  if (!command.preview.empty() && !lower_case(command.preview).ends_with(kMaskEnding))
    throw UsageError("--preview writes a PNG picture; name it so, as in --preview sheet.png, not " + command.preview);
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
