#pragma once
#include <ATen/core/Tensor.h>

namespace dtrain {

/// A tensor on its way to or from another rank. Contiguous; of any device the communicator's transport can reach.
struct Message {
  int peer = 0;
  at::Tensor data;
};

}  // namespace dtrain
