#include "dtrain/study/slurm_job.hpp"

#include <algorithm>

#include "dtrain/base/hash.hpp"
#include "dtrain/base/host.hpp"
#include "dtrain/base/shell_word.hpp"
#include "dtrain/base/text.hpp"

namespace dtrain {
namespace {

std::string shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

std::string stem_of(const SlurmArray& array) { return "ranks-" + std::to_string(array.ranks); }

// As one line of a comment.
std::string in_a_comment(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The line of `case` that makes a task its point.
std::string case_of(const SlurmTask& task, size_t number) {
  return "  " + std::to_string(number) + ") log=" + shell_word(task.log) + "\n     set -- " + shell_words(task.words) +
         " --run-dir " + shell_word(task.run_dir) + " ;;\n";
}

}  // namespace

SlurmArray array_for(int64_t ranks, int64_t ranks_per_node) {
  const int64_t on_one = ranks_per_node > 0 ? std::min(ranks, ranks_per_node) : ranks;
  return {.ranks = ranks, .nodes = (ranks + on_one - 1) / on_one, .ranks_per_node = on_one};
}

std::string size_of(const SlurmArray& array) {
  return count_of(array.ranks, "rank") + " on " + count_of(array.nodes, "node");
}

std::string job_file(const SlurmStudy& study, const SlurmArray& array) {
  return study.folder + "/jobs/" + stem_of(array) + ".sbatch";
}

std::string output_file(const SlurmStudy& study, const SlurmArray& array, int64_t task) {
  return study.folder + "/jobs/" + stem_of(array) + "_" + std::to_string(task) + ".txt";
}

std::string job_name(const SlurmStudy& study, const SlurmArray& array) {
  constexpr size_t kMostOfName = 40;
  constexpr size_t kDigits = 10;
  std::string name;
  for (const char c : study.name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    name += plain ? c : '_';
  }
  return name.substr(0, kMostOfName) + "-" + stem_of(array) + "-" +
         Sha256().update(study.folder).hex_digest().substr(0, kDigits);
}

std::string job_text(const SlurmStudy& study, const SlurmArray& array, const std::string& shell,
                     const std::vector<std::string>& site_lines) {
  std::string text =
      shell + "\n# Points of " + in_a_comment(study.folder) + " on " + count_of(array.ranks, "rank") +
      ". Written by dtrain sweep; each start writes it anew.\n"
      "# Name, array, nodes and tasks stand on sbatch's command line, which overrules what is said here.\n";
  for (const std::string& line : study.header) text += line + "\n";
  for (const std::string& line : site_lines) text += line + "\n";
  text += "\ncase $SLURM_ARRAY_TASK_ID in\n";
  for (size_t i = 0; i < array.tasks.size(); ++i) text += case_of(array.tasks[i], i + 1);
  text += "  *) echo \"this study has no task $SLURM_ARRAY_TASK_ID\" >&2; exit 64 ;;\nesac\n";
  text += "unset SLURM_ARRAY_TASK_ID # by itself the script below would make a seed of it\n";
  text += "export DTRAIN=" + shell_word(study.dtrain) + "\n";
  for (const std::string& variable : study.variables) {
    const size_t equals = variable.find('=');
    text += "export " + variable.substr(0, equals) + "=" + shell_word(variable.substr(equals + 1)) + "\n";
  }
  text += "exec >>\"$log\" 2>&1\n";
  return text + "exec bash " + shell_word(study.script) + " " + shell_words(study.words) + " \"$@\"\n";
}

std::vector<std::string> sbatch_words(const SlurmStudy& study, const SlurmArray& array, const std::vector<int>& tasks) {
  std::string pattern;  // of the output's name, in which %a is the task and %% a %
  for (const char c : study.folder) pattern += c == '%' ? "%%" : std::string(1, c);
  const std::string most = study.at_a_time > 0 ? "%" + std::to_string(study.at_a_time) : "";
  std::vector<std::string> words = {"--job-name=" + job_name(study, array), "--array=" + core_ranges(tasks) + most,
                                    "--nodes=" + std::to_string(array.nodes),
                                    "--ntasks=" + std::to_string(array.ranks)};
  if (array.nodes > 1) words.push_back("--ntasks-per-node=" + std::to_string(array.ranks_per_node));
  if (array.gpus) words.push_back("--gpus-per-node=" + std::to_string(array.ranks_per_node));
  words.insert(words.end(), {"--chdir=" + study.working_folder,
                             "--output=" + pattern + "/jobs/" + stem_of(array) + "_%a.txt", job_file(study, array)});
  return words;
}

std::string submit_script(const SlurmStudy& study, const std::vector<SlurmSubmission>& all) {
  std::string text =
      "#!/bin/sh\n"
      "# Submits the points of this study that are neither finished nor in the queue. Written by dtrain sweep "
      "--write-only,\n"
      "# which has submitted nothing. Afterwards the file is called submitted.sh, so that no point is submitted "
      "twice.\n"
      "set -eu\n";
  for (const SlurmSubmission& one : all) {
    text += "\n# " + size_of(one.array) + ": " + count_of(static_cast<int64_t>(one.tasks.size()), "point") + "\nsbatch";
    for (const std::string& word : sbatch_words(study, one.array, one.tasks)) text += " \\\n  " + shell_word(word);
    text += '\n';
  }
  const std::string jobs = study.folder + "/jobs/";
  return text + "\nmv -- " + shell_words({jobs + "submit.sh", jobs + "submitted.sh"}) + "\n";
}

}  // namespace dtrain
