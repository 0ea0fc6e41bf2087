// The options of dtrain compare.
#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"

namespace dtrain {

void CommandTable::add_compare() {
  CLI::App& app = command(
      app_, "compare",
      "two runs: what differs, both runs' metrics on the same samples with a paired test, where their losses "
      "part, time",
      "RUN RUN [options]",
      {{"dtrain compare runs/chips runs/two", "after dtrain eval --checkpoint of both, for the metrics"},
       {"dtrain compare runs/chips runs/two --split test", "on the test part, after dtrain eval --split test of both"},
       {"dtrain compare runs/chips runs/two --json | tail -1", "everything, for a script"}},
      [this] {
        if (compare_.runs.size() != 2)
          throw UsageError("dtrain compare needs two runs, such as runs/old runs/new, and was given " +
                           (compare_.runs.empty() ? "none" : std::to_string(compare_.runs.size())));
        constexpr int64_t kFewest = 100;
        if (compare_.draws < kFewest)
          throw UsageError("--draws: the percentiles of fewer than " + std::to_string(kFewest) +
                           " draws say nothing about 95 %; the default is 2000");
        constexpr int64_t kMost = 1'000'000;
        if (compare_.draws > kMost)
          throw UsageError("--draws: more than " + std::to_string(kMost) +
                           " are kept in no memory and change no digit; the default is 2000");
        compare_.progress = typed_.quiet ? ProgressMode::none : ProgressMode::automatic;
        return compare_;
      });
  app.add_option("runs", compare_.runs, "the folders of two runs, A and B")->type_name("RUN");
  add_choice(app, "--split", compare_.split, {"train", "valid", "test"},
             "the part whose predictions dtrain eval has written for both");
  add_count(app, "--draws", compare_.draws, "draws of the bootstrap, which judges metrics other than AUROC")
      ->capture_default_str();
  app.add_flag("--json", compare_.json, kJson);
}

}  // namespace dtrain
