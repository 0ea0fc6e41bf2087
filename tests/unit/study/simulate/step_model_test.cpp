#include "dtrain/study/simulate/step_model.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace dtrain;

// One batch of 8 images in 90 ms, 60 of them backward; 8 MB of gradients in one bucket of a quarter and one of the
// rest.
static Workload work() {
  Workload work;
  work.compute_s = 0.09;
  work.fixed_s = 0.01;
  work.gradient_bytes = 8e6;
  work.bucket_bytes = 8e6;
  work.batch = 8;
  return work;
}
static const Cluster kNodes{"", 1, {0, 1e9}, {0, 1e9}, 0};

TEST_CASE("one rank takes what was measured") {
  Workload measured = work();
  measured.compute_sd_s = 0.02;
  const StepTime one = step_time(measured, kNodes, SumWay::canonical, 1, 1);
  CHECK(one.seconds() == Approx(0.1));
  CHECK(one.images_per_s() == Approx(80));
  CHECK(what_binds(one) == Binds::compute);
  CHECK(step_time(measured, kNodes, SumWay::canonical, 1, 4).seconds() == Approx(4 * 0.09 + 0.01));
}

TEST_CASE("sums that backward does not hide are the last bucket's") {
  // 2 ranks, 1 GB/s: 2 MB ready after 15 ms take 2 ms; 6 MB ready at the end take 6 ms, all of them exposed.
  const StepTime two = step_time(work(), kNodes, SumWay::ring, 2, 2);
  CHECK(two.transfer_s == Approx(0.006));
  CHECK(two.latency_s == Approx(0).margin(1e-12));
  CHECK(two.seconds() == Approx(0.106));
  // 100 MB/s: 2 MB are there after 35 ms, 6 MB begin after 60 ms and take as long again.
  const Cluster slow{"", 1, {0, 1e8}, {0, 1e8}, 0};
  CHECK(step_time(work(), slow, SumWay::ring, 2, 2).transfer_s == Approx(0.06));
  Workload fine = work();
  fine.bucket_bytes = 1e6;  // the last of nine buckets: what is left of 8 MB after 0.25 + 7 MB
  CHECK(step_time(fine, kNodes, SumWay::ring, 2, 2).transfer_s == Approx(0.00075).epsilon(1e-6));
}

TEST_CASE("latency is what remains when the bytes alone are taken off") {
  const Cluster far{"", 1, {0, 1e9}, {0.002, 1e9}, 0};
  const StepTime two = step_time(work(), far, SumWay::ring, 2, 2);  // 2 hops between 2 nodes
  CHECK(two.transfer_s == Approx(0.006));
  CHECK(two.latency_s == Approx(0.004));
}

TEST_CASE("the slowest rank is waited for") {
  Workload spread = work();
  spread.gradient_bytes = 0;
  spread.compute_sd_s = 0.01;
  CHECK(step_time(spread, kNodes, SumWay::ring, 2, 2).straggler_s == Approx(0.0056419).epsilon(1e-5));
  CHECK(step_time(spread, kNodes, SumWay::ring, 2, 8).straggler_s == Approx(2 * 0.0056419).epsilon(1e-5));
  // 3 logical ranks on 2: only one rank has two, and it is not waiting for an equal.
  const StepTime uneven = step_time(spread, kNodes, SumWay::ring, 2, 3);
  CHECK(uneven.straggler_s == 0);
  CHECK(uneven.compute_s == Approx(0.18));
}

TEST_CASE("a loader or a file system that is slower than all else binds") {
  Workload loaded = work();
  loaded.gradient_bytes = 0;
  loaded.loader_images_per_s = 40;  // 0.2 s for 8 images
  loaded.loader_threads = 4;
  CHECK(step_time(loaded, kNodes, SumWay::ring, 1, 1).seconds() == Approx(0.2));
  Cluster cores = kNodes;
  cores.cores_per_node = 2;  // half of the threads it was measured with
  const StepTime half = step_time(loaded, cores, SumWay::ring, 4, 4);
  CHECK(half.seconds() == Approx(0.4));
  CHECK(what_binds(half) == Binds::input);
  loaded.loader_images_per_s = 0;
  loaded.file_bytes_per_image = 1e6;
  Cluster files = kNodes;
  files.file_bytes_per_s = 1e8;  // 100 images/s
  CHECK(step_time(loaded, files, SumWay::ring, 1, 1).seconds() == Approx(0.1));
  CHECK(step_time(loaded, files, SumWay::ring, 10, 10).images_per_s() == Approx(100));
}

TEST_CASE("more ranks of equal batches never make a step shorter") {
  Workload measured = work();
  measured.compute_sd_s = 0.002;
  const Cluster cluster{"", 8, {5e-6, 20e9}, {15e-6, 3e9}};
  for (const Word<SumWay>& way : kWordsOf<SumWay>) {
    double before = 0;
    for (int64_t ranks = 1; ranks <= 65536; ranks *= 2) {
      const double seconds = step_time(measured, cluster, way.value, ranks, ranks).seconds();
      CHECK(seconds >= before);
      before = seconds;
    }
  }
}

TEST_CASE("what binds is the largest loss, from two percent on") {
  StepTime step;
  step.compute_s = 0.98;
  step.latency_s = 0.019;
  CHECK(what_binds(step) == Binds::compute);
  step.latency_s = 0.03;
  step.transfer_s = 0.04;
  CHECK(what_binds(step) == Binds::bandwidth);
  CHECK(share_of(Binds::bandwidth, step) == Approx(0.04 / 1.05));
}
