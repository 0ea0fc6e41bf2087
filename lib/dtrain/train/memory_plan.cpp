#include "dtrain/train/memory_plan.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "dtrain/base/block_map.hpp"

namespace dtrain {
namespace {

using Op = PassTape::Op;

constexpr int64_t kFloat = 4;
constexpr int64_t kIndex = 8;  // bytes of a maximum's index in its window

/// Where tensors come to lie, as device/tensor_memory places them. No memory is allocated.
class Heap {
 public:
  /// A tensor, whose place is free again when its last holder is gone. The heap outlives it.
  class Piece {
   public:
    Piece(BlockMap& map, int64_t bytes) : map_(map), offset_(map.take(bytes)) {}
    ~Piece() { map_.give_back(offset_); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    BlockMap& map_;
    int64_t offset_;
  };
  using Held = std::shared_ptr<const Piece>;

  Held take(int64_t bytes) {
    constexpr int64_t kBefore = 64;  // the line that says whose block it is
    return std::make_shared<const Piece>(map_, bytes + kBefore);
  }
  const BlockMap& map() const { return map_; }

 private:
  BlockMap map_;
};
using Held = Heap::Held;

bool convolves(const PassTape::Step& step) { return step.op == Op::convolution || step.op == Op::norm_convolution; }

/// Simulates the memory of one forward and backward pass.
class Rehearsal {
 public:
  Rehearsal(const PassTape& tape, const MemoryNeeds& needs, Heap& heap)
      : tape_(tape), needs_(needs), heap_(heap), last_read_(tape.values.size(), 0) {
    for (size_t i = 0; i < tape.steps.size(); ++i) {
      last_read_[tape.steps[i].makes] = i;
      for (const size_t value : tape.steps[i].reads) last_read_[value] = i;
    }
  }

  void run(Held images) {
    values_.assign(tape_.values.size(), nullptr);
    gradients_.assign(tape_.values.size(), {});
    kept_.assign(tape_.steps.size(), {});
    values_[0] = std::move(images);
    for (size_t i = 0; i < tape_.steps.size(); ++i) forward(i);
    judge();
    for (size_t i = tape_.steps.size(); i-- > 0;) backward(i);
    values_.clear();
  }

 private:
  /// A value's gradient, as far as it has been added up.
  struct Gradient {
    Held memory;
    bool whole = true;  ///< false: it is a slice of a concatenation's gradient
  };

  // Picture and logits are floats at every precision.
  int64_t bytes_of(size_t value) const {
    const bool in_floats = value == 0 || value == logits();
    return tape_.values[value] * needs_.pictures * (in_floats ? kFloat : needs_.value_bytes);
  }

  static bool in_place(Op op) {
    return op == Op::relu || op == Op::relu_of_norm || op == Op::add || op == Op::slab_layer;
  }

  Held scratch(const PassTape::Step& step, int64_t times) {
    return step.scratch > 0 ? heap_.take(times * step.scratch * needs_.pictures * kFloat) : nullptr;
  }

  size_t logits() const { return tape_.steps.back().makes; }

  // oneDNN copies convolution kernels into its own layout while the operator runs; others have their workspace.
  void reorder(const PassTape::Step& step) {
    const bool by_ours = step.workspace > 0 && needs_.value_bytes == kFloat;
    const Held copy = by_ours           ? heap_.take(step.workspace * kFloat)
                      : convolves(step) ? heap_.take(step.weights * kFloat)
                                        : nullptr;
  }

  void forward(size_t i) {
    const PassTape::Step& step = tape_.steps[i];
    if (!in_place(step.op)) values_[step.makes] = heap_.take(bytes_of(step.makes));
    reorder(step);
    const Held while_it_runs = scratch(step, 1);
    keep(i);
    const auto leave = [&](size_t value) {
      if (last_read_[value] == i && value != logits()) values_[value] = nullptr;
    };
    leave(step.makes);
    for (const size_t value : step.reads) leave(value);
  }

  // Keeps what the backward pass needs.
  void keep(size_t i) {
    const PassTape::Step& step = tape_.steps[i];
    const int64_t made = tape_.values[step.makes] * needs_.pictures;
    const bool rounds = needs_.value_bytes != kFloat && step.weights > 0;  // 16-bit operands are copies
    switch (step.op) {
      case Op::convolution:
      case Op::linear:
        for (const size_t value : step.reads)
          kept_[i].push_back(rounds && value == 0 ? heap_.take(tape_.values[0] * needs_.pictures * needs_.value_bytes)
                                                  : values_[value]);
        if (rounds) kept_[i].push_back(heap_.take(step.weights * needs_.value_bytes));
        break;
      case Op::norm_max_pool:
        kept_[i].push_back(heap_.take(made));
        kept_[i].push_back(values_[step.reads[0]]);
        break;
      case Op::max_pool:
        kept_[i].push_back(heap_.take(made * kIndex));
        [[fallthrough]];
      case Op::norm:
      case Op::norm_convolution:
      case Op::average_pool:
        kept_[i].push_back(values_[step.reads[0]]);
        break;
      case Op::relu:
        kept_[i].push_back(values_[step.makes]);
        break;
      case Op::dropout:
        kept_[i].push_back(heap_.take(made * kFloat));
        break;
      case Op::slab_layer:
        kept_[i].push_back(heap_.take(step.kept * needs_.pictures * kFloat));
        [[fallthrough]];
      case Op::slab:
        kept_[i].push_back(values_[step.makes]);
        break;
      case Op::slab_end:
        kept_[i].push_back(values_[step.reads[0]]);
        break;
      case Op::global_pool:
      case Op::upsample:
      case Op::concat:
      case Op::add:
      case Op::flatten:
      case Op::relu_of_norm:
        break;
    }
  }

  // The loss: each logit's term and an intermediate value, then the logits' gradient. The logits stay until the end.
  void judge() {
    const int64_t bytes = bytes_of(logits());
    const Held terms = heap_.take(bytes), partial = heap_.take(bytes);
    gradients_[logits()] = {heap_.take(bytes), true};
  }

  void backward(size_t i) {
    const PassTape::Step& step = tape_.steps[i];
    Gradient given = std::exchange(gradients_[step.makes], {});
    if (step.op == Op::add || step.op == Op::relu_of_norm) return pass_on(step, given);
    const Held while_it_runs = scratch(step, step.op == Op::slab_layer || step.op == Op::slab_end ? 2 : 1);
    if (step.op == Op::slab_layer) {
      const Held gradient = heap_.take(step.weights * kFloat);
      reorder(step);
      kept_[i].clear();
      return receive(step.makes, std::move(given));
    }
    if (step.op == Op::concat) {
      given.whole = false;
      return pass_on(step, given);
    }
    if (!given.whole) given = {heap_.take(bytes_of(step.makes)), true};  // operators want it dense
    std::vector<Gradient> made(step.reads.size());
    for (size_t k = 0; k < made.size(); ++k) {
      if (step.reads[k] != 0) made[k].memory = heap_.take(bytes_of(step.reads[k]));  // pictures need no gradient
    }
    if (made.back().memory) reorder(step);
    if (step.weights > 0) {  // computed into its own memory, then added to the parameter's
      const Held gradient = heap_.take(step.weights * kFloat);
      const Held in_order = convolves(step) ? heap_.take(step.weights * kFloat) : nullptr;  // of oneDNN's copy
      reorder(step);
    }
    given = {};
    kept_[i].clear();
    for (size_t k = 0; k < made.size(); ++k) receive(step.reads[k], std::move(made[k]));
  }

  void pass_on(const PassTape::Step& step, const Gradient& given) {
    for (const size_t value : step.reads) receive(value, given);
  }

  // Gradients of one value are added in place if nothing else holds the first.
  void receive(size_t value, Gradient given) {
    if (value == 0) return;
    Gradient& sum = gradients_[value];
    if (!sum.memory) {
      sum = std::move(given);
    } else if (!sum.whole || sum.memory.use_count() > 1) {
      sum = {heap_.take(bytes_of(value)), true};
    }
  }

  const PassTape& tape_;
  const MemoryNeeds& needs_;
  Heap& heap_;
  std::vector<size_t> last_read_;  // for each value: the last step that reads it
  std::vector<Held> values_;
  std::vector<Gradient> gradients_;
  std::vector<std::vector<Held>> kept_;  // by step
};

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

/// Bytes of the network's tensors, one by one; those that the tape does not show as one.
std::vector<int64_t> weight_sizes(const PassTape& tape, const MemoryNeeds& needs) {
  std::vector<int64_t> sizes;
  int64_t rest = (needs.parameters + needs.buffers) * kFloat;
  for (const PassTape::Step& step : tape.steps) {
    const int64_t bytes = step.weights * kFloat;
    if (bytes == 0 || bytes > rest) continue;
    sizes.push_back(bytes);
    rest -= bytes;
  }
  if (rest > 0) sizes.push_back(rest);
  return sizes;
}

/// The network's tensors are made one by one, copied into the layout for computing, and then all copied into one flat
/// tensor; they leave gaps of their sizes.
Held flat_weights(const std::vector<int64_t>& sizes, const MemoryNeeds& needs, Heap& heap) {
  std::vector<Held> tensors;
  for (const int64_t size : sizes) tensors.push_back(heap.take(size));
  for (size_t i = 0; i < sizes.size(); ++i) tensors[i] = heap.take(sizes[i]);
  return heap.take((needs.parameters + needs.buffers) * kFloat);
}

/// Copies for the best weights' file and for a checkpoint, tensor by tensor.
std::vector<Held> copies_to_save(const std::vector<int64_t>& sizes, const MemoryNeeds& needs, Heap& heap) {
  std::vector<Held> copies;
  for (int64_t i = 0; i < 2 + needs.states; ++i)
    for (const int64_t size : sizes) copies.push_back(heap.take(size));
  return copies;
}

struct Reach {
  double weights_mb = 0;
  double all_mb = 0;
  double held_mb = 0;
  double saving_mb = 0;
};

Reach rehearse(const PassTape& tape, const MemoryNeeds& needs) {
  Heap heap;
  const int64_t weights = needs.parameters * kFloat;
  const int64_t buffers = needs.buffers * kFloat;
  const std::vector<int64_t> sizes = weight_sizes(tape, needs);
  std::vector<Held> stay{flat_weights(sizes, needs, heap)};
  for (int64_t i = 0; i < needs.states; ++i) stay.push_back(heap.take(weights));
  for (int64_t i = 0; i < needs.gradient_buffers; ++i) stay.push_back(heap.take(weights + buffers));
  Reach reach;
  reach.weights_mb = megabytes(heap.map().held());

  std::deque<Held> ahead;
  const auto add_batch = [&] {
    ahead.push_back(heap.take((tape.values[0] + needs.target_values) * needs.pictures * kFloat));
  };
  for (int64_t i = 0; i < needs.batches_ahead; ++i) add_batch();
  Rehearsal rehearsal(tape, needs, heap);
  const auto pass = [&] {
    add_batch();
    const Held batch = std::move(ahead.front());
    ahead.pop_front();
    rehearsal.run(batch);
  };
  pass();
  heap.take(weights);  // and freed at once: parameters get a new order after the first step
  pass();
  pass();
  reach.all_mb = megabytes(heap.map().reach());
  reach.held_mb = megabytes(heap.map().most_held());

  const std::vector<Held> copies = copies_to_save(sizes, needs, heap);
  pass();
  reach.saving_mb = megabytes(heap.map().reach()) - reach.all_mb;
  return reach;
}

}  // namespace

MemoryPlan plan_memory(const PassTape& tape, const MemoryNeeds& needs) {
  const Reach reach = rehearse(tape, needs);
  return {reach.weights_mb, reach.all_mb - reach.weights_mb, reach.held_mb, reach.saving_mb};
}

double program_mb(const PassTape& tape, int64_t processes) {
  constexpr double kProgram = 165;
  constexpr double kMpi = 15;
  constexpr double kKernels = 0.3;  // one convolution's code: forward, and backward to input and weights
  const auto convolutions = std::count_if(tape.steps.begin(), tape.steps.end(), convolves);
  return kProgram + (processes > 1 ? kMpi : 0) + kKernels * static_cast<double>(convolutions);
}

}  // namespace dtrain
