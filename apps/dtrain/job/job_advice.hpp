#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/advice/finding.hpp"
#include "dtrain/base/memory.hpp"
#include "job/picture_scan.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// What a job's processes are expected to need, in megabytes (1e6 bytes).
struct JobMemory {
  int64_t processes = 1;
  int64_t pictures = 1;         ///< of a pass: a full batch, unless the training part has less
  bool on_gpu = false;          ///< the GPU's memory then, without what CUDA itself takes
  bool freezes = false;         ///< optimizer.groups freeze layers, which are counted as if they trained
  double program_mb = 0;        ///< program, libraries, loader threads and the table of samples
  double weights_mb = 0;        ///< parameters, gradients, optimizer
  double pass_mb = 0;           ///< batches, activations and what backward makes
  double cache_mb = 0;          ///< data.loader.cache: of each process with device, of the host with ram
  bool shares_cache = false;    ///< ram
  double saving_mb = 0;         ///< more in rank 0 while a checkpoint is saved
  double peers_mb = 0;          ///< gradients of the host's other processes: counted here too, present once
  double picture_mb = 0;        ///< of pass_mb what each picture of a pass takes
  std::vector<double> gpus_mb;  ///< of the GPUs here
  MemoryBudget host;

  /// Resident memory at its peak while training, as epochs.csv has it (memory_peak_mb).
  double process_mb() const { return program_mb + weights_mb + pass_mb + peers_mb + cache_mb; }
};
JobMemory job_memory(const Experiment& experiment, const Plan& plan, const Network& network,
                     const PictureFacts& pictures, int64_t processes);

struct JobToJudge {
  const Experiment& experiment;
  const Plan& plan;
  const PictureFacts& pictures;  ///< of all samples, or some of them, or none
  const JobMemory& memory;
};
/// Everything that is worth a look, most important first: `dtrain check` lists it, and the banner of a training run
/// what matters most of it.
std::vector<Finding> all_findings(const JobToJudge& job);

/// Is this one of Split::warnings about a patient in two parts?
bool is_leak(const std::string& warning);

/// Pictures with equal pixels in more than one part, a sentence each: training data would be evaluated.
std::vector<std::string> content_leaks(const Plan& plan, const PictureFacts& pictures);

/// Pictures that occur more than once with different labels: one of the labels is wrong. Masks are not compared.
std::vector<std::string> contradictions(const Plan& plan, const PictureFacts& pictures);

}  // namespace dtrain
