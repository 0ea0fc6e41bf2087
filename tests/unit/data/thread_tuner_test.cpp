#include "dtrain/data/batches/thread_tuner.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace dtrain;

// Steps of a training that computes `train_s` a batch while threads, of which `most` can work at once, need `load_s` of
// one of them for a batch; the threads it settles at.
static int settled_at(int first, double train_s, double load_s, double most) {
  ThreadTuner tuner(first);
  for (int batch = 0; batch < 5000 && !tuner.settled(); ++batch) {
    const double load = load_s / std::min<double>(tuner.threads(), most);
    const double passed = std::max(train_s, load);
    const int before = tuner.threads();
    const bool changed = tuner.note(passed - train_s, passed);
    CHECK(changed == (tuner.threads() != before));
    CHECK(tuner.threads() >= 1);
    CHECK(tuner.threads() <= 4 * first + 4);
  }
  CHECK(tuner.settled());
  CHECK_FALSE(tuner.note(1, 1));
  return tuner.threads();
}

TEST_CASE("threads grow while that makes batches come faster") {
  CHECK(settled_at(2, 0.1, 1.0, 1000) == 12);  // reading waits: no core is needed; as many as are allowed
  CHECK(settled_at(4, 0.1, 0.65, 1000) == 9);
  CHECK(settled_at(1, 0.1, 0.35, 1000) == 5);
}

TEST_CASE("threads that the cores cannot carry are taken back") {
  CHECK(settled_at(3, 0.01, 1.0, 3) == 3);
  CHECK(settled_at(1, 0.01, 1.0, 1) == 1);
}

TEST_CASE("threads that nobody waits for are given back") {
  CHECK(settled_at(8, 0.1, 0.25, 8) == 3);
  CHECK(settled_at(6, 0.1, 0.001, 8) == 1);
  CHECK(settled_at(1, 0.1, 0.001, 8) == 1);
}

TEST_CASE("a little waiting changes nothing") { CHECK(settled_at(4, 0.1, 0.41, 8) == 4); }
