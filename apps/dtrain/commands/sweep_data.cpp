#include "commands/sweep_data.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/config/config.hpp"
#include "dtrain/data/generated/sample_set.hpp"
#include "dtrain/data/store/paths.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/run_result.hpp"

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRoot = "data.root=";

// Where the study's configuration leads to; "" for one that cannot be read, which is refused later, with the reason.
std::string data_root(const StudySweep& sweep) {
  try {
    return load_config(sweep.command.config.sources).experiment.data.root;
  } catch (const Error&) {
    return "";
  }
}

bool wants_stand_in(const StudySweep& sweep, const SweepFolder& folder) {
  if (!sweep.study || !sweep.study->sample) return false;
  const std::vector<std::string>& overrides = sweep.command.config.sources.overrides;
  const bool named = std::any_of(overrides.begin() + static_cast<std::ptrdiff_t>(sweep.of_file), overrides.end(),
                                 [](const std::string& word) { return word.starts_with(kRoot); });
  return !named && (sweep.command.tiny || is_there(folder.file("data")) || !is_there(data_root(sweep)));
}

// Under another name until it is whole.
void make_stand_in(const StandIn& sample, const std::string& folder, const Log& log) {
  const std::string whole = folder + "/data";
  if (is_there(whole)) return;
  const std::string partial = whole + ".partial";
  std::error_code failed;
  fs::remove_all(partial, failed);
  log.info("generating " + (sample.count > 0 ? count_of(sample.count, "picture") : std::string("pictures")) +
           " of kind " + sample.kind + " in " + whole + ", in the place of the study's own data");
  write_sample_set(sample.kind, partial, sample.count, 1, {sample.height, sample.width}, bound_cores().size());
  fs::rename(partial, whole, failed);
  if (failed) throw_errno("rename", partial, failed.value());
}

std::vector<std::string> pack_words(const StudySweep& sweep, const std::string& folder, const Launcher& launcher) {
  const PackedCopy& pack = *sweep.study->pack;
  std::vector<std::string> words = {launcher.dtrain, "pack"};
  for (const std::string& file : sweep.command.config.sources.files) words.insert(words.end(), {"--config", file});
  const std::vector<std::string>& overrides = sweep.command.config.sources.overrides;
  words.insert(words.end(), overrides.begin(), overrides.end());
  words.insert(words.end(),
               {"--output", folder + "/shards", "--samples-per-shard", std::to_string(pack.samples_per_shard)});
  if (!pack.to.empty()) words.insert(words.end(), {"--to", pack.to});
  if (!pack.expand.empty()) words.insert(words.end(), {"--expand", join(pack.expand, ",")});
  return words;
}

// dtrain pack goes on where it was stopped, and has nothing to do where it is done.
void make_packed(const StudySweep& sweep, const std::string& folder, const Launcher& launcher, const Log& log) {
  make_folders(folder + "/logs");
  const std::string output = folder + "/logs/pack.txt";
  const int64_t began = is_there(output) ? file_bytes(output) : 0;
  log.info("packing the data into " + folder + "/shards, log in " + output);
  ChildJob job(pack_words(sweep, folder, launcher), output);
  std::optional<int> code;
  while (!(code = job.ended())) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (*code == exit_code::kDone) return;
  const bool own = *code >= exit_code::kUsage && *code <= exit_code::kReplicasDiffer;
  throw Error(own ? *code : exit_code::kPeerFailed,
              "packing the data of this study failed: " + last_sentence(output, began));
}

std::string temporary_folder() {
  std::string name = (fs::temp_directory_path() / "dtrain_study_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw_errno("make the folder", name, errno);
  return name;
}

}  // namespace

StudyData::~StudyData() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

StudyData prepared_data(StudySweep& sweep, SweepFolder& folder, const Launcher& launcher, const Log& log) {
  if (!sweep.study) return {};
  const bool stand_in = wants_stand_in(sweep, folder);
  const bool packed = sweep.study->pack.has_value();
  if (!stand_in) ::setenv(kStudyDataVariable, data_root(sweep).c_str(), 1);
  if (!stand_in && !packed) return {};
  const bool all_there = (!stand_in || is_there(folder.file("data"))) && (!packed || is_there(folder.file("shards")));
  const bool elsewhere = sweep.command.dry_run && !all_there;
  if (elsewhere && !sweep.command.tiny)
    throw MissingError("the data of this study are not in " + folder.path() +
                       " yet: a start without --dry-run makes them; --dry-run --tiny checks the tiny variant");
  StudyData made(elsewhere ? temporary_folder() : "");
  const std::string where = fs::absolute(elsewhere ? made.folder() : folder.path()).lexically_normal().string();
  if (elsewhere) ::setenv(kStudyVariable, where.c_str(), 1);
  if (!sweep.command.dry_run) folder.lock();
  if (stand_in) {
    if (!sweep.command.dry_run || elsewhere) make_stand_in(*sweep.study->sample, where, log);
    std::vector<std::string>& overrides = sweep.command.config.sources.overrides;
    overrides.insert(overrides.begin() + static_cast<std::ptrdiff_t>(sweep.of_file++), kRoot + where + "/data");
    ::setenv(kStudyDataVariable, (where + "/data").c_str(), 1);
  }
  if (packed && (!sweep.command.dry_run || elsewhere)) make_packed(sweep, where, launcher, log);
  return made;
}

}  // namespace dtrain
