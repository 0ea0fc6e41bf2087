#include "dtrain/watch/stall_judge.hpp"

#include <limits>

#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using test::holds;

namespace {

// A made-up job, whose clock is the argument of pass().
struct FakeJob {
  explicit FakeJob(size_t count, WatchLimits limits = {10, 60}) : judge(limits), ranks(count), running(count, true) {
    for (RankState& rank : ranks) rank.same_host = 1;
    for (size_t r = 0; r < count; ++r) hosts.push_back("node" + std::to_string(r / 2));
    pass(0.5);
  }
  void enter(size_t rank, Section section, int64_t step, int64_t sums = 0) {
    ranks[rank].section = section;
    ranks[rank].step = step;
    ranks[rank].sums = sums;
    ++ranks[rank].progress;
  }
  void all_enter(Section section, int64_t step, int64_t sums = 0) {
    for (size_t r = 0; r < ranks.size(); ++r) enter(r, section, step, sums);
  }
  void pass(double seconds) {
    for (double left = seconds; left > 0 && !last.stalled; left -= 0.5) {
      for (size_t r = 0; r < ranks.size(); ++r) ranks[r].beat += running[r] ? 1 : 0;
      last = judge.look(ranks, 0.5);
      warnings += last.warn ? 1 : 0;
      if (last.warn) warning = warning_sentence(last, ranks, hosts, wanted);
    }
  }
  std::string sentence(int own) const { return stall_sentence(last, ranks, hosts, own, wanted); }

  StallJudge judge;
  std::vector<RankState> ranks;
  std::vector<bool> running;
  std::vector<std::string> hosts;
  StallJudge::Verdict last;
  int warnings = 0;
  int wanted = 1;
  std::string warning;
};

}  // namespace

TEST_CASE("a living rank in an earlier section is behind, and named with host, section and step") {
  FakeJob job(4);
  job.all_enter(Section::reduce, 601, 4812);
  job.enter(3, Section::load, 600, 4811);
  job.pass(59);
  CHECK_FALSE(job.last.stalled);
  job.pass(2);
  REQUIRE(job.last.stalled);
  CHECK(job.last.behind == std::vector<int>{3});
  CHECK_FALSE(job.last.silent);
  CHECK(job.last.speaker == 0);
  CHECK(
      holds(job.sentence(2),
            "stalled 60 s in all-reduce 4812 (step 601); waiting for rank 3, last seen in data loading at step 600 on "
            "node1: alive, but behind"));
  CHECK(holds(job.sentence(3), "stalled 60 s in data loading (step 600); the other ranks wait for this one"));
}

TEST_CASE("a rank without a sign of life is behind, whatever it did last") {
  FakeJob job(3);
  job.all_enter(Section::reduce, 7, 20);
  job.enter(0, Section::update, 7, 20);  // later than the others
  job.running[0] = false;
  job.pass(61);
  REQUIRE(job.last.stalled);
  CHECK(job.last.behind == std::vector<int>{0});
  CHECK(job.last.silent);
  CHECK(job.last.speaker == 1);
  CHECK(holds(job.sentence(1), "waiting for rank 0, last seen in update at step 7 on node0: no sign of life"));
}

TEST_CASE("while any rank makes progress a slow one is warned of at most, and once") {
  FakeJob job(4);
  for (int step = 0; step < 5; ++step) {
    job.all_enter(Section::reduce, step);
    job.enter(3, Section::load, step);
    job.pass(40);
  }
  CHECK_FALSE(job.last.stalled);
  CHECK(job.warnings == 5);  // each of these waits is a stall of its own
  CHECK(holds(job.warning, "waiting for rank 3, last seen in data loading at step 4 on node1"));
  for (int batch = 0; batch < 1000; ++batch) {
    job.enter(1, Section::evaluate, 5);
    job.pass(1);
  }
  CHECK_FALSE(job.last.stalled);
  CHECK(job.warnings == 5);
}

TEST_CASE("ranks that wait for messages are not behind one of the same section that does not") {
  for (const Section section : {Section::start, Section::evaluate, Section::save}) {
    FakeJob job(3);
    job.all_enter(section, 9);
    job.ranks[0].waiting = job.ranks[2].waiting = 1;
    job.pass(200);
    REQUIRE(job.last.stalled);
    CHECK(job.last.behind == std::vector<int>{1});
  }
}

TEST_CASE("a living rank may take three times as long to start, to save and to finish, not to evaluate") {
  const auto seconds = [](Section section, bool alive) {
    FakeJob job(2);
    job.all_enter(Section::reduce, 12, 3);
    job.enter(0, section, section == Section::finish ? 0 : 12, 3);
    job.ranks[1].waiting = 1;
    job.running[0] = alive;
    job.pass(1000);
    return job.last.still_s;
  };
  for (const Section section : {Section::start, Section::save, Section::finish}) {
    CHECK(seconds(section, true) == 180);
    CHECK(seconds(section, false) == 60);
  }
  for (const Section section : {Section::load, Section::compute, Section::update, Section::evaluate})
    CHECK(seconds(section, true) == 60);
}

TEST_CASE("where all wait at the same place nobody is behind, and the all-reduce tells else") {
  FakeJob job(3);
  job.all_enter(Section::reduce, 4, 30);
  job.pass(61);
  REQUIRE(job.last.stalled);
  CHECK(job.last.behind.empty());
  CHECK(holds(job.sentence(0), "all ranks wait for each other there, so the network"));

  FakeJob other(3);
  other.all_enter(Section::reduce, 4, 30);
  other.enter(1, Section::reduce, 4, 29);
  other.pass(61);
  CHECK(other.last.behind == std::vector<int>{1});
}

TEST_CASE("a host that is cut off is told with all of its ranks") {
  FakeJob job(4);
  job.all_enter(Section::reduce, 4, 30);
  for (const size_t far : {size_t{2}, size_t{3}}) {
    job.running[far] = false;
    job.ranks[far].same_host = 0;
  }
  job.pass(61);
  CHECK(
      holds(job.sentence(0), "waiting for ranks 2, 3, last seen in all-reduce 30 at step 4 on node1: no sign of life"));
}

TEST_CASE("a stopped rank of this host ends the job although others go on; one of another host does not") {
  for (const bool same_host : {true, false}) {
    FakeJob job(3);
    job.ranks[2].same_host = same_host ? 1 : 0;
    job.running[2] = false;
    for (int batch = 0; batch < 100; ++batch) {
      job.enter(0, Section::evaluate, 5);
      job.pass(1);
    }
    CHECK(job.last.stalled == same_host);
    if (same_host) CHECK(job.last.behind == std::vector<int>{2});
  }
}

TEST_CASE("limits may be off") {
  const double off = std::numeric_limits<double>::infinity();
  FakeJob job(2, {off, 60});
  job.pass(59);
  CHECK(job.warnings == 0);
  FakeJob patient(2, {10, off});
  patient.pass(5000);
  CHECK_FALSE(patient.last.stalled);
  CHECK(patient.warnings == 1);
  CHECK_FALSE(holds(patient.warning, "ends after"));
}

TEST_CASE("while MPI starts a rank tells how many others it waits for") {
  FakeJob job(1);
  job.ranks[0].waiting = 1;
  job.wanted = 4;
  job.pass(61);
  REQUIRE(job.last.stalled);
  CHECK(holds(job.warning, "no rank has made progress for 10 s; MPI's start waits for the other 3 ranks"));
  CHECK(holds(job.sentence(0), "stalled 60 s in start-up; MPI's start waits for the other 3 ranks"));
}
