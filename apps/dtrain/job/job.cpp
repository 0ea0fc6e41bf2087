#include "job/job.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "dtrain/base/error.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/device/device.hpp"
#include "dtrain/device/gpu_facts.hpp"
#include "dtrain/dist/checked_communicator.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/nccl_communicator.hpp"
#include "dtrain/dist/watched_communicator.hpp"
#include "job/failure.hpp"

namespace dtrain {

Job::Job(const Launch& launch, LogLevel level)
    : launch_(launch),
      log_(level, launch.rank == 0 ? "" : "rank " + std::to_string(launch.rank) + " @ " + host_name()) {}

// Tasks that cannot find each other would all be rank 0 of 1 and write one run folder.
static void require_connected_tasks(const Launch& launch) {
  if (launch.lone_task)
    throw ConfigError("srun started " + std::to_string(launch.size) +
                      " tasks without the PMIx that connects them: each would be rank 0 of 1 and write the same run "
                      "folder; start with srun --mpi=pmix (srun --mpi=list shows what there is) or with mpirun");
}

static void require_world(const Launch& launch, int world_size) {
  if (world_size == 1 && launch.size > 1)
    throw ConfigError("the launcher started " + std::to_string(launch.size) +
                      " processes, but MPI connects none of them: it belongs to a different MPI than " +
                      MpiSession::library_version() + "; start with this one's mpirun, or srun --mpi=pmix");
}

void Job::start(const Experiment& experiment) {
  const DistributedOptions& options = options_ = experiment.distributed;
  at::set_num_threads(static_cast<int>(options.threads));
  const bool alone = launch_.size == 1 || options.backend == Backend::serial;
  watchdog_ = std::make_unique<Watchdog>(
      Watchdog::Options{
          .limits = options.watchdog, .rank = launch_.rank, .ranks = alone ? 1 : launch_.size, .host = host_name()},
      Watchdog::Handlers{
          warn_of_stall,
          [rank_name = alone ? "" : name()](const std::string& sentence) { tell_stall(rank_name, sentence); },
          [this] { end_stalled(); }});
  require_connected_tasks(launch_);
  if (options.backend == Backend::mpi && !launch_.launched)
    throw ConfigError(
        "distributed.backend is mpi, but no launcher started this process; start with mpirun -np N dtrain … or leave "
        "the key out");
  if (options.backend == Backend::serial && launch_.size > 1)
    throw ConfigError("distributed.backend is serial, but the launcher started " + std::to_string(launch_.size) +
                      " processes; leave the key out or start one");
  if (!launch_.launched || options.backend == Backend::serial) {
    comm_ = make_serial_communicator();
    if (launch_.slurm_tasks && *launch_.slurm_tasks > 1)
      log_.warning("this process runs alone inside a Slurm job of " + std::to_string(*launch_.slurm_tasks) +
                   " tasks; start it with srun --mpi=pmix or mpirun");
    take_device(experiment, 0);
    return;
  }
  if (launch_.old_pmi && launch_.rank == 0)
    log_.warning(
        "srun offers PMI-2 where Open MPI wants PMIx; if Open MPI stops here, start with srun --mpi=pmix or mpirun");
  {
    const Watchdog::Wait for_the_others(*watchdog_);
    mpi_ = std::make_unique<MpiSession>(options.intra_host);
  }
  comm_ = with_waits_noted(make_checked(mpi_->world()), *watchdog_);
  require_world(launch_, comm_->size());
  watchdog_->connect(all_gather_text(*comm_, watchdog_->offer()), mpi_->peer_link());
  take_device(experiment, mpi_->local_rank());
}

// On the watchdog's thread. srun takes the highest code of its tasks, and those that it kills itself have 137: only
// what MPI_Abort says comes through; and mpirun does not comment on it. It may hang if a peer does, so nothing waits
// for it.
void Job::end_stalled() {
  constexpr auto kPatience = std::chrono::seconds(1);
  if (mpi_ && (launch_.by_srun || launch_.by_mpirun)) {
    std::thread([session = mpi_.get()] { session->abort(exit_code::kStalled); }).detach();
    std::this_thread::sleep_for(kPatience);
  }
  std::_Exit(exit_code::kStalled);
}

static std::map<std::string, std::string> device_facts_of(const ChosenDevice& device) {
  GpuModule* module = device.device.module;
  if (module == nullptr) return {{"device", "cpu"}};
  std::map<std::string, std::string> facts = {{"device", device.name.substr(device.name.find(' ') + 1)},
                                              {"cuda", module->cuda_version()},
                                              {"nccl", module->nccl().version()}};
  facts.merge(gpu_facts(device.device.place.index()));
  return facts;
}

void Job::take_device(const Experiment& experiment, int local_rank) {
  device_ = choose_device(experiment, *comm_, local_rank);
  device_facts_ = device_facts_of(device_);
  if (device_.gpu_idle && is_root()) log_.warning("the CPU computes, because " + device_.why_cpu);
  take_cores();
}

// Of these cores, divided among the ranks of this host that have the same. All ranks call it together.
int64_t Job::share_of(const std::vector<int>& cores) {
  const std::string shared = host_name() + " " + core_ranges(cores);
  const auto sharers = std::ranges::count(all_gather_text(*comm_, shared), shared);
  return std::max<int64_t>(1, static_cast<int64_t>(cores.size()) / sharers);
}

// The cores near this rank's GPU, unless that leaves it fewer than it has. Before threads are started that shall run
// there.
void Job::take_cores() {
  const std::vector<int> bound = bound_cores();
  cores_ = share_of(bound);
  if (device_.device.module == nullptr) return;  // for all ranks, or for none
  const std::vector<int> near = cores_near(device_.pci);
  const std::vector<int> mine = cores_to_run_on(bound, near);
  const int64_t of_near = share_of(mine);
  if (mine != bound && of_near >= cores_ && run_on_cores(mine)) {
    cores_ = of_near;
    if (is_root()) log_.info("ranks run on the cores near their GPUs, here " + core_ranges(mine));
  }
  const bool far = !near.empty() && !std::ranges::includes(near, mine);
  const std::string warning = far ? name() + " is bound to the cores " + core_ranges(bound) + ", and its GPU is near " +
                                        core_ranges(near) +
                                        "; a launcher that binds nothing (mpirun --bind-to none, srun "
                                        "--cpu-bind=none) leaves the choice to dtrain"
                                  : "";
  const std::vector<std::string> warnings = all_gather_text(*comm_, warning);
  const auto first = std::ranges::find_if(warnings, [](const std::string& text) { return !text.empty(); });
  if (first != warnings.end() && launch_.launched && is_root()) log_.warning(*first);
}

std::unique_ptr<Communicator> Job::gradient_comm(Reduction reduction) {
  const bool wanted = options_.backend == Backend::automatic || options_.backend == Backend::nccl;
  // root_cpu adds up in rank 0's host memory, which NCCL cannot reach.
  if (device_.device.module == nullptr || !wanted || size() == 1 || reduction == Reduction::root_cpu)
    return comm_->duplicate();
  if (divide_a_gpu(all_gather_text(*comm_, host_name()), all_gather_text(*comm_, device_.pci))) {
    if (options_.backend == Backend::nccl)
      throw ConfigError(
          "distributed.backend is nccl, but ranks have parts of one GPU (MIG), between which NCCL does "
          "not run; distributed.backend: mpi does, or a whole GPU for each rank");
    if (is_root())
      log_.warning("gradients go by MPI, because ranks have parts of one GPU (MIG), between which NCCL does not run");
    return comm_->duplicate();
  }
  setenv("NCCL_RAS_ENABLE", "0", 0);     // otherwise every process listens on a port
  setenv("NCCL_COMM_BLOCKING", "0", 1);  // 1 would make calls wait without a limit
  // The watchdog names the rank that is behind; NCCL's own limit is for when it cannot.
  return make_nccl_communicator(device_.device.module->nccl(), *comm_, 3 * options_.watchdog.abort_s + 30,
                                reduction == Reduction::ring);
}

void Job::wait_for_root() {
  if (launch_.by_mpirun && launch_.size > 1) mpi_ = std::make_unique<MpiSession>();
}

void Job::finish(int code) {
  if (!mpi_) return;
  if (comm_) {
    watchdog_->enter(Section::finish, 0);
    barrier(*comm_);
    watchdog_->disconnect();
  }
  if (code != exit_code::kDone && launch_.by_mpirun) {  // 75 is already reported; mpirun would call it a failure
    std::fflush(nullptr);
    mpi_->abort(code);
  }
  mpi_->finalize();
}

void Job::meet_others() {
  constexpr auto kPatience = std::chrono::seconds(5);
  const bool all_come = all_ranks_come_ || launch_.size == 1;
  if (!launch_.by_mpirun || !all_come || mpi_begins_ || MpiSession::started()) return;
  mpi_begins_ = true;
  const auto session = std::make_shared<std::promise<std::unique_ptr<MpiSession>>>();
  auto met = session->get_future();
  const auto start = [session] {
    try {
      session->set_value(std::make_unique<MpiSession>());
    } catch (...) {
      session->set_value(nullptr);
    }
  };
  try {
    std::thread(start).detach();  // abandoned if a rank never comes
  } catch (const std::system_error&) {
    return;  // no thread can be started
  }
  if (met.wait_for(kPatience) == std::future_status::ready) mpi_ = met.get();
}

void Job::note_failure(const std::string& sentence) {
  if (watchdog_) watchdog_->note_failure(sentence);
}

bool Job::may_tell_failure() {
  constexpr int kPatience = 3;  // seconds
  if (mpi_) return mpi_->lowest_failed_rank(kPatience) == rank();
  if (rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(kPatience));
  return true;
}

void Job::abort(int code) {
  if (mpi_) mpi_->abort(code);
  std::_Exit(code);
}

std::string Job::name() const { return "rank " + std::to_string(rank()) + " @ " + host_name(); }

std::vector<std::map<std::string, std::string>> Job::table() {
  const nlohmann::json mine = {{"rank", std::to_string(rank())},
                               {"host", host_name()},
                               {"local_rank", std::to_string(mpi_ ? mpi_->local_rank() : 0)},
                               {"device", device_.name},
                               {"cores", core_ranges(bound_cores())}};
  std::vector<std::map<std::string, std::string>> rows;
  for (const std::string& text : all_gather_text(*comm_, mine.dump()))
    rows.push_back(nlohmann::json::parse(text).get<std::map<std::string, std::string>>());
  return rows;
}

}  // namespace dtrain
