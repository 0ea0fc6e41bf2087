#include "dtrain/base/memory.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "dtrain/base/error.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

constexpr int64_t kMb = 1'000'000;

/// A made-up /proc and /sys: a host with 8,192 MB available.
class Machine {
 public:
  Machine() {
    write("/proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable: 8000000 kB\nSwapFree: 0 kB\n");
    write("/proc/self/cgroup", "0::/\n");
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }
  /// A control group of version 2.
  void group(const std::string& path, const std::string& most, int64_t used, const std::string& pages = "") const {
    write("/sys/fs/cgroup" + path + "/memory.max", most + "\n");
    write("/sys/fs/cgroup" + path + "/memory.current", std::to_string(used) + "\n");
    write("/sys/fs/cgroup" + path + "/memory.stat", "anon 5\n" + pages);
  }
  MemoryBudget budget() const { return memory_budget(root()); }
  const std::string& root() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

std::string refusal(MemoryDraw& memory, int64_t bytes) {
  try {
    memory.take(bytes);
  } catch (const Error& error) {
    CHECK(error.code() == 71);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the memory budget is what the host has available where no control group says less") {
  Machine machine;
  CHECK(machine.budget().free_bytes == 8'192 * kMb);
  CHECK(machine.budget().limit_bytes == 16'384 * kMb);
  CHECK(machine.budget().bound == "this host");
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.group("/job", "max", 5);
  CHECK(machine.budget().bound == "this host");
  machine.group("/job", std::to_string(64'000 * kMb), 5);
  CHECK(machine.budget().bound == "this host");
}

TEST_CASE("the least of nested control groups bounds the budget, and file pages that can be dropped are free") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  machine.group("/slurm", "max", 900 * kMb);
  machine.group("/slurm/job_7", std::to_string(1'000 * kMb), 900 * kMb,
                "inactive_file 200000000\nactive_file 300000000\nslab_reclaimable 1000000\n");
  machine.group("/slurm/job_7/step_0", std::to_string(4'000 * kMb), 900 * kMb);
  CHECK(machine.budget().free_bytes == 601 * kMb);
  CHECK(machine.budget().limit_bytes == 1'000 * kMb);
  CHECK(machine.budget().bound == "the control group /slurm/job_7");
}

TEST_CASE("in a container its own group counts, be its path the host's, and of version 1 too") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/docker/abc\n");
  machine.group("", std::to_string(500 * kMb), 100 * kMb);
  CHECK(machine.budget().free_bytes == 400 * kMb);
  CHECK(machine.budget().bound == "the control group /");
  Machine first;
  first.write("/proc/self/cgroup", "4:cpu,cpuacct:/x\n9:memory:/job\n");
  first.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(800 * kMb));
  first.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", std::to_string(700 * kMb));
  first.write("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 50000000\n");
  first.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  first.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5");
  CHECK(first.budget().free_bytes == 150 * kMb);
}

TEST_CASE("what a process holds is told apart from its pages of files, and a process that is gone holds nothing") {
  const Machine machine;
  machine.write("/proc/7/status",
                "Name: x y\nVmHWM:\t 900 kB\nRssAnon:\t 300 kB\nRssFile:\t 200 kB\nRssShmem:\t 50 kB\n");
  const ResidentMemory seven = resident_memory("7", machine.root());
  CHECK(seven.held == 350 * 1024);
  CHECK(seven.files == 200 * 1024);
  CHECK(seven.most == 900 * 1024);
  CHECK(resident_memory("8", machine.root()).most == 0);
  const std::vector<char> held(64 << 20, 1);
  const ResidentMemory own = resident_memory("self");
  CHECK(own.held >= static_cast<int64_t>(held.size()));
  CHECK(own.most >= own.held);
}

TEST_CASE("ulimit -v and -d bound the budget") {
  if (dtrain::test::kSanitized) return dtrain::test::skip("a sanitizer takes more address space than the limit");
  for (const auto& [which, name] : {std::pair(RLIMIT_AS, "ulimit -v"), std::pair(RLIMIT_DATA, "ulimit -d")}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit limit{rlim_t{1} << 30, RLIM_INFINITY};
      setrlimit(which, &limit);
      const MemoryBudget budget = memory_budget();
      const bool good = budget.bound == name && budget.limit_bytes == int64_t{1} << 30 &&
                        budget.free_bytes < budget.limit_bytes && budget.free_bytes > 0;
      _exit(good ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("what grows beyond the budget is one sentence with both figures, before it is taken") {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.group("/job", std::to_string(400 * kMb), 100 * kMb);
  MemoryDraw memory("decompressing a.gz", "decompress it once on disk", machine.root());
  CHECK(refusal(memory, 200 * kMb).empty());
  CHECK(refusal(memory, 300 * kMb) ==
        "decompressing a.gz needs 300 MB more memory, and the control group /job can give 233 MB of its 400 MB; "
        "decompress "
        "it once on disk, or give the process more memory");
  CHECK_FALSE(memory.may_take(300 * kMb));
  CHECK(memory.may_take(100 * kMb));
  machine.group("/job", std::to_string(400 * kMb), 399 * kMb);
  for (int i = 0; i < 16; ++i) CHECK(refusal(memory, 1'000'000).empty());  // small steps are not checked
  CHECK(refusal(memory, 1'000'000).find("needs 17 MB more memory") != std::string::npos);
  CHECK(refusal(memory, INT64_MAX / 2).find("can give 0 MB of its 400 MB") != std::string::npos);
}

TEST_CASE("a host that swaps gives its swap too, but none to what can do without") {
  Machine machine;
  machine.write("/proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 200000 kB\nSwapFree: 1000000 kB\n");
  MemoryDraw memory("the table", "take less", machine.root());
  CHECK(refusal(memory, 900 * kMb).empty());
  CHECK_FALSE(refusal(memory, 1'300 * kMb).empty());
  CHECK_FALSE(memory.may_take(900 * kMb));
}
