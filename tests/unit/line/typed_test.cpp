#include <string>
#include <vector>

#include "line/command_line.hpp"
#include "support/catch.hpp"

using namespace dtrain;

namespace {

CommandLine typed(const std::vector<const char*>& words) {
  std::vector<const char*> line = {"dtrain"};
  line.insert(line.end(), words.begin(), words.end());
  return read_command_line(static_cast<int>(line.size()), line.data());
}

template <class Of>
Of command(const std::vector<const char*>& words) {
  return std::get<Of>(typed(words).command);
}

}  // namespace

TEST_CASE("a file and keys without a command train, with --config or without") {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"small.yaml", "epochs=3"},
        std::vector<const char*>{"--config", "small.yaml", "epochs=3"},
        std::vector<const char*>{"-c", "small.yaml", "epochs=3"}, std::vector<const char*>{"epochs=3", "small.yaml"}}) {
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
  CHECK_FALSE(train.dry_run);
  CHECK(train.resume.kind == ResumeFrom::Kind::nothing);
  CHECK(train.trace == "t.json");
  CHECK(train.progress == ProgressMode::none);
  CHECK(command<TrainCommand>({"small.yaml", "--dry-run"}).dry_run);
  const auto resumed = command<TrainCommand>({"small.yaml", "--resume", "runs/b"});
  CHECK(resumed.resume.kind == ResumeFrom::Kind::path);
  CHECK(resumed.resume.path == "runs/b");
}

TEST_CASE("each command is read as itself, with its defaults") {
  CHECK(command<CheckCommand>({"check", "small.yaml"}).world_size == 1);
  CHECK(command<CheckCommand>({"check", "small.yaml", "--world-size", "16", "--quick"}).world_size == 16);
  CHECK(command<EvalCommand>({"eval", "--checkpoint", "runs/x"}).checkpoint == "runs/x");
  CHECK(command<BenchStepCommand>({"bench", "step", "small.yaml", "--limit-steps", "3"}).steps == 3);
  CHECK(command<BenchCommCommand>({"bench", "comm", "--bytes", "4,1024"}).bytes == std::vector<int64_t>{4, 1024});
  CHECK(std::holds_alternative<InfoCommand>(typed({"info"}).command));
  CHECK(typed({"--log-level", "debug", "small.yaml"}).common.log_level == LogLevel::debug);
}

TEST_CASE("help, version and completions are printed by whoever asked") {
  CHECK(command<PrintCommand>({"--version"}).text.starts_with("dtrain "));
  CHECK(command<PrintCommand>({"help", "eval"}).text == command<PrintCommand>({"eval", "--help"}).text);
  CHECK(command<PrintCommand>({"completion", "bash"}).text.find("complete") != std::string::npos);
}
