#include "dtrain/study/simulate/measurement.hpp"

#include <cmath>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/io/files/safetensors.hpp"
#include "dtrain/study/simulate/order_statistics.hpp"
#include "dtrain/study/simulate/published.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

namespace {

const std::string kHeader =
    "epoch,steps,samples,epoch_seconds,elapsed_s,valid_seconds,data_wait_s,allreduce_s,compute_s,imbalance_s,"
    "read_mb_per_s\n";
// Two steady epochs of 10 steps and 80 samples: 1 s and 0.8 s of computing each.
const std::string kFiveEpochs = kHeader +
                                "1,10,80,5,7.5,0.5,0,0,4,0,2\n"
                                "2,10,80,1,9,0.5,0,0.1,0.8,0,2\n"
                                "3,10,80,1,10.5,0.5,0,0.1,0.8,0,2\n";

std::string facts(int ranks, int logical_ranks) {
  return R"({"ranks": )" + std::to_string(ranks) + R"(, "logical_ranks": )" + std::to_string(logical_ranks) +
         R"(, "epochs": 5, "bucket_mb": 2.5})";
}

// A run's folder; of its steps nine in ten take 90 ms and one 190 ms.
void write_run(const std::string& folder, const std::string& facts, const std::string& epochs) {
  write_file_atomically(folder + "/run.json", facts);
  write_file_atomically(folder + "/epochs.csv", epochs);
  std::string events;
  for (int step = 1; step <= 30; ++step)
    events += R"({"event":"step","step":)" + std::to_string(step) + R"(,"train_loss":1,"step_s":)" +
              (step % 10 == 0 ? "0.19" : "0.09") + "}\n";
  write_file_atomically(folder + "/metrics.jsonl", events);
  const std::vector<float> floats(1000);
  const std::vector<int64_t> count(1);
  write_safetensors(folder + "/best.safetensors",
                    {{"weight", "F32", {1000}, std::as_bytes(std::span(floats))},
                     {"num_batches_tracked", "I64", {1}, std::as_bytes(std::span(count))}},
                    {});
}

const std::string kStep =
    R"({"model":"m","ranks":1,"logical_ranks":1,"images_per_s":80,"step_ms_median":98,"step_ms_p95":102,)"
    R"("allreduce_share":0.01,"imbalance_share":0,"images_per_step":8,"gradient_mb":4,"bucket_mb":1})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a run of one rank is predicted as it was measured") {
  const test::TemporaryFolder folder;
  write_run(folder.path(), facts(1, 1), kFiveEpochs);
  const Measurement run = joined({measured_run(folder.path())});
  const Workload& work = run.steps->workload;
  CHECK(run.steps->step_s == Approx(0.1));
  CHECK(work.compute_s == Approx(0.08));
  CHECK(work.fixed_s == Approx(0.02));
  CHECK(work.batch == Approx(8));
  CHECK(work.gradient_bytes == 4000);
  CHECK(work.bucket_bytes == 2.5e6);
  CHECK(work.compute_sd_s == Approx(0.1 / 1.6449));
  CHECK(work.file_bytes_per_image == Approx(2e6 / 80));
  CHECK_FALSE(run.loader);
  CHECK(step_time(work, {}, SumWay::ring, 1, 1).seconds() == Approx(0.1));
  CHECK(run.length.samples == 80);
  CHECK(run.length.epochs == 5);
  CHECK(run.length.valid_s == Approx(0.5));
  CHECK(run.length.start_s == Approx(7.5 - 1.5));  // what the first epoch took more than the others
}

TEST_CASE("of several ranks what they waited for each other is the spread, and two batches in turn differ by less") {
  const test::TemporaryFolder folder;
  const std::string epochs = kHeader +
                             "1,10,80,5,7.5,0.5,0,0,4,0,2\n"
                             "2,10,80,1,9,0.5,0,0.06,0.8,0.04,2\n";
  write_run(folder.path(), facts(2, 4), epochs);
  const Measurement run = measured_run(folder.path());
  const Workload& work = run.steps->workload;
  CHECK(work.compute_s == Approx(0.04));
  CHECK(work.batch == Approx(2));
  CHECK(work.fixed_s == Approx(0.01));  // 1 - 0.8 - 0.06 - 0.04 s of 10 steps
  CHECK(work.compute_sd_s == Approx(0.004 / expected_maximum(2) / std::sqrt(2.0)));
  CHECK(run.length.valid_s == Approx(1));  // two ranks shared it
  Workload alone = work;
  alone.gradient_bytes = 0;
  CHECK(step_time(alone, {.ranks_per_node = 2}, SumWay::ring, 2, 4).seconds() == Approx(0.1 - 0.006));
}

TEST_CASE("a run that waited for its data has a loader's limit") {
  const test::TemporaryFolder folder;
  write_run(folder.path(), facts(1, 1), kHeader + "1,10,80,5,7,0,0,0,4,0,2\n2,10,80,1,9,0,0.5,0,0.4,0,2\n");
  const Measurement run = joined({measured_run(folder.path())});
  REQUIRE(run.loader);
  CHECK(run.loader->images_per_s == Approx(80));
  const StepTime one = step_time(run.steps->workload, {}, SumWay::ring, 1, 1);
  CHECK(one.seconds() == Approx(0.1));
  CHECK(one.input_s == Approx(0.05));
}

TEST_CASE("a run that is too short, or says too little, is refused with what to do") {
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& facts, const std::string& epochs, const std::string& why) {
    write_run(folder.path(), facts, epochs);
    try {
      measured_run(folder.path());
      FAIL("accepted: " << why);
    } catch (const DataError& error) {
      CHECK_THAT(error.what(), Catch::Contains(why));
    }
  };
  refused(facts(1, 1), kHeader + "1,10,80,5,7,0,0,0,4,0,2\n", "has 1 finished epoch, and the first one also");
  refused(facts(1, 1), kHeader, "0 finished epochs");
  refused(facts(1, 1), "epoch,steps,samples,epoch_seconds\n1,10,80,5\n2,10,80,5\n", "how long steps computed");
  refused("{}", kFiveEpochs, "does not say 'ranks'");
  refused(R"({"ranks": 1, "logical_ranks": 1})", kFiveEpochs, "has no 'bucket_mb'");
  CHECK_THROWS_AS(read_measurement(folder / "none"), MissingError);
}

TEST_CASE("the spread of the published series stands in where too few steps were timed") {
  const test::TemporaryFolder folder;
  write_run(folder.path(), facts(1, 1), kFiveEpochs);
  write_file_atomically(folder / "metrics.jsonl", "{\"event\":\"step\",\"step\":1,\"step_s\":0.1}\n");
  const Measurement run = measured_run(folder.path());
  CHECK_FALSE(run.steps->spread_measured);
  CHECK(run.steps->workload.compute_sd_s == Approx(0.08 * published_errors().fit.spread));
}

TEST_CASE("the last line of a benchmark's output is read") {
  const Measurement step = measured_bench("m, fp32: 80 images/s\n  step …\n" + kStep + "\n", "step.json");
  REQUIRE(step.steps);
  CHECK(step.steps->step_s == Approx(0.1));
  CHECK(step.steps->workload.compute_s == Approx(0.1));
  CHECK(step.steps->workload.compute_sd_s == Approx(0.004 / 1.6449));
  CHECK(step.steps->workload.gradient_bytes == 4e6);
  std::string four = with(kStep, "\"ranks\":1,\"logical_ranks\":1", "\"ranks\":2,\"logical_ranks\":4");
  four = with(with(four, "\"imbalance_share\":0", "\"imbalance_share\":0.04"), "\"images_per_step\":8",
              "\"images_per_step\":32");
  const Measurement two = measured_bench(four, "two.json");
  CHECK(two.steps->step_s == Approx(4 * 8 / 80.0));
  CHECK(two.steps->workload.compute_s == Approx(0.4 * 0.95 / 2));
  CHECK(two.steps->workload.compute_sd_s == Approx(0.016 / expected_maximum(2) / std::sqrt(2.0)));
  CHECK_THROWS_AS(measured_bench(with(kStep, "gradient_mb", "gradients"), "old.json"), DataError);
  CHECK_THROWS_AS(measured_bench("nothing of the kind", "a.txt"), DataError);
  CHECK_THROWS_AS(measured_bench("", "a.txt"), DataError);
}

TEST_CASE("loader and sums are read from their benchmarks") {
  const Measurement input = measured_bench(
      R"({"ranks":2,"sequential":null,"parallel":{"threads":3,"images_per_s":100,"read_mb_per_s":50}})", "input.json");
  CHECK(input.loader->images_per_s == 50);
  CHECK(input.loader->threads == 3);
  CHECK(input.loader->file_bytes_per_image == 5e5);
  const std::string comm =
      R"({"ranks":4,"results":[{"algorithm":"canonical","bytes":4,"ms_median":0.02,"bus_gb_per_s":0},)"
      R"({"algorithm":"canonical","bytes":4000000,"ms_median":1,"bus_gb_per_s":6},)"
      R"({"algorithm":"ring","bytes":4000000,"ms_median":1,"bus_gb_per_s":1}]})";
  const Measurement sums = measured_bench(comm, "comm.json");
  CHECK(sums.inside->latency_s == Approx(5e-6));  // of four, in two barriers of two rounds
  CHECK(sums.inside->bytes_per_s == 6e9);
  CHECK_THROWS_AS(measured_bench(R"({"ranks":1,"results":[]})", "one.json"), DataError);
  const Measurement all = joined({input, sums, measured_bench(kStep, "step.json")});
  CHECK(all.name == "input.json, comm.json, step.json");
  CHECK(all.steps->workload.loader_images_per_s == 50);
  CHECK_THROWS_AS(joined({input, sums}), DataError);
}

TEST_CASE("two measurements of the same work give their mean and their spread") {
  const Measurement fast = measured_bench(kStep, "fast.json");
  const Measurement slow = measured_bench(with(kStep, "\"images_per_s\":80", "\"images_per_s\":64"), "slow.json");
  const Measurement both = joined({fast, slow});
  CHECK(both.steps->workload.compute_s == Approx((0.1 + 0.125) / 2));
  const double within = 0.004 / 1.6449;
  CHECK(both.steps->workload.compute_sd_s == Approx(std::sqrt(within * within + 2 * 0.0125 * 0.0125)));
  CHECK_THROWS_AS(
      joined({fast, measured_bench(with(kStep, "\"images_per_step\":8", "\"images_per_step\":4"), "b.json")}),
      DataError);
}
