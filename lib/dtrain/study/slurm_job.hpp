#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

/// A point of a study as a task of its array.
struct SlurmTask {
  std::string point = "";
  std::vector<std::string> words = {};  ///< what its command line has beside that of the others
  std::string run_dir = "";             ///< absolute
  std::string log = "";                 ///< absolute; to which all its starts append
};

/// The points of a study that have one number of ranks: an array of Slurm. The tasks' numbers, from 1, never change.
struct SlurmArray {
  int64_t ranks = 1;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;  ///< on a full one
  bool gpus = false;           ///< asks for as many per node
  std::vector<SlurmTask> tasks = {};
};

/// What all jobs of a study have in common. All paths are absolute.
struct SlurmStudy {
  std::string name = "";                    ///< of the configuration
  std::string folder = "";                  ///< of the study; the jobs' files lie in its jobs/
  std::string working_folder = "";          ///< to which relative paths in `words` belong
  std::string script = "";                  ///< scripts/slurm/train.sbatch
  std::string dtrain = "";                  ///< the program
  std::vector<std::string> header = {};     ///< #SBATCH lines that others overrule: those of `script`
  std::vector<std::string> words = {};      ///< of every point's command line
  std::vector<std::string> variables = {};  ///< NAME=VALUE that belong to the configuration
  int64_t at_a_time = 0;                    ///< the most tasks of an array that run side by side; 0: as Slurm likes
};

/// An array of `ranks` in all: on one node, or with `ranks_per_node` > 0 on as many as that takes.
SlurmArray array_for(int64_t ranks, int64_t ranks_per_node);

/// "4 ranks on 2 nodes"
std::string size_of(const SlurmArray& array);

/// jobs/ranks-4.sbatch of the study's folder.
std::string job_file(const SlurmStudy& study, const SlurmArray& array);
/// What Slurm itself, and all that comes before training, prints: jobs/ranks-4_2.txt for task 2.
std::string output_file(const SlurmStudy& study, const SlurmArray& array, int64_t task);

/// The job's name in the queue, which tells the study's folder and number of ranks from any other; without any of the
/// signs by which squeue's output is taken apart.
std::string job_name(const SlurmStudy& study, const SlurmArray& array);

/// The batch script of an array: `shell` and `site_lines` (see SlurmTemplate) around the study's header, then one line
/// that trains what the task's number says, by the shipped script. It is a script of sh.
std::string job_text(const SlurmStudy& study, const SlurmArray& array, const std::string& shell,
                     const std::vector<std::string>& site_lines);

/// Options of sbatch and the script, for these tasks of the array, ascending from 1: they overrule what the script has.
std::vector<std::string> sbatch_words(const SlurmStudy& study, const SlurmArray& array, const std::vector<int>& tasks);

/// Some tasks of an array.
struct SlurmSubmission {
  SlurmArray array = {};
  std::vector<int> tasks = {};  ///< ascending, from 1
};
/// jobs/submit.sh: a line of sbatch for each. When all were submitted it renames itself.
std::string submit_script(const SlurmStudy& study, const std::vector<SlurmSubmission>& all);

}  // namespace dtrain
