#include "dtrain/train/time_shares.hpp"

#include <algorithm>
#include <cmath>

#include "dtrain/base/text.hpp"

namespace dtrain {

namespace {

constexpr double kWorthNaming = 0.1;
// A rank this much slower than the others is slow throughout, not now and then.
constexpr double kSlowRank = 1.1;

double share(const TimeShares& t, double seconds) { return seconds / t.timing.epoch_seconds; }

std::string percent(double share) { return fixed(100 * share, 0) + " %"; }

std::string percent(const TimeShares& t, double seconds) { return percent(share(t, seconds)); }

std::string decoding(const TimeShares& t, int64_t needed) {
  const std::string threads = count_of(t.loader_threads, "loader thread");
  const int64_t possible = std::min(needed, t.spare_cores);
  if (possible <= t.loader_threads)
    return ", decoding; no core is left for more than " + threads +
           ": more cores, or smaller pictures on disk, would help";
  const double epoch_then =
      std::max(t.timing.epoch_seconds - t.timing.data_wait_s, (t.read_s + t.decode_s) / static_cast<double>(possible));
  return ", decoding; " + std::to_string(t.loader_threads) + " → " + std::to_string(possible) +
         " loader threads would give about " + fixed(t.timing.epoch_seconds / epoch_then, 1) + "x" +
         (possible < needed ? ", more cores or smaller pictures on disk the rest" : "");
}

// The loader keeps up if its threads do an epoch's work in the time that the epoch takes without waiting.
std::string loader_bound(const TimeShares& t) {
  const std::string head = "loader-bound: data wait " + percent(t, t.timing.data_wait_s);
  const double work = t.read_s + t.decode_s;
  const auto threads = static_cast<double>(t.loader_threads);
  const double available = t.timing.epoch_seconds - t.timing.data_wait_s;
  if (work <= threads * available)
    return head + ", though the loader's threads work " +
           percent(std::min(1.0, work / (threads * t.timing.epoch_seconds))) + " of the time and its queue is " +
           percent(t.queue_fill) + " full; a larger data.loader.prefetch would even it out";
  const double mb_per_s = static_cast<double>(t.timing.bytes_read) / 1e6 / t.timing.epoch_seconds;
  if (t.read_s > t.decode_s)
    return head + ", reading at " + fixed(mb_per_s, mb_per_s < 10 ? 1 : 0) +
           " MB/s; a faster volume, data on a local disk, or a cache would help, more threads would not";
  // An epoch that only waits would need more threads than any machine has cores.
  constexpr double kMost = 1e6;
  return head + decoding(t, static_cast<int64_t>(std::min(kMost, std::ceil(work / std::max(available, 1e-9)))));
}

std::string imbalance(const TimeShares& t) {
  const std::string head = "imbalance: " + percent(t, t.timing.imbalance_s) + " waiting for ";
  if (t.slowest_compute_ratio < kSlowRank)
    return head + "the slowest rank, each time another one: does something else run on these cores?";
  return head + "rank " + std::to_string(t.slowest_rank) + ", which computes " + fixed(t.slowest_compute_ratio, 1) +
         " times as long: slower or shared cores, or more logical ranks?";
}

}  // namespace

std::string time_sentence(const TimeShares& t) {
  if (!(t.timing.epoch_seconds > 0)) return "";
  const double largest =
      std::max({t.timing.data_wait_s, t.timing.allreduce_s, t.timing.imbalance_s, t.timing.update_s});
  if (share(t, largest) < kWorthNaming) return "";
  if (largest == t.timing.data_wait_s) return loader_bound(t);
  if (largest == t.timing.allreduce_s && t.processes == 1)
    return "sums: " + percent(t, t.timing.allreduce_s) +
           " adding up gradients in this process; larger batches per rank or a free core would help";
  if (largest == t.timing.allreduce_s)
    return "communication-bound: all-reduce " + percent(t, t.timing.allreduce_s) +
           "; larger batches per rank, fewer ranks per host or a faster network would help";
  if (largest == t.timing.imbalance_s) return imbalance(t);
  return "update-bound: the optimizer takes " + percent(t, t.timing.update_s) +
         "; larger batches per rank give fewer updates per epoch";
}

}  // namespace dtrain
