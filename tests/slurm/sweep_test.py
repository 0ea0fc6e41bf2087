"""A sweep whose points are jobs of a real Slurm: arrays, a point that is put back into the queue, one that fails, jobs that are only
written, and what is cancelled. The results are those of plain starts."""

import csv
import re
import unittest

import slurm
from slurm import program

SMALL = {
    "name": "small", "seed": 5, "epochs": 6,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "optimizer": {"name": "sgd", "learning_rate": 0.002},
    "data": {"format": "synthetic", "synthetic": {"samples": 400, "classes": 2}, "image": {"size": [32, 32]}, "split": {"valid": 0.1}},
}
FAILING = 1e30  # a learning rate that diverges at once


class SweepJobs(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.slurm = slurm.Slurm(cls.folder, nodes=2, cpus=4)
        except slurm.CannotRun as reason:
            raise unittest.SkipTest(str(reason)) from None
        cls.addClassCleanup(cls.slurm.stop)
        cls.write_config("small", SMALL)

    def sweep(self, output, *words):
        return self.slurm.ended(program.DTRAIN, "sweep", "--config", "small.yaml", "--launch", "slurm", "--output", output, *words,
                                DTRAIN_REQUEUE_ON="69 75")  # what a busy machine could not start is started again

    def table(self, output):
        with open(self.folder / output / "points.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def queue(self):
        """Task and state of each job: 7_1 RUNNING."""
        return [line.split() for line in self.slurm.call("squeue", "--noheader", "--array", "--format=%F_%K %T").splitlines()]

    def drained(self, seconds=90):
        program.wait_until(lambda: not self.queue(), seconds, lambda: f"the queue to be empty: {self.queue()}")

    def test_points_are_put_back_cancelled_and_fail_and_the_study_is_that_of_plain_starts(self):
        words = ("--ranks", "1,2", "--over", f"optimizer.learning_rate=0.002,{FAILING}", "--ranks-per-node", "1")
        first = self.sweep("it's a study", *words)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("2 points of 2 ranks on 2 nodes as job", first.stderr)
        good = [self.run_at(f"it's a study/runs/ranks-{ranks}_learning-rate-0.002") for ranks in (1, 2)]
        # One is put back into the queue in its middle, and is not submitted again meanwhile.
        program.wait_until(lambda: good[0].steps_logged() > 20, 200, lambda: f"steps of the first point: {self.queue()}")
        jobs = [re.search(rf"of {size} as job (\d+)", first.stderr)[1] for size in ("1 rank on 1 node", "2 ranks on 2 nodes")]
        self.slurm.call("scancel", "--batch", "--signal=USR1", f"{jobs[0]}_1")
        log = self.folder / "it's a study/logs/log_ranks-1_learning-rate-0.002.txt"
        program.wait_until(lambda: "put back into the queue" in log.read_text(), 90, "the point to be put back")
        meanwhile = self.sweep("it's a study", *words)
        self.assertNotIn("submitted:", meanwhile.stderr)
        # Another is cancelled, and is submitted again.
        program.wait_until(lambda: good[1].steps_logged() > 20, 200, lambda: f"steps of the second point: {self.queue()}")
        self.slurm.call("scancel", f"{jobs[1]}_1")
        program.wait_until(lambda: f"{jobs[1]}_1" not in dict(self.queue()), 90, "the job to be cancelled")
        again = self.sweep("it's a study", *words)
        self.assertIn("submitted: 1 point of 2 ranks on 2 nodes as job", again.stderr)
        self.assertIn("is not in the queue any more, and the point is not done", again.stderr)
        self.drained()
        last = self.sweep("it's a study", *words)
        logs = "".join(path.read_text() for path in sorted((self.folder / "it's a study/logs").iterdir()))
        self.assertEqual(last.returncode, 79, last.stderr + logs)
        self.assertEqual([(row["state"], row["exit_code"]) for row in self.table("it's a study")],
                         [("done", "0")] * 2 + [("failed", "79")] * 2, logs)
        self.assertEqual(len(good[0].events("resume")), 1)
        for ranks, run in enumerate(good, start=1):
            self.good("--config", "small.yaml", "--run-dir", f"plain{ranks}", ranks=ranks)
            self.assertEqual(run.hash(), self.run_at(f"plain{ranks}").hash())
            self.assertEqual(run.facts()["ranks"], ranks)

    def test_jobs_that_are_only_written_are_submitted_by_their_script(self):
        (self.folder / "site.sbatch").write_text("#!/bin/sh\n#SBATCH --comment=of_{ranks}\nexport DTRAIN_LAUNCHER=srun\n")
        words = ("--ranks", "2", "--repeat", "2", "--template", "site.sbatch", "epochs=1")
        ended = self.sweep("written", *words, "--write-only")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        number = self.slurm.call("sh", "written/jobs/submit.sh").split()[-1]
        self.assertIn("Comment=of_2", self.slurm.call("scontrol", "show", "job", number))
        ended = self.sweep("written", *words)
        self.assertNotIn("submitted:", ended.stderr)
        points = [self.run_at(f"written/runs/ranks-2_seed-{seed}") for seed in (5, 6)]
        program.wait_until(lambda: all(run.done() for run in points), 60, "both points")
        self.assertIn("2 rank(s) on 1 node(s) by srun", (self.folder / "written/logs/log_ranks-2_seed-5.txt").read_text())
        program.wait_until(lambda: self.sweep("written", *words).stderr.count("next: dtrain eval"), 30, "the end of the study")
        self.assertEqual([row["state"] for row in self.table("written")], ["done", "done"])


if __name__ == "__main__":
    program.main(at_once=2)
