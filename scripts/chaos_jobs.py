"""Whole jobs that are killed, signalled and resumed at random moments; for scripts/chaos, and a job for scripts/gpu_check."""
import concurrent.futures
import contextlib
import csv
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import common

JOB = {
    "seed": 11,
    "device": "cpu",
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "distributed": {"logical_ranks": 4},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 3}, "image": {"size": [32, 32]},
             "split": {"valid": 12 / 60}, "augment": {"hflip": 0.5, "brightness": 0.2}},
}
STEPS_PER_EPOCH = 6
FEW = 8  # trials in a test; a campaign has more
LAST_STEPS = 3  # a job with so few steps left may end before it acts on a signal
GONE_WITHIN = 5  # seconds after which a job that lost a process must have none left
ENDS_WITHIN = 120  # seconds


class Failed(Exception):
    """A promise that was broken, in a few words."""


class Job:
    """A call of dtrain on `ranks` processes under mpirun, or alone without it for 1."""

    def __init__(self, program, ranks, words, env=None):
        start = common.launcher(ranks, "--oversubscribe") if ranks > 1 else []
        self.words = [*start, program, *map(str, words), "--progress", "none"]
        self.err = tempfile.TemporaryFile("w+")
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.err,
                                        env=env or common.environment(), start_new_session=True)
        self.program, self.alone = program, ranks == 1

    def ranks(self):
        """Process ids of the ranks, in the order of their start."""
        if self.alone:
            return [self.process.pid]
        return [pid for pid in self.children() if self.is_rank(pid)]

    def children(self):
        """Process ids of what mpirun has started, in that order."""
        with contextlib.suppress(OSError):
            tasks = sorted(pathlib.Path(f"/proc/{self.process.pid}/task").iterdir())
            return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        return []

    def is_rank(self, pid):
        with contextlib.suppress(OSError):
            return os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(self.program)
        return False

    def wait(self):
        try:
            code = self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"did not end within {ENDS_WITHIN} s") from None
        return code

    def kill(self):
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def told(self):
        self.err.seek(0)
        lines = [line.strip() for line in self.err.read().splitlines() if line.strip()]
        return next((line for line in lines if line.startswith("dtrain: error")), lines[-1] if lines else "it said nothing")


def handles(pid, number):
    """True once a process has a handler for a signal."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return int(line.split()[1], 16) >> (number - 1) & 1 == 1
    return False


def events(folder, kind):
    with contextlib.suppress(OSError):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):  # the last line may be incomplete
                found.append(json.loads(line))
        return [event for event in found if event["event"] == kind]
    return []


class Trials:
    """A folder, a program, and trials at random moments."""

    def __init__(self, args, name):
        self.args, self.name = args, name
        self.few = args.count <= FEW
        self.lock = threading.Lock()
        self.program = common.built(args.build, "dtrain", "dtrain")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-chaos-"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, trial):
        """Trials until `count` of them have struck; `trial(folder, draw)` returns facts, or None where it came too late."""
        numbers = iter([self.args.trial] if self.args.trial is not None else range(1, 100 * self.args.count))
        wanted = 1 if self.args.trial is not None else self.args.count
        facts, failures, late = [], [], 0
        next_word = time.monotonic() + 30

        def attempt(number):
            folder = self.folder / f"trial-{number}"
            try:
                return number, trial(folder, random.Random(f"{self.args.seed}/{number}")), None
            except Failed as failed:
                return number, None, str(failed)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            pending = set()
            while len(facts) + len(failures) < wanted:
                while len(pending) < min(self.args.jobs, wanted - len(facts) - len(failures)):
                    if (number := next(numbers, None)) is None:
                        break
                    pending.add(pool.submit(attempt, number))
                if not pending:
                    raise common.Refused("the trial came after the job's end, where it changes nothing; again")
                done, pending = concurrent.futures.wait(pending, return_when=concurrent.futures.FIRST_COMPLETED)
                for number, fact, failure in (future.result() for future in done):
                    if failure:
                        failures.append(failure)
                        common.say(f"FAILED: {failure}; again: scripts/chaos {self.name} --count {self.args.count} "
                                   f"--seed {self.args.seed} --trial {number}")
                    elif fact is None:
                        late += 1
                    else:
                        facts.append(fact)
                if time.monotonic() > next_word:
                    next_word += 30
                    common.say(f"{len(facts)} of {wanted} held, {len(failures)} failed")
        return facts, failures, late

    def tell(self, facts, failures, late, what, others):
        print(f"{what}  {len(facts) + len(failures)}")
        print(f"held  {len(facts)}")
        print(f"failed  {len(failures)}")
        print(f"came after the end, not counted  {late}")
        for name, values in others.items():
            print(f"{name}  median {statistics.median(values):.2f}, highest {max(values):.2f}" if values else f"{name}  none")
        if failures:
            raise common.Refused(f"{len(failures)} of {len(facts) + len(failures)} trials failed; the lines above repeat each")
        return 0


class Campaign(Trials):
    """Trials against the run that nobody disturbed."""

    def __init__(self, args, name, epochs, save_every="1 step"):
        super().__init__(args, name)
        self.epochs = epochs
        self.hash, self.seconds, self.training = None, {}, {}  # of the undisturbed run; by number of processes
        (self.folder / "job.yaml").write_text(json.dumps({**JOB, "epochs": epochs, "checkpoint": {"every": save_every, "keep": 3}}))

    def job(self, folder, ranks, *words):
        return Job(self.program, ranks, ["--config", self.folder / "job.yaml", "--run-dir", folder, *words])

    def to_its_end(self, folder, ranks, *words):
        job = self.job(folder, ranks, *words)
        code = job.wait()
        if code != 0:
            raise Failed(f"ended with {code} on {ranks} processes: {job.told()}")
        return time.monotonic() - job.started

    def result(self, folder):
        return json.loads((folder / "run.json").read_text())["result_sha256"]

    def undisturbed(self, ranks):
        """Runs the job once on so many processes, to learn how long it takes and its result, the same on any number."""
        with self.lock:
            if ranks in self.seconds:
                return
            folder = self.folder / f"undisturbed-{ranks}"
            seconds = self.to_its_end(folder, ranks)
            with open(folder / "epochs.csv", newline="", encoding="utf-8") as rows:
                self.training[ranks] = float(list(csv.DictReader(rows))[-1]["elapsed_s"])
            if self.hash not in (None, self.result(folder)):
                raise common.Refused(f"the undisturbed run has another result on {ranks} processes")
            self.hash, self.seconds[ranks] = self.result(folder), seconds
            common.say(f"undisturbed: {self.epochs * STEPS_PER_EPOCH} steps, result {self.hash[:16]}…, {seconds:.2f} s on {ranks}")

    def begin(self, folder, ranks):
        """A job to be disturbed. How long it takes is measured before the first of many trials, or when few trials need
        it."""
        for count in (ranks,) if self.few else (1, 2, 3, 4):
            self.undisturbed(count)
        return self.job(folder, ranks)

    def wait_for_moment(self, job, folder, ranks, draw):
        """Waits for a random moment: a fifth of them during the start, the others during training and its end. Returns
        False if the job has ended."""
        if draw.random() < 0.2:
            until = job.started + draw.uniform(0.05, 1) * (self.seconds[ranks] - self.training[ranks])
        else:
            while not events(folder, "step") and job.process.poll() is None:
                time.sleep(0.005)
            until = time.monotonic() + draw.uniform(0, 1) * self.training[ranks]
        time.sleep(max(0, until - time.monotonic()))
        return job.process.poll() is None

    def too_late(self, folder, code):
        """Whether USR1 came too late to stop the run. Once its ranks are done mpirun no longer passes it on, and dies
        of it."""
        if code not in (0, -signal.SIGUSR1) or not (folder / "DONE").exists():
            return False
        if self.result(folder) != self.hash:
            raise Failed(f"DONE beside another result, and code {code}")
        return True

    def nearly_done(self, folder):
        return len(events(folder, "step")) >= self.epochs * STEPS_PER_EPOCH - LAST_STEPS

    def resumes(self, folder, draw):
        """Checks that the run continues from what it last reported as saved, or later, to the undisturbed hash."""
        saved = max((event["step"] for event in events(folder, "checkpoint") if "failed" not in event), default=None)
        begun = len(events(folder, "resume"))
        ranks = draw.choice((1, 2, 3, 4))
        self.to_its_end(folder, ranks)
        resumed = events(folder, "resume")[begun:]
        if saved is not None and (not resumed or resumed[-1]["step"] < saved):
            raise Failed(f"step {saved} had been saved, but the run began at {resumed[-1]['step'] if resumed else 'the start'}")
        if self.result(folder) != self.hash:
            raise Failed(f"resumed on {ranks} processes it gave another result")
        if not (folder / "DONE").exists():
            raise Failed("no DONE")
        steps = [event["step"] for event in events(folder, "step")]
        if steps != list(range(1, self.epochs * STEPS_PER_EPOCH + 1)):
            raise Failed("metrics.jsonl has not every step once")
        return resumed[-1]["step"] if resumed else 0


def epochs_of(args):
    """Few trials use a job of half the length; so the command that repeats one trial alone names the original count."""
    return 6 if args.count <= FEW else 12


def kill(args):
    """kill -9 of one rank, of mpirun, or of all."""
    with Campaign(args, "kill", epochs=epochs_of(args)) as campaign:
        def trial(folder, draw):
            ranks = draw.choice((2, 3, 4))
            whom = draw.choice(("rank", "rank", "rank", "mpirun", "all"))
            job = campaign.begin(folder, ranks)
            try:
                if not campaign.wait_for_moment(job, folder, ranks, draw):
                    return None
                pids = job.ranks()
                victims = {"rank": [draw.choice(pids)] if pids else [], "mpirun": [job.process.pid], "all": [*pids, job.process.pid]}[whom]
                for pid in victims:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                if not victims:
                    return None
                struck, nearly_done = time.monotonic(), campaign.nearly_done(folder)
                while any(map(common.alive, pids)) or (whom == "rank" and job.process.poll() is None):
                    if time.monotonic() > struck + 60:
                        raise Failed(f"60 s after kill -9 of {whom} of {ranks} ranks, processes are left")
                    time.sleep(0.01)
                gone = time.monotonic() - struck
                code = job.wait()
                if code == 0 and nearly_done:
                    return None
                if code == 0:
                    raise Failed(f"kill -9 of {whom} of {ranks} ranks ended with 0")
                if (folder / "DONE").exists():  # the job was done before it was struck
                    if campaign.result(folder) != campaign.hash:
                        raise Failed("DONE beside another result")
                    return None
                if gone > GONE_WITHIN:
                    raise Failed(f"{gone:.1f} s after kill -9 of {whom} of {ranks} ranks, processes were left")
            finally:
                job.kill()
            return {"gone": gone, "step": campaign.resumes(folder, draw)}

        facts, failures, late = campaign.run(trial)
        return campaign.tell(facts, failures, late, "kill -9", {"seconds until all were gone": [fact["gone"] for fact in facts],
                                                                "resumed at step": [fact["step"] for fact in facts]})


def signals(args):
    """USR1 through mpirun."""
    with Campaign(args, "signals", epochs=epochs_of(args), save_every="1000000 epochs") as campaign:
        def trial(folder, draw):
            ranks = draw.choice((1, 2, 3, 4))
            job = campaign.begin(folder, ranks)
            try:
                while True:
                    pids = job.ranks()
                    if len(pids) == ranks and all(handles(pid, signal.SIGUSR1) for pid in pids):
                        break
                    if job.process.poll() is not None:
                        return None
                    time.sleep(0.005)
                if not campaign.wait_for_moment(job, folder, ranks, draw):
                    return None
                nearly_done = campaign.nearly_done(folder)
                job.process.send_signal(signal.SIGUSR1)
                sent = time.monotonic()
                code = job.wait()
                took = time.monotonic() - sent
            finally:
                job.kill()
            if nearly_done and campaign.too_late(folder, code):
                return None
            if code != 75:
                raise Failed(f"USR1 to {ranks} ranks ended with {code}, not 75: {job.told()}")
            steps = [event["step"] for event in events(folder, "step")]
            resumed = campaign.resumes(folder, draw)
            if steps and resumed != steps[-1]:
                raise Failed(f"{steps[-1]} steps were taken, but the run went on from {resumed}")
            return {"took": took, "step": resumed}

        facts, failures, late = campaign.run(trial)
        return campaign.tell(facts, failures, late, "USR1", {"seconds to the end": [fact["took"] for fact in facts],
                                                             "resumed at step": [fact["step"] for fact in facts]})


def resume(args):
    """A stop after every step, each start on another number of processes."""
    ranks_in_turn = (1, 4, 2, 3)
    epochs = -(-args.count // STEPS_PER_EPOCH)
    with Campaign(args, "resume", epochs=epochs) as campaign:
        campaign.undisturbed(1)
        folder = campaign.folder / "chain"
        for step in range(1, args.count + 1):
            ranks = ranks_in_turn[step % len(ranks_in_turn)]
            try:
                campaign.to_its_end(folder, ranks, "--limit-steps", "1")
            except Failed as failed:
                raise common.Refused(f"start {step}: {failed}") from None
            steps = [event["step"] for event in events(folder, "step")]
            if steps != list(range(1, step + 1)):
                raise common.Refused(f"after start {step} metrics.jsonl ends at step {steps[-1] if steps else 'none'}")
            if step % 50 == 0:
                common.say(f"{step} starts")
        campaign.to_its_end(folder, 2)
        print(f"starts  {args.count + 1}")
        print(f"resumes  {len(events(folder, 'resume'))}")
        print(f"result  {campaign.result(folder)}")
        if campaign.result(folder) != campaign.hash:
            raise common.Refused("the undisturbed run gave another result")
        return 0


def add_trials(commands, command, name, text):
    """A command of trials at random moments."""
    parser = commands.add_parser(name, prog=f"scripts/chaos {name}", help=text.replace("\n", " "), description=text)
    parser.add_argument("--count", type=common.count, default=1, metavar="N", help="trials that strike (default 1)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, other moments (default 1)")
    parser.add_argument("--trial", type=common.count, metavar="K", help="this trial alone: what a failure's line asks for")
    parser.add_argument("--jobs", type=common.count, default=1, metavar="N", help="trials at a time (default 1)")
    add_build(parser, command)
    return parser


def add_build(parser, command):
    parser.add_argument("--build", default=common.TOP / "build/release", metavar="DIR", help="build folder (default build/release)")
    parser.set_defaults(command=command)


def add(commands):
    add_trials(commands, kill, "kill",
               "kill -9 of a random rank, of mpirun or of all, at a random moment, a checkpoint after every step; then\n"
               "the run must go on, on 1 to 4 processes, from what it had called saved to the undisturbed result")
    add_trials(commands, signals, "signals",
               "USR1 at a random moment through mpirun: code 75, no step lost, then on to the undisturbed result")
    text = "a stop after every one of N steps, each start on another number of processes (1, 4, 2, 3)"
    parser = commands.add_parser("resume", prog="scripts/chaos resume", help=text, description=text)
    parser.add_argument("--count", type=common.count, required=True, metavar="N", help="steps")
    add_build(parser, resume)
