#pragma once
#include <string>
#include <vector>

#include "dtrain/study/slurm_job.hpp"

namespace dtrain {

/// What a site puts before the line that trains: the #SBATCH lines, modules and settings of a batch script.
struct SlurmTemplate {
  std::string shell = "#!/bin/bash";    ///< its first line
  std::vector<std::string> lines = {};  ///< the others
};

/// Reads such a file; `name` is its name in messages. Throws ConfigError with the line for one that does not begin with
/// "#!" and a shell of the kind of sh, that starts something itself (srun, mpirun, exec …), or whose #SBATCH lines have
/// a word in braces other than {nodes}, {ranks} and {ranks_per_node}.
SlurmTemplate read_template(const std::string& text, const std::string& name);

/// Its lines for an array: in #SBATCH lines the words in braces are the array's numbers.
std::vector<std::string> lines_for(const SlurmTemplate& site, const SlurmArray& array);

/// The #SBATCH lines of a batch script, which end where its first command stands.
std::vector<std::string> sbatch_lines(const std::string& text);

}  // namespace dtrain
