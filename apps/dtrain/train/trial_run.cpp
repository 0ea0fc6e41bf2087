#include "train/trial_run.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/memory.hpp"
#include "dtrain/base/stop_signal.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/study/child_job.hpp"
#include "dtrain/study/slurm_call.hpp"

namespace dtrain {
namespace {

constexpr std::string_view kGpuPeak = "; most of the GPU's memory: ";
constexpr std::string_view kErrorHead = "dtrain: error ";

/// A file without a name, which is gone with this object.
class UnnamedFile {
 public:
  UnnamedFile() : descriptor_(::memfd_create("dtrain_trial", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw_errno("make a file in", "memory", errno);
  }
  ~UnnamedFile() { ::close(descriptor_); }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// Its last bytes, as many as any output has that is worth reading.
  std::string text() const {
    constexpr off_t kMost = 1 << 20;
    const off_t size = ::lseek(descriptor_, 0, SEEK_END);
    std::string out(static_cast<size_t>(std::min(size, kMost)), '\0');
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), std::max<off_t>(0, size - kMost));
    out.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return out;
  }

 private:
  int descriptor_;
};

/// The most that a process held, seen now and then. Between two looks the kernel's own record of the most is at least
/// as high as that, and at most by the pages of files too high.
class MostHeld {
 public:
  void look(const ResidentMemory& now) {
    files_ = std::max(files_, now.files);
    held_ = std::max({held_, now.held, now.most - files_});
  }
  double megabytes() const { return static_cast<double>(held_) / 1e6; }

 private:
  int64_t files_ = 0;
  int64_t held_ = 0;
};

std::vector<std::string> words_of(const TrialRun& trial) {
  std::vector<std::string> words = {"/proc/self/exe"};  // this very program, even where its file was replaced
  words.insert(words.end(), trial.sources.begin(), trial.sources.end());
  words.insert(words.end(), trial.overrides.begin(), trial.overrides.end());
  words.insert(words.end(),
               {"--dry-run", "--limit-steps", std::to_string(trial.steps), "--resume", "never", "--progress", "none"});
  return words;
}

std::optional<double> gpu_peak_in(const std::string& said) {
  const size_t at = said.rfind(kGpuPeak);
  if (at == std::string::npos) return std::nullopt;
  const char* begin = said.data() + at + kGpuPeak.size();
  double megabytes = 0;
  const auto [end, error] = std::from_chars(begin, said.data() + said.size(), megabytes);
  return error == std::errc() ? std::optional(megabytes) : std::nullopt;
}

[[noreturn]] void pass_on(int code, const std::string& said) {
  std::string line = last_line(said);
  if (const size_t colon = line.find(": ", kErrorHead.size());
      line.starts_with(kErrorHead) && colon != std::string::npos)
    line = line.substr(colon + 2);
  throw Error(code, "batch.per_rank: auto: a trial failed: " + line);
}

}  // namespace

std::vector<std::string> source_words(const ConfigSources& sources) {
  std::vector<std::string> words;
  for (const std::string& file : sources.files) words.insert(words.end(), {"--config", file});
  words.insert(words.end(), sources.overrides.begin(), sources.overrides.end());
  return words;
}

std::string gpu_peak_text(const std::optional<double>& megabytes) {
  return megabytes ? std::string(kGpuPeak) + fixed(*megabytes, 1) + " MB" : "";
}

TrialEnd run_trial(const TrialRun& trial) {
  constexpr auto kPoll = std::chrono::milliseconds(5);
  const UnnamedFile output;
  const Stopwatch watch;
  TrialEnd end;
  int code = 0;
  {
    const ChildJob::Options alone{.without = {"OMPI_", "PMIX_", "PMI_", "SLURM_"}, .expendable = true};
    ChildJob job(words_of(trial), output.descriptor(), alone);
    const std::string process = std::to_string(job.pid());
    MostHeld held;
    while (!job.ended()) {
      if (stop_is_pending())
        throw Error(exit_code::kStopped,
                    "stopped while batch.per_rank: auto was looking for the largest batch; nothing was trained, and "
                    "the same command begins again");
      trial.alive();
      held.look(resident_memory(process));
      end.held_mb = held.megabytes();
      end.seconds = watch.seconds();
      end.too_much = end.held_mb > trial.limit_mb;
      end.too_slow = end.seconds > trial.limit_s;
      if (end.too_much || end.too_slow) return end;  // ends the job
      std::this_thread::sleep_for(kPoll);
    }
    code = *job.ended();
  }
  constexpr int kBySignal = 128;  // the kernel's, where memory ran out, or of a library that did not expect it
  const std::string said = output.text();
  end.gpu_peak_mb = gpu_peak_in(said);
  end.too_much = code == exit_code::kOutOfMemory || code > kBySignal;
  if (code != exit_code::kDone && !end.too_much) pass_on(code, said);
  return end;
}

}  // namespace dtrain
