// The rank checks over real MPI. Prints one line per rank that failed; MPI_Abort ends the others, so nothing hangs.
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>

#include "dtrain/base/time.hpp"
#include "dtrain/dist/checked_communicator.hpp"
#include "dtrain/dist/collectives.hpp"
#include "dtrain/dist/host_memory.hpp"
#include "dtrain/dist/mpi_session.hpp"
#include "support/rank_checks.hpp"

// Each rank's messages reach every other rank; those that nobody receives block nothing, not even the end of MPI.
static void check_peer_link(dtrain::MpiSession& session, dtrain::Communicator& world) {
  const auto link = session.peer_link();
  std::set<int> heard;
  const dtrain::Stopwatch watch;
  while (heard.size() + 1 < static_cast<size_t>(world.size())) {
    for (int rank = 0; rank < world.size(); ++rank)
      if (rank != world.rank()) link->send(rank, std::vector<std::byte>(100, static_cast<std::byte>(world.rank())));
    while (const auto message = link->receive()) {
      if (message->size() != 100) throw std::runtime_error("a message arrives whole");
      heard.insert(static_cast<int>(message->front()));
    }
    if (watch.seconds() > 60) throw std::runtime_error("every rank is heard");
  }
  dtrain::barrier(world);  // others may still be waiting for a message
}

// With the argument "network": through MPI's network transport, without shared memory.
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
    check_peer_link(session, *world);
    if (world->rank() == 0) std::printf("rank checks passed on %d ranks\n", world->size());
    session.finalize();
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %d: %s\n", world->rank(), failure.what());
    session.abort(70);
  }
}
