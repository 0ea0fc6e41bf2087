#include "dtrain/device/side_stream.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("on a CPU work is done when it is issued: a side stream orders nothing and waits for nothing") {
  const SideStream side(c10::kCPU);
  const Mark mark = side.mark();
  CHECK(mark == nullptr);
  SideStream::Scope scope;
  side.enter(mark, scope);
  CHECK_FALSE(scope.has_value());
  CHECK(side.idle());
  side.join();
  side.lend_to_current(at::ones(1));
}
