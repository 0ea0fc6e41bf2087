#include "unit/line/typed.hpp"

#include "support/catch.hpp"
#include "support/text.hpp"

using namespace dtrain;
using namespace dtrain::test;

namespace {

template <class Of>
Of command(const std::vector<std::string>& words) {
  return std::get<Of>(typed(words).command);
}

}  // namespace

TEST_CASE("a file and keys without a command train, with --config or without") {
  const std::vector<std::vector<std::string>> lines = {{"small.yaml", "epochs=3"},
                                                       {"--config", "small.yaml", "epochs=3"},
                                                       {"-c", "small.yaml", "epochs=3"},
                                                       {"epochs=3", "small.yaml"}};
  for (const std::vector<std::string>& words : lines) {
    const auto train = command<TrainCommand>(words);
    CHECK(train.config.sources.files == std::vector<std::string>{"small.yaml"});
    CHECK(train.config.sources.overrides == std::vector<std::string>{"epochs=3"});
    CHECK(train.run_dir.empty());
    CHECK(train.limit_steps == 0);
    CHECK_FALSE(train.dry_run);
    CHECK(train.resume.kind == ResumeFrom::Kind::newest);
  }
}

TEST_CASE("options of a training arrive, in both spellings of a value") {
  const auto train = command<TrainCommand>({"small.yaml", "--run-dir=runs/a", "--limit-steps", "7", "--resume", "never",
                                            "--trace", "t.json", "--progress=none"});
  CHECK(train.run_dir == "runs/a");
  CHECK(train.limit_steps == 7);
  CHECK(train.resume.kind == ResumeFrom::Kind::nothing);
  CHECK(train.trace == "t.json");
  CHECK(train.progress == ProgressMode::none);
  CHECK(command<TrainCommand>({"small.yaml", "--dry-run"}).dry_run);
  const auto resumed = command<TrainCommand>({"small.yaml", "--resume", "runs/b"});
  CHECK(resumed.resume.kind == ResumeFrom::Kind::path);
  CHECK(resumed.resume.path == "runs/b");
}

TEST_CASE("each command is read as itself") {
  CHECK(command<CheckCommand>({"check", "small.yaml"}).world_size == 1);
  CHECK(command<CheckCommand>({"check", "small.yaml", "--quick"}).quick);
  CHECK(command<CheckCommand>({"check", "small.yaml", "--world-size", "16"}).world_size == 16);
  CHECK(command<EvalCommand>({"eval", "--checkpoint", "runs/x"}).checkpoint == "runs/x");
  CHECK(
      command<PredictCommand>({"predict", "--checkpoint", "a", "--checkpoint", "b", "--input", "in", "--output", "out"})
          .checkpoints == std::vector<std::string>{"a", "b"});
  CHECK(command<ExportCommand>({"export", "--checkpoint", "a", "--output", "net.onnx", "--force"}).force);
  CHECK(command<PackCommand>({"pack", "small.yaml", "--output", "packed"}).output == "packed");
  CHECK(command<SweepCommand>({"sweep", "small.yaml", "--ranks", "1,2"}).typed == std::vector<std::string>{"--ranks"});
  CHECK(command<SimulateCommand>({"simulate", "--from", "runs/x", "--ranks", "4,8"}).ranks ==
        std::vector<int64_t>{4, 8});
  CHECK(command<SampleCommand>({"sample", "--kind", "chips", "--output", "x", "--seed", "9"}).seed == 9);
  CHECK(command<InitCommand>({"init", "pictures"}).folder == "pictures");
  CHECK(command<InfoCommand>({"info", "--json"}).json);
  CHECK(command<VerifyCommand>({"verify", "runs/x"}).path == "runs/x");
  CHECK(command<CompareCommand>({"compare", "runs/a", "runs/b"}).runs == std::vector<std::string>{"runs/a", "runs/b"});
  CHECK(command<ReportCommand>({"report", "runs/a", "--text"}).text);
  CHECK(command<BenchStepCommand>({"bench", "step", "small.yaml", "--limit-steps", "3"}).steps == 3);
  CHECK(command<BenchInputCommand>({"bench", "input", "small.yaml", "--limit-steps", "4"}).steps == 4);
  CHECK(command<BenchCommCommand>({"bench", "comm", "--bytes", "4,1024"}).bytes == std::vector<int64_t>{4, 1024});
}

TEST_CASE("what is logged and shown is chosen before or behind the file") {
  CHECK(typed({"small.yaml"}).common.log_level == LogLevel::info);
  CHECK(typed({"--log-level", "debug", "small.yaml"}).common.log_level == LogLevel::debug);
  const CommandLine quiet = typed({"small.yaml", "--quiet"});
  CHECK(quiet.common.log_level == LogLevel::error);
  CHECK(std::get<TrainCommand>(quiet.command).progress == ProgressMode::none);
}

TEST_CASE("help, version and completions are printed by whoever asked") {
  CHECK(command<PrintCommand>({"--version"}).text.starts_with("dtrain "));
  CHECK(command<PrintCommand>({"help", "eval"}).text == command<PrintCommand>({"eval", "--help"}).text);
  for (const char* shell : {"bash", "zsh", "fish"})
    CHECK(holds(command<PrintCommand>({"completion", shell}).text, "--limit-steps"));
}
