#include "dtrain/runlog/progress.hpp"

#include "dtrain/base/terminal.hpp"
#include "support/catch.hpp"

using namespace dtrain;

static Progress somewhere() { return {3, 10, 420, 875, 0.1523, 0.004, 1204, 0.02, 760}; }

static std::string at(int columns, const Progress& progress = somewhere()) {
  return bar_line(static_cast<double>(progress.step) / static_cast<double>(progress.steps), progress_fields(progress),
                  columns);
}

TEST_CASE("the plain line reads as the contract shows it") {
  CHECK(plain_line(progress_fields(somewhere())) ==
        "epoch 3/10  step 420/875  loss 0.1523  lr 4.0e-03  1,204 images/s  data-wait 2 %  eta 00:12:40");
}

TEST_CASE("fields go by their weight as the terminal becomes narrower") {
  CHECK(at(40) == "████░░░░░░ epoch 3/10  step 420/875");
  CHECK(at(60) == "████░░░░░░ epoch 3/10  step 420/875  eta 00:12:40");
  CHECK(at(80) == "████░░░░░░ epoch 3/10  step 420/875  loss 0.1523  1,204 images/s  eta 00:12:40");
  CHECK(at(100) == "████░░░░░░ epoch 3/10  step 420/875  loss 0.1523  1,204 images/s  data-wait 2 %  eta 00:12:40");
  CHECK(at(120) ==
        "█████████░░░░░░░░░░░ epoch 3/10  step 420/875  loss 0.1523  lr 4.0e-03  1,204 images/s  data-wait 2 %  eta "
        "00:12:40");
  CHECK(at(250) == at(120));
}

TEST_CASE("the line is narrower than any terminal, and the bar full at the end") {
  Progress progress{.epoch = 1000,
                    .epochs = 1000000,
                    .step = 123456,
                    .steps = 123456,
                    .loss = 1.9e33,
                    .learning_rate = 1e-10,
                    .images_per_s = 1234567,
                    .data_wait = 1,
                    .eta_s = 1e7};
  for (int columns = 1; columns <= 250; ++columns) {
    CHECK(shown_columns(at(columns)) < columns);
    CHECK(shown_columns(at(columns, progress)) < columns);
  }
  CHECK(at(40, progress).starts_with("██████████ "));
  CHECK(at(250, progress).find("loss 1.9e33  lr") != std::string::npos);
}

TEST_CASE("fields of other work are counted by what they take on the screen") {
  const ProgressFields fields = {{"肺炎 1/2", 1}, {"12 s", 0}};
  CHECK(bar_line(0.5, fields, 26) == "█████░░░░░ 肺炎 1/2  12 s");  // 25 columns
  CHECK(bar_line(0.5, fields, 25) == "█████░░░░░ 肺炎 1/2");
  CHECK(bar_line(0.5, fields, 15) == "█████░░░░░ 肺…");
}
