// chaos_saves: starts a process for every fault at every call of saving checkpoints, on a real file system. Each
// process saves two checkpoints beside two older ones, and one of its calls goes wrong (fault_shim.cpp). Then this one
// checks what is there: the newest valid checkpoint must be the last one reported as saved or a newer one, and the
// process must have ended with 0 if its last save was reported, else with 74.
//
// Prints one JSON object. A fault that was not survived has a line on stderr that repeats it: --fault KIND@N. Exit
// codes: 0 all survived, 1 one was not, 64 bad command line.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "options.hpp"
#include "support/temporary_folder.hpp"

extern "C" long dtrain_fault_calls();

namespace dtrain {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kOld = 2;  ///< steps 1 and 2 are there before
constexpr int64_t kNew = 4;  ///< 3 and 4 are saved
constexpr int kBeyond = 200;
constexpr unsigned kSecondsPerProcess = 30;
constexpr const char* kKinds[] = {"kill", "EIO", "ENOSPC", "EDQUOT", "EFBIG", "EINTR", "short", "EIO+", "ENOSPC+"};

void save(const std::string& folder, int64_t step) {
  TrainingState state;
  state.step = step;
  state.logical_ranks = 1;
  const auto value = static_cast<double>(step);
  const std::vector<FileTensor> tensors = {{"model.w", at::full({500}, value)},
                                           {"model.n", at::full({}, step, at::kLong)}};
  CheckpointFolder(folder).save(state, HostCopy(tensors), 2);
}

struct Trial {
  int64_t saved = kOld;  ///< last one reported
  int status = 0;        ///< of the process, as wait() gives it
};

/// Saves in another process, with the fault.
Trial try_fault(const std::string& folder, const std::string& fault, long at) {
  int ends[2];
  if (::pipe(ends) != 0) throw_errno("make", "a pipe", errno);
  const pid_t child = ::fork();
  if (child < 0) throw_errno("start", "a process", errno);
  if (child == 0) {
    ::alarm(kSecondsPerProcess);
    ::setenv("DTRAIN_FAULT_FOLDER", fs::path(folder).parent_path().c_str(), 1);  // its parent is synced too
    ::setenv("DTRAIN_FAULT", fault.c_str(), 1);
    int code = 0;
    for (int64_t step = kOld + 1; step <= kNew; ++step) {
      try {
        save(folder, step);
        code = 0;
        if (::write(ends[1], &step, sizeof step) != sizeof step) ::_exit(kBeyond + 1);
      } catch (const Error& error) {
        code = error.code();
      }
    }
    ::_exit(dtrain_fault_calls() < at ? kBeyond : code);
  }
  ::close(ends[1]);
  Trial trial;
  int64_t step = 0;
  while (::read(ends[0], &step, sizeof step) == sizeof step) trial.saved = step;
  ::close(ends[0]);
  ::waitpid(child, &trial.status, 0);
  return trial;
}

bool ended_right(const Trial& trial, bool kill) {
  if (kill) return WIFSIGNALED(trial.status) && WTERMSIG(trial.status) == SIGKILL;
  return WIFEXITED(trial.status) &&
         WEXITSTATUS(trial.status) == (trial.saved == kNew ? exit_code::kDone : exit_code::kIo);
}

// What went wrong, or "".
std::string judge(const std::string& folder, const Trial& trial, bool kill) {
  const auto newest = CheckpointFolder(folder).newest();
  if (!newest) return "no checkpoint is left";
  if (newest->state.step < trial.saved)
    return "step " + std::to_string(trial.saved) + " was reported as saved, and the newest is " +
           std::to_string(newest->state.step);
  if (!newest->skipped.empty()) return "a damaged checkpoint is left: " + newest->skipped.front();
  if (!ended_right(trial, kill)) return "the process ended with status " + std::to_string(trial.status);
  return "";
}

class Campaign {
 public:
  explicit Campaign(const std::string& folder) : before_(folder + "/before"), folder_(folder + "/checkpoints") {
    for (int64_t step = 1; step <= kOld; ++step) save(before_, step);
  }

  /// Returns false if there is no such call any more.
  bool run(const std::string& kind, long at) {
    const bool stays = kind.ends_with('+');
    const std::string fault =
        kind.substr(0, kind.size() - (stays ? 1 : 0)) + "@" + std::to_string(at) + (stays ? "+" : "");
    fs::remove_all(folder_);
    fs::copy(before_, folder_);
    const Trial trial = try_fault(folder_, fault, at);
    if (WIFEXITED(trial.status) && WEXITSTATUS(trial.status) == kBeyond) return false;
    const std::string wrong = judge(folder_, trial, kind == "kill");
    ++planted_;
    ++by_kind_[kind].first;
    if (wrong.empty()) {
      ++survived_;
      ++by_kind_[kind].second;
    } else {
      std::fprintf(stderr, "chaos_saves: %s; again: --fault %s\n", wrong.c_str(), fault.c_str());
    }
    return true;
  }

  nlohmann::ordered_json json() const {
    nlohmann::ordered_json all = {{"planted", planted_}, {"survived", survived_}};
    for (const auto& [kind, counts] : by_kind_)
      all["by_kind"][kind] = {{"planted", counts.first}, {"survived", counts.second}};
    return all;
  }
  bool good() const { return planted_ > 0 && planted_ == survived_; }

 private:
  std::string before_;
  std::string folder_;
  int64_t planted_ = 0;
  int64_t survived_ = 0;
  std::map<std::string, std::pair<int64_t, int64_t>> by_kind_;
};

bool run(const std::string& fault) {
  const test::TemporaryFolder folder;
  Campaign campaign(folder.path());
  const Stopwatch watch;
  if (const size_t mark = fault.find('@'); mark != std::string::npos) {
    campaign.run(fault.substr(0, mark) + (fault.ends_with('+') ? "+" : ""), std::atol(fault.c_str() + mark + 1));
  } else {
    for (const char* kind : kKinds)
      for (long at = 1; campaign.run(kind, at); ++at) continue;
  }
  nlohmann::ordered_json summary = campaign.json();
  summary["seconds"] = watch.seconds();
  std::printf("%s\n", summary.dump().c_str());
  return campaign.good();
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
  std::string fault;
  Options options("Lets every call of saving checkpoints go wrong, each in a process of its own.");
  options.text("--fault", fault, "this one alone, as KIND@N");
  if (const auto code = options.read(argc, argv)) return *code;
  try {
    return run(fault) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chaos_saves: %s\n", error.what());
    return exit_code::kInternal;
  }
}
