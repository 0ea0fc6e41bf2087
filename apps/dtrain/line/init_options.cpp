// The options of dtrain init.
#include "dtrain/base/error.hpp"
#include "line/command_table.hpp"

namespace dtrain {

void CommandTable::add_init() {
  CLI::App& app = command(app_, "init", "a configuration for a folder of pictures, with the reason for each line",
                          "FOLDER [--output FILE.yaml] [options]",
                          {{"dtrain init sample/chips --output chips.yaml", "looks at the folder, writes the file"},
                           {"dtrain init sample/chips > chips.yaml", "the same on standard output"},
                           {"dtrain check chips.yaml", "what comes next: every picture, before training"}},
                          [this] {
                            init_.progress = progress();
                            if (init_.folder.empty())
                              throw UsageError("dtrain init needs the folder of the pictures, such as /data/chips");
                            return init_;
                          });
  app.add_option("folder", init_.folder, "the folder of the data set, or a record file")->type_name("FOLDER");
  app.add_option("--output", init_.output, "the file to write (default: standard output); one that exists is refused")
      ->type_name("FILE");
  app.add_flag("--force", init_.force, "replace the file if it exists");
  add_progress(app);
}

}  // namespace dtrain
