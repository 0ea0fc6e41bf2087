"""Predictions that are killed at random moments; for scripts/chaos."""
import contextlib
import csv
import io
import json
import os
import shutil
import signal
import time

import common
from chaos_jobs import Failed, Job, Trials, add_trials

PICTURES, COPIES = 16, 12
CONFIG = {"epochs": 1, "seed": 3, "device": "cpu", "batch": {"per_rank": 2}, "model": {"name": "unet", "base_width": 2},
          "data": {"format": "image_mask", "image": {"size": [96, 128]}, "split": {"valid": 0.25}}}


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Predictions(Trials):
    """Masks of some pictures by a small network, as they are when nobody disturbs it."""

    def __init__(self, args):
        super().__init__(args, "predict")
        self.config = self.folder / "job.yaml"
        self.config.write_text(json.dumps({**CONFIG, "data": {**CONFIG["data"], "root": str(self.folder / "cells")}}))
        self.calls("sample", "--kind", "cells", "--count", PICTURES, "--output", self.folder / "cells")
        self.calls("--config", self.config, "--run-dir", self.folder / "run", "--progress", "none")
        for copy in range(COPIES):
            shutil.copytree(self.folder / "cells/images", self.folder / f"new/{copy}")
        self.whole, self.seconds, self.predicting = None, {}, {}  # undisturbed; seconds by number of processes

    def calls(self, *words):
        ended = common.run([self.program, *map(str, words)], env=common.environment())
        if ended.code != 0:
            raise common.Refused(f"dtrain {words[0]} {ended.how()}: {ended.last_words()}", 69)

    def job(self, folder, ranks):
        return Job(self.program, ranks, ["predict", "--checkpoint", self.folder / "run", "--input", self.folder / "new",
                                         "--batch", "1", "--output", folder])

    @staticmethod
    def begins(job, folder):
        """Waits for its predict.json, or its end; when that was."""
        while not (folder / "predict.json").exists() and job.process.poll() is None:
            time.sleep(0.002)
        return time.monotonic()

    def to_its_end(self, folder, ranks):
        """Seconds of all of it, and of its predictions."""
        job = self.job(folder, ranks)
        begun = self.begins(job, folder)
        code = job.wait()
        if code != 0:
            raise Failed(f"ended with {code} on {ranks} processes: {job.told()}")
        return time.monotonic() - job.started, time.monotonic() - begun

    def wait_for_moment(self, job, folder, ranks, draw):
        """A fifth of the moments lie in the start, the others in the predictions and their end."""
        if draw.random() < 0.2:
            until = job.started + draw.uniform(0, 1) * (self.seconds[ranks] - self.predicting[ranks])
        else:
            until = self.begins(job, folder) + draw.uniform(0, 1) * self.predicting[ranks]
        time.sleep(max(0, until - time.monotonic()))

    def undisturbed(self, ranks):
        with self.lock:
            if ranks in self.seconds:
                return
            folder = self.folder / f"undisturbed-{ranks}"
            self.seconds[ranks], self.predicting[ranks] = self.to_its_end(folder, ranks)
            if self.whole not in (None, files_in(folder)):
                raise common.Refused(f"the undisturbed prediction has other bytes on {ranks} processes")
            self.whole = files_in(folder)
            common.say(f"undisturbed: {len(self.whole)} files, {self.seconds[ranks]:.2f} s on {ranks}")

    def whole_so_far(self, folder):
        """What stands under its own name is complete, and all of it that predict.json counts is there; how many batches."""
        left = files_in(folder)
        own = {"predict.json", ".lock", "predictions.csv.part"}
        for name, content in left.items():
            if name not in own and not name.endswith(".tmp") and content != self.whole.get(name):
                raise Failed(f"{name} was left half-written")
        if "predict.json" not in left:
            return 0
        standing = json.loads(left["predict.json"])
        table = self.whole["predictions.csv"]
        rows = left.get("predictions.csv.part", left.get("predictions.csv", b""))[:standing["rows_bytes"]]
        if len(rows) < standing["rows_bytes"] or not table.startswith(rows):
            raise Failed("predict.json counts rows that are not there")
        counted = list(csv.DictReader(io.StringIO(rows.decode(), newline="")))
        for row in counted:
            mask = f"masks/{row['path'].rpartition('.')[0]}.png"
            if mask in self.whole and mask not in left:
                raise Failed(f"predict.json counts {len(counted)} pictures, and {mask} is not there")
        return standing["batches"]


def trial_of(campaign):
    def trial(folder, draw):
        ranks, whom = draw.choice((1, 2)), draw.choice(("rank", "all"))
        campaign.undisturbed(ranks)
        job = campaign.job(folder, ranks)
        try:
            campaign.wait_for_moment(job, folder, ranks, draw)
            pids = job.ranks()
            for pid in [draw.choice(pids)] if whom == "rank" and pids else [*pids, job.process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if job.wait() == 0:
                return None
        finally:
            job.kill()
        done = campaign.whole_so_far(folder) if folder.exists() else 0
        again = draw.choice((1, 2, 3))
        campaign.to_its_end(folder, again)
        left = files_in(folder)
        if left != campaign.whole:
            other = sorted(name for name in {*left, *campaign.whole} if left.get(name) != campaign.whole.get(name))
            raise Failed(f"killed on {ranks} and resumed on {again} processes, {other[0]} has other bytes")
        return done
    return trial


def predict(args):
    with Predictions(args) as campaign:
        facts, failures, late = campaign.run(trial_of(campaign))
        return campaign.tell(facts, failures, late, "kill -9", {"batches on the disk by then": facts})


def add(commands):
    add_trials(commands, predict, "predict",
               "kill -9 of a rank or of all of dtrain predict at a random moment: no file is left half-written under its name, and\n"
               "the same command on another number of processes ends with the undisturbed bytes")
