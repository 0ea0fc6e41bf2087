"""Sweeps that are killed at random moments; for scripts/chaos."""
import contextlib
import csv
import json
import os
import pathlib
import signal
import subprocess
import time

import common
from chaos_jobs import ENDS_WITHIN, JOB, Failed, Job, Trials, add_trials, events

POINTS = ("--ranks", "1,2", "--over", "optimizer.learning_rate=0.001,0.002,0.004")  # six
GONE_WITHIN = 15  # seconds


def at_work_in(folder):
    """Processes with this folder on their command line: the sweep, its mpirun, their ranks."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.fsencode(folder) in (entry / "cmdline").read_bytes() and common.alive(int(entry.name)):
                found.append(int(entry.name))
    return found


class Sweeps(Trials):
    """Six points, twelve where they are killed more than twice, and what comes out where nobody disturbs them."""

    def __init__(self, args):
        super().__init__(args, "sweep")
        self.points = POINTS if args.kills <= 2 else (*POINTS, "--repeat", "2")
        self.config = self.folder / "job.yaml"
        self.config.write_text(json.dumps({**JOB, "name": "job", "epochs": 3, "checkpoint": {"every": "4 steps"}}))
        self.seconds, self.whole = self.undisturbed()

    def job(self, folder, jobs=1):
        return Job(self.program, 1, ["sweep", "--config", self.config, *self.points, "--jobs", jobs, "--output", folder])

    def undisturbed(self):
        folder = self.folder / "undisturbed"
        job = self.job(folder)
        try:
            code = job.process.wait(5 * ENDS_WITHIN)
            seconds = time.monotonic() - job.started
        finally:
            job.kill()
        if code != 0:
            raise common.Refused(f"the undisturbed sweep ended with {code}: {job.told()}", 69)
        common.say(f"undisturbed: {len(self.results(folder))} points in {seconds:.1f} s")
        return seconds, self.results(folder)

    @staticmethod
    def results(folder):
        with open(folder / "points.csv", newline="", encoding="utf-8") as file:
            return {row["point"]: (row["state"], row["result_sha256"], row["best"]) for row in csv.DictReader(file)}


def finished(folder):
    """What tells of each finished run whether it was trained once more: its events and when it was finished."""
    return {path.parent.name: ((path.parent / "metrics.jsonl").read_bytes(), path.stat().st_mtime_ns)
            for path in folder.glob("runs/*/DONE")}


def strike(job, folder, moment):
    """Kill -9 of the sweep's process group at this moment; its jobs have groups of their own, and must end as well."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.process.wait(moment)
    if job.process.poll() is not None:
        return False
    job.kill()
    end = time.monotonic() + GONE_WITHIN
    while left := at_work_in(folder):
        if time.monotonic() > end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise Failed(f"{len(left)} processes were left {GONE_WITHIN} s after the sweep was killed")
        time.sleep(0.02)
    return True


def trial_of(campaign):
    def trial(folder, draw):
        kills, done, code = 0, {}, None
        wanted = campaign.args.kills
        while code is None:
            job = campaign.job(folder, draw.choice((1, min(2, len(os.sched_getaffinity(0))))))
            try:
                # So that the kills are spread over the sweep, of which each start takes its part.
                struck = kills < wanted and strike(job, folder, draw.uniform(0, 2.5 * campaign.seconds / wanted))
                code = None if struck else job.process.wait(5 * ENDS_WITHIN)
            finally:
                job.kill()
            now = finished(folder)
            for point, facts in done.items():
                if now.get(point) != facts:
                    raise Failed(f"{point} was trained again after it was finished")
            done = now
            kills += struck
        if code != 0:
            raise Failed(f"ended with {code} after {kills} kills: {job.told()}")
        if campaign.results(folder) != campaign.whole:
            raise Failed(f"other results after {kills} kills")
        for run in sorted(folder.glob("runs/*")):
            steps = [event["step"] for event in events(run, "step")]
            if steps != sorted(set(steps)):
                raise Failed(f"{run.name} has a step twice in metrics.jsonl")
        return kills if kills > 0 else None
    return trial


def sweep(args):
    with Sweeps(args) as campaign:
        facts, failures, late = campaign.run(trial_of(campaign))
        return campaign.tell(facts, failures, late, "kill -9", {"kills of a sweep": facts})


def add(commands):
    text = ("kill -9 of a sweep of twelve points, up to 20 times at random moments, one or two points at a time: the same twelve\n"
            "results, no point trained again after it was finished, no process left")
    parser = add_trials(commands, sweep, "sweep", text)
    parser.add_argument("--kills", type=common.count, default=20, metavar="N", help="in each trial, at most (default 20)")
