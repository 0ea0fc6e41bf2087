#pragma once
#include <memory>

#include "dtrain/device/nccl_api.hpp"

namespace dtrain {

/// The library itself.
std::unique_ptr<NcclApi> make_real_nccl();

}  // namespace dtrain
