#include "dtrain/dist/nccl_communicator.hpp"
#include "gpu.hpp"
#include "support/rank_checks.hpp"

using namespace dtrain;

TEST_CASE("gradients on the GPU are reduced to the bits of the tree, bucket by bucket while backward runs") {
  const auto gpu = test::first_gpu();
  if (!gpu) return;
  const auto host = make_serial_communicator();
  for (const int64_t v : {1, 4, 5})
    for (const double bucket_mb : {0.0, 0.001}) {
      CHECK_NOTHROW(test::check_reducer(*host, v, bucket_mb, *gpu));
      const auto nccl = make_nccl_communicator(gpu->module->nccl(), *host, 60);
      CHECK_NOTHROW(test::check_reducer(*nccl, v, bucket_mb, *gpu));
    }
}
