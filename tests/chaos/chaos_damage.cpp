// chaos_damage: damages checkpoint files and best.safetensors at random (bits flipped, pages zeroed, exchanged,
// doubled or filled with noise, files truncated or extended) and counts which damages are found, and named: always the
// file, and if the header was not hit also one of the damaged tensors.
//
// The files are in memory. Prints JSON objects, one a line: the counts so far every 10,000 damages, all figures at the
// end. For a damage that was missed, or a crash, one line on stderr repeats it: --seed S --trial K. Exit codes: 0 every
// damage was found and named, 1 one was not, 64 bad command line.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "options.hpp"
#include "support/memory_file_system.hpp"

namespace dtrain {
namespace {

using test::DiskImage;
using test::MemoryFileSystem;

constexpr const char* kCheckpoint = "/checkpoints/epoch-0001-step-00000007.safetensors";
constexpr const char* kBest = "/best.safetensors";
constexpr const char* kKinds[] = {"bit",          "bits",  "zero page", "noise page", "exchanged pages",
                                  "doubled page", "burst", "cut",       "zero tail",  "longer"};
constexpr uint64_t kKindCount = std::size(kKinds);

struct Campaign {
  int64_t count = 0;
  uint64_t seed = 1;
  int64_t trial = -1;
};

struct Counts {
  int64_t planted = 0;
  int64_t harmless = 0;  ///< the bytes are the same: a zeroed page of zeros
  int64_t found = 0;
  int64_t named = 0;
  nlohmann::ordered_json json() const {
    return {{"planted", planted}, {"harmless", harmless}, {"found", found}, {"named", named}};
  }
};

/// A file as it was written, and the offsets of its tensors.
struct Victim {
  std::string path;
  std::string bytes;
  size_t data_begin = 0;
  std::vector<TensorEntry> entries;
};

// A small residual network with many tensors.
DiskImage make_files() {
  MemoryFileSystem files;
  std::vector<FileTensor> model;
  std::vector<FileTensor> all;
  KeyedRandom random(1, Purpose::sample_set, 0, 81);
  const auto filled = [&](at::IntArrayRef shape) {
    at::Tensor tensor = at::empty(shape);
    for (int64_t i = 0; i < tensor.numel(); ++i)
      tensor.data_ptr<float>()[i] = static_cast<float>(random.below(1 << 20)) / 1e5F - 5;
    return tensor;
  };
  for (int block = 0; block < 12; ++block) {
    const std::string name = "layer" + std::to_string(block / 3 + 1) + "." + std::to_string(block % 3) + ".";
    model.push_back({name + "conv.weight", filled({8, 8, 3, 3})});
    for (const char* leaf : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"})
      model.push_back({name + leaf, filled({8})});
    model.push_back({name + "bn.num_batches_tracked", at::full({}, 7, at::kLong)});
  }
  for (const FileTensor& tensor : model) all.push_back({"model." + tensor.name, tensor.tensor});
  for (const FileTensor& tensor : model)
    if (tensor.name.ends_with("weight"))
      all.push_back({"optimizer." + tensor.name + ".exp_avg", filled(tensor.tensor.sizes())});
  TrainingState state;
  state.epoch = 1;
  state.step = 7;
  state.logical_ranks = 4;
  state.classes = {"a", "b"};
  state.config = {{"model.name", "resnet50"}, {"optimizer.name", "adam"}, {"optimizer.learning_rate", "0.001"}};
  CheckpointFolder("/checkpoints", files).save(state, HostCopy(all), 1);
  save_tensors(kBest, HostCopy(model), {{"format", "dtrain-weights-1"}, {"config", "seed: 1\n"}}, files);
  return files.image();
}

Victim victim_of(const DiskImage& image, const std::string& path) {
  MemoryFileSystem files(image);
  Victim victim{path, image.at(path), 0, SafetensorsFile::read(path, true, files).entries()};
  uint64_t header = 0;
  std::memcpy(&header, victim.bytes.data(), sizeof header);
  victim.data_begin = 8 + header;
  return victim;
}

void flip(std::string& bytes, KeyedRandom& random) {
  const size_t bit = random.below(bytes.size() * 8);
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
}

std::string damaged(const std::string& whole, size_t kind, KeyedRandom& random) {
  constexpr size_t kPages[] = {4096, 512, 64};
  std::string bytes = whole;
  const size_t page = kPages[random.below(std::size(kPages))];
  const auto place = [&] { return random.below(bytes.size() / page) * page; };
  const size_t at = place();
  switch (kind) {
    case 0:
      flip(bytes, random);
      break;
    case 1:
      for (uint64_t i = random.below(15) + 2; i-- > 0;) flip(bytes, random);
      break;
    case 2:
      bytes.replace(at, page, std::string(page, '\0'));
      break;
    case 3:
      for (size_t i = 0; i < page; ++i) bytes[at + i] = static_cast<char>(random.below(256));
      break;
    case 4: {
      const size_t other = place();
      for (size_t i = 0; i < page; ++i) std::swap(bytes[at + i], bytes[other + i]);
      break;
    }
    case 5:
      bytes.replace(at, page, std::string(whole, place(), page));
      break;
    case 6: {
      const size_t begin = random.below(bytes.size());
      for (size_t i = begin; i < std::min(bytes.size(), begin + 1 + random.below(64)); ++i)
        bytes[i] = static_cast<char>(~bytes[i]);
      break;
    }
    case 7:
      bytes.resize(random.below(bytes.size()));
      break;
    case 8:
      for (size_t i = random.below(bytes.size()); i < bytes.size(); ++i) bytes[i] = '\0';
      break;
    default:
      bytes.append(1 + random.below(5000), static_cast<char>(random.below(2) * random.below(256)));
  }
  return bytes;
}

/// The sentence of the error that reading the damaged file gives; "" if it is read as if nothing were wrong.
std::string sentence_of(const Victim& victim, const std::string& bytes) {
  MemoryFileSystem files(DiskImage{{victim.path, bytes}});
  try {
    if (victim.path == kBest)
      SafetensorsFile::read(victim.path, false, files);
    else
      CheckpointFolder::read(victim.path, files);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

// Whether the sentence names the file, and a damaged tensor if the damage is among the tensors.
bool is_named(const Victim& victim, const std::string& bytes, const std::string& sentence) {
  if (!sentence.starts_with(victim.path)) return false;
  if (bytes.compare(0, victim.data_begin, victim.bytes, 0, victim.data_begin) != 0) return true;
  if (bytes.size() > victim.bytes.size()) return true;  // "… bytes after the last tensor"
  for (const TensorEntry& entry : victim.entries) {
    const size_t begin = victim.data_begin + static_cast<size_t>(entry.begin);
    const auto size = static_cast<size_t>(entry.bytes);
    const bool hit = begin + size > bytes.size() || bytes.compare(begin, size, victim.bytes, begin, size) != 0;
    if (hit && sentence.find("'" + entry.name + "'") != std::string::npos) return true;
  }
  return false;
}

// The running trial, so that a crash can report it.
volatile int64_t running_trial = 0;
uint64_t running_seed = 0;
void tell_crash(int number) {
  char line[160];
  const int length =
      std::snprintf(line, sizeof line, "chaos_damage: signal %d; again: --seed %llu --trial %lld\n", number,
                    static_cast<unsigned long long>(running_seed), static_cast<long long>(running_trial));
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line, static_cast<size_t>(length));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

bool run(const Campaign& campaign) {
  const DiskImage image = make_files();
  const Victim victims[] = {victim_of(image, kCheckpoint), victim_of(image, kBest)};
  Counts all;
  Counts by_kind[kKindCount];
  Counts by_file[2];
  running_seed = campaign.seed;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) std::signal(number, tell_crash);
  const Stopwatch watch;
  const int64_t first = std::max<int64_t>(0, campaign.trial);
  const int64_t end = campaign.trial < 0 ? campaign.count : campaign.trial + 1;
  for (int64_t trial = first; trial < end; ++trial) {
    running_trial = trial;
    KeyedRandom random(campaign.seed, Purpose::sample_set, static_cast<uint64_t>(trial), 82);
    const size_t file = random.below(4) == 0 ? 1 : 0;
    // Half of all damages are single bits.
    const size_t kind = random.below(2) == 0 ? 0 : 1 + random.below(kKindCount - 1);
    const Victim& victim = victims[file];
    const std::string bytes = damaged(victim.bytes, kind, random);
    const bool harmless = bytes == victim.bytes;
    const std::string sentence = sentence_of(victim, bytes);
    const bool found = !sentence.empty();
    const bool named = found && is_named(victim, bytes, sentence);
    for (Counts* counts : {&all, &by_kind[kind], &by_file[file]}) {
      ++counts->planted;
      counts->harmless += harmless ? 1 : 0;
      counts->found += found ? 1 : 0;
      counts->named += named ? 1 : 0;
    }
    if (campaign.trial >= 0) std::fprintf(stderr, "%s, %s: %s\n", kKinds[kind], victim.path.c_str(), sentence.c_str());
    if (harmless != !found || (found && !named))
      std::fprintf(stderr, "chaos_damage: %s of %s %s; again: --seed %llu --trial %lld\n", kKinds[kind],
                   victim.path.c_str(),
                   harmless ? "changed nothing and was refused"
                   : found  ? "was found and not named"
                            : "was not found",
                   static_cast<unsigned long long>(campaign.seed), static_cast<long long>(trial));
    if (all.planted % 10'000 == 0) std::printf("%s\n", all.json().dump().c_str());
  }
  nlohmann::ordered_json summary = all.json();
  for (size_t kind = 0; kind < kKindCount; ++kind) summary["by_kind"][kKinds[kind]] = by_kind[kind].json();
  summary["by_file"] = {{"checkpoint", by_file[0].json()}, {"best.safetensors", by_file[1].json()}};
  for (const Victim& victim : victims)
    summary["files"][victim.path] = {{"tensors", victim.entries.size()}, {"bytes", victim.bytes.size()}};
  summary["seconds"] = watch.seconds();
  std::printf("%s\n", summary.dump().c_str());
  return all.found + all.harmless == all.planted && all.named == all.found;
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
  Campaign campaign;
  Options options("Damages checkpoint files in memory and counts which damages are found and named.");
  options.number("--count", campaign.count, "damages", 1);
  options.number("--trial", campaign.trial, "this damage alone, counted from 0", 0);
  options.require_any({"--count", "--trial"});
  options.seed(campaign.seed);
  if (const auto code = options.read(argc, argv)) return *code;
  return run(campaign) ? 0 : 1;
}
