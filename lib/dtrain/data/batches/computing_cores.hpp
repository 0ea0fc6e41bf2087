#pragma once
#include <algorithm>
#include <cstdint>

namespace dtrain {

/// How many of a process's `cores` its computing takes, which its loader's threads then leave alone: on a CPU its
/// `threads`; with a GPU up to four, for the threads that issue work to it (training, backward, the sums) and for
/// NCCL's, but at most half of the cores, since decoding is what they are short of.
constexpr int64_t computing_cores(int64_t threads, bool on_gpu, int64_t cores) {
  if (!on_gpu) return threads;
  return std::max<int64_t>(1, std::min<int64_t>(4, cores / 2));
}

}  // namespace dtrain
