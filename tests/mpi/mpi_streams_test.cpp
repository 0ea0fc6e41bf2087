// Whole trainings on GPUs that are host memory (tests/support/host_gpu), with gradients by the program's calls of NCCL
// on the tests' own libnccl.so.2: the trainer, the loader's copies, the cache on the device and the reducer run through
// their real stream code.
//
//   mpirun -np N test_mpi_streams [NAME …]    these settings; without a name all but the large networks
//   mpirun -np N test_mpi_streams costs NAME …    what a step costs the host, without comparing anything
//
// Each setting, with passes one by one and as recorded graphs, ends with the result of N ranks on the CPU that talk by
// MPI (fused ones: on GPUs), and with that of one process, however the streams were delayed; and no two pieces of work
// used the same memory without an order between them (WorkOrder).
// The seed of the delays is printed; DTRAIN_SEED repeats them. DTRAIN_REPEATS: trainings on the GPU for each setting.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "dtrain/base/time.hpp"
#include "dtrain/cuda/real_nccl.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/mpi_session.hpp"
#include "dtrain/dist/nccl_communicator.hpp"
#include "support/host_gpu/host_gpu.hpp"
#include "support/host_gpu/order.hpp"
#include "support/host_gpu/streams.hpp"
#include "support/nccl/stand_in.hpp"
#include "whole_training.hpp"

using namespace dtrain;
using test::TrainingSetting;
using test::WholeTraining;

namespace {

constexpr double kLimit_s = 60;  // of a wait for NCCL

const std::vector<TrainingSetting>& settings() {
  static const std::vector<TrainingSetting> kSettings{
      // Buckets of measured size, updated one by one while backward goes on.
      {.name = "small_cnn", .network = network_kind("small_cnn"), .samples = 37, .bucket_mb = 0, .dropout = 0.5},
      // Whatever works on batches and between updates.
      {.name = "cached",
       .network = network_kind("small_cnn"),
       .samples = 45,
       .accumulate = 2,
       .cache = true,
       .dropout = 0.5,
       .mixup = 0.4,
       .l2_kernels = 1e-4,
       .ema = 0.9},
      // Masks, sums over the whole batch, statistics of norms, updates all at once, and norms that thaw.
      {.name = "unet",
       .network = network_kind("unet"),
       .samples = 51,
       .cache = true,
       .clip_norm = 1,
       .optimizer = optimizer_kind("sgd"),
       .loss = loss_kind("bce_dice"),
       .frozen = "down.*"},
      // Norms of the device's own.
      {.name = "fused", .network = network_kind("unet"), .samples = 51, .fused = true},
      {.name = "resnet50", .network = network_kind("resnet50"), .samples = 51, .bucket_mb = 2, .by_name_only = true},
      {.name = "densenet121",
       .network = network_kind("densenet121"),
       .samples = 51,
       .bucket_mb = 2,
       .by_name_only = true},
      {.name = "fused_densenet121",
       .network = network_kind("densenet121"),
       .samples = 51,
       .bucket_mb = 2,
       .fused = true,
       .by_name_only = true},
      {.name = "fused_resnet50",
       .network = network_kind("resnet50"),
       .samples = 51,
       .bucket_mb = 2,
       .fused = true,
       .by_name_only = true},
  };
  return kSettings;
}

void expect(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

// One seed for all ranks, for the delays of streams and of NCCL.
uint64_t draw_seed(Communicator& world) {
  const char* given = std::getenv("DTRAIN_SEED");
  const auto now = std::chrono::system_clock::now().time_since_epoch().count() / 1000 % 1000000;
  const std::string seed = broadcast_text(world, given != nullptr ? given : std::to_string(now));
  setenv("DTRAIN_STAND_IN_NCCL", ("seed=" + seed + ",pause_us=50").c_str(), 1);
  if (world.rank() == 0) std::printf("DTRAIN_SEED=%s, %s\n", seed.c_str(), dtrain_stand_in_nccl());
  return std::stoull(seed);
}

// Ends all ranks if one has seen work that nothing orders.
void require_order(Communicator& world, const std::string& name) {
  const std::vector<std::string> faults = test::WorkOrder::all().take_faults();
  for (const std::string& fault : faults)
    std::fprintf(stderr, "rank %d, %s: %s\n", world.rank(), name.c_str(), fault.c_str());
  expect(!any(world, !faults.empty()), name + ": work that uses the same memory is ordered");
}

// Sums run beside backward, recorded or not, and batches are copied and finished beside the network's work.
void require_overlap(Communicator& world) {
  auto by_stream = test::WorkOrder::all().counts();
  const auto network = by_stream.extract(0).mapped();
  std::vector<std::string> beside = {"finish pictures", "finish masks"};
  if (world.size() > 1) beside.insert(beside.end(), {"sum", "ncclSend", "ncclRecv", "ncclAllGather"});
  for (const std::string& what : beside) {
    const bool issued = std::ranges::any_of(by_stream, [&](const auto& one) { return one.second.contains(what); });
    expect(issued && !network.contains(what), what + " runs, and on another stream than the network");
  }
  expect(any(world, test::HostGpuStreams::all().waits_in_graphs > 0), "sums begin where a graph has filled a bucket");
}

std::unique_ptr<Communicator> gradient_comm(Communicator& world, NcclApi& api) {
  return world.size() == 1 ? world.duplicate() : make_nccl_communicator(api, world, kLimit_s);
}

// How often any graph was.
int64_t replayed() { return test::WorkOrder::all().counts()[0]["another graph"]; }

// The result of ranks that talk by MPI, which is that of one process.
std::string wanted_of(const TrainingSetting& setting, Communicator& world, const Device& device) {
  const std::string wanted = WholeTraining(setting, device, world, world.duplicate()).run();
  std::string alone = wanted;
  if (world.size() > 1 && world.rank() == 0) {
    const auto serial = make_serial_communicator();
    alone = WholeTraining(setting, device, *serial, serial->duplicate()).run();
  }
  expect(broadcast_text(world, alone) == wanted, setting.name + ": the result does not depend on the ranks");
  return wanted;
}

void run_setting(TrainingSetting setting, Communicator& world, const Device& gpu, NcclApi& api, int repeats) {
  std::string wanted;
  for (const bool graphs : {false, true}) {
    const std::string name = setting.name + (graphs ? ", graphs" : "");
    setting.graphs = graphs;
    const Stopwatch by_mpi;
    if (wanted.empty() || setting.dropout > 0) {
      if (graphs) setting.dropout = 0;
      wanted = wanted_of(setting, world, setting.fused ? gpu : Device{});
    }
    const double mpi_s = by_mpi.seconds();
    const int64_t replays = replayed();
    const Stopwatch on_gpus;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const std::string found = WholeTraining(setting, gpu, world, gradient_comm(world, api)).run();
      require_order(world, name);
      expect(!any(world, found != wanted), name + ": by NCCL " + found + " comes out, and by MPI " + wanted);
    }
    expect((replayed() > replays) == graphs, name + ": graphs are replayed where they are wanted");
    if (world.rank() == 0)
      std::printf("%-18s %d ranks: %s; MPI %.2f s, NCCL %.2f s each\n", name.c_str(), world.size(), wanted.c_str(),
                  mpi_s, on_gpus.seconds() / repeats);
  }
}

// What the host of the first rank does for a step after the first few: for its own passes, for the sums, the update and
// the next batches.
void tell_costs(TrainingSetting setting, Communicator& world, const Device& gpu, NcclApi& api) {
  setting.samples = 6 * WholeTraining::kLogicalRanks * setting.per_rank * setting.accumulate;
  setting.frozen.clear();
  const test::HostCosts& costs = test::HostGpuStreams::all().costs;
  WholeTraining training(setting, gpu, world, gradient_comm(world, api));
  training.take_steps(4);
  const int64_t launches = costs.launches, copies = costs.copies, bytes = costs.copy_bytes, waits = costs.waits;
  training.take_steps(1);
  if (world.rank() == 0)
    std::printf("%-12s %ld of %ld logical ranks: %ld launches, %ld copies with the host of %.3f MB, %ld waits\n",
                setting.name.c_str(), part_of(WholeTraining::kLogicalRanks, world.size(), 0).size(),
                WholeTraining::kLogicalRanks, costs.launches - launches, costs.copies - copies,
                static_cast<double>(costs.copy_bytes - bytes) / 1e6, costs.waits - waits);
}

void require_known(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    expect(name == "costs" || std::ranges::any_of(settings(), [&](const auto& one) { return one.name == name; }),
           name + " is no setting");
}

bool is_among(const std::string& name, const std::vector<std::string>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + 1, argv + argc);
  MpiSession session;
  const auto world = session.world();
  try {
    require_known(names);
    const uint64_t seed = draw_seed(*world);
    const Device gpu = test::make_host_gpu(seed + 1000 * static_cast<uint64_t>(world->rank()), 30);
    const auto api = test::ordered_nccl(make_real_nccl(gpu.place.type(), test::host_gpu_stream));
    const char* given = std::getenv("DTRAIN_REPEATS");
    const int repeats = given != nullptr ? std::stoi(given) : world->size() > 1 ? 2 : 1;  // the second in used memory
    if (is_among("costs", names)) {
      for (const TrainingSetting& setting : settings())
        if (is_among(setting.name, names)) tell_costs(setting, *world, gpu, *api);
      session.finalize();
      return 0;
    }
    for (const TrainingSetting& setting : settings())
      if (names.empty() ? !setting.by_name_only : is_among(setting.name, names))
        run_setting(setting, *world, gpu, *api, repeats);
    if (names.empty()) require_overlap(*world);
    session.finalize();
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), failure.what());
    session.abort(70);
  }
}
