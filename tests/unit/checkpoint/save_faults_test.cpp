// Checkpoints under faults: saves with rotation on a disk in memory, with every fault at every call, and every disk
// that a power cut may leave. After each of them the newest valid checkpoint is the last one that was reported as
// saved, or a newer one.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "dtrain/base/error.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/checkpoint/checkpoint_folder.hpp"
#include "dtrain/io/files/file.hpp"
#include "support/catch.hpp"
#include "support/memory_file_system.hpp"

using namespace dtrain;
using test::DiskImage;
using test::Fault;
using test::MemoryFileSystem;

namespace {

constexpr const char* kFolder = "/runs/a/checkpoints";
constexpr int64_t kKeep = 2;
constexpr int64_t kMost = 512;  ///< more disks than any power cut here may leave, unless syncs are missing

TrainingState state_at(int64_t step) {
  TrainingState state;
  state.step = step;
  state.logical_ranks = 1;
  return state;
}

std::vector<FileTensor> tensors_at(int64_t step) {
  const auto value = static_cast<double>(step);
  return {{"model.weight", at::full({40}, value)},
          {"model.count", at::full({}, step, at::kLong)},
          {"optimizer.weight.exp_avg", at::full({40}, -value)}};
}

/// The step of the newest valid checkpoint; 0: there is none. Its tensors must be those of that step.
int64_t newest_step(FileSystem& files) {
  std::optional<CheckpointFolder::Found> found;
  try {
    found = CheckpointFolder(kFolder, files).newest();
  } catch (const DataError&) {
    return 0;  // there are files, but none is valid
  }
  if (!found) return 0;
  const auto bytes = found->file.bytes(*found->file.find("model.count"));
  int64_t count = 0;
  std::memcpy(&count, bytes.data(), sizeof count);
  return count == found->state.step ? count : -1;
}

int64_t newest_step(const DiskImage& image) {
  MemoryFileSystem files(image);
  return newest_step(files);
}

/// What a training run does with its checkpoints, and what it has reported about them.
struct Saver {
  MemoryFileSystem& files;
  int64_t saved = 0;  ///< step of the newest one reported as saved
  bool last_failed = false;
  int last_code = 0;

  void save(int64_t step) {
    last_failed = true;
    try {
      CheckpointFolder(kFolder, files).save(state_at(step), HostCopy(tensors_at(step)), kKeep);
      if (files.dead()) return;  // so nothing is reported
      saved = step;
      last_failed = false;
    } catch (const Error& error) {
      last_code = error.code();
    }
  }
};

struct Campaign {
  int64_t runs = 0;
  int64_t cuts = 0;
  int64_t wrong = 0;
  std::set<std::string> reached;  // calls at which faults happened

  void require(const DiskImage& image, int64_t saved, const Fault& fault, const char* when) {
    const int64_t newest = newest_step(image);
    if (newest >= saved) return;
    if (++wrong > 5) return;
    std::printf("fault %d (errno %d%s) at call %lld, %s: saved %lld, newest %lld\n", static_cast<int>(fault.kind),
                fault.error_number, fault.stays ? ", stays" : "", static_cast<long long>(fault.at), when,
                static_cast<long long>(saved), static_cast<long long>(newest));
    for (const auto& [path, bytes] : image) std::printf("  %s (%zu bytes)\n", path.c_str(), bytes.size());
  }

  /// Makes so many saves with this fault planned; at every call there may be a power cut. Returns false if there is no
  /// such call any more.
  bool run(const Fault& fault, int64_t saves) {
    MemoryFileSystem files(DiskImage{{"/runs/a/", ""}});
    files.plan(fault);
    Saver saver{files};
    const auto cut = [&] {
      cuts += files.power_cuts(kMost, [&](const DiskImage& disk) { require(disk, saver.saved, fault, "power cut"); });
    };
    files.before_call = cut;
    for (int64_t step = 1; step <= saves && !files.dead(); ++step) saver.save(step);
    files.before_call = nullptr;
    ++runs;
    if (files.hit()) reached.insert(files.hit_call());
    cut();
    require(files.image(), saver.saved, fault, "end");
    for (const std::string& violation : files.violations) {
      ++wrong;
      std::printf("fault at call %lld: %s\n", static_cast<long long>(fault.at), violation.c_str());
    }
    if (saver.last_failed && !files.dead() && saver.last_code != exit_code::kIo) {
      ++wrong;
      std::printf("fault %d (errno %d) at call %lld (%s): code %d\n", static_cast<int>(fault.kind), fault.error_number,
                  static_cast<long long>(fault.at), files.hit_call().c_str(), saver.last_code);
    }
    if (files.dead()) go_on(files.image(), saver.saved, fault);
    return files.hit();
  }

  /// The next start can continue from what was left, and its own saves are valid.
  void go_on(const DiskImage& left, int64_t saved, const Fault& fault) {
    MemoryFileSystem files(left);
    const int64_t newest = newest_step(files);
    CheckpointFolder(kFolder, files).begin_after(newest, 0);
    Saver saver{files, saved};
    saver.save(newest + 1);
    if (saver.saved != newest + 1) ++wrong;
    for (const auto& [path, bytes] : files.image())
      if (path.ends_with(".tmp")) ++wrong;
    cuts += files.power_cuts(kMost,
                             [&](const DiskImage& disk) { require(disk, newest + 1, fault, "after the next start"); });
  }
};

std::vector<Fault> all_faults() {
  using Kind = Fault::Kind;
  std::vector<Fault> faults;
  const auto add = [&](Kind kind, int error, bool stays) { faults.push_back({kind, error, 0, stays}); };
  add(Kind::kill, 0, false);
  add(Kind::short_write, 0, false);
  for (const int error : {EIO, ENOSPC, EDQUOT, EFBIG, EINTR})
    for (const Kind kind : {Kind::error, Kind::late_error}) add(kind, error, false);
  for (const int error : {EIO, ENOSPC}) add(Kind::error, error, true);
  return faults;
}

void tell(const char* what, const Campaign& campaign, const Stopwatch& watch) {
  const double seconds = watch.seconds();
  std::printf("%s: %lld runs, %lld power cuts looked at, %lld wrong; %.1f s, %.0f crash points per second\n", what,
              static_cast<long long>(campaign.runs), static_cast<long long>(campaign.cuts),
              static_cast<long long>(campaign.wrong), seconds,
              static_cast<double>(campaign.runs + campaign.cuts) / seconds);
}

}  // namespace

TEST_CASE("whatever a power cut leaves of saves and rotation, the last one reported as saved is found") {
  Campaign campaign;
  const Stopwatch watch;
  campaign.run({}, 6);
  tell("power cut at every call", campaign, watch);
  CHECK(campaign.wrong == 0);
  CHECK(campaign.cuts > 300);
}

static void every_fault_at_every_call(int64_t saves) {
  Campaign campaign;
  const Stopwatch watch;
  for (Fault fault : all_faults())
    for (fault.at = 1; campaign.run(fault, saves); ++fault.at) continue;
  tell("every fault and a power cut at every call", campaign, watch);
  CHECK(campaign.wrong == 0);
  CHECK(campaign.reached ==
        std::set<std::string>{"open", "read", "write", "sync", "close", "status", "rename", "unlink", "mkdir", "list"});
}

TEST_CASE("with every fault at every call, and power cuts at every call of each such run, it is found too", "[long]") {
  every_fault_at_every_call(3);
}

// A minute; docs/reliability.md has its figures.
TEST_CASE("the same over more saves", "[.campaign]") { every_fault_at_every_call(6); }

TEST_CASE("a fault that stays leaves the older checkpoint and no temporary file, and is told with the file's name") {
  MemoryFileSystem files(DiskImage{{"/runs/a/", ""}});
  CheckpointFolder folder(kFolder, files);
  folder.save(state_at(1), HostCopy(tensors_at(1)), kKeep);
  const DiskImage before = files.image();
  files.plan({});
  folder.save(state_at(2), HostCopy(tensors_at(2)), kKeep);
  const int64_t calls = files.calls();
  CHECK(calls > 15);
  std::string sentence;
  MemoryFileSystem full(before);
  for (int64_t at = 1; at <= 8; ++at) {
    full.plan({Fault::Kind::error, ENOSPC, at, false});
    try {
      CheckpointFolder(kFolder, full).save(state_at(2), HostCopy(tensors_at(2)), kKeep);
    } catch (const IoError& error) {
      sentence = error.what();
    }
    CHECK(newest_step(full) >= 1);
  }
  CHECK_THAT(sentence, Catch::Contains("No space left on device"));
  CHECK_THAT(sentence, Catch::Contains("step-00000002.safetensors"));
}

TEST_CASE("a folder whose making was interrupted before its sync is synced by the next one who wants it") {
  MemoryFileSystem files(DiskImage{{"/runs/", ""}});
  const auto is_safe = [&] {
    bool safe = true;
    files.power_cuts(kMost, [&](const DiskImage& disk) { safe = safe && disk.contains("/runs/a/"); });
    return safe;
  };
  files.plan({Fault::Kind::error, EIO, 5, false});
  CHECK_THROWS_AS(make_folders("/runs/a", files), IoError);
  CHECK(files.hit_call() == "sync");
  CHECK_FALSE(is_safe());
  files.plan({});
  make_folders("/runs/a/", files);
  CHECK(is_safe());
}

TEST_CASE("the disk in memory finds a writer that skips a step") {
  const auto lost_after = [](bool sync_file, bool sync_folder) {
    MemoryFileSystem files(DiskImage{{"/d/a", "old"}});
    const int file = files.open("/d/a.tmp", 0101 /* O_WRONLY | O_CREAT */, 0640);
    files.write(file, std::as_bytes(std::span("new").first(3)));
    if (sync_file) files.sync(file);
    files.close(file);
    files.rename("/d/a.tmp", "/d/a");
    const int folder = files.open("/d", 0, 0);
    if (sync_folder) files.sync(folder);
    std::set<std::string> found;
    files.power_cuts(kMost,
                     [&](const DiskImage& disk) { found.insert(disk.contains("/d/a") ? disk.at("/d/a") : "gone"); });
    return found;
  };
  CHECK(lost_after(true, true) == std::set<std::string>{"new"});
  CHECK(lost_after(true, false) == std::set<std::string>{"new", "old"});
  CHECK(lost_after(false, true).contains(""));
  MemoryFileSystem files(DiskImage{{"/d/", ""}});
  const int file = files.open("/d/a.tmp", 0101, 0640);
  files.plan({Fault::Kind::error, EIO, 1, false});
  CHECK(files.sync(file) == -EIO);
  CHECK(files.sync(file) == 0);
  CHECK(files.violations.size() == 1);
}
