// Autocast on the host's GPU, by the lists that LibTorch has for every GPU: which operators compute in 16 bits, and
// which in float32.
#include "dtrain/model/autocast.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "support/host_gpu/streams.hpp"

namespace dtrain::test {

void register_host_gpu_autocast() {
  constexpr auto kKey = c10::DispatchKey::AutocastPrivateUse1;
  static auto* others = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  others->fallback(torch::CppFunction::makeFallthrough());
  static auto* operators = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  using namespace at;              // LibTorch's macros want its names
  torch::Library& m = *operators;  // and this one
#define DTRAIN_IN_16_BITS(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define DTRAIN_IN_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define DTRAIN_INTO_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define DTRAIN_IN_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(DTRAIN_IN_16_BITS)
  AT_FORALL_FP32(DTRAIN_IN_FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(DTRAIN_INTO_FLOAT32)
  AT_FORALL_PROMOTE(DTRAIN_IN_WIDEST)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#undef DTRAIN_IN_16_BITS
#undef DTRAIN_IN_FLOAT32
#undef DTRAIN_INTO_FLOAT32
#undef DTRAIN_IN_WIDEST
}

}  // namespace dtrain::test
