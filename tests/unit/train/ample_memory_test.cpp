#include "dtrain/train/ample_memory.hpp"

#include <atomic>

#include "dtrain/base/error.hpp"
#include "dtrain/dist/thread_communicator.hpp"
#include "support/catch.hpp"

using namespace dtrain;

TEST_CASE("a rank whose GPU was short of memory ends the run on all ranks, with 71 and how to leave room") {
  std::atomic<int> ended = 0;
  run_ranks(3, [&](Communicator& comm) {
    require_ample_memory(comm, memory_shortages(c10::kCPU));  // nobody was
    try {
      require_ample_memory(comm, comm.rank() == 1 ? 2 : 0);
    } catch (const Error& error) {
      const std::string words = error.what();
      const bool told = words.starts_with("the GPU of rank 1 was short of memory 2 times") &&
                        words.find("leave room") != std::string::npos;
      if (error.code() == exit_code::kOutOfMemory && told) ++ended;
    }
  });
  CHECK(ended == 3);
}
