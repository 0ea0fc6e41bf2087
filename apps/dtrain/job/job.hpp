#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtrain/base/log.hpp"
#include "dtrain/base/time.hpp"
#include "dtrain/config/experiment.hpp"
#include "dtrain/dist/communicator.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/dist/mpi_session.hpp"
#include "dtrain/watch/watchdog.hpp"
#include "job/device_choice.hpp"

namespace dtrain {

/// This process as a rank of its job: how it was started, MPI when there is any, and who may speak.
class Job {
 public:
  Job(const Launch& launch, LogLevel level);

  /// Starts the watchdog, then MPI if the configuration and the launcher ask for it; sets the intra-op threads and
  /// chooses the device. Without a launcher MPI is not touched: the job has one rank. Throws CommError; ConfigError for
  /// `backend: mpi` without a launcher, for processes that their launcher does not connect, and for a device that is
  /// not available.
  void start(const Experiment& experiment);
  /// Promises that each rank of the job will reach start(), or fail on the way. Without this promise a failing rank
  /// does not meet_others(): they may have left, as in a command that rank 0 does alone.
  void expect_all_ranks() { all_ranks_come_ = true; }
  /// For a command that rank 0 does alone: all ranks together, rank 0 when it has done it, the others at once. Under
  /// mpirun these wait in MPI_Init, mostly asleep, until rank 0 comes, or fails and abort()s them: had they left,
  /// mpirun would print its own message below that of rank 0. Elsewhere it does nothing.
  void wait_for_root();
  /// All ranks together, at the end of their work, with the code that they return. Does not return if mpirun would add
  /// its own message to that code.
  void finish(int code);
  /// What to do where this rank runs out of memory, a clause that end_in_failure() appends: kept here because nothing
  /// can be worked out then.
  void advise_on_memory(const std::string& clause) { memory_advice_ = clause; }
  const std::string& memory_advice() const { return memory_advice_; }
  /// This rank fails with that sentence: it and the others leave their flight records, if a run keeps them.
  void note_failure(const std::string& sentence);
  /// True if this failing rank is to report what happened: rank 0 at once, another one if within 3 s neither rank 0 has
  /// ended the job nor a lower rank has failed. All ranks that fail call it, any number of them.
  bool may_tell_failure();
  /// For a rank that has failed before start(): starts MPI, if mpirun started the ranks and all of them are expected,
  /// so that abort() can end the job without mpirun's ten lines about a rank that left. Waits for the others for 5 s at
  /// most.
  void meet_others();
  /// Ends all ranks with `code`.
  [[noreturn]] void abort(int code);

  /// Between all ranks, for host memory.
  Communicator& comm() { return *comm_; }
  /// A new channel for sums of gradients: NCCL between GPUs, otherwise comm()'s kind. All ranks call it
  /// together.
  std::unique_ptr<Communicator> gradient_comm(Reduction reduction);
  const Device& device() const { return device_.device; }
  /// Of this rank's GPU; "" on a CPU.
  const std::string& gpu_uuid() const { return device_.gpu_uuid; }
  /// Facts of the device on which the result depends: {"device", "cpu" or the GPU's name}, on a GPU the versions of
  /// CUDA and NCCL too, and gpu_facts(). Asked for once, at the start: a GPU may hang later.
  std::map<std::string, std::string> device_facts() const { return device_facts_; }
  /// Why the CPU computes although the configuration would allow a GPU, one clause; "" otherwise.
  const std::string& why_cpu() const { return device_.why_cpu; }
  /// Ends the job with one rank's last line and 76 when it has stalled for distributed.watchdog.abort.
  Watchdog& watchdog() { return *watchdog_; }
  bool is_root() const { return rank() == 0; }
  int rank() const { return comm_ ? comm_->rank() : launch_.rank; }
  int size() const { return comm_ ? comm_->size() : launch_.size; }
  bool launched() const { return launch_.launched; }
  const Launch& launch() const { return launch_; }
  /// MPI has been started here, or is being started: the process may end only by finish() or abort().
  bool uses_mpi() const { return mpi_ != nullptr || mpi_begins_; }
  /// Seconds since this object was made, at the program's start.
  double seconds() const { return since_start_.seconds(); }
  /// mpirun started this process and leaves it one second between TERM and KILL.
  bool under_mpirun() const { return launch_.by_mpirun; }
  Log& log() { return log_; }
  const Log& log() const { return log_; }
  /// "rank 2 @ node17"
  std::string name() const;

  /// Cores that this rank can use: those it is bound to, of these on a GPU the ones near it, divided among the ranks
  /// bound to the same ones; at least 1.
  int64_t cores() const { return cores_; }

  /// One row per rank: rank, host, local rank, device, cores.
  std::vector<std::map<std::string, std::string>> table();

 private:
  void take_device(const Experiment& experiment, int local_rank);
  void take_cores();
  int64_t share_of(const std::vector<int>& cores);
  [[noreturn]] void end_stalled();

  Stopwatch since_start_;
  Launch launch_;
  Log log_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<MpiSession> mpi_;
  std::unique_ptr<Communicator> comm_;
  DistributedOptions options_;
  ChosenDevice device_;
  std::map<std::string, std::string> device_facts_;
  int64_t cores_ = 1;
  std::string memory_advice_;
  bool all_ranks_come_ = false;
  bool mpi_begins_ = false;  // in meet_others()
};

}  // namespace dtrain
