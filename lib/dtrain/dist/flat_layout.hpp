#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dtrain/base/shards.hpp"

namespace dtrain {

/// Where each of many tensors is in one flat buffer. Parameters, gradients and optimizer state share one layout, so
/// that an update, a sum or a hash is one pass over memory, and `.grad` is a view: nothing is copied in or out.
/// Each tensor keeps its shape and strides (channels-last kernels stay so) and begins at a multiple of 256 bytes of the
/// buffer, as in memory of its own from an allocator: a GPU's library may choose another kernel for less, and tensors
/// may change places. The gaps hold zeros, which every optimizer keeps at zero.
class FlatLayout {
 public:
  /// Lays out tensors like these, in this order. They must be dense (no gaps, no overlap) and of one type.
  explicit FlatLayout(const std::vector<at::Tensor>& like);

  int64_t numel() const { return numel_; }  ///< of the flat buffer, gaps included
  size_t size() const { return places_.size(); }
  /// Elements of the flat buffer that belong to tensor i, its gap included.
  Range range(size_t i) const;
  /// Tensor i inside `flat` ([numel()], any device and type): shares its memory.
  at::Tensor view(const at::Tensor& flat, size_t i) const;

 private:
  struct Place {
    int64_t begin;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  std::vector<Place> places_;
  int64_t numel_ = 0;
};

}  // namespace dtrain
