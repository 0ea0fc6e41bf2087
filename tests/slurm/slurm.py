"""A Slurm only for this test (scripts/slurm/cluster), and jobs of the shipped batch script on it."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import program  # noqa: E402

CLUSTER = str(program.ROOT / "scripts/slurm/cluster")
SCRIPT = str(program.ROOT / "scripts/slurm/train.sbatch")
# Not installed; a daemon does not start here, as in some containers; no right to. DTRAIN_REQUIRE_ALL=1 makes failures of them.
CANNOT_RUN = (66, 70, 77)
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")


class CannotRun(Exception):
    """Slurm cannot be started on this machine; the text says why."""


class Slurm:
    """Daemons that run until stop(). Jobs run in `folder` and write there."""

    def __init__(self, folder, nodes=1, cpus=4):
        self.folder, self.home = pathlib.Path(folder), pathlib.Path(folder) / f"slurm{nodes}"
        started = self.cluster("start", "--nodes", nodes, "--cpus", cpus)
        if started.returncode in CANNOT_RUN:
            raise CannotRun(started.stderr.strip().splitlines()[-1])
        if started.returncode != 0:
            raise AssertionError(started.stderr)
        lines = (self.home / "env").read_text().splitlines()
        self.variables = dict(line.removeprefix("export ").split("=", 1) for line in lines)

    def cluster(self, command, *options):
        return subprocess.run([CLUSTER, command, self.home, *map(str, options)], env=program.environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def stop(self):
        return self.cluster("stop")

    def ended(self, *words, **variables):
        """A command that talks to this Slurm, run to its end."""
        env = program.environment({**self.variables, "DTRAIN": program.DTRAIN, **variables})
        # Uses this build's mpirun even if PATH would find another.
        if os.path.isabs(program.MPIEXEC):
            env["PATH"] = os.path.dirname(program.MPIEXEC) + os.pathsep + env["PATH"]
        return subprocess.run([str(word) for word in words], cwd=self.folder, env=env, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)

    def call(self, *words, **variables):
        """A command of Slurm; returns what it printed."""
        done = self.ended(*words, **variables)
        if done.returncode != 0:
            raise AssertionError(f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, name, *words, options=("--ntasks=2",), **variables):
        """A job of the shipped script; its output is in NAME.log."""
        number = self.call("sbatch", "--parsable", f"--output={name}.log", *options, SCRIPT, *words, **variables)
        return Job(self, number.strip(), self.folder / f"{name}.log")

    def wrap(self, name, command, *options, **variables):
        """A job of one shell command."""
        number = self.call("sbatch", "--parsable", f"--output={name}.log", *options, "--wrap", command, **variables)
        return Job(self, number.strip(), self.folder / f"{name}.log")


class Job:
    def __init__(self, slurm, number, log):
        self.slurm, self.number, self.log_path = slurm, number, log

    def facts(self):
        words = self.slurm.call("scontrol", "--oneliner", "show", "job", self.number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    def says(self, text, seconds=60, times=1):
        self.until(lambda: self.log().count(text) >= times, seconds, f"{times} x {text!r}")

    def until(self, condition, seconds, what):
        """Waits for the condition; checked 20 times a second, and again after the job has ended, since it may hold by
        then."""
        end, asked = time.monotonic() + seconds, time.monotonic()
        while not condition():
            if time.monotonic() < asked + 0.5:
                time.sleep(0.05)
                continue
            asked = time.monotonic()
            if self.facts()["JobState"] in OVER and not condition():
                raise AssertionError(f"job {self.number} ended without: {what}\n{self.facts()}\n{self.log()}")
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s in vain: {what}\n{self.facts()}\n{self.log()}")

    def signal(self, *options):
        self.slurm.call("scancel", *options, "--signal=USR1", self.number)

    def ended(self, seconds=90):
        """The job's exit code, once it has finally ended."""
        end = time.monotonic() + seconds
        while self.facts()["JobState"] not in OVER:  # each check starts a program
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s in vain: job {self.number} to end: {self.log()}")
            time.sleep(0.3)
        code, signal = map(int, self.facts()["ExitCode"].split(":"))
        return 128 + signal if signal else code
