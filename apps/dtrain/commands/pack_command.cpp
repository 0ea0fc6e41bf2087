// dtrain pack: decodes and resizes a data set once, and writes it into shards.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/codec.hpp"
#include "dtrain/data/batches/loader.hpp"
#include "dtrain/data/formats/formats.hpp"
#include "dtrain/data/order/sampler.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/files/file.hpp"
#include "job/agreement.hpp"

namespace dtrain {
namespace {

PackedManifest manifest_of(const PackJob& pack, const Config& config) {
  PackedManifest manifest = pack.manifest();
  manifest.source_format = config.values.at("data.format").text;
  std::string text;
  for (const auto& [key, value] : fingerprint_values(config)) text += key + "=" + value + "\n";
  manifest.config_sha256 = sha256_hex(text);
  return manifest;
}

bool is_empty(const std::string& folder) {
  std::vector<std::string> names;
  if (const int failed = real_file_system().list(folder, names); failed < 0) throw_errno("list", folder, -failed);
  const std::string begun = std::string(PackedManifest::kFile) + ".tmp";  // left by a start that was killed immediately
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return name == begun; });
}

// On rank 0: the folder is this job's from here on.
void take_folder(const std::string& folder, const PackedManifest& manifest) {
  FileSystem::Status status;
  make_folders(folder);
  if (real_file_system().status(folder + "/" + PackedManifest::kFile, true, status) < 0) {
    if (!is_empty(folder))
      throw UsageError("--output '" + folder +
                       "' is not empty; name a folder that is new, empty or was begun by this job");
    return write_packed_manifest(manifest, folder);
  }
  const PackedManifest there = read_packed_manifest(folder);
  if (there.job != manifest.job)
    throw UsageError("--output '" + folder +
                     "' holds the shards of another job (other data, split or options); name a "
                     "folder that is new or empty");
}

/// This rank's progress lines.
class Telling {
 public:
  Telling(const PackCommand& command, const PackJob& pack, Job& job, int64_t own)
      : line_(job.is_root() ? command.progress : ProgressMode::none, job.launched(), job.log()),
        own_(own),
        all_(pack.records()),
        job_(job) {}

  // `done` of this rank's records; the others are about as far.
  void show(int64_t done) {
    if (done > seen_) job_.watchdog().enter(Section::load, done);  // a hanging disk makes no progress
    seen_ = done;
    const int64_t all = own_ == 0 ? all_ : done * all_ / own_;
    const double rate = static_cast<double>(all) / std::max(watch_.seconds(), 1e-3);
    line_.show(all, all_, [&] {
      ProgressFields fields = {{"packing  " + with_commas(all) + "/" + with_commas(all_) + " records", 3},
                               {with_commas(static_cast<int64_t>(rate)) + "/s", 1}};
      if (all > 0) fields.push_back({"eta " + clock_text(static_cast<double>(all_ - all) / rate), 2});
      return fields;
    });
  }
  double seconds() const { return watch_.seconds(); }

 private:
  ProgressLine line_;
  int64_t own_;
  int64_t all_;
  int64_t seen_ = 0;
  Job& job_;
  Stopwatch watch_;
};

using OrderedJson = nlohmann::ordered_json;

struct Stopped {};  // while making a shard, of which nothing is written yet

// Writes this rank's shards, except those that exist already, until it is asked to stop; a row for each: number, file,
// records, bytes, checksum, and whether it existed.
OrderedJson write_shards(const PackCommand& command, const PackJob& pack, const Experiment& e, Job& job) {
  const auto mine = [&](size_t number) {
    return static_cast<int>(number % static_cast<size_t>(job.size())) == job.rank();
  };
  std::vector<std::optional<PackedManifest::Shard>> found(pack.shards().size());
  int64_t left = 0;
  for (size_t k = 0; k < found.size(); ++k) {
    if (!mine(k) || stop_is_pending()) continue;
    job.watchdog().enter(Section::load, static_cast<int64_t>(k));
    found[k] = pack.find(k, command.output);
    if (!found[k]) left += static_cast<int64_t>(pack.shards()[k].items.size());
  }
  Telling telling(command, pack, job, left);
  const int threads = loader_threads(e.data.loader, 0, job.cores());
  OrderedJson rows = OrderedJson::array();
  int64_t done = 0;
  for (size_t k = 0; k < found.size(); ++k) {
    if (!mine(k)) continue;
    const bool kept = found[k].has_value();
    if (stop_is_pending()) break;
    if (!kept) {
      try {
        found[k] = pack.write(k, command.output, threads, [&](int64_t within) {
          if (stop_is_pending()) throw Stopped();
          telling.show(done + within);
        });
      } catch (const Stopped&) {
        break;
      }
      done += found[k]->records;
      telling.show(done);
    }
    rows.push_back({k, found[k]->records, found[k]->bytes, found[k]->checksum, kept});
  }
  return rows;
}

void warn_of_sizes(const PackCommand& command, const PackJob& pack, const Experiment& e, const Job& job) {
  const int64_t per_shard = command.options.samples_per_shard;
  const int64_t ranks = e.distributed.logical_ranks > 0 ? e.distributed.logical_ranks : job.size();
  const int64_t batch = e.batch.is_auto() ? 1 : largest_batch(e.batch, ranks);  // auto: not known yet
  if (per_shard % batch != 0)
    job.log().warning("--samples-per-shard " + std::to_string(per_shard) + " is not a multiple of the local batch of " +
                      std::to_string(batch) + "; dtrain does not mind, but programs that read shard by shard may");
  std::vector<std::string> smaller;
  for (const PackShard& shard : pack.shards())
    if (const auto records = static_cast<int64_t>(shard.items.size()); records != per_shard)
      smaller.push_back(shard.file + " " + std::to_string(records));
  if (!smaller.empty())
    job.log().info("shards have " + count_of(per_shard, "record") +
                   ", the last of each part the rest: " + join(smaller, ", "));
}

// The lines that train from what was packed, as YAML.
std::string config_lines(const PackCommand& command, const PackedManifest& m, const std::string& folder, bool groups) {
  std::string names;
  for (const std::string& name : m.classes) names += (names.empty() ? "" : ", ") + yaml_text(name);
  const bool masks = m.task == Task::segmentation;
  std::string text =
      "# in place of the keys `task`, `data.format`, `data.root`, `data.image.size`, `data.split` and those of the old "
      "format\n";
  text += std::string("task: ") + name_of(m.task) + "\n";
  text += "data:\n  format: " + m.to + "\n  root: " + yaml_text(folder) + "\n";
  if (command.options.to == PackTo::tfrecord)
    text += "  tfrecord: {" +
            (masks ? std::string("mask: image/segmentation/class/encoded") : "names: [" + names + "]") +
            (groups ? ", group: image/group" : "") + "}\n";
  if (command.options.to == PackTo::webdataset)
    text += "  webdataset: {" +
            (masks ? std::string("mask: seg.png") : "label: \"json:label\", names: [" + names + "]") +
            (groups ? ", group: \"json:group\"" : "") + "}\n";
  if (masks && command.options.to != PackTo::packed) {
    text += "  image_mask: {mask_values: {";
    for (size_t k = 1; k <= m.classes.size(); ++k)
      text += (k > 1 ? ", " : "") + std::to_string(k) + ": " + std::to_string(k);
    text += "}}\n";
  }
  std::vector<std::string> files;
  for (const std::string& file : m.files) files.push_back(yaml_text(file));
  return text + "  image: {size: [" + std::to_string(m.height) + ", " + std::to_string(m.width) +
         "], channels: " + std::to_string(m.channels) + (files.empty() ? "" : ", files: [" + join(files, ", ") + "]") +
         (m.slices > 1 ? ", slices: " + std::to_string(m.slices) : "") + "}\n";
}

// On rank 0, when all are done: the manifest, and what to do next.
void finish(const PackCommand& command, const PackJob& pack, PackedManifest manifest,
            const std::vector<std::string>& rows_of_ranks, double seconds, const Log& log) {
  manifest.shards.resize(pack.shards().size());
  int64_t bytes = 0;
  int64_t kept = 0;
  for (const std::string& text : rows_of_ranks)
    for (const OrderedJson& row : OrderedJson::parse(text)) {
      const auto number = row.at(0).get<size_t>();
      manifest.shards[number] = {pack.shards()[number].file, row.at(1), row.at(2), row.at(3)};
      bytes += row.at(2).get<int64_t>();
      kept += row.at(4).get<bool>() ? 1 : 0;
    }
  manifest.complete = true;
  write_packed_manifest(manifest, command.output);
  log.info("packed " + count_of(static_cast<int64_t>(pack.shards().size()), "shard") + " of " +
           with_commas(pack.records()) + " records, " + with_commas(bytes) + " bytes, in " + fixed(seconds, 1) + " s" +
           (kept > 0 ? "; " + with_commas(kept) + " already existed" : ""));
  log.info("next: put these lines into the configuration; dtrain verify " + shell_word(command.output) +
           " reads every byte again");
  std::fputs(config_lines(command, manifest, std::filesystem::absolute(command.output).lexically_normal().string(),
                          pack.has_groups())
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

}  // namespace

int run_pack(const PackCommand& command, const Config& config, Job& job) {
  const Experiment& e = config.experiment;
  const Stopwatch watch;
  if (e.data.loader.on_bad_sample == BadSample::replace)
    throw ConfigError(
        "dtrain pack keeps every sample and replaces none; set data.loader.on_bad_sample=fail, and find the bad ones "
        "with dtrain check");
  const Dataset dataset = open_dataset(e.data, e.task, e.seed);
  const Split split = split_dataset(dataset, e.data.split);
  const PackJob pack(dataset, split, e.data, command.options);
  const PackedManifest manifest = manifest_of(pack, config);
  require_agreement(job, {{"data", dataset.manifest_sha256, "see the same files"},
                          {"split of the data", split.sha256, "see the same files"}});
  if (job.is_root()) {
    for (const std::string& note : dataset.notes) job.log().info(note);
    for (const std::string& note : split.notes) job.log().info(note);
    for (const std::string& warning : split.warnings) job.log().warning(warning);
    warn_of_sizes(command, pack, e, job);
    take_folder(command.output, manifest);
  }
  barrier(job.comm());
  const std::string rows = write_shards(command, pack, e, job).dump();
  const std::vector<std::string> all = gather_text(job.comm(), rows);
  job.watchdog().enter(Section::finish, 0);
  if (any(job.comm(), stop_is_pending())) {
    if (job.is_root()) job.log().info("stopped; finished shards are kept, and the same command continues from there");
    return exit_code::kStopped;
  }
  if (job.is_root()) finish(command, pack, manifest, all, watch.seconds(), job.log());
  return exit_code::kDone;
}

}  // namespace dtrain
