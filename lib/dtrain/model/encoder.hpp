#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/model/graph.hpp"
#include "dtrain/model/sketch.hpp"

namespace dtrain {

/// A network without its last layers, as the part of another that sees the picture first. Its tensors have the names
/// that they have in the whole network, so that the weights of one fit (load_weights()).
class Encoder : public Module {
 public:
  /// What it makes of pictures [n, C, H, W], sides being multiples of 2 to the number of maps: maps of H/2 × W/2, of
  /// H/4 × W/4 and so on, each after a ReLU. None is changed by making the next.
  virtual std::vector<at::Tensor> maps(const at::Tensor& images) const = 0;
  virtual std::vector<Sketch> maps(const Sketch& images) const = 0;
  virtual std::vector<GraphValue> maps(const GraphValue& images) const = 0;

  /// Channels of each of them.
  virtual std::vector<int64_t> widths() const = 0;

  /// Names of the tensors that the whole network has besides.
  virtual std::vector<std::string> unused() const = 0;
};

}  // namespace dtrain
