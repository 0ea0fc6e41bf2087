#include "dtrain/base/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "dtrain/base/text.hpp"

namespace dtrain {

std::vector<int> bound_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  if (cores.empty()) {  // the call fails on more cores than a set can hold: take all
    cores.resize(std::max(1U, std::thread::hardware_concurrency()));
    std::iota(cores.begin(), cores.end(), 0);
  }
  return cores;
}

bool run_on_cores(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(static_cast<size_t>(core), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

std::string core_ranges(const std::vector<int>& cores) {
  std::string out;
  for (size_t i = 0; i < cores.size();) {
    size_t j = i;
    while (j + 1 < cores.size() && cores[j + 1] == cores[j] + 1) ++j;
    if (!out.empty()) out += ',';
    out += std::to_string(cores[i]);
    if (j > i) out += "-" + std::to_string(cores[j]);
    i = j + 1;
  }
  return out;
}

std::vector<int> read_core_ranges(const std::string& text) {
  std::vector<int> cores;
  if (text.empty()) return cores;
  for (const std::string& part : split_text(text, ',')) {
    const size_t dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

std::string vector_extensions() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags") && !line.starts_with("Features")) {
  }
  std::istringstream words(line);
  std::set<std::string> found;
  for (std::string word; words >> word;)
    for (const char* kind : {"sse4", "avx", "amx", "fma", "asimd", "sve", "sme", "bf16", "i8mm"})
      if (word.starts_with(kind)) found.insert(word);
  return join({found.begin(), found.end()}, " ");
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

}  // namespace dtrain
