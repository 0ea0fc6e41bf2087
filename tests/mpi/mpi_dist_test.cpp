// The rank checks over real MPI. Prints one line per rank that failed; MPI_Abort ends the others, so nothing hangs.
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "dtrain/dist/checked_communicator.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/mpi_session.hpp"
#include "support/rank_checks.hpp"

// "network": through MPI's network transport, without shared memory.
int main(int argc, char**) {
  using dtrain::Reduction;
  dtrain::MpiSession session(argc > 1 ? dtrain::IntraHost::network : dtrain::IntraHost::automatic);
  const auto world = session.world();
  try {
    dtrain::test::check_collectives(*world);
    const auto checked = dtrain::with_order_checked(world->duplicate());
    dtrain::test::check_collectives(*checked);
    dtrain::test::check_bucket_sum(*checked, Reduction::canonical, 5);
    dtrain::test::check_reducer(*checked, 7, 0.001);
    for (const Reduction reduction : {Reduction::canonical, Reduction::ring, Reduction::fastest, Reduction::root_cpu})
      for (const int64_t v : {4, 5, 8, 11}) dtrain::test::check_bucket_sum(*world, reduction, v);
    const bool shared = world->share(10, c10::kCPU).hosts.size() == 1;
    if (shared != (argc == 1 || world->size() == 1)) throw std::runtime_error("memory is shared unless told not to");
    for (const int64_t v : {4, 7, 8})
      for (const double bucket_mb : {0.0, 0.001}) dtrain::test::check_reducer(*world, v, bucket_mb);
    dtrain::barrier(*world);
    if (world->rank() == 0) std::printf("rank checks passed on %d ranks\n", world->size());
    session.finalize();
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), failure.what());
    session.abort(70);
  }
}
