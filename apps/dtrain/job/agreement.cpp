#include "job/agreement.hpp"

#include <ATen/Version.h>

#include <algorithm>
#include <map>

#include "dtrain/base/error.hpp"
#include "dtrain/base/hash.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/device/gpu_facts.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/io/files/file.hpp"
#include "line/versions.hpp"

namespace dtrain {

constexpr const char* kSameStart = "be started with the same command line and configuration";
constexpr const char* kSameBuild = "run the same build of dtrain";
constexpr const char* kSameProcessor =
    "run on processors of one kind (or with ATEN_CPU_CAPABILITY set to the lowest of them)";
constexpr const char* kSameDevices =
    "have GPUs of one kind, parts of the same size where they are divided (MIG), and the same driver and libraries";
constexpr const char* kSameSettings = "have the same value in their environment, as it changes how their GPUs compute";
constexpr const char* kSameFiles = "see the same files";

// Keys that may differ between ranks: where a rank's files are, how it loads them, and what only rank 0 uses.
static bool own_key(const std::string& key) {
  const std::vector<std::string> own = {"name",
                                        "output.dir",
                                        "data.root",
                                        "data.loader.threads",
                                        "data.loader.prefetch",
                                        "data.loader.interleave",
                                        "distributed.watchdog.warn",
                                        "distributed.watchdog.abort",
                                        "checkpoint.keep"};
  return std::find(own.begin(), own.end(), key) != own.end();
}

static Fact option(const std::string& name, const std::string& value) {
  return {name, value.empty() ? "not given" : value, kSameStart};
}

static Fact given(const std::string& name, bool is) { return option(name, is ? "given" : ""); }

// For an optional option, 0 stands for its absence.
static Fact count_if_given(const std::string& name, int64_t count) {
  return option(name, count == 0 ? "" : std::to_string(count));
}

std::vector<Fact> facts_of_command(const TrainCommand& command, const Config& config) {
  const Experiment& e = config.experiment;
  return {option("command", "train"),
          option("--run-dir", command.run_dir.empty() ? e.output_dir + "/" + e.name : command.run_dir),
          option("--resume", command.resume.text()),
          option("--resume-with", join(command.resume_with, ",")),
          given("--dry-run", command.dry_run),
          count_if_given("--limit-steps", command.limit_steps),
          option("--trace", command.trace)};
}

std::vector<Fact> facts_of_command(const EvalCommand& command, const Config&) {
  return {option("command", "eval"),
          option("--checkpoint", command.checkpoint),
          option("--split", command.split),
          option("--output", command.output),
          given("--allow-trained", command.allow_trained),
          given("--calibrate", command.calibrate),
          given("--masks", command.masks),
          option("--threshold-from", command.threshold_from ? command.threshold_from->text : "")};
}

std::vector<Fact> facts_of_command(const PredictCommand& command, const Config&) {
  return {option("command", "predict"),
          option("--checkpoint", join(command.checkpoints, ", ")),
          option("--output", command.output),
          option("--column", command.column),
          count_if_given("--batch", command.batch),
          option("--threshold", command.threshold ? shortest(*command.threshold) : ""),
          given("--mirror", command.mirror),
          option("--tile-overlap", command.tile_overlap ? shortest(*command.tile_overlap) : ""),
          given("--overlay", command.overlay),
          given("--scores", command.scores),
          option("--cam", command.cam.value_or("")),
          option("--on-bad", name_of(command.on_bad))};
}

std::vector<Fact> facts_of_command(const PackCommand& command, const Config&) {
  const PackOptions& options = command.options;
  std::vector<std::string> turns;
  for (const PackTurn turn : options.expand) turns.emplace_back(name_of(turn));
  return {option("command", "pack"),
          option("--output", command.output),
          option("--to", name_of(options.to)),
          option("--samples-per-shard", std::to_string(options.samples_per_shard)),
          option("--expand", join(turns, ",")),
          option("--codec", name_of(options.codec)),
          option("--quality", std::to_string(options.jpeg_quality))};
}

std::vector<Fact> facts_of_command(const BenchStepCommand& command, const Config&) {
  return {option("command", "bench step"), option("--limit-steps", std::to_string(command.steps))};
}

std::vector<Fact> facts_of_command(const BenchInputCommand& command, const Config&) {
  return {option("command", "bench input"), option("--limit-steps", std::to_string(command.steps)),
          option("--load-ms", shortest(command.load_ms)), option("--train-ms", shortest(command.train_ms))};
}

std::vector<Fact> facts_of_command(const BenchCommCommand& command, const Config&) {
  std::vector<std::string> sizes;
  for (const int64_t bytes : command.bytes) sizes.push_back(std::to_string(bytes));
  return {option("command", "bench comm"), option("--bytes", join(sizes, ",")),
          count_if_given("--limit-steps", command.repeat)};
}

std::vector<Fact> facts_of_start(std::vector<Fact> command, const Config& config, const Job& job) {
  std::vector<Fact> facts = std::move(command);
  std::map<std::string, std::string> keys = fingerprint_values(config);
  for (const auto& [key, value] : config.values)
    if (!key_in_fingerprint(key) && !own_key(key)) keys[key] = value.text;
  for (const auto& [key, value] : keys) facts.push_back({key, value, kSameStart});
  for (const auto& [name, version] : library_versions()) facts.push_back({"build: " + name, version, kSameBuild});
  facts.push_back({"build: checksum", hex8(crc32c(read_file("/proc/self/exe"))), kSameBuild});
  for (const auto& [name, value] : job.device_facts()) facts.push_back({"device: " + name, value, kSameDevices});
  if (job.device().module != nullptr)
    for (const auto& [name, value] : plan_settings()) facts.push_back({"environment: " + name, value, kSameSettings});
  facts.push_back({"processor: vector code", at::get_cpu_capability(), kSameProcessor});
  return facts;
}

std::vector<Fact> facts_of_plan(const Plan& plan, const Network& network, const std::string& weights_sha256) {
  std::string tensors;
  for (const auto& part : {network.named_parameters(), network.named_buffers()})
    for (const NamedTensor& tensor : part) {
      tensors += tensor.name;
      for (const int64_t size : tensor.tensor.sizes()) tensors += " " + std::to_string(size);
      tensors += "\n";
    }
  return {{"classes of the data", join(plan.dataset.classes, ","), kSameFiles},
          {"data", plan.dataset.manifest_sha256, kSameFiles},
          {"split of the data", plan.split.sha256, kSameFiles},
          {"tensors of the network", sha256_hex(tensors), kSameFiles},
          {"file of model.weights", weights_sha256, kSameFiles}};
}

// Facts as they are sent: host, then names and values, each ended by NUL, which none of them can contain.
static std::string packed(const std::vector<Fact>& facts) {
  std::string text = host_name();
  for (const Fact& fact : facts) text += '\0' + fact.name + '\0' + fact.value;
  return text;
}

static std::string shown(const std::string& value) {
  constexpr size_t kMost = 40;
  if (value.size() <= kMost) return value;
  size_t end = kMost / 2;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0) == 0x80) --end;  // not inside a character
  std::string text = value.substr(0, end);
  text += "…";
  return text;
}

// How rank `rank` differs from rank 0, as a sentence; "" if it does not.
static std::string difference(const std::vector<Fact>& facts, int rank, const std::vector<std::string>& zero,
                              const std::vector<std::string>& other) {
  std::map<std::string, std::string> theirs;
  for (size_t i = 1; i + 1 < other.size(); i += 2) theirs[other[i]] = other[i + 1];
  std::vector<std::string> names;
  std::string values;
  const auto note = [&](const std::string& name, const std::string& their_value, const std::string& value) {
    if (names.empty()) values = " (" + shown(their_value) + " against " + shown(value) + ")";
    names.push_back(name);
  };
  for (size_t i = 1; i + 1 < zero.size(); i += 2) {
    const auto found = theirs.find(zero[i]);
    if (found == theirs.end())
      note(zero[i], "not set", zero[i + 1]);
    else if (found->second != zero[i + 1])
      note(zero[i], found->second, zero[i + 1]);
    if (found != theirs.end()) theirs.erase(found);
  }
  for (const auto& [name, value] : theirs) note(name, value, "not set");
  if (names.empty()) return "";
  if (names.front() == "command") names.resize(1);  // the options follow from it
  const auto fact = std::find_if(facts.begin(), facts.end(), [&](const Fact& f) { return f.name == names.front(); });
  constexpr size_t kListed = 4;
  const size_t more = names.size() > 1 + kListed ? names.size() - 1 - kListed : 0;
  std::string also = join({names.begin() + 1, names.end() - static_cast<std::ptrdiff_t>(more)}, ", ");
  if (!also.empty()) also = ", and in " + also + (more > 0 ? " and " + std::to_string(more) + " more" : "");
  return "rank " + std::to_string(rank) + " @ " + other.front() + " differs from rank 0 in " + names.front() + values +
         also + "; all ranks must " + (fact == facts.end() ? kSameStart : fact->rule);
}

void require_agreement(Job& job, const std::vector<Fact>& facts) {
  const std::vector<std::string> all = all_gather_text(job.comm(), packed(facts));
  const std::vector<std::string> zero = split_text(all[0], '\0');
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::string sentence = difference(facts, static_cast<int>(rank), zero, split_text(all[rank], '\0'));
    if (!sentence.empty()) throw ConfigError(sentence);
  }
}

}  // namespace dtrain
