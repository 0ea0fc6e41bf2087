// dtrain bench comm: what one all-reduce costs, by algorithm and size.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "commands/commands.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/dist/bucket_sum.hpp"
#include "dtrain/dist/collectives.hpp"
#include "line/versions.hpp"

namespace dtrain {
namespace {

const std::vector<int64_t> kSizes = {4,         64,         1'000,      16'000,     256'000,     1'000'000,
                                     4'000'000, 16'000'000, 28'000'000, 64'000'000, 100'000'000, 256'000'000};

struct Row {
  double median_ms = 0;  // of the slowest rank
  double least_ms = 0;
  double p95_ms = 0;
  int64_t repeat = 0;
};

int64_t repeats(int64_t bytes, int64_t wanted) {
  if (wanted > 0) return wanted;
  return bytes <= 4096 ? 1000 : bytes <= 32'000'000 ? 30 : 10;
}

// Calls follow each other without a barrier: an all-reduce waits for every rank anyway.
Row measure(Job& job, int64_t bytes, int64_t repeat, const std::function<void()>& all_reduce) {
  constexpr int64_t kWarmUp = 5;
  at::Tensor seconds = at::empty({repeat}, at::kDouble);
  for (int64_t i = -kWarmUp; i < repeat; ++i) {
    job.watchdog().enter(Section::reduce, bytes);
    const Stopwatch watch;
    all_reduce();
    if (i >= 0) seconds[i] = watch.seconds();
  }
  const at::Tensor all = at::stack(all_gather(job.comm(), std::get<0>(seconds.sort()))).mul(1e3);
  return {all.select(1, repeat / 2).max().item<double>(), all.min().item<double>(),
          all.select(1, std::min(repeat - 1, repeat * 95 / 100)).max().item<double>(), repeat};
}

// Adds up rank + 1 over ranks and compares, then leaves zeros: they stay zeros, so nothing overflows later.
void require_right_sum(Job& job, const std::string& name, at::Tensor values, const std::function<void()>& all_reduce) {
  const double n = job.size();
  values.fill_(static_cast<double>(job.rank() + 1));
  all_reduce();
  const bool right = values.eq(n * (n + 1) / 2).all().item<bool>();
  values.zero_();
  if (any(job.comm(), !right))
    throw InternalError(name + " gave a wrong sum of " + std::to_string(values.nbytes()) + " bytes");
}

nlohmann::ordered_json report(Job& job, const std::string& name, const std::string& transport, int64_t bytes,
                              const Row& row) {
  const double n = job.size();
  const double algorithm = static_cast<double>(bytes) / row.median_ms / 1e6;
  if (job.is_root())
    std::printf("%-14s %11s %12.4f %12.4f %12.4f %10.3f %10.3f\n", name.c_str(), with_commas(bytes).c_str(),
                row.median_ms, row.least_ms, row.p95_ms, algorithm, algorithm * 2 * (n - 1) / n);
  return {{"algorithm", name},
          {"transport", transport},
          {"bytes", bytes},
          {"ms_median", row.median_ms},
          {"ms_min", row.least_ms},
          {"ms_p95", row.p95_ms},
          {"algorithm_gb_per_s", algorithm},
          {"bus_gb_per_s", algorithm * 2 * (n - 1) / n},
          {"repeat", row.repeat}};
}

}  // namespace

int run_bench_comm(const BenchCommCommand& command, const Config& config, Job& job) {
  const std::vector<std::pair<std::string, Reduction>> algorithms = {{"canonical", Reduction::canonical},
                                                                     {"ring", Reduction::ring},
                                                                     {"fastest", Reduction::fastest},
                                                                     {"root_cpu", Reduction::root_cpu}};
  const at::NoGradGuard no_grad;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  if (job.is_root()) {
    std::printf("all-reduce of float32 over %s; median and p95 of the slowest rank; 1 GB = 1e9 bytes\n",
                count_of(job.size(), "rank").c_str());
    if (job.size() == 1)
      std::printf(
          "one rank has nothing to sum with others, so these are the times of the calls alone: mpirun -np 2 "
          "--bind-to none dtrain bench comm\n");
    std::printf("algorithm GB/s = bytes / time, bus GB/s = that x 2 (n - 1) / n, as in nccl-tests\n");
    std::printf("%-14s %11s %12s %12s %12s %10s %10s\n", "", "bytes", "median ms", "least ms", "p95 ms", "alg GB/s",
                "bus GB/s");
  }
  std::vector<int64_t> sizes;  // whole floats
  for (const int64_t bytes : command.bytes.empty() ? kSizes : command.bytes)
    sizes.push_back(std::max<int64_t>(1, bytes / 4) * 4);
  const int64_t most = *std::max_element(sizes.begin(), sizes.end()) / 4;
  for (const auto& [name, reduction] : algorithms) {
    const auto comm = job.gradient_comm(reduction);
    const auto sum = make_bucket_sum(reduction, *comm, job.device(), job.size(), most);
    sum->begin(CanonicalTree(std::vector<bool>(static_cast<size_t>(job.size()), true)));
    if (job.is_root()) std::printf("%s: %s\n", name.c_str(), sum->transport().c_str());
    for (const int64_t bytes : sizes) {
      const auto all_reduce = [&] {
        sum->sum({0, bytes / 4});
        if (!job.device().place.is_cpu()) sum->buffer(0)[0].item<float>();  // waits for the device
      };
      require_right_sum(job, name, sum->buffer(0).slice(0, 0, bytes / 4), all_reduce);
      const Row row = measure(job, bytes, repeats(bytes, command.repeat), all_reduce);
      results.push_back(report(job, name, sum->transport(), bytes, row));
    }
  }
  const at::Tensor plain = at::zeros({most});
  if (job.is_root()) std::printf("mpi_allreduce: MPI_Allreduce, in place\n");
  for (const int64_t bytes : sizes) {
    at::Tensor values = plain.slice(0, 0, bytes / 4);
    const auto all_reduce = [&] { job.comm().all_reduce(values); };
    require_right_sum(job, "mpi_allreduce", values, all_reduce);
    const Row row = measure(job, bytes, repeats(bytes, command.repeat), all_reduce);
    results.push_back(report(job, "mpi_allreduce", "messages", bytes, row));
  }
  if (job.is_root() && command.json) {
    const nlohmann::ordered_json json = {
        {"ranks", job.size()},
        {"intra_host", config.experiment.distributed.intra_host == IntraHost::network ? "network" : "auto"},
        {"results", results},
        {"versions", library_versions()}};
    std::printf("%s\n", printable(json.dump()).c_str());
  }
  return exit_code::kDone;
}

}  // namespace dtrain
