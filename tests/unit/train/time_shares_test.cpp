#include "dtrain/train/time_shares.hpp"

#include "support/catch.hpp"

using namespace dtrain;

// An epoch of 100 s that computes except for `data_wait_s`; the loader's threads are always busy.
static TimeShares waiting(double data_wait_s, double read_s, double decode_s) {
  TimeShares t;
  t.timing.epoch_seconds = 100;
  t.timing.data_wait_s = data_wait_s;
  t.timing.compute_s = 100 - data_wait_s;
  t.read_s = read_s;
  t.decode_s = decode_s;
  t.loader_threads = 3;
  t.spare_cores = 8;
  return t;
}

TEST_CASE("a loader that decodes too slowly is told how many threads it needs, and what they give") {
  CHECK(time_sentence(waiting(41, 10, 290)) ==
        "loader-bound: data wait 41 %, decoding; 3 → 6 loader threads would give about 1.7x");
  CHECK(time_sentence(waiting(10, 10, 290)) ==
        "loader-bound: data wait 10 %, decoding; 3 → 4 loader threads would give about 1.1x");
}

TEST_CASE("threads are promised only where cores are, and the gain is what those give") {
  TimeShares t = waiting(50, 0, 300);
  t.spare_cores = 4;
  CHECK(time_sentence(t) ==
        "loader-bound: data wait 50 %, decoding; 3 → 4 loader threads would give about 1.3x, more cores or smaller "
        "pictures on disk the rest");
  for (const int64_t cores : {0, 1, 3}) {
    t.spare_cores = cores;
    CHECK(time_sentence(t) ==
          "loader-bound: data wait 50 %, decoding; no core is left for more than 3 loader threads: more cores, or "
          "smaller pictures on disk, would help");
  }
}

TEST_CASE("an epoch that is all waiting has a sentence too") {
  CHECK(time_sentence(waiting(100, 0, 300)) ==
        "loader-bound: data wait 100 %, decoding; 3 → 8 loader threads would give about 2.7x, more cores or smaller "
        "pictures on disk the rest");
}

TEST_CASE("a loader that reads too slowly is told the rate, and that threads would not help") {
  TimeShares t = waiting(38, 200, 100);
  t.timing.bytes_read = 8'520'000'000;
  CHECK(time_sentence(t) ==
        "loader-bound: data wait 38 %, reading at 85 MB/s; a faster volume, data on a local disk, or a cache would "
        "help, more threads would not");
  t.timing.bytes_read = 234'000'000;
  CHECK(time_sentence(t).find("reading at 2.3 MB/s") != std::string::npos);
}

TEST_CASE("waiting for a loader whose threads are idle asks for a longer queue") {
  TimeShares t = waiting(20, 10, 140);
  t.queue_fill = 0.4;
  CHECK(time_sentence(t) ==
        "loader-bound: data wait 20 %, though the loader's threads work 50 % of the time and its queue is 40 % full; a "
        "larger data.loader.prefetch would even it out");
}

TEST_CASE("an all-reduce that backward does not hide is named") {
  TimeShares t = waiting(5, 0, 10);
  t.timing.allreduce_s = 31;
  t.timing.imbalance_s = 20;
  CHECK(time_sentence(t) ==
        "communication-bound: all-reduce 31 %; larger batches per rank, fewer ranks per host or a faster network would "
        "help");
  t.processes = 1;
  CHECK(time_sentence(t) ==
        "sums: 31 % adding up gradients in this process; larger batches per rank or a free core would help");
}

TEST_CASE("imbalance names the slow rank, or says that there is none") {
  TimeShares t = waiting(5, 0, 10);
  t.timing.imbalance_s = 18;
  t.slowest_rank = 3;
  t.slowest_compute_ratio = 1.42;
  CHECK(time_sentence(t) ==
        "imbalance: 18 % waiting for rank 3, which computes 1.4 times as long: slower or shared cores, or more logical "
        "ranks?");
  t.slowest_compute_ratio = 1.04;
  CHECK(time_sentence(t) ==
        "imbalance: 18 % waiting for the slowest rank, each time another one: does something else run on these "
        "cores?");
}

TEST_CASE("an update that takes long is named") {
  TimeShares t = waiting(2, 0, 10);
  t.timing.update_s = 12;
  CHECK(time_sentence(t) ==
        "update-bound: the optimizer takes 12 %; larger batches per rank give fewer updates per epoch");
}

TEST_CASE("of an epoch that went into forward and backward there is nothing to say") {
  TimeShares t = waiting(1, 10, 290);
  t.timing.compute_s = 93;
  t.timing.allreduce_s = 3;
  t.timing.imbalance_s = 2;
  t.timing.update_s = 1;
  CHECK(time_sentence(t).empty());
  t.timing.allreduce_s = 9.99;
  CHECK(time_sentence(t).empty());
  t.timing.allreduce_s = 10.01;
  CHECK(time_sentence(t).starts_with("communication-bound: all-reduce 10 %"));
  CHECK(time_sentence({}).empty());
}
