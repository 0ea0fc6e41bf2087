"""A sweep whose points are jobs of Slurm: what is submitted, what is known of it later, and that no point is submitted twice. sbatch
and squeue are stood in for by two small scripts, and the test starts the jobs; tests/slurm does the same with a real Slurm."""

import csv
import os
import pathlib
import subprocess

import program

SMALL = {
    "name": "small", "seed": 3, "epochs": 2,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"format": "synthetic", "synthetic": {"samples": 40, "classes": 3}, "image": {"size": [16, 16]}, "split": {"valid": 0.5}},
}
FAILING = 1e30  # a learning rate that diverges at once
# FAKE is a folder: last has the last job's number, NUMBER.words what sbatch was given, queue what squeue prints.
SBATCH = """#!/bin/sh
[ ! -e "$FAKE/refusal" ] || { cat "$FAKE/refusal" >&2; exit 1; }
number=$(($(cat "$FAKE/last") + 1))
echo "$number" >"$FAKE/last"
printf '%s\\n' "$@" >"$FAKE/$number.words"
[ ! -e "$FAKE/kills" ] || { rm "$FAKE/kills"; kill -9 "$PPID"; }
echo "sbatch: 100 hours left" >&2
echo "$number"
"""
SQUEUE = """#!/bin/sh
echo "squeue: $*" >&2
[ -e "$FAKE/queue" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
cat "$FAKE/queue"
"""


class OnSlurm(program.ProgramTest):
    def setUp(self):
        self.home = self.folder / f"{self._testMethodName}: it's 50%"
        self.fake = self.folder / f"{self._testMethodName}.fake"
        self.fake.mkdir()
        self.home.mkdir()
        (self.home / "small.yaml").write_text((self.folder / "small.yaml").read_text())
        for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("last", "100\n"), ("queue", "")):
            (self.fake / name).write_text(text)
            (self.fake / name).chmod(0o755)
        places = [str(self.fake), os.path.dirname(program.MPIEXEC) if os.path.isabs(program.MPIEXEC) else "", os.environ["PATH"]]
        self.env = {"FAKE": str(self.fake), "PATH": os.pathsep.join(filter(None, places))}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)

    def sweep(self, *words, slurm=True, **variables):
        common = ("sweep", "--config", "small.yaml", "--output", "the study", *(("--launch", "slurm") if slurm else ()))
        return program.Started((*common, *words), env={**self.env, **variables}, cwd=self.home).wait(60)

    def swept(self, *words, **variables):
        ended = self.sweep(*words, **variables)
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(ended.errors, [], ended)
        return ended

    def table(self, column=None):
        with open(self.home / "the study/points.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [row[column] for row in rows] if column else rows

    def submitted(self):
        """Of each job that sbatch was given: its number and its words."""
        return {int(path.stem): path.read_text().splitlines() for path in sorted(self.fake.glob("*.words"))}

    def options(self, number):
        return dict(word[2:].partition("=")[::2] for word in self.submitted()[number] if word.startswith("--"))

    def tasks(self, number):
        found = []
        for part in self.options(number)["array"].split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
        return found

    def enqueue(self, *numbers, state="PENDING", reason="Priority"):
        lines = [f"{number}|{task}|{state}|{reason}|{self.options(number)['job-name']}\n" for number in numbers for task in self.tasks(number)]
        (self.fake / "queue").write_text("".join(lines))

    def run_task(self, number, task, code=0):
        """Starts a task as Slurm would: the script, from sbatch's folder, with its output in sbatch's file."""
        options = self.options(number)
        variables = {"SLURM_JOB_ID": f"{number}{task}", "SLURM_ARRAY_TASK_ID": str(task), "SLURM_NTASKS": options["ntasks"],
                     "SLURM_JOB_NUM_NODES": options["nodes"], "SLURM_TASKS_PER_NODE": options["ntasks"],
                     "DTRAIN_PLACEMENT": "--oversubscribe --bind-to none"}
        output = pathlib.Path(options["output"].replace("%a", str(task)).replace("%%", "%"))
        with open(output, "ab") as file:
            done = subprocess.run(["bash", self.submitted()[number][-1]], cwd=options["chdir"], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                  env=program.environment({**self.env, **variables}), timeout=60 * program.PATIENCE, check=False)
        self.assertEqual(done.returncode, code, output.read_text())

    def test_points_are_arrays_that_run_fail_and_are_retried_and_the_results_are_those_of_this_machine(self):
        words = ("--ranks", "1,2", "--over", f"optimizer.learning_rate=0.001,{FAILING}", "--ranks-per-node", "1", "epochs=1")
        ended = self.swept(*words)
        self.assertEqual(self.table("state"), ["queued"] * 4)
        self.assertIn("submitted: 2 points of 1 rank on 1 node as job 101, 2 points of 2 ranks on 2 nodes as job 102", ended.err)
        self.assertEqual(list(self.submitted()), [101, 102])
        self.assertEqual((self.tasks(101), self.tasks(102)), ([1, 2], [1, 2]))
        options = self.options(102)
        self.assertEqual((options["nodes"], options["ntasks"], options["ntasks-per-node"]), ("2", "2", "1"))
        # Nothing is submitted twice while it waits or runs.
        self.enqueue(101, 102)
        self.assertIn("4 queued (4 Priority)", self.swept(*words).err)
        self.enqueue(101, state="RUNNING", reason="None")
        (self.fake / "queue").write_text((self.fake / "queue").read_text() + f"102|1|PENDING|JobHeldUser|{options['job-name']}\n"
                                         + f"102|2|PENDING|JobHeldUser|{options['job-name']}\n")
        ended = self.swept(*words)
        self.assertIn("2 running, 2 queued (2 JobHeldUser)", ended.err)
        self.assertEqual(self.table("state"), ["running", "queued"] * 2)
        self.assertEqual(len(self.submitted()), 2)
        self.fails(self.sweep(*words[:-3], "epochs=1", slurm=False), 78, "were given to Slurm", "go on with --launch slurm")
        for number in (101, 102):
            self.run_task(number, 1)
            self.run_task(number, 2, code=79)
        (self.fake / "queue").write_text("")
        self.fails(self.sweep(*words), 79, "2 of 4 points failed", "--retry-failed")
        rows = self.table()
        self.assertEqual([(row["state"], row["exit_code"]) for row in rows], [("done", "0")] * 2 + [("failed", "79")] * 2)
        self.assertIn("learning_rate", rows[3]["message"])
        self.assertTrue((self.home / f"the study/logs/log_{rows[0]['point']}.csv").exists())
        self.assertEqual(len(self.submitted()), 2)
        self.assertIn("submitted: 1 point of 1 rank on 1 node as job 103", self.swept(*words, "--retry-failed").err)
        self.assertEqual((self.tasks(103), self.tasks(104), self.table("state")), ([2], [2], ["done", "done", "queued", "queued"]))
        plain = program.Started(("--config", "small.yaml", "epochs=1", "--run-dir", "plain"), 2, cwd=self.home).wait(60)
        self.assertEqual(plain.code, 0, plain)
        self.assertEqual(rows[1]["result_sha256"], program.Run(self.home / "plain").hash())

    def test_a_start_that_is_killed_submits_nothing_twice_and_what_is_lost_is_submitted_again(self):
        words = ("--repeat", "2", "--ranks", "1,2")
        (self.fake / "kills").write_text("")
        self.assertEqual(self.sweep(*words).code, -9)  # when sbatch has submitted, before the number is noted
        self.assertEqual(list(self.submitted()), [101])
        self.enqueue(101)
        self.swept(*words)
        self.assertEqual(list(self.submitted()), [101, 102])
        self.assertEqual(self.options(102)["ntasks"], "2")
        noted = (self.home / "the study/jobs/submitted.csv").read_text()
        for text in ("ranks-1_seed-3,101_1,", "ranks-1_seed-4,101_2,", "ranks-2_seed-3,102_1,"):
            self.assertIn(text, noted)
        self.enqueue(101)
        (self.home / "the study/jobs/ranks-2_2.txt").write_text("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 ***\n")
        ended = self.swept(*words)
        self.assertIn("ranks-2_seed-4: job 102_2 is not in the queue any more, and the point is not done (JOB 7 ON n1 CANCELLED", ended.err)
        self.assertEqual((list(self.submitted()), self.tasks(103)), ([101, 102, 103], [1, 2]))
        # An answer that is none changes nothing.
        (self.fake / "queue").unlink()
        self.fails(self.sweep(*words), 69, "squeue does not say which points are in the queue", "Unable to contact")
        self.assertEqual(len(self.submitted()), 3)

    def test_jobs_are_written_where_there_is_no_slurm_and_submitted_by_hand(self):
        (self.home / "site.sbatch").write_text("#!/bin/bash\n#SBATCH --gres=gpu:{ranks_per_node}\nexport SITE=here\n")
        words = ("--ranks", "2", "--template", "site.sbatch", "data.synthetic.classes=2")
        ended = self.swept(*words, "--write-only", PATH="/nowhere", DTRAIN_CONFIG__SEED="8")
        jobs = self.home / "the study/jobs"
        self.assertIn("nothing was submitted; next: sh 'the study/jobs/submit.sh', or the same command without --write-only", ended.err)
        self.assertEqual({path.name for path in jobs.iterdir()}, {"ranks-2.sbatch", "submit.sh", "submitted.csv"})
        script = (jobs / "ranks-2.sbatch").read_text()
        self.assertIn("#SBATCH --signal=B:USR1@300\n", script)
        self.assertIn("#SBATCH --gres=gpu:2\nexport SITE=here\n", script)
        by_hand = subprocess.run(["sh", "the study/jobs/submit.sh"], cwd=self.home, env=program.environment(self.env), check=True, timeout=60, stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(by_hand.returncode, 0)
        self.assertFalse((jobs / "submit.sh").exists())
        self.enqueue(101)
        self.swept(*words, DTRAIN_CONFIG__SEED="8")
        self.assertEqual((len(self.submitted()), self.table("state")), (1, ["queued"]))
        self.swept(*words, "--write-only", PATH="/nowhere", DTRAIN_CONFIG__SEED="8")  # whether it has ended nobody can say
        self.assertEqual((self.table("state"), (jobs / "submit.sh").exists()), (["queued"], False))
        self.run_task(101, 1)
        (self.fake / "queue").write_text("")
        self.assertIn("next: dtrain eval", self.swept(*words, DTRAIN_CONFIG__SEED="8").err)
        self.assertEqual((self.table("state"), self.table("seed")), (["done"], ["8"]))

    def test_of_an_array_no_more_points_run_at_a_time_than_is_asked_for(self):
        self.swept("--ranks", "1,2", "--over", "epochs=1,2,3", "--jobs", "2", "--write-only")
        script = (self.home / "the study/jobs/submit.sh").read_text()
        self.assertEqual(script.count("--array=1-3%2"), 2, script)
        self.assertEqual(set(self.table("jobs")), {"1"})  # on nodes of their own: their rates are kept
        self.swept("--ranks", "1,2", "--over", "epochs=1,2,3", "--write-only")
        self.assertNotIn("%2", (self.home / "the study/jobs/submit.sh").read_text())

    def test_what_cannot_be_submitted_is_refused_in_one_sentence(self):
        (self.home / "bad.sbatch").write_text("#!/bin/bash\nmodule load mpi\nsrun dtrain\n")
        for words, code, told in ((("--template", "bad.sbatch"), 78, "bad.sbatch:3: 'srun' has no place in a template"),
                                  (("--template", "none.sbatch"), 66, "none.sbatch"), (("--ranks-per-node", "0"), 64, "above 0")):
            with self.subTest(words):
                self.fails(self.sweep(*words), code, told)
        self.fails(self.sweep("--write-only", slurm=False), 64, "give --launch slurm too")
        self.fails(self.sweep(PATH="/nowhere"), 66, "sbatch is not on PATH", "--write-only")
        self.fails(self.sweep(DTRAIN_SBATCH="/nowhere"), 66, "DTRAIN_SBATCH=/nowhere is no file")
        self.assertFalse((self.home / "the study").exists())
        (self.fake / "refusal").write_text("sbatch: error: Batch job submission failed: More processors requested than permitted\n")
        self.fails(self.sweep("--ranks", "2"), 69, "sbatch did not take the points on 2 ranks on 1 node", "More processors requested than permitted", "--ranks-per-node")
        self.assertEqual(self.table("state"), ["waiting"])


if __name__ == "__main__":
    program.main(at_once=2)
