// dtrain init: a configuration for a folder that nobody has described.
#include <cstdio>

#include "commands/commands.hpp"
#include "commands/free_output.hpp"
#include "dtrain/base/error.hpp"
#include "dtrain/base/printable.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"
#include "dtrain/dist/launch.hpp"
#include "dtrain/draft/draft.hpp"
#include "dtrain/io/files/file.hpp"
#include "job/epoch_columns.hpp"
#include "job/planned_parts.hpp"

namespace dtrain {
namespace {

// What dtrain check does before it looks at pictures: the error that it would end with, or "".
std::string refusal_of(const std::string& text) {
  try {
    const Config config =
        load_config({.files = {}, .environment = false, .overrides = {}, .stored = text, .stored_in = "the draft"});
    const Plan plan = make_plan(config.experiment, 1);
    std::string weights_line;
    make_planned_network(config.experiment, plan, false, weights_line);
    make_planned_loss(config.experiment, plan);
    require_monitors(config.experiment, plan);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void tell(const Draft& draft, const std::string& output, const Log& log) {
  const auto where = [&](const DraftNote& note) {
    const std::string line = std::to_string(note.line) + ": ";
    return note.line == 0 ? "" : output.empty() ? "line " + line : printable(output) + ":" + line;
  };
  for (const DraftNote& note : draft.choices) log.info("note: " + where(note) + shown(note.sentence));
  for (const DraftNote& note : draft.to_fill_in) log.warning("to do: " + where(note) + shown(note.sentence));
  const std::string file = output.empty() ? "FILE" : shell_word(output);
  log.info((output.empty() ? "" : "written: " + printable(output) + "; ") +
           std::string(draft.to_fill_in.empty() ? "next: " : "then: ") + "dtrain check --config " + file +
           ", and to train: dtrain --config " + file);
}

}  // namespace

int run_init(const InitCommand& command, const Log& log) {
  if (!command.output.empty()) require_free_output(command.output, command.force);
  ProgressLine progress(command.progress, read_launch().launched, log);
  Draft draft = draft_configuration(command.folder, [&](int64_t done, int64_t total) {
    progress.show(done, total, [&] {
      return ProgressFields{{"pictures looked at " + with_commas(done) + "/" + with_commas(total), 3}};
    });
  });
  if (draft.to_fill_in.empty())
    if (const std::string refusal = refusal_of(draft.text); !refusal.empty()) {
      draft.text = with_refusal(draft.text, refusal);
      draft.to_fill_in.push_back({"repair what dtrain check refuses: " + refusal});
    }
  if (command.output.empty())
    std::fputs(draft.text.c_str(), stdout);
  else
    write_file_atomically(command.output, draft.text);
  std::fflush(stdout);
  tell(draft, command.output, log);
  return exit_code::kDone;
}

}  // namespace dtrain
