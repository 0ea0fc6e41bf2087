#include "dtrain/model/class_maps.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/matmul.h>

#include "dtrain/base/error.hpp"
#include "dtrain/model/network.hpp"

namespace dtrain {

at::Tensor class_activation_maps(const Network& network, const at::Tensor& maps) {
  check(network.ends_in_pooling(), "class activation maps are those of a network that ends in global average pooling");
  for (const NamedTensor& parameter : network.named_parameters()) {
    if (parameter.name != network.head().front()) continue;  // the kernel, [K, C]
    const at::Tensor flat = at::matmul(parameter.tensor.detach().to(maps.scalar_type()), maps.flatten(2));
    return flat.view({maps.size(0), flat.size(1), maps.size(2), maps.size(3)});
  }
  throw InternalError("a network has the parameters of its last layer");
}

}  // namespace dtrain
