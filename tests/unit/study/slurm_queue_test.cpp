#include "dtrain/study/slurm_queue.hpp"

#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/study/slurm_submitted.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

TEST_CASE("squeue's lines become tasks, whatever a site prints around them") {
  const SlurmQueue queue = read_queue(
      "Welcome | to the cluster\n"
      "7|4|PENDING|Priority|a-ranks-2\n"
      "7|1|RUNNING|None|a-ranks-2\n"
      "7|2|COMPLETING|None|a-ranks-2\n"
      "8|N/A|PENDING|JobHeldUser|a-ranks-2\n"
      "9|5|REQUEUE_HOLD|job requeued in held state|a-ranks-2\n"
      "6|6|CANCELLED|None|a-ranks-2\n"
      "7|9|PENDING|BeginTime|b-ranks-2\n"
      "6|9|RUNNING|None|b-ranks-2\n");
  REQUIRE(queue.size() == 5);
  const auto& first = queue.at({"a-ranks-2", 4});
  CHECK(first.job == "7_4");
  CHECK(first.state == PointState::queued);
  CHECK(first.reason == "Priority");
  CHECK(queue.at({"a-ranks-2", 1}).state == PointState::running);
  CHECK(queue.at({"a-ranks-2", 1}).reason.empty());
  CHECK(queue.at({"a-ranks-2", 2}).state == PointState::running);
  CHECK(queue.at({"a-ranks-2", 5}).state == PointState::queued);
  CHECK(queue.at({"b-ranks-2", 9}).job == "6_9");
}

TEST_CASE("sbatch's number is found among its remarks") {
  CHECK(job_number_in("4211\n") == "4211");
  CHECK(job_number_in("sbatch: 12 hours left\n4211;cluster\nsbatch: ok\n") == "4211");
  CHECK(job_number_in("sbatch: error: Batch job submission failed: 5 nodes\n").empty());
  CHECK(job_number_in("").empty());
}

namespace {

struct Traces {
  test::TemporaryFolder folder;
  TaskEnd end(const std::string& log, const std::string& output, const std::string& before = "") const {
    if (!(before + log).empty()) std::ofstream(folder / "log") << before << log;
    if (!output.empty()) std::ofstream(folder / "output") << output;
    const TaskEnd end = end_of_task({.log = folder / "log",
                                     .log_from = static_cast<int64_t>(before.size()),
                                     .output = folder / "output",
                                     .output_from = 0});
    std::filesystem::remove(folder / "log");
    std::filesystem::remove(folder / "output");
    return end;
  }
};

constexpr const char* kStart = "train.sbatch: job 7, start 1: 2 rank(s) on 1 node(s) by mpirun\n";
constexpr const char* kDiverged =
    "dtrain: error 79 [rank 0 @ n1]: loss is nan in step 3\ntrain.sbatch: dtrain ended with 79\n"
    "dtrain: error 79 [rank 0 @ n1]: loss is nan in step 3\n";

}  // namespace

TEST_CASE("how a task ended is read from its log, and what Slurm did from its output") {
  const Traces traces;
  using Kind = TaskEnd::Kind;
  const TaskEnd failed = traces.end(std::string(kStart) + kDiverged, "");
  CHECK(failed.kind == Kind::failed);
  CHECK(failed.code == 79);
  CHECK(failed.message == "loss is nan in step 3");
  const TaskEnd refused = traces.end("train.sbatch: error 66: mpirun is not on PATH\n", "");
  CHECK(refused.kind == Kind::failed);
  CHECK(refused.code == 66);
  CHECK(refused.message == "mpirun is not on PATH");
  const std::string cancelled =
      "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n";
  const TaskEnd late = traces.end(std::string(kStart) + "train.sbatch: dtrain ended with 1\n", cancelled);
  CHECK(late.kind == Kind::stopped);
  CHECK(late.message == "JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT");
  CHECK(traces.end(std::string(kStart) + kDiverged, cancelled).kind == Kind::failed);
  const TaskEnd killed = traces.end(std::string(kStart) + "Killed\ntrain.sbatch: dtrain ended with 137\n", "");
  CHECK(killed.kind == Kind::failed);
  CHECK(killed.code == 137);
  CHECK(traces.end(std::string(kStart) + "train.sbatch: dtrain ended with 75; put back\n", "").kind == Kind::stopped);
  CHECK(traces.end(std::string(kStart) + "train.sbatch: dtrain ended with 0\n", "").kind == Kind::stopped);
}

TEST_CASE("a task that left no end is lost, and an earlier end is not its own") {
  const Traces traces;
  using Kind = TaskEnd::Kind;
  CHECK(traces.end("", "").kind == Kind::lost);
  CHECK(traces.end("", "/bin/sh: no such module\n\n").message == "/bin/sh: no such module");
  CHECK(traces.end(kStart, "", kDiverged).kind == Kind::lost);
  CHECK(traces.end("", "", kDiverged).kind == Kind::lost);
  CHECK(traces.end(std::string(kStart) + kDiverged + kStart, "").kind == Kind::lost);  // put back, then gone
}

TEST_CASE("what was submitted is read back as it was written") {
  const test::TemporaryFolder folder;
  CHECK(read_submitted(folder / "none").empty());
  const SubmittedPoints points = {{"ranks-1", {"4211_3", 12, 0}}, {"ranks-2, too", {"", 0, 7}}};
  std::ofstream(folder / "submitted.csv") << submitted_csv(points);
  const SubmittedPoints again = read_submitted(folder / "submitted.csv");
  REQUIRE(again.size() == 2);
  CHECK(again.at("ranks-1").job == "4211_3");
  CHECK(again.at("ranks-1").log_bytes == 12);
  CHECK(again.at("ranks-2, too").job.empty());
  CHECK(again.at("ranks-2, too").output_bytes == 7);
  std::ofstream(folder / "submitted.csv") << "point,job,log_bytes,output_bytes\na,1,-3,0\n";
  CHECK_THROWS_AS(read_submitted(folder / "submitted.csv"), DataError);
}
