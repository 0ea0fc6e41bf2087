#include "dtrain/optim/loss_scale.hpp"

#include "support/catch.hpp"

using dtrain::LossScale;

static void good_steps(LossScale& scale, int64_t count) {
  for (int64_t i = 0; i < count; ++i) scale.good_step();
}

TEST_CASE("the loss scale begins and moves as torch.amp.GradScaler's") {
  LossScale scale;
  CHECK(scale.scale == 65536);
  good_steps(scale, 1999);
  CHECK(scale.scale == 65536);
  CHECK(scale.good_steps == 1999);
  scale.good_step();
  CHECK(scale.scale == 131072);
  CHECK(scale.good_steps == 0);
}

TEST_CASE("an overflow halves the scale and begins the count of good steps anew") {
  LossScale scale;
  good_steps(scale, 1999);
  CHECK(scale.overflow());
  CHECK(scale.scale == 32768);
  CHECK(scale.good_steps == 0);
  good_steps(scale, 1999);
  CHECK(scale.scale == 32768);
  scale.good_step();
  CHECK(scale.scale == 65536);
}

TEST_CASE("a scale of 1 that still overflows is the end, and changes nothing") {
  LossScale scale;
  int halved = 0;
  while (scale.overflow()) ++halved;
  CHECK(halved == 16);
  CHECK(scale.scale == 1);
  good_steps(scale, 5);
  CHECK_FALSE(scale.overflow());
  CHECK(scale.scale == 1);
  CHECK(scale.good_steps == 5);
}

TEST_CASE("a scale that nothing stops stays in float32's range") {
  LossScale scale{LossScale::kMost / 2, LossScale::kGrowAfter - 1};
  scale.good_step();
  CHECK(scale.scale == LossScale::kMost);
  good_steps(scale, LossScale::kGrowAfter);
  CHECK(scale.scale == LossScale::kMost);
  CHECK(scale.good_steps == 0);
}

TEST_CASE("a scale goes on where a copy of it stopped") {
  LossScale straight;
  good_steps(straight, 1500);
  LossScale resumed{straight.scale, straight.good_steps};
  for (LossScale* scale : {&straight, &resumed}) good_steps(*scale, 500);
  CHECK(resumed.scale == 131072);
  CHECK(resumed.scale == straight.scale);
}
