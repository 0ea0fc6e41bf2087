"""Imported by scripts/chaos: training runs that are made to stall, or to be slow, at random moments."""
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

import common

KINDS = ("stop", "disk", "link")
HOSTS = str(common.TOP / "scripts/hosts")
PATIENCE = 90  # seconds beyond the watchdog's limit within which a trial must end
PICTURES = 96
# A small run that would take days.
CONFIG = {
    "epochs": 1000000, "model": {"name": "small_cnn"}, "batch": {"per_rank": 2},
    "data": {"format": "image_folder", "root": "pictures", "image": {"size": [32, 32]}, "split": {"valid": 0.25}},
    "checkpoint": {"every": "40 steps", "keep": 2},
}


def processes(folder):
    """{rank: pid} of the processes that train with this working directory, without the launcher."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") != str(folder) or os.path.basename(os.readlink(entry / "exe")) != "dtrain":
                continue
            rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", (entry / "environ").read_bytes())
            if rank:
                found[int(rank[1])] = int(entry.name)
    return found


def leased(descriptor):
    with contextlib.suppress(BlockingIOError):  # another process has the file open
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return True
    return False


def blocked(pid):
    """Whether a thread of the process waits for a file on which another process has a lease."""
    for place in pathlib.Path(f"/proc/{pid}/task").glob("*/wchan"):
        with contextlib.suppress(OSError):
            if place.read_text() == "__break_lease":
                return True
    return False


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.02)


class Wrong(common.Refused):
    """What went wrong in a trial."""


class Training:
    """One job in its own folder."""

    def __init__(self, folder, dtrain, ranks, warn, abort, hosts=0):
        self.folder, self.ranks = folder, ranks
        (folder / "run.yaml").write_text(json.dumps({**CONFIG, "distributed": {
            "logical_ranks": 4, "watchdog": {"warn": f"{warn} s", "abort": f"{abort} s"}}}), encoding="utf-8")
        words = [dtrain, "--config", "run.yaml", "--run-dir", "run", "--progress", "none"]
        launch = [HOSTS, "run", "--hosts", str(hosts), "-np", str(ranks), "--"] if hosts else \
            common.launcher(ranks, "--oversubscribe")
        env = {name: value for name, value in common.environment(DTRAIN_CONFIG__DEVICE="cpu").items()
               if not name.startswith(("OMPI_COMM", "PMIX_"))}
        self.said = open(folder / "said.txt", "w+", encoding="utf-8")  # closed with the object
        self.process = subprocess.Popen([*launch, *words], stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said,
                                        cwd=folder, env=env, start_new_session=True)
        self.pids = {}
        self.leased = -1  # a picture on which this process has a lease

    def begin(self):
        """Waits for the third step."""
        log = self.folder / "run/metrics.jsonl"

        def steps():
            with contextlib.suppress(OSError):
                return log.read_text(encoding="utf-8").count('"event":"step"')
            return 0
        until(lambda: steps() >= 3 or self.process.poll() is not None, PATIENCE, "the third step")
        self.pids = processes(self.folder)
        if len(self.pids) != self.ranks:
            raise Wrong(f"ended before the third step: {self.text()[-300:]}")

    def text(self):
        return (self.folder / "said.txt").read_text(encoding="utf-8", errors="replace")

    def errors(self):
        return [line for line in self.text().splitlines() if line.startswith("dtrain: error ")]

    def send(self, rank, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[rank], number)

    def wait(self, seconds):
        """The exit code."""
        until(lambda: self.process.poll() is not None, seconds, "the job's end")
        until(lambda: not any(map(common.alive, self.pids.values())), 10, "the end of every rank")
        return self.process.returncode

    def close(self):
        for pid in {*self.pids.values(), *processes(self.folder).values()}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.said.close()
        if self.leased >= 0:
            os.close(self.leased)


class Trial:
    """The trial that a seed and a number define."""

    def __init__(self, seed, number, kinds):
        draw = random.Random(f"{seed}/{number}")
        self.kind = draw.choice(kinds)
        self.ranks = 4 if self.kind == "link" else draw.randint(2, 4)
        self.victim = draw.randrange(self.ranks)
        self.moment = draw.uniform(0, 3)  # seconds after the third step
        self.draw = draw

    def hang_disk(self, training, pictures):
        """This process takes a lease on one picture: a process that opens it waits, as on a disk that hangs, for up to
        45 s (/proc/sys/fs/lease-break-time). The rank that does is the victim."""
        training.leased = os.open(self.draw.choice(pictures), os.O_RDONLY)
        until(lambda: leased(training.leased), PATIENCE, "a lease on a picture")
        waiting = []

        def seen():  # looks at each thread once: by a second look it may have been continued
            waiting.extend(rank for rank, pid in training.pids.items() if blocked(pid))
            return waiting
        until(seen, PATIENCE, "a rank opens the picture")
        self.victim = waiting[0]

    def act(self, training, pictures):
        time.sleep(self.moment)
        if self.kind == "stop":
            training.send(self.victim, signal.SIGSTOP)
        elif self.kind == "disk":
            self.hang_disk(training, pictures)
        else:
            link("down")

    def behind(self):
        """Ranks 0 and 1 are on host1, 2 and 3 on host2, whose link is cut."""
        return "ranks 2, 3" if self.kind == "link" else f"rank {self.victim}"

    def judge(self, code, errors):
        """Output of host2 does not come through a cut link."""
        if code != 76:
            raise Wrong(f"exit code {code}: {' '.join(errors)}")
        if len(errors) != 1:
            raise Wrong(f"{len(errors)} last lines: {' '.join(errors)}")
        itself = rf"\[{self.behind()} @ .*; the other ranks wait for this one"
        if not re.search(rf"waiting for {self.behind()}, last seen in |{itself}", errors[0]):
            raise Wrong(f"does not name {self.behind()}: {errors[0]}")

    def records(self, folder):
        """Every rank that can has left its flight record."""
        there = {int(path.stem[5:]) for path in (folder / "run/flight").glob("rank-*.json")}
        dumb = {"stop": {self.victim}, "disk": set(), "link": {2, 3}}[self.kind]
        if missing := set(range(self.ranks)) - dumb - there:
            raise Wrong(f"no flight record of rank {', '.join(map(str, sorted(missing)))}")


def inside(host, line):
    done = subprocess.run([HOSTS, "rsh", host, line], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise common.Refused(f"'{line}' failed in {host}: {done.stderr.strip()}", 69)


def link(state):
    inside("host2", f"ip link set eth0 {state}")


@contextlib.contextmanager
def hosts_up(wanted):
    """Turns this machine into two hosts, if the trials need them."""
    if wanted:
        up = subprocess.run([HOSTS, "up", "2"], capture_output=True, text=True, check=False)
        if up.returncode != 0:
            raise common.Refused(f"{up.stderr.strip()}; without links: --kinds stop,disk", up.returncode)
        # mpirun waits for its helper on a lost host until TCP gives up: after 15 minutes, in these hosts after about 13
        # s.
        for host in ("host1", "host2"):
            inside(host, "echo 5 >/proc/sys/net/ipv4/tcp_retries2")
    try:
        yield
    finally:
        if wanted:
            subprocess.run([HOSTS, "down"], capture_output=True, check=False)


@contextlib.contextmanager
def training_in(folder, dtrain, *how, **more):
    """A training run on its own pictures, and their list."""
    made = subprocess.run([dtrain, "sample", "--kind", "chips", "--count", str(PICTURES), "--output", "pictures"], cwd=folder,
                          env=common.environment(), capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise common.Refused(f"no pictures could be made: {made.stderr.strip()}", 69)
    training = Training(folder, dtrain, *how, **more)
    try:
        training.begin()
        yield training, sorted(path for path in (folder / "pictures").rglob("*") if path.suffix == ".png")
    finally:
        training.close()


def one_stall(dtrain, trial, abort):
    """Seconds from the fault to the end of the job."""
    with tempfile.TemporaryDirectory(prefix="dtrain-chaos-") as name:
        folder = pathlib.Path(name).resolve()
        with training_in(folder, dtrain, trial.ranks, abort / 2, abort, hosts=2 if trial.kind == "link" else 0) as (training, pictures):
            try:
                trial.act(training, pictures)
                since = time.monotonic()
                code = training.wait(abort + PATIENCE)
                seconds = time.monotonic() - since
            finally:
                if trial.kind == "link":
                    link("up")
            trial.judge(code, training.errors())
            trial.records(folder)
            return seconds


def stalls(args):
    dtrain = common.built(args.build, "dtrain", "dtrain")
    trials = [args.trial] if args.trial is not None else range(args.count)
    rows = {kind: [] for kind in args.kinds}
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel's signal that somebody waits for a lease

    def attempt(number):
        trial = Trial(args.seed, number, args.kinds)
        try:
            seconds, verdict = one_stall(dtrain, trial, args.abort), ""
        except Wrong as what:
            seconds, verdict = None, f"WRONG: {what}"
        common.say(f"{trial.kind}, {trial.ranks} ranks: {verdict or f'76 after {seconds:.1f} s, {trial.behind()} named'}; again: "
                   f"scripts/chaos stalls --count 1 --seed {args.seed} --trial {number} --kinds {','.join(args.kinds)}")
        return trial.kind, seconds

    jobs = 1 if "link" in args.kinds else args.jobs  # there is one link
    with hosts_up("link" in args.kinds), concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for kind, seconds in pool.map(attempt, trials):
            if seconds is not None:
                rows[kind].append(seconds)
    wrong = len(trials) - sum(map(len, rows.values()))
    print(f"{'':6}  stalls  named, ended with 76, no process left  longest s")
    for kind, seconds in rows.items():
        print(f"{kind:6}  {len(seconds):6}  {len(seconds):39}  {max(seconds, default=0):9.1f}")
    if wrong:
        raise common.Refused(f"{wrong} of {len(trials)} stalls ended otherwise; the lines above replay them")
    return 0


def slow(args):
    """Runs one job after another in which ranks stall again and again, each time for less than the limit."""
    dtrain = common.built(args.build, "dtrain", "dtrain")
    end = time.monotonic() + 60 * args.minutes
    jobs = pauses = 0
    while time.monotonic() < end:
        draw = random.Random(f"{args.seed}/{jobs}")
        ranks = draw.randint(2, 4)
        again = f"scripts/chaos slow --minutes 1 --seed {args.seed}"
        with tempfile.TemporaryDirectory(prefix="dtrain-chaos-") as name:
            with training_in(pathlib.Path(name).resolve(), dtrain, ranks, args.abort / 4, args.abort) as (training, _):
                until_then = min(end, time.monotonic() + 60)
                while time.monotonic() < until_then and training.process.poll() is None:
                    sleepers = draw.sample(range(ranks), draw.randint(1, ranks))
                    for rank in sleepers:
                        training.send(rank, signal.SIGSTOP)
                    time.sleep(draw.uniform(0.1, 0.6) * args.abort)
                    for rank in sleepers:
                        training.send(rank, signal.SIGCONT)
                    time.sleep(draw.uniform(0, 0.2) * args.abort)
                    pauses += 1
                for rank in training.pids:
                    training.send(rank, signal.SIGUSR1)
                code = training.wait(PATIENCE)
                if code != 75:
                    raise common.Refused(f"a slow job ended with {code}: {' '.join(training.errors())}; {again}")
        jobs += 1
        common.say(f"{jobs} jobs, {pauses} pauses, no false alarm")
    print(f"{jobs} jobs, {pauses} pauses of up to {0.6 * args.abort:.0f} s under a limit of {args.abort:.0f} s: no false alarm")
    return 0
