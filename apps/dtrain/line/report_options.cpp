// The options of dtrain report.
#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"

namespace dtrain {

void CommandTable::add_report() {
  CLI::App& app = command(
      app_, "report",
      "runs and studies as a page, report.html, and a table, scaling.csv: curves, where the time went, speed-up, "
      "efficiency and metric by number of ranks, and in sentences up to how many ranks pay; also beside the tables of "
      "other tools",
      "RUN|STUDY … [options]\n       dtrain report --map MAP.yaml FILE.csv … --output DIR [options]",
      {{"dtrain report runs/chips", "of one run, into its folder"},
       {"dtrain report studies/chips", "of all points of a sweep, into its folder"},
       {"dtrain report studies/chips --text", "on this terminal; nothing is written"},
       {"dtrain report runs/chips runs/two --output scaling", "runs that were started by hand"},
       {"dtrain report studies/chips --map hvd.yaml logs/log_hvd_*.csv --output both", "another tool's beside ours"}},
      [this] {
        if (report_.paths.empty())
          throw UsageError("dtrain report needs what to report: folders of runs or studies, such as runs/chexnet");
        if (report_.text && !report_.output.empty()) throw UsageError("--text writes nothing, so it has no --output");
        return report_;
      });
  app.add_option("paths", report_.paths, "folders of runs and of studies; with --map also another tool's CSV files")
      ->type_name("PATH");
  app.add_option("--output", report_.output, "the folder to write into (default: the run's or the study's)")
      ->type_name("DIR");
  app.add_flag("--text", report_.text, "print tables and sentences; write nothing");
  app.add_option("--map", report_.maps,
                 "YAML that says what the columns of another tool's CSV files are (docs/studies.md); may be repeated: "
                 "each file is read by the map that its name fits")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("FILE");
}

}  // namespace dtrain
