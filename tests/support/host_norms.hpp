#pragma once
#include "dtrain/device/norm_math.hpp"

namespace dtrain::test {

/// NormMath on the host's memory, at once, in plain loops: the reference for a device's bits.
const NormMath& host_norms();

}  // namespace dtrain::test
