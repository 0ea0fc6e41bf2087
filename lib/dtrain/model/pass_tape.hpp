#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtrain {

/// What one forward pass reads and makes, operator by operator: enough to compute what it and its backward pass hold in
/// memory (train/memory_plan.hpp). The template that computes a network writes it (sketch.hpp).
struct PassTape {
  enum class Op {
    convolution,  ///< transposed ones too; may read several values, whose channels follow one another
    norm,
    relu,          ///< in place
    relu_of_norm,  ///< in place, one node with the norm before it (fused_layers.hpp): nothing kept, no gradient of its
                   ///< own
    // One node with the norm and the ReLU before it: what that reads is kept, what it makes is not.
    norm_convolution,  ///< what is rectified is scratch, on the way back too
    norm_max_pool,     ///< a byte for each value of its result is kept
    max_pool,
    average_pool,
    global_pool,
    upsample,
    concat,
    add,  ///< in place: the second value to the first
    flatten,
    dropout,
    linear,
    // Of a block that is computed as one slab (dense_slab.hpp): the slab is one value, which its layers change.
    slab,        ///< from what its first channels are
    slab_layer,  ///< in place
    slab_end,    ///< what leaves it
  };
  struct Step {
    Op op = Op::relu;
    std::vector<size_t> reads;  ///< numbers of values
    size_t makes = 0;           ///< number of a value; in place: the first that it reads
    int64_t weights = 0;        ///< floats of the kernel or matrix
    int64_t kept = 0;           ///< floats for one picture that wait for the way back, besides values
    int64_t scratch = 0;    ///< floats for one picture that are needed while the step runs; a slab's twice in backward
    int64_t workspace = 0;  ///< likewise, whatever the number of pictures; where pixels are float32
  };

  std::vector<int64_t> values;  ///< floats of each for one picture; value 0 is the picture
  std::vector<Step> steps;
};

}  // namespace dtrain
