"""The shipped batch script on a real Slurm: a job that is signalled ends with 75, is put back, and ends with the bits of a run
that nobody disturbed.

  tests/slurm/jobs_test.py                                     the tests
  tests/slurm/jobs_test.py --count 20 [--seed 1] [--only 7]    as many signals at random moments, half of them under srun;
                                                               --only repeats one of them
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import slurm
from slurm import program

JOB = {
    "name": "job", "seed": 11, "epochs": 3, "task": "multiclass",
    "model": {"name": "small_cnn", "dropout": 0.5},
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 2},
    "optimizer": {"name": "sgd", "learning_rate": 0.002, "momentum": 0.9},
    "data": {"format": "synthetic", "synthetic": {"samples": 800, "classes": 2}, "image": {"size": [32, 32]}},
}
STEPS = 540
STARTED = "train.sbatch: job"
STOPPED = "train.sbatch: dtrain ended with 75; put back into the queue"
ENDED = "train.sbatch: dtrain ended with 0"


def disturbed(cluster, launcher, name, moments, words=("--config", "job.yaml")):
    """A job that gets a signal at each of the moments: a number of steps, or seconds after the script began if negative. Returns
    the run, and what is wrong with it, one sentence each."""
    wrong = []
    job = cluster.submit(name, *words, "--run-dir", name, DTRAIN_LAUNCHER=launcher)
    run = program.Run(cluster.folder / name)
    stops = []
    for count, moment in enumerate(moments, start=1):
        job.says(STARTED, times=count)
        if moment < 0:
            time.sleep(-moment)
        else:
            job.until(lambda: run.steps_logged() >= moment, 120, f"step {moment}")
        job.signal("--batch")
        job.says(STOPPED, times=count)
        saved = [int(path.stem.rpartition("-")[2]) for path in run.checkpoints()]
        if saved:
            stops.append(max(saved))
        elif moment >= 0:  # a rank that is still starting has nothing to save
            wrong.append(f"no checkpoint after step {moment}")
    code = job.ended()
    if code != 0 or job.log().count(ENDED) != 1:
        wrong.append(f"the last start ended with {code}\n{job.log()}")
        return run, wrong
    if job.facts()["Restarts"] != str(len(moments)):
        wrong.append(f"{job.facts()['Restarts']} restarts, {len(moments)} signals")
    resumed = [event["step"] for event in run.events("resume")]
    if resumed != stops:
        wrong.append(f"stopped with a checkpoint of step {stops}, went on from {resumed}\n{job.log()}")
    if "damaged checkpoint" in job.log():
        wrong.append("a damaged checkpoint")
    return run, wrong


def ranks_in(run_dir, folder):
    """The process ids of the ranks that train in `folder` into `run_dir`, whatever started them."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode().split("\0")
            places = [(process / "exe", program.DTRAIN), (process / "cwd", folder)]
            if all(os.path.samefile(link, place) for link, place in places) and run_dir in words:
                found.append(int(process.name))
    return found


def wake_when_signalled(pid, number):
    """Continues a stopped process as soon as the signal is pending, since the batch system's clock keeps running."""
    program.wait_until(lambda: program.in_status(pid, "ShdPnd", number) or not program.alive(pid), 90, f"signal {number}")
    os.kill(pid, signal.SIGCONT)


class Jobs(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.slurm = slurm.Slurm(cls.folder, cpus=8)
        except slurm.CannotRun as reason:
            raise unittest.SkipTest(str(reason)) from None
        aside = concurrent.futures.ThreadPoolExecutor(1)
        cls.addClassCleanup(aside.shutdown)
        cls.addClassCleanup(cls.slurm.stop)
        cls.write_config("job", JOB)
        # Slurm checks time limits twice a minute, so this test waits while the others run.
        cls.limited = cls.slurm.submit("limited", "--config", "job.yaml", "epochs=100000", "--run-dir", "limited", "--progress", "none",
                                       options=("--ntasks=1", "--time=1", "--signal=B:USR1@50"), DTRAIN_MAX_RESTARTS="0")
        run = program.Run(cls.folder / "limited")
        cls.limited.until(lambda: run.steps_logged() > 0, 60, "a step")
        waiting = ranks_in("limited", cls.folder)[0]
        os.kill(waiting, signal.SIGSTOP)  # it uses no processor time until it is signalled
        cls.woken = aside.submit(wake_when_signalled, waiting, signal.SIGUSR1)
        cls.good("--config", "job.yaml", "--run-dir", "undisturbed", ranks=2)
        cls.undisturbed = program.Run(cls.folder / "undisturbed")

    def same_result(self, run):
        self.assertEqual(run.hash(), self.undisturbed.hash())
        self.assertEqual(run.result_rows(), self.undisturbed.result_rows())
        self.assertTrue(run.done())

    def test_a_signalled_job_is_put_back_and_ends_with_the_bits_of_an_undisturbed_one(self):
        starting, training = [-0.1], [200]
        jobs = (("mpirun", starting), ("mpirun", training), ("srun", training))
        with concurrent.futures.ThreadPoolExecutor() as side_by_side:
            ends = [side_by_side.submit(disturbed, self.slurm, launcher, f"disturbed{number}", moments)
                    for number, (launcher, moments) in enumerate(jobs)]
            for (launcher, moments), end in zip(jobs, ends):
                with self.subTest(launcher=launcher, moments=moments):
                    run, wrong = end.result()
                    self.assertEqual(wrong, [])
                    self.same_result(run)

    def test_two_nodes_give_the_bits_of_one_process(self):
        two = slurm.Slurm(self.folder, nodes=2)
        self.addCleanup(two.stop)
        words = ("--config", "job.yaml", "--limit-steps", "40", "--run-dir")
        jobs = {launcher: two.submit(f"two_{launcher}", *words, f"two_{launcher}", options=("--nodes=2", "--ntasks-per-node=1"),
                                     DTRAIN_LAUNCHER=launcher) for launcher in ("mpirun", "srun")}
        self.good(*words, "one")
        for launcher, job in jobs.items():
            self.assertEqual(job.ended(), 0, job.log())
            self.assertIn(f"2 rank(s) on 2 node(s) by {launcher}", job.log())
            run = self.run_at(f"two_{launcher}")
            self.assertEqual(run.facts()["ranks"], 2)
            self.assertEqual(run.hash(), self.run_at("one").hash())

    def test_under_srun_a_signal_to_the_ranks_alone_does_the_same(self):
        job = self.slurm.submit("ranks", "--config", "job.yaml", "--run-dir", "ranks", DTRAIN_LAUNCHER="srun")
        run = self.run_at("ranks")
        job.until(lambda: run.steps_logged() > 100, 60, "step 100")
        job.signal()
        job.says(STOPPED)
        self.slurm.call("scancel", job.number)

    def test_an_array_trains_a_seed_in_a_folder_each(self):
        job = self.slurm.submit("array-%a", "--config", "job.yaml", "epochs=1", options=("--ntasks=2", "--array=1-2"))
        for seed in (1, 2):
            program.wait_until((self.folder / f"runs/job-seed-{seed}/DONE").exists, 200, lambda seed=seed: f"seed {seed}: {self.array_logs()}")
        program.wait_until(lambda: not self.slurm.call("squeue", "-h", "-j", job.number), 30, "the array is over")
        self.good("--config", "job.yaml", "epochs=1", "seed=2", "--run-dir", "seed_2", ranks=2)
        hashes = [self.run_at(f"runs/job-seed-{seed}").hash() for seed in (1, 2)]
        self.assertEqual(hashes[1], self.run_at("seed_2").hash())
        self.assertNotEqual(*hashes)

    def array_logs(self):
        return "".join(path.read_text() for path in self.folder.glob("array-*.log"))

    def test_the_job_ends_with_the_code_of_dtrain(self):
        for launcher in ("mpirun", "srun"):
            job = self.slurm.submit(f"wrong_{launcher}", "--config", "job.yaml", "epoch=3", DTRAIN_LAUNCHER=launcher)
            self.assertEqual(job.ended(), 78, job.log())
            self.assertIn("did you mean", job.log())

    def test_a_stopped_rank_ends_the_job_with_76_under_srun_too(self):
        job = self.slurm.submit("still", "--config", "job.yaml", "epochs=100000", "distributed.watchdog.abort=8 s", "--run-dir", "still",
                                DTRAIN_LAUNCHER="srun")
        run = self.run_at("still")
        job.until(lambda: run.steps_logged() > 20, 60, "step 20")
        ranks = ranks_in("still", self.folder)
        self.assertEqual(len(ranks), 2)
        os.kill(max(ranks), signal.SIGSTOP)
        self.assertEqual(job.ended(), 76, job.log())
        self.assertRegex(job.log(), r"dtrain: error 76 \[rank \d+ @ .*waiting for rank \d+")

    def test_tasks_that_cannot_find_each_other_are_refused(self):
        command = f"srun --mpi={{}} {program.DTRAIN} --config job.yaml --run-dir {{}}"
        job = self.slurm.wrap("lone", command.format("none", "lone"), "--ntasks=2")
        self.assertEqual(job.ended(), 78, job.log())
        self.assertRegex(job.log(), r"dtrain: error 78 \[rank 0 @ .*srun started 2 tasks without the PMIx.*srun --mpi=pmix")
        self.assertFalse((self.folder / "lone").exists())
        job = self.slurm.wrap("old", command.format("pmi2", "old"), "--ntasks=2")
        self.assertNotEqual(job.ended(), 0, job.log())
        self.assertIn("srun offers PMI-2 where Open MPI wants PMIx", job.log())
        self.assertFalse((self.folder / "old").exists())
        job = self.slurm.wrap("alone", f"{program.DTRAIN} --config job.yaml --dry-run", "--ntasks=2")
        self.assertEqual(job.ended(), 0, job.log())
        self.assertIn("runs alone inside a Slurm job of 2 tasks", job.log())

    def test_before_the_time_limit_the_job_saves_and_ends_with_75_and_restarts_have_a_limit(self):
        self.woken.result()
        self.assertEqual(self.limited.ended(), 75, self.limited.log())
        self.assertIn("not put back, because 0 restarts are as many as DTRAIN_MAX_RESTARTS allows", self.limited.log())
        self.assertEqual(self.limited.facts()["Restarts"], "0")
        saved = re.search(r"saved (limited/checkpoints/\S+\.safetensors)", self.limited.log())
        self.assertTrue((self.folder / saved[1]).exists())


def campaign(count, seed, only):
    """Signals as many jobs at random moments; the exit code is 0 if every job kept all promises."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-slurm-"))
    cluster = slurm.Slurm(folder, cpus=8)
    good = {"mpirun": 0, "srun": 0}
    done = {"mpirun": 0, "srun": 0}
    began = time.monotonic()
    try:
        (folder / "job.yaml").write_text(json.dumps(JOB))
        program.Started(("--config", "job.yaml", "--run-dir", "undisturbed"), 2, cwd=folder).wait(120)
        wanted = program.Run(folder / "undisturbed").hash()
        for number in range(1, count + 1):
            chance = random.Random(f"{seed} {number}")
            launcher = ("mpirun", "srun")[number % 2]
            # Every fourth while the job starts, the others while it trains or evaluates.
            moment = -chance.uniform(0, 1.5) if number % 4 < 1 else chance.randrange(STEPS * 9 // 10)
            if only not in (None, number):
                continue
            try:
                run, wrong = disturbed(cluster, launcher, f"run{number}", [moment])
                if not wrong and run.hash() != wanted:
                    wrong.append(f"result {run.hash()}, undisturbed {wanted}")
            except AssertionError as failure:
                wrong = [str(failure)]
            done[launcher] += 1
            good[launcher] += not wrong
            when = f"{-moment:.2f} s after the start" if moment < 0 else f"step {moment}"
            print(f"{number:3}  {launcher:6}  {when:22}  {'good' if not wrong else 'WRONG: ' + '; '.join(wrong)}", flush=True)
            if wrong:
                print(f"again: tests/slurm/jobs_test.py --count {count} --seed {seed} --only {number}", flush=True)
    finally:
        cluster.stop()
        shutil.rmtree(folder, True)
    for launcher, jobs in done.items():
        print(f"{launcher}: {jobs} signals, {good[launcher]} ended with 75, were put back, went on from the checkpoint saved then and "
              "gave the undisturbed result")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if good == done else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    arguments, rest = parser.parse_known_args()
    if arguments.count:
        sys.exit(campaign(arguments.count, arguments.seed, arguments.only))
    sys.argv[1:] = rest
    program.main(at_once=3)
