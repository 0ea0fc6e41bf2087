#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <vector>

#include "dtrain/base/error.hpp"
#include "dtrain/base/random.hpp"
#include "dtrain/model/layers.hpp"

namespace dtrain {

at::Tensor KeyedDropout::operator()(const at::Tensor& x) const {
  if (!is_training() || p_ == 0) return x;
  check(key_.has_value(), "set_random_key() comes before a forward pass in training mode of a network with dropout");
  std::vector<uint32_t> draws(static_cast<size_t>(x.numel()));
  KeyedRandom(key_->seed, Purpose::dropout, static_cast<uint64_t>(key_->step),
              static_cast<uint64_t>(key_->logical_rank))
      .fill(draws);
  const bool on_gpu = !x.is_cpu();  // which copies pinned memory while the host goes on
  at::Tensor mask = at::empty(x.sizes(), at::TensorOptions(at::kFloat).pinned_memory(on_gpu));
  float* place = mask.data_ptr<float>();
  const auto threshold = static_cast<uint64_t>(p_ * 0x1.0p32);
  const auto kept = static_cast<float>(1 / (1 - p_));
  for (const uint32_t draw : draws) *place++ = draw < threshold ? 0.0F : kept;
  return (x * mask.to(x.device(), on_gpu)).to(x.scalar_type());  // 1 / (1 - p) keeps its bits beside a 16-bit x
}

GraphValue KeyedDropout::operator()(const GraphValue& x) const { return x; }

Sketch KeyedDropout::operator()(const Sketch& x) const {
  x.list->add(*this, "dropout", x.shape);
  return x.through(PassTape::Op::dropout, x.shape);
}

}  // namespace dtrain
