// NCCL's calls of cuda/real_nccl.cpp on the tests' own libnccl.so.2 (tests/support/nccl), between processes:
//
//   mpirun -np N test_mpi_nccl checks [HOSTS]    sums against the tree's and MPI's bits. HOSTS: the host that each rank
//                                                pretends to be on, as in 0,0,1
//   mpirun -np N test_mpi_nccl train             a training whose gradients travel by NCCL against one by MPI
//   mpirun -np N test_mpi_nccl gpus              the reducer on GPUs that are host memory (tests/support/host_gpu),
//                                                where sums wait for backward, and what reads them for the sums
//   mpirun -np N test_mpi_nccl limited SECONDS   sums until something fails: the communicator's limit ends the job
//   mpirun -np N test_mpi_nccl waiting SECONDS   the same where work is issued to the device and waited for later: the
//                                                reducer on GPUs that are host memory
//   mpirun -np N test_mpi_nccl measuring SECONDS a reducer is made, which measures what sums cost; that must fail
//   mpirun -np N test_mpi_nccl watched SECONDS   a training until something fails: the watchdog ends the job
//
// How NCCL behaves says DTRAIN_STAND_IN_NCCL (tests/support/nccl/plan.hpp). A seed is printed; DTRAIN_SEED repeats it.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <signal.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "chaos/training.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/cuda/real_nccl.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/message.hpp"
#include "dtrain/dist/mpi_session.hpp"
#include "dtrain/dist/nccl_communicator.hpp"
#include "dtrain/dist/reducer.hpp"
#include "dtrain/dist/watched_communicator.hpp"
#include "support/host_gpu/host_gpu.hpp"
#include "support/host_gpu/order.hpp"
#include "support/nccl/host_stream.hpp"
#include "support/nccl/stand_in.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;

namespace {

test::PromptStream stream;  // of all threads
CUstream_st* current_stream() { return stream.handle(); }

void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

// The ranks of `inner`, distributed over other hosts.
class PretendedHosts final : public Communicator {
 public:
  PretendedHosts(Communicator& inner, std::vector<int> host_of) : inner_(inner), host_of_(std::move(host_of)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives) override {
    inner_.exchange(sends, receives);
  }
  void all_reduce(at::Tensor& tensor) override { inner_.all_reduce(tensor); }
  std::unique_ptr<Communicator> duplicate() override { return inner_.duplicate(); }
  void limit_waits(double seconds) override { inner_.limit_waits(seconds); }
  HostMemory share(int64_t numel, c10::Device device) override {
    HostMemory memory = unshared_memory(rank(), size(), numel, device);
    memory.hosts.assign(static_cast<size_t>(*std::max_element(host_of_.begin(), host_of_.end())) + 1, {});
    for (int r = 0; r < size(); ++r) memory.hosts[static_cast<size_t>(host_of_[static_cast<size_t>(r)])].push_back(r);
    memory.host = static_cast<size_t>(host_of_[static_cast<size_t>(rank())]);
    return memory;
  }

 private:
  Communicator& inner_;
  std::vector<int> host_of_;
};

std::vector<int> numbers(const std::string& text) {
  std::vector<int> all;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) all.push_back(std::stoi(word));
  return all;
}

// One seed for all ranks. Pauses of up to a fifth of a millisecond, unless the plan says otherwise.
uint64_t draw_seed(Communicator& world) {
  const char* given = std::getenv("DTRAIN_SEED");
  std::string seed = given != nullptr
                         ? given
                         : std::to_string(std::chrono::system_clock::now().time_since_epoch().count() / 1000 % 1000000);
  seed = broadcast_text(world, seed);
  const char* plan = std::getenv("DTRAIN_STAND_IN_NCCL");
  const std::string whole = "seed=" + seed + ",pause_us=200," + (plan == nullptr ? "" : plan);
  setenv("DTRAIN_STAND_IN_NCCL", whole.c_str(), 1);
  if (world.rank() == 0) std::printf("DTRAIN_SEED=%s, %s\n", seed.c_str(), dtrain_stand_in_nccl());
  return std::stoull(seed);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.view(at::kInt), b.view(at::kInt)); }

// Every reduction adds up to the bits that it has over MPI; NCCL's own choice of order (fastest) only with two ranks.
void compare_with_mpi(Communicator& world, NcclApi& api) {
  for (const Reduction reduction : {Reduction::canonical, Reduction::ring, Reduction::fastest}) {
    if (reduction == Reduction::fastest && world.size() > 2) continue;
    const auto nccl = make_nccl_communicator(api, world, 20, reduction == Reduction::ring);
    for (const int64_t v : {8, 11})
      expect(
          same_bits(test::sum_of_leaves(*nccl, reduction, v, 20003), test::sum_of_leaves(world, reduction, v, 20003)),
          "by NCCL a sum has the bits that it has by MPI");
  }
}

void run_checks(Communicator& world, NcclApi& api, const std::string& hosts) {
  compare_with_mpi(world, api);
  const std::vector<int> host_of =
      hosts.empty() ? std::vector<int>(static_cast<size_t>(world.size()), 0) : numbers(hosts);
  PretendedHosts host(world, host_of);
  const auto nccl = make_nccl_communicator(api, host, 20);
  expect(nccl->share(1, c10::kCPU).hosts.size() == std::set<int>(host_of.begin(), host_of.end()).size(),
         "hosts as named");
  test::check_collectives(*nccl);
  for (const int64_t v : {8, 11}) test::check_bucket_sum(*nccl, Reduction::canonical, v);
  for (const double bucket_mb : {0.0, 0.001}) test::check_reducer(*nccl, 9, bucket_mb);
  if (!hosts.empty()) return;
  test::check_bucket_sum(*nccl, Reduction::fastest, 8);
  test::check_bucket_sum(*make_nccl_communicator(api, host, 20, true), Reduction::ring, 8);
}

// Whole trainings, on the CPU.
void compare_trainings(Communicator& world, NcclApi& api) {
  const auto hashes = [&](bool nccl) {
    Training training({}, world, nccl ? make_nccl_communicator(api, world, 20) : nullptr);
    for (int i = 0; i < 12; ++i) training.step();
    return training.replica().hash_weights();
  };
  expect(hashes(true) == hashes(false), "a training by NCCL ends with the weights of one by MPI");
}

// Whether all ranks' work on the same memory was ordered since the last call.
bool ordered(Communicator& world) {
  const std::vector<std::string> faults = test::WorkOrder::all().take_faults();
  return !any(world, !faults.empty());
}

void run_on_host_gpus(Communicator& world, uint64_t seed) {
  const Device gpu = test::make_host_gpu(seed + 1000 * static_cast<uint64_t>(world.rank()), 100);
  {
    const auto api = test::ordered_nccl(make_real_nccl(gpu.place.type(), test::host_gpu_stream));
    const auto nccl = make_nccl_communicator(*api, world, 20);
    for (const double bucket_mb : {0.0, 0.001}) test::check_reducer(*nccl, 5, bucket_mb, gpu);
    expect(ordered(world), "sums and what reads them are ordered");
  }
  // A fault: NCCL works on another stream than the sums.
  const auto astray = test::ordered_nccl(make_real_nccl(gpu.place.type(), test::host_gpu_default_stream), true);
  bool right = true;
  try {
    const auto nccl = make_nccl_communicator(*astray, world, 1);
    test::check_reducer(*nccl, 5, 0.001, gpu);
  } catch (const std::exception&) {
    right = false;  // as the pauses would have it: it may add up all the same
  }
  any(world, right);
  expect(!ordered(world), "sums on a stream of their own, which nothing orders, are found");
}

void sum_until_it_fails(Communicator& world, NcclApi& api, double limit_s) {
  const auto nccl = make_nccl_communicator(api, world, limit_s);
  for (int i = 0; i < 200; ++i) test::sum_of_leaves(*nccl, Reduction::canonical, 8, 5000);
  throw std::runtime_error("nothing failed");
}

void reduce_until_it_fails(Communicator& world, uint64_t seed, double limit_s) {
  const Device gpu = test::make_host_gpu(seed + 1000 * static_cast<uint64_t>(world.rank()), 100);
  const auto api = make_real_nccl(gpu.place.type(), test::host_gpu_stream);
  const auto nccl = make_nccl_communicator(*api, world, limit_s);
  for (int i = 0; i < 20; ++i) test::check_reducer(*nccl, 5, 0.001, gpu);
  throw std::runtime_error("nothing failed");
}

void measure_until_it_fails(Communicator& world, uint64_t seed, double limit_s) {
  const Device gpu = test::make_host_gpu(seed + 1000 * static_cast<uint64_t>(world.rank()), 100);
  const auto api = make_real_nccl(gpu.place.type(), test::host_gpu_stream);
  const at::Tensor parameter = at::ones({300}, at::TensorOptions(at::kFloat).device(gpu.place)).requires_grad_(true);
  GradientReducer::Options options;
  options.device = gpu;
  options.logical_ranks = 5;
  Trace trace(false);
  const GradientReducer reducer({parameter}, 0, make_nccl_communicator(*api, world, limit_s), options, trace);
  throw std::runtime_error("nothing failed while costs were measured");
}

void train_until_it_fails(MpiSession& session, Communicator& world, NcclApi& api, double limit_s) {
  const int rank = world.rank();
  const auto say = [rank](const std::string& sentence) {
    std::fprintf(stderr, "rank %d: %s\n", rank, sentence.c_str());
  };
  Watchdog watchdog({.limits = {.warn_s = limit_s / 2, .abort_s = limit_s}, .rank = rank, .ranks = world.size()},
                    {say, say, [&session] { session.abort(exit_code::kStalled); }});
  watchdog.connect(all_gather_text(world, watchdog.offer()), session.peer_link());
  const auto watched = with_waits_noted(world.duplicate(), watchdog);
  Training training({}, *watched, make_nccl_communicator(api, world, 60), &watchdog);
  for (int i = 0; i < 10000; ++i) training.step();
  throw std::runtime_error("nothing failed");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "checks";
  const std::string more = argc > 2 ? argv[2] : "";
  signal(SIGTERM, SIG_IGN);  // mpirun's, once a rank is gone: the others have a moment to tell what they see
  MpiSession session;
  const auto world = session.world();
  const auto api = make_real_nccl(c10::kCPU, current_stream);
  try {
    const uint64_t seed = draw_seed(*world);
    if (what == "checks") run_checks(*world, *api, more);
    if (what == "train") compare_trainings(*world, *api);
    if (what == "gpus") run_on_host_gpus(*world, seed);
    if (what == "limited") sum_until_it_fails(*world, *api, std::stod(more));
    if (what == "waiting") reduce_until_it_fails(*world, seed, std::stod(more));
    if (what == "measuring") measure_until_it_fails(*world, seed, std::stod(more));
    if (what == "watched") train_until_it_fails(session, *world, *api, std::stod(more));
    if (world->rank() == 0) std::printf("%s passed on %d ranks\n", what.c_str(), world->size());
    session.finalize();
    return 0;
  } catch (const Error& failure) {
    std::fprintf(stderr, "rank %d ends with %d: %s\n", world->rank(), failure.code(), failure.what());
    session.lowest_failed_rank(3);
    session.abort(failure.code());
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), failure.what());
    session.abort(exit_code::kInternal);
  }
}
