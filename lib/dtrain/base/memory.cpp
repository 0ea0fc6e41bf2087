#include "dtrain/base/memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "dtrain/base/error.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {

constexpr const char* kHost = "this host";

// Reads lines of "name value"; a name may end in ':' and keeps it. Empty if there is no such file.
static std::map<std::string, int64_t> numbers_in(const std::string& file) {
  std::map<std::string, int64_t> numbers;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value) numbers[name] = value;
  }
  return numbers;
}

// The number that the file holds; none if it holds "max" or does not exist.
static std::optional<int64_t> number_of(const std::string& file) {
  std::ifstream text(file);
  int64_t value = 0;
  return text >> value ? std::optional(value) : std::nullopt;
}

static void bound(MemoryBudget& budget, int64_t free, int64_t limit, const std::string& by) {
  if (free < budget.free_bytes) budget = {std::max<int64_t>(free, 0), limit, by};
}

// The limit of one control group. `version`: 1 or 2.
static void bound_by_group(MemoryBudget& budget, const std::string& folder, int version, const std::string& name) {
  const auto limit = number_of(folder + (version == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = number_of(folder + (version == 2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used || *limit - *used >= budget.free_bytes) return;
  std::map<std::string, int64_t> pages = numbers_in(folder + "/memory.stat");
  const std::string all = version == 2 ? "" : "total_";  // includes the groups below it
  const int64_t files = pages[all + "inactive_file"] + pages[all + "active_file"] + pages["slab_reclaimable"];
  bound(budget, *limit - *used + files, *limit, "the control group " + name);
}

static void bound_by_groups(MemoryBudget& budget, const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");  // "0::/path", in version 1 "9:memory:/path"
  for (std::string line; std::getline(groups, line);) {
    const size_t kinds = line.find(':') + 1;  // the path may contain colons, as containerd's do
    const size_t path_at = line.find(':', kinds) + 1;
    if (kinds == 0 || path_at == 0) continue;
    const std::vector<std::string> controllers = split_text(line.substr(kinds, path_at - 1 - kinds), ',');
    const bool second = controllers == std::vector<std::string>{""};
    if (!second && std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) continue;
    const std::string group = line.substr(path_at);
    const std::string place = root + "/sys/fs/cgroup" + (second ? "" : "/memory");
    // In a container the path may be the host's, where only the container's own group is visible, and that at "/".
    for (std::string path = group == "/" ? "" : group;; path.resize(path.rfind('/'))) {
      bound_by_group(budget, place + path, second ? 2 : 1, path.empty() ? "/" : path);
      if (path.find('/') == std::string::npos) break;
    }
  }
}

static void bound_by_ulimit(MemoryBudget& budget, __rlimit_resource which, int64_t used, const std::string& name) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const auto most = static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
  bound(budget, most - used, most, name);
}

MemoryBudget host_memory_budget(const std::string& root) {
  std::map<std::string, int64_t> host = numbers_in(root + "/proc/meminfo");
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  MemoryBudget budget{kUnknown, kUnknown, kHost};
  if (host.contains("MemAvailable:")) budget = {1024 * host["MemAvailable:"], 1024 * host["MemTotal:"], kHost};
  bound_by_groups(budget, root);
  return budget;
}

MemoryBudget memory_budget(const std::string& root) {
  MemoryBudget budget = host_memory_budget(root);
  // In pages: size, resident, shared, text, library, data and stack.
  std::ifstream sizes(root + "/proc/self/statm");
  int64_t whole = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  sizes >> whole >> resident >> shared >> text >> library >> data;
  const int64_t page = sysconf(_SC_PAGESIZE);
  bound_by_ulimit(budget, RLIMIT_AS, whole * page, "ulimit -v");
  bound_by_ulimit(budget, RLIMIT_DATA, data * page, "ulimit -d");
  return budget;
}

ResidentMemory resident_memory(const std::string& process, const std::string& root) {
  std::map<std::string, int64_t> sizes = numbers_in(root + "/proc/" + process + "/status");
  return {1024 * (sizes["RssAnon:"] + sizes["RssShmem:"]), 1024 * sizes["RssFile:"], 1024 * sizes["VmHWM:"]};
}

// --- MemoryDraw

constexpr int64_t kStep = int64_t{16} << 20;
constexpr int64_t kSpare = int64_t{64} << 20;

MemoryDraw::MemoryDraw(std::string what, std::string advice, std::string root)
    : what_(std::move(what)), advice_(std::move(advice)), root_(std::move(root)) {}

int64_t MemoryDraw::due(int64_t bytes) {
  const int64_t unasked = unasked_.fetch_add(bytes) + bytes;
  if (unasked < kStep) return 0;
  unasked_.fetch_sub(unasked);
  return unasked;
}

void MemoryDraw::take(int64_t bytes) {
  const int64_t wanted = due(bytes);
  if (wanted == 0) return;
  const MemoryBudget budget = memory_budget(root_);
  if (wanted <= budget.free_bytes - kSpare) return;
  const int64_t swap = budget.bound == kHost ? 1024 * numbers_in(root_ + "/proc/meminfo")["SwapFree:"] : 0;
  if (wanted <= budget.free_bytes - kSpare + swap) return;
  const auto megabytes = [](int64_t count) { return with_commas((count + 500'000) / 1'000'000) + " MB"; };
  throw Error(exit_code::kOutOfMemory, what_ + " needs " + megabytes(wanted) + " more memory, and " + budget.bound +
                                           " can give " + megabytes(std::max<int64_t>(0, budget.free_bytes - kSpare)) +
                                           " of its " + megabytes(budget.limit_bytes) + "; " + advice_ +
                                           ", or give the process more memory");
}

bool MemoryDraw::may_take(int64_t bytes) {
  const int64_t wanted = due(bytes);
  return wanted == 0 || wanted <= memory_budget(root_).free_bytes - kSpare;
}

}  // namespace dtrain
