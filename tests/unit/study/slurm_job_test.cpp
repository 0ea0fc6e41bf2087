#include "dtrain/study/slurm_job.hpp"

#include <fstream>

#include "dtrain/base/error.hpp"
#include "dtrain/io/files/file.hpp"
#include "dtrain/study/slurm_call.hpp"
#include "dtrain/study/slurm_template.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace dtrain;

static SlurmStudy study_in(const std::string& folder) {
  return {.name = "chips, new",
          .folder = folder,
          .working_folder = "/home/it's mine",
          .script = folder + "/train.sbatch",
          .dtrain = "/opt/dtrain/bin/dtrain",
          .header = {"#SBATCH --nodes=1", "#SBATCH --requeue"},
          .words = {"--config", "/a b/chips.yaml", "epochs=2"},
          .variables = {"DTRAIN_CONFIG__SEED=7"}};
}

TEST_CASE("an array has as many nodes as its ranks need") {
  for (const auto& [ranks, per_node, nodes, on_one] :
       {std::array<int64_t, 4>{1, 4, 1, 1}, {4, 4, 1, 4}, {5, 4, 2, 4}, {8, 4, 2, 4}, {64, 0, 1, 64}}) {
    const SlurmArray array = array_for(ranks, per_node);
    CHECK(array.ranks == ranks);
    CHECK(array.nodes == nodes);
    CHECK(array.ranks_per_node == on_one);
  }
  CHECK(size_of(array_for(8, 4)) == "8 ranks on 2 nodes");
}

TEST_CASE("sbatch's words name the array, its tasks, nodes and output, and tell studies apart") {
  SlurmStudy study = study_in("/s/50%a b");
  SlurmArray array = array_for(8, 4);
  const std::vector<std::string> words = sbatch_words(study, array, {1, 2, 3, 7});
  CHECK(words == std::vector<std::string>{"--job-name=" + job_name(study, array), "--array=1-3,7", "--nodes=2",
                                          "--ntasks=8", "--ntasks-per-node=4", "--chdir=/home/it's mine",
                                          "--output=/s/50%%a b/jobs/ranks-8_%a.txt", "/s/50%a b/jobs/ranks-8.sbatch"});
  CHECK(output_file(study, array, 7) == "/s/50%a b/jobs/ranks-8_7.txt");
  CHECK(job_name(study, array).starts_with("chips__new-ranks-8-"));
  CHECK(job_name(study, array) != job_name(study, array_for(4, 4)));
  CHECK(job_name(study, array) != job_name(study_in("/s/other"), array));
  array.gpus = true;
  CHECK(sbatch_words(study, array, {1}).at(5) == "--gpus-per-node=4");
  CHECK(sbatch_words(study, array_for(3, 4), {1}).at(3) == "--ntasks=3");
  study.at_a_time = 2;
  CHECK(sbatch_words(study, array, {1, 2, 3, 7}).at(1) == "--array=1-3,7%2");
}

TEST_CASE("a job's script trains what its task's number says, with every word as it was") {
  const test::TemporaryFolder folder;
  const SlurmStudy study = study_in(folder.path());
  std::ofstream(study.script) << "for word in \"$DTRAIN\" \"seed $DTRAIN_CONFIG__SEED\" \"task "
                                 "${SLURM_ARRAY_TASK_ID-none}\" \"$@\"; do echo \"$word\"; done\n";
  SlurmArray array = array_for(2, 0);
  array.tasks = {{"a", {"x='1, 2'"}, "/runs/a", folder / "a's log"},
                 {"b", {"x=[\"$HOME\", `id`]"}, "/runs/b b", folder / "b"}};
  const std::string text = job_text(study, array, "#!/bin/sh", {"#SBATCH --partition=gpu", "export SITE=1"});
  CHECK(sbatch_lines(text) ==
        std::vector<std::string>{"#SBATCH --nodes=1", "#SBATCH --requeue", "#SBATCH --partition=gpu"});
  std::ofstream(folder / "job") << text;
  const auto run = [&](const std::string& task) {
    return run_program({"/usr/bin/env", "SLURM_ARRAY_TASK_ID=" + task, "/bin/sh", folder / "job"}, folder / "scratch");
  };
  for (int starts = 1; starts <= 2; ++starts) CHECK(run("2").code == 0);
  const std::string once =
      "/opt/dtrain/bin/dtrain\nseed 7\ntask none\n--config\n/a b/chips.yaml\nepochs=2\nx=[\"$HOME\", `id`]\n--run-dir\n"
      "/runs/b b\n";
  CHECK(read_text(folder / "b") == once + once);
  CHECK(run("1").code == 0);
  CHECK(read_text(folder / "a's log").find("\nx='1, 2'\n--run-dir\n/runs/a\n") != std::string::npos);
  const ProgramEnd none = run("3");
  CHECK(none.code == 64);
  CHECK(none.text == "this study has no task 3\n");
  CHECK_FALSE(is_there(folder / "scratch"));
}

TEST_CASE("submit.sh gives each array to sbatch and is then called submitted.sh") {
  const test::TemporaryFolder folder;
  const SlurmStudy study = study_in(folder / "it's");
  make_folders(study.folder + "/jobs");
  std::ofstream(study.folder + "/jobs/submit.sh")
      << submit_script(study, {{array_for(1, 2), {1, 2}}, {array_for(4, 2), {3}}});
  make_folders(folder / "bin");
  std::ofstream(folder / "bin/sbatch")
      << "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\"; done; exit \"${REFUSES:-0}\"\n";
  std::filesystem::permissions(folder / "bin/sbatch", std::filesystem::perms::owner_all);
  const auto run = [&](const std::string& refuses) {
    return run_program({"/usr/bin/env", "REFUSES=" + refuses, "PATH=" + folder / "bin" + ":/usr/bin:/bin", "/bin/sh",
                        study.folder + "/jobs/submit.sh"},
                       folder / "scratch");
  };
  CHECK(run("1").code == 1);
  CHECK(is_there(study.folder + "/jobs/submit.sh"));
  const ProgramEnd end = run("0");
  CHECK(end.code == 0);
  std::string wanted;
  for (const auto& words : {sbatch_words(study, array_for(1, 2), {1, 2}), sbatch_words(study, array_for(4, 2), {3})})
    for (const std::string& word : words) wanted += word + "\n";
  CHECK(end.text == wanted);
  CHECK_FALSE(is_there(study.folder + "/jobs/submit.sh"));
  CHECK(is_there(study.folder + "/jobs/submitted.sh"));
}

TEST_CASE("a template's #SBATCH lines get the array's numbers, and the rest stays as it is") {
  const SlurmTemplate site = read_template(
      "#!/usr/bin/env bash\n#SBATCH --gres=gpu:{ranks_per_node} --comment={ranks}/{nodes}\n\nmodule load openmpi\n"
      "export X=${ranks}{nodes}\n",
      "site.sbatch");
  CHECK(site.shell == "#!/usr/bin/env bash");
  CHECK(lines_for(site, array_for(8, 4)) == std::vector<std::string>{"#SBATCH --gres=gpu:4 --comment=8/2", "",
                                                                     "module load openmpi",
                                                                     "export X=${ranks}{nodes}"});
}

TEST_CASE("a template that is none is refused with its line") {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      read_template(text, "s");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(refusal("").starts_with("s:1: a batch script begins with"));
  CHECK(refusal("#SBATCH --time=1\n").starts_with("s:1: a batch script begins with"));
  CHECK(refusal("#!/usr/bin/python3\n").starts_with("s:1: a batch script begins with"));
  CHECK(refusal("#!/bin/bash\n\n  srun --mpi=pmix dtrain\n").starts_with("s:3: 'srun' has no place in a template"));
  CHECK(refusal("#!/bin/bash\n/opt/mpi/bin/mpirun x\n").starts_with("s:2: 'mpirun' has no place"));
  CHECK(refusal("#!/bin/bash\n#SBATCH --ntasks={tasks}\n").starts_with("s:2: '{tasks}' stands for nothing"));
  CHECK(refusal("#!/bin/zsh -l\nmodule load x || exit 1\n") == "none");
}
