#pragma once
#include <cstdint>

#include "dtrain/model/pass_tape.hpp"

namespace dtrain {

/// What a training process is to hold.
struct MemoryNeeds {
  int64_t parameters = 0;        ///< floats
  int64_t buffers = 0;           ///< floats of BatchNorm's statistics
  int64_t states = 0;            ///< tensors for each parameter: state_names() of the optimizer, and the moving average
  int64_t gradient_buffers = 1;  ///< of the process's logical ranks: most_fold_buffers()
  int64_t pictures = 1;          ///< of a pass
  int64_t target_values = 0;     ///< floats of one picture's target
  int64_t batches_ahead = 2;     ///< that the loader makes: data.loader.prefetch; 0: it makes one on demand
  int64_t value_bytes = 4;       ///< of what operators pass on: 2 with bf16 and fp16
};

/// Megabytes (1e6 bytes) of one process, found by simulating a step: every tensor of the forward pass, what autograd
/// keeps of it, the gradients that backward makes and adds up, the copies of kernels that oneDNN allocates and frees,
/// and the batches of the loader, each placed and freed in order as in the memory of the program's tensors (BlockMap).
///
/// What autograd keeps of an operator is LibTorch 2.11's (derivatives.yaml): of convolution, pooling, linear and
/// BatchNorm their input; of ReLU, which works in place, its result; of max pooling 8 bytes more for each value of its
/// result, where the maximum was (in one node with its norm: one byte, and nothing rectified; norms are taken as
/// trained, frozen ones keep more); of dropout its mask; of concatenation, addition, means and enlargement nothing.
struct MemoryPlan {
  double weights_mb = 0;  ///< parameters, gradients, state of the optimizer
  double pass_mb = 0;     ///< what batches and passes need beyond them
  double held_mb = 0;     ///< of both, the most that tensors hold at one time: the rest are gaps between them
  double saving_mb = 0;   ///< what the process that saves needs in addition, until a checkpoint is read back
};
MemoryPlan plan_memory(const PassTape& tape, const MemoryNeeds& needs);

/// What a process needs before its first tensor, in megabytes: the program and LibTorch, as far as they are read, with
/// MPI if there are several processes; and the code that oneDNN generates for each convolution's passes. Measured
/// (docs/performance.md), on the CPU.
double program_mb(const PassTape& tape, int64_t processes);

}  // namespace dtrain
