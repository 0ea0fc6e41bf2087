#include "support/host_gpu/planted.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "dtrain/base/error.hpp"
#include "support/host_gpu/streams.hpp"

namespace dtrain::test {
namespace {

constexpr std::array kMistakes = {"",       "add",    "pictures", "frozen",  "drift",       "ranks",     "crash",
                                  "replay", "record", "memory",   "forgets", "unavailable", "boundless", "sticky"};

// Work of the current stream.
void nudge(float* value) {
  HostGpuStreams::all().issue("planted", {{value, sizeof *value, true}},
                              [value] { *value = std::nextafter(*value, INFINITY); });
}

bool several_processes() {
  const char* processes = std::getenv("OMPI_COMM_WORLD_SIZE");
  return processes != nullptr && std::atoi(processes) > 1;
}

class PlantedMath final : public FlatMath {
 public:
  PlantedMath(const FlatMath& sound, std::string mistake) : sound_(sound), mistake_(std::move(mistake)) {}

  void add(float* into, const float* from, int64_t numel) const override {
    sound_.add(into, from, numel);
    if (mistake_ == "add" && numel > 0) nudge(into);
  }
  void sum(std::span<const int> program, int depth, const std::vector<const float*>& inputs,
           const std::vector<float*>& outputs, int64_t numel) const override {
    sound_.sum(program, depth, inputs, outputs, numel);
    if (mistake_ == "ranks" && several_processes() && numel > 0)
      for (float* output : outputs) nudge(output);
  }
  void update(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors,
              int32_t* not_finite) const override {
    if (mistake_ == "frozen") return;
    if (mistake_ == "forgets" && slices.first != nullptr && forgotten_.insert(slices.first).second)
      HostGpuStreams::all().issue(
          "planted", {{slices.first, static_cast<size_t>(slices.count) * sizeof *slices.first, true}},
          [first = slices.first, count = slices.count] { std::fill(first, first + count, 0.0F); });
    sound_.update(rule, slices, factors, not_finite);
    if (mistake_ == "sticky" && ++updates_ == 2) HostGpuStreams::all().fail();
    if (mistake_ == "drift" && slices.count > 0 && std::random_device()() % 2 == 0) nudge(slices.weights);
  }
  void measure(UpdateRule rule, const UpdateSlices& slices, const UpdateFactors& factors, double* sums) const override {
    sound_.measure(rule, slices, factors, sums);
  }
  std::vector<double> sums_of_squares(const float* values, const std::vector<Range>& ranges) const override {
    if (mistake_ == "crash") std::abort();
    return sound_.sums_of_squares(values, ranges);
  }
  void finish_pictures(const PictureForm& form, const RawPicture* pictures, int64_t count, float* out) const override {
    sound_.finish_pictures(form, pictures, count, out);
    if (mistake_ == "pictures" && count > 0) nudge(out);
  }
  void finish_masks(const PictureForm& form, const RawPicture* masks, int64_t count, int64_t classes,
                    float* out) const override {
    sound_.finish_masks(form, masks, count, classes, out);
  }

 private:
  const FlatMath& sound_;
  const std::string mistake_;
  mutable std::set<const float*> forgotten_{};
  mutable int64_t updates_ = 0;
};

class PlantedGraph final : public DeviceGraph {
 public:
  PlantedGraph(std::unique_ptr<DeviceGraph> sound, std::string mistake)
      : sound_(std::move(sound)), mistake_(std::move(mistake)) {}

  void record(std::function<void()> work) override {
    if (mistake_ == "record") throw DeviceError("recording a step failed: planted");
    sound_->record(std::move(work));
  }
  Mark mark() override { return sound_->mark(); }
  void replay() override {
    if (mistake_ != "replay") sound_->replay();
  }
  bool overwritten() const override { return sound_->overwritten(); }
  void give_back_memory() override { sound_->give_back_memory(); }

 private:
  std::unique_ptr<DeviceGraph> sound_;
  const std::string mistake_;
};

class PlantedModule final : public GpuModule {
 public:
  PlantedModule(GpuModule& sound, const std::string& mistake)
      : sound_(sound), mistake_(mistake), math_(sound.math(), mistake) {}

  const FlatMath& math() const override { return math_; }
  const NormMath& norms() const override { return sound_.norms(); }
  NcclApi& nccl() override { return sound_.nccl(); }
  std::unique_ptr<DeviceGraph> make_graph() override {
    return std::make_unique<PlantedGraph>(sound_.make_graph(), mistake_);
  }
  c10::Device use_device(int number) override {
    if (mistake_ == "unavailable") throw ConfigError("GPU " + std::to_string(number) + " cannot be used: planted");
    return sound_.use_device(number);
  }
  double memory_peak_mb() const override {
    if (mistake_ == "memory") throw DeviceError("asking for the most memory failed on the GPU: planted");
    return sound_.memory_peak_mb();
  }
  double memory_free_mb() const override { return sound_.memory_free_mb(); }
  std::string cuda_version() const override { return sound_.cuda_version(); }

 private:
  GpuModule& sound_;
  const std::string mistake_;
  PlantedMath math_;
};

}  // namespace

std::unique_ptr<GpuModule> with_planted(GpuModule& sound, const std::string& mistake) {
  if (std::ranges::find(kMistakes, mistake) == kMistakes.end())
    throw std::invalid_argument("no mistake is called " + mistake);
  return std::make_unique<PlantedModule>(sound, mistake);
}

}  // namespace dtrain::test
