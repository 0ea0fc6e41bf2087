#include "dtrain/dist/flat_layout.hpp"

#include <ATen/core/Tensor.h>

#include "dtrain/base/error.hpp"

namespace dtrain {

FlatLayout::FlatLayout(const std::vector<at::Tensor>& like) {
  constexpr int64_t kAlignment = 64;  // elements: 256 bytes of float32
  for (const at::Tensor& tensor : like) {
    check(tensor.is_non_overlapping_and_dense(), "a tensor of a flat layout is dense");
    places_.push_back({numel_, tensor.sizes().vec(), tensor.strides().vec()});
    numel_ += (tensor.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

Range FlatLayout::range(size_t i) const {
  return {places_[i].begin, i + 1 < places_.size() ? places_[i + 1].begin : numel_};
}

at::Tensor FlatLayout::view(const at::Tensor& flat, size_t i) const {
  return flat.as_strided(places_[i].sizes, places_[i].strides, flat.storage_offset() + places_[i].begin);
}

}  // namespace dtrain
