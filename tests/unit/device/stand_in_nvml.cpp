// The functions of libnvidia-ml.so.1 that dtrain calls. It knows one GPU, GPU-known, and returns the samples that a
// test has prepared, one after the other; after the last it fails, as NVML does for a GPU that is gone.
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace {

constexpr int kNotFound = 6;        // NVML_ERROR_NOT_FOUND
constexpr int kUnknownError = 999;  // NVML_ERROR_UNKNOWN

struct State {
  std::mutex mutex;
  std::vector<std::pair<unsigned, unsigned long long>> samples;  // percent, bytes taken
  size_t next = 0;
  int failed = 0;       // calls after the last sample
  bool missed = false;  // whether the last question for the load found no sample
  int unknown = 0;      // questions for another GPU
  int started = 0;      // nvmlInit less nvmlShutdown
  bool hangs = false;
  std::condition_variable changed;
};

State& state() {
  static State only;
  return only;
}

struct Utilization {
  unsigned gpu;
  unsigned memory;
};
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

}  // namespace

extern "C" {
int nvmlInit_v2() {
  std::unique_lock lock(state().mutex);
  ++state().started;
  state().changed.wait(lock, [] { return !state().hangs; });
  return 0;
}
int nvmlShutdown() {
  const std::lock_guard lock(state().mutex);
  --state().started;
  return 0;
}
int nvmlSystemGetDriverVersion(char* version, unsigned) {
  std::strcpy(version, "580.65.06");
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** gpu) {
  *gpu = &state();
  if (std::strcmp(uuid, "GPU-known") == 0) return 0;
  const std::lock_guard lock(state().mutex);
  ++state().unknown;
  return kNotFound;
}
int nvmlDeviceGetUtilizationRates(void* gpu, Utilization* rates) {
  State& of = *static_cast<State*>(gpu);
  const std::lock_guard lock(of.mutex);
  of.missed = of.next == of.samples.size();
  if (of.missed) {
    ++of.failed;
    return kUnknownError;
  }
  *rates = {of.samples[of.next].first, 1};
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* gpu, Memory* memory) {
  State& of = *static_cast<State*>(gpu);
  const std::lock_guard lock(of.mutex);
  if (of.missed) return kUnknownError;
  *memory = {80'000'000'000, 1, of.samples[of.next++].second};
  return 0;
}

// For the test: prepares a sample; how many calls have found none; how often it was started and not shut down, and
// asked for another GPU; whether its start hangs.
int stand_in_sample(unsigned percent, unsigned long long used) {
  const std::lock_guard lock(state().mutex);
  state().samples.emplace_back(percent, used);
  state().failed = 0;
  return 0;
}
int stand_in_failed() {
  const std::lock_guard lock(state().mutex);
  return state().failed;
}
int stand_in_hang(int hangs) {
  const std::lock_guard lock(state().mutex);
  state().hangs = hangs != 0;
  state().changed.notify_all();
  return 0;
}
int stand_in_unknown() {
  const std::lock_guard lock(state().mutex);
  return state().unknown;
}
int stand_in_started() {
  const std::lock_guard lock(state().mutex);
  return state().started;
}
}
