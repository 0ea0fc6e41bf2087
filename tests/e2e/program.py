"""What the end-to-end tests share: starting dtrain alone or under mpirun, small data sets, reading what a run wrote.

CMake names the programs in DTRAIN_PROGRAM and DTRAIN_MPIEXEC; a test started by hand finds the release build.
"""

import concurrent.futures
import contextlib
import csv
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GIVEN = os.environ.get("DTRAIN_PROGRAM", str(ROOT / "build/release/bin/dtrain"))
DTRAIN = os.path.abspath(shutil.which(GIVEN) or GIVEN)  # tests run in folders of their own
MPIEXEC = os.environ.get("DTRAIN_MPIEXEC", "mpirun")
# Set by CMake if dtrain was built with a sanitizer: then it is slower, and takes terabytes of address space.
SANITIZED = bool(os.environ.get("DTRAIN_SANITIZED"))
PATIENCE = 6 if SANITIZED else 1  # factor for all time limits
if SANITIZED:
    # Open MPI leaves 120 KB behind.
    os.environ["ASAN_OPTIONS"] = ":".join(filter(None, ["detect_leaks=0", os.environ.get("ASAN_OPTIONS")]))
SKIPPED = 4  # CTest's SKIP_RETURN_CODE of these tests
# Columns of epochs.csv about times and the number of processes; all others belong to the result.
OF_THE_MACHINE = {
    "compute_s", "imbalance_s", "update_s",
    "epoch_seconds", "elapsed_s", "images_per_s", "data_wait_s", "allreduce_s", "valid_seconds", "queue_fill",
    "read_mb_per_s", "gpu_util_percent", "memory_peak_mb", "gpu_memory_peak_mb", "ranks",
}
# Under nohup SIGHUP is ignored, and started programs inherit that. They do not inherit a handler.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
GROUPS = itertools.count(1)
# Signs of a crash.
CRASHES = ("terminate called", "Segmentation fault", "core dumped", "Backtrace", "frame #", "what():", "Aborted", "signal 6", "signal 11")


def environment(extra=None):
    """This process's environment without what a launcher, a batch system or another test may have left in it."""
    foreign = ("DTRAIN_", "OMPI_COMM", "PMIX_", "PMI_", "SLURM_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    # Several ranks on the one GPU of a workstation would be refused.
    clean.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", DTRAIN_CONFIG__DEVICE="cpu")
    clean.update(extra or {})
    return clean


def command(words, ranks=None):
    launcher = [] if ranks is None else [MPIEXEC, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    return launcher + [DTRAIN] + [str(word) for word in words]


# Command prefixes (through=) that set up a process before the call. Python's own way, preexec_fn, would run in a copy
# of a process with many threads, in which a lock may be held for ever.
def limited(what, most):
    """A limit by its name in prlimit, as in limited("data", 3 << 30)."""
    if SANITIZED and what in ("as", "data"):
        raise unittest.SkipTest("a sanitizer takes more memory than any such limit")
    return ["prlimit", f"--{what}={most}"]


@contextlib.contextmanager
def limited_memory(most):
    """A command prefix, too: a control group with that limit in bytes. Skips the test where none can be made."""
    if SANITIZED:
        raise unittest.SkipTest("a sanitizer takes more memory than any such limit")
    first = "memory" in [line.split(":")[1] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
    base, limit = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes") if first else ("/sys/fs/cgroup", "memory.max")
    group = pathlib.Path(base) / f"dtrain-test-{os.getpid()}-{next(GROUPS)}"
    enter = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group)]

    def removed():
        with contextlib.suppress(OSError):
            group.rmdir()
        return not group.exists()
    try:
        group.mkdir()
        (group / limit).write_text(str(most))
        subprocess.run([*enter, "true"], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as why:
        removed()
        raise unittest.SkipTest(f"no control group can limit memory here: {why}") from why
    try:
        yield enter
    finally:
        wait_until(removed, 10, f"{group} to be empty")


def redirected(streams):
    """Streams as a shell writes them: redirected(">/dev/full 2>&-")."""
    return ["sh", "-c", f'exec "$0" "$@" {streams}']


def unread(descriptor):
    """A pipe that is no longer read."""
    return ["sh", "-c", f'pipe=$(mktemp -u) && mkfifo "$pipe" && exec 9<>"$pipe" {descriptor}>"$pipe" 9<&- && rm "$pipe" && exec "$0" "$@"']


def without_write_override():
    """Root may write anywhere; without this capability a folder's permissions apply to root as well."""
    return ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []


def commands_of_ranks(words_of_ranks, env_of_ranks=None):
    """One job whose ranks are started with different words, and each with its own environment beside the job's."""
    line = [MPIEXEC, "--oversubscribe", "--bind-to", "none"]
    for rank, words in enumerate(words_of_ranks):
        extra = [word for name, value in (env_of_ranks or {}).get(rank, {}).items() for word in ("-x", f"{name}={value}")]
        line += ([":"] if rank else []) + ["-np", "1", *extra, DTRAIN] + [str(word) for word in words]
    return line


def children(pid):
    """Processes started by `pid`, their own children included, in the order of their numbers."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, around = [], {pid}
    while around:
        around = {child for child, parent in parents.items() if parent in around}
        found += around
    return sorted(found)


def alive(pid):
    """True unless the process is gone or is a zombie."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_until(condition, seconds, what):
    """`what`: for people, a text, or a function that tells how it stands in the end."""
    end = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain: {what() if callable(what) else what}")
        time.sleep(0.01)


class Lease:
    """A lease on a file: a process that opens it waits, as on a disk that hangs, until the end of the with statement or
    for up to 45 s (/proc/sys/fs/lease-break-time). The kernel then sends SIGIO to this process; main() ignores it."""

    def __init__(self, path=None):
        self.path, self.descriptor = path, -1

    def take(self, path):
        self.descriptor = os.open(path, os.O_RDONLY)

        def taken():
            with contextlib.suppress(BlockingIOError):  # another process has it open
                fcntl.fcntl(self.descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
                return True
            return False
        wait_until(taken, 30, f"a lease on {path}")

    def __enter__(self):
        if self.path:
            self.take(self.path)
        return self

    def __exit__(self, *_):
        if self.descriptor >= 0:
            os.close(self.descriptor)


def waits_for_lease(pid):
    """Whether a thread of the process waits for a file on which another process has a lease."""
    for place in pathlib.Path(f"/proc/{pid}/task").glob("*/wchan"):
        with contextlib.suppress(OSError):
            if place.read_text() == "__break_lease":
                return True
    return False


def in_status(pid, line, number):
    """Whether a signal is among those that this line of the process's status lists: SigCgt, it has a handler; ShdPnd,
    it was sent but not handled yet. False once the process is gone."""
    with contextlib.suppress(OSError):
        for text in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if text.startswith(line + ":"):
                return int(text.split()[1], 16) >> (number - 1) & 1 == 1
    return False


def signal_and_wait(pid, number):
    """Sends a signal and waits until it was delivered, so that the next one counts as a second one."""
    os.kill(pid, number)
    wait_until(lambda: not in_status(pid, "ShdPnd", number), 30, f"signal {number} to come")


def stands_still(pid):
    """Whether every thread of the process has been stopped."""
    states = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            states.append(path.read_text().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


def signal_through_mpirun(job, number):
    """Sends a signal to mpirun and waits until every rank has it. The ranks are stopped until mpirun has passed it on
    to all of them."""
    ranks = job.ranks()
    for pid in ranks:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: all(map(stands_still, ranks)), 30, "the ranks to stand still")  # a running thread would handle the signal
        job.send(number)
        wait_until(lambda: all(in_status(pid, "ShdPnd", number) for pid in ranks), 30, f"signal {number} to be passed on")
    finally:
        for pid in ranks:
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not any(in_status(pid, "ShdPnd", number) for pid in ranks), 30, f"signal {number} to come")


class Ended:
    """How one call of dtrain ended."""

    def __init__(self, words, code, out, err, seconds):
        self.words, self.code, self.out, self.err, self.seconds = words, code, out, err, seconds
        self.errors = [line for line in err.splitlines() if line.startswith("dtrain: error ")]

    def __str__(self):
        return f"$ {' '.join(self.words)}\nexit code {self.code} after {self.seconds:.2f} s\n{self.out}{self.err}"

    def json(self):
        return json.loads(self.out.splitlines()[-1])


class Started:
    """A call of dtrain that is still running. Its output goes to files, so that it never waits for a reader. through: a command that
    becomes this one, as limited() gives it."""

    def __init__(self, words, ranks=None, env=None, cwd=None, through=(), line=None):
        self.words = [*through, *(line or command(words, ranks))]
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.since = time.monotonic()
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        env=environment(env), cwd=cwd, start_new_session=True)

    def send(self, number):
        self.process.send_signal(number)

    def said(self):
        """What was printed on stderr so far."""
        return os.pread(self.err.fileno(), 1 << 20, 0).decode()

    def ranks(self):
        """Process ids of the ranks under mpirun."""
        return [pid for pid in children(self.process.pid) if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(DTRAIN)]

    def kill(self):
        for pid in children(self.process.pid) + [self.process.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def wait(self, timeout):
        try:
            self.process.wait(timeout * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {timeout} s\n{self.ended()}") from None
        return self.ended()

    def ended(self):
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read())
            stream.close()
        return Ended(self.words, self.process.returncode, *texts, time.monotonic() - self.since)


class Run:
    """A run folder's contents."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def facts(self):
        return json.loads((self.folder / "run.json").read_text())

    def hash(self):
        return self.facts()["result_sha256"]

    def rows(self):
        with open(self.folder / "epochs.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def result_rows(self):
        """The rows of epochs.csv without times and the number of processes, as text: equal bits print equal text."""
        return [{key: text for key, text in row.items() if key not in OF_THE_MACHINE} for row in self.rows()]

    def events(self, kind=None):
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["event"])]

    def steps_logged(self):
        """Steps in metrics.jsonl, without a line that is being written."""
        with contextlib.suppress(OSError):
            return (self.folder / "metrics.jsonl").read_text().count('"event":"step"')
        return 0

    def checkpoints(self):
        """Oldest first."""
        return sorted((self.folder / "checkpoints").glob("epoch-*.safetensors"), key=lambda path: path.name.rpartition("-")[2])

    def done(self):
        return (self.folder / "DONE").exists()


def checkpoint_header(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08x}"


def change_metadata(path, change):
    """Calls change(metadata) and writes the file again, with a correct checksum in its header."""
    raw = pathlib.Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:start])
    change(header["__metadata__"])
    header["__metadata__"]["crc32c.header"] = "0" * 8
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    whole = struct.pack("<Q", len(text)) + text
    whole = whole.replace(b'"crc32c.header":"00000000"', f'"crc32c.header":"{crc32c(whole)}"'.encode(), 1)
    pathlib.Path(path).write_bytes(whole + raw[start:])


def change_state(path, **fields):
    """Sets fields of a checkpoint's state."""
    def change(metadata):
        metadata["state"] = json.dumps({**json.loads(metadata["state"]), **fields}, separators=(",", ":"), sort_keys=True)
    change_metadata(path, change)


def tensor_checksums(path, prefix=""):
    """Checksum of each tensor whose name begins with `prefix`, as the checkpoint's header gives them."""
    mark = "crc32c." + prefix
    stored = checkpoint_header(path)["__metadata__"]
    return {name[len(mark):]: text for name, text in stored.items() if name.startswith(mark) and name != "crc32c.header"}


def result_of(path):
    """result_sha256 of the model in a checkpoint, computed here: name, NUL, dtype, NUL, shape, NUL, bytes; by name."""
    header = checkpoint_header(path)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        data = 8 + struct.unpack("<Q", file.read(8))[0]
        for name in sorted(name for name in header if name.startswith("model.")):
            tensor = header[name]
            begin, end = tensor["data_offsets"]
            file.seek(data + begin)
            shape = ",".join(map(str, tensor["shape"]))
            digest.update(f"{name[6:]}\0{tensor['dtype']}\0{shape}\0".encode() + file.read(end - begin))
    return digest.hexdigest()


def flip_byte(path):
    """Changes one bit in the last third of a file, where a checkpoint keeps tensors."""
    with open(path, "r+b") as file:
        place = os.path.getsize(path) * 2 // 3
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))


class ProgramTest(unittest.TestCase):
    """A temporary folder per test class, which is the working directory of all its calls."""

    maxDiff = None
    reports = itertools.count(1)

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="dtrain-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.made, cls.making = {}, threading.Lock()

    @classmethod
    def once(cls, name, make):
        """The result of make(), called for the first test that asks; others that ask meanwhile wait for it."""
        with cls.making:
            first = name not in cls.made
            made = cls.made.setdefault(name, concurrent.futures.Future())
        if first:
            try:
                made.set_result(make())
            except BaseException as failure:
                made.set_exception(failure)
        return made.result()

    @classmethod
    def start(cls, *words, ranks=None, env=None, through=()):
        """A `check` that names no report gets its own file, since tests run side by side in this folder."""
        if words[:1] == ("check",) and "--output" not in words:
            words += ("--output", f"check-{next(cls.reports)}.json")
        return Started(words, ranks, env, cls.folder, through)

    @classmethod
    def call(cls, *words, ranks=None, env=None, timeout=180, through=()):
        """Runs dtrain to its end, alone or as `ranks` processes under mpirun."""
        return cls.start(*words, ranks=ranks, env=env, through=through).wait(timeout)

    @classmethod
    def call_ranks(cls, *words_of_ranks, env_of_ranks=None, timeout=180):
        """Runs one job whose ranks are started with different words."""
        return Started((), cwd=cls.folder, line=commands_of_ranks(words_of_ranks, env_of_ranks)).wait(timeout)

    @classmethod
    def good(cls, *words, **how):
        """A call that must succeed, and leave no trace of a crash."""
        ended = cls.call(*words, **how)
        if ended.code != 0 or ended.errors or any(trace in ended.err for trace in CRASHES):
            raise AssertionError(f"wanted a good end\n{ended}")
        return ended

    @classmethod
    def sample(cls, kind, count, name=None):
        """A generated data set in the class's folder."""
        cls.good("sample", "--kind", kind, "--count", count, "--output", name or kind)
        return cls.folder / (name or kind)

    @classmethod
    def write_config(cls, name, *parts):
        """A configuration of nested dictionaries, later ones merged over earlier; JSON is YAML."""
        def merge(under, over):
            both = {**under, **over}
            return {key: merge(under[key], value) if isinstance(value, dict) and isinstance(under.get(key), dict) else value
                    for key, value in both.items()}
        whole = {}
        for part in parts:
            whole = merge(whole, part)
        path = cls.folder / (name + ".yaml")
        path.write_text(json.dumps(whole, indent=1), encoding="utf-8")
        return path

    def run_at(self, name):
        return Run(self.folder / name)

    def fails(self, ended, code, *words, rank=None, last=True):
        """Checks that it ended with `code`, without a crash, and that the last line is dtrain's error and holds all
        these words. last=False: mpirun may print after it, as when it ends a rank that never reported to it."""
        self.assertEqual(ended.code, code, ended)
        for trace in CRASHES:
            self.assertNotIn(trace, ended.err, ended)
        self.assertEqual(len(ended.errors), 1, ended)
        place = "" if rank is None else f" [rank {rank} @ "
        self.assertTrue(ended.errors[0].startswith(f"dtrain: error {code}{place}" + (":" if rank is None else "")), ended)
        for word in words:
            self.assertIn(str(word), ended.errors[0], ended)
        if last:
            self.assertEqual(ended.err.rstrip("\n").splitlines()[-1], ended.errors[0], ended)
        self.assertEqual([path.name for path in self.folder.glob("core*")], [])


def all_of(calls, most=3):
    """The results of the calls, in their order; `most` of them run at a time."""
    with concurrent.futures.ThreadPoolExecutor(most) as pool:
        return [made.result() for made in [pool.submit(call) for call in calls]]


class SideBySide(unittest.TestSuite):
    """Runs `most` tests of a class at a time, because tests mostly wait for programs to start and to end. Reports each
    in one line when it is over."""

    most = 3

    def run(self, result, debug=False):
        tests = list(self)
        if not all(isinstance(test, unittest.TestCase) for test in tests):
            for test in tests:
                test.run(result)
        elif tests:
            self.run_class(type(tests[0]), tests, result)
        return result

    @staticmethod
    def refuse_what_is_not_called(kind):
        """Refuses what unittest's own suite would call and this one would silently leave out."""
        left_out = [name for name in ("setUpModule", "tearDownModule") if hasattr(sys.modules[kind.__module__], name)]
        if kind.tearDownClass.__func__ is not unittest.TestCase.tearDownClass.__func__:
            left_out.append("tearDownClass")
        if left_out:
            raise TypeError(f"{kind.__name__}: {' and '.join(left_out)} would not be called; use setUpClass and addClassCleanup")

    def run_class(self, kind, tests, result):
        lock = threading.Lock()

        def one(test):
            if result.shouldStop:
                return
            own, since = unittest.TestResult(), time.monotonic()
            test.run(own)
            how = "FAIL" if not own.wasSuccessful() else "skipped" if own.skipped else "ok"
            with lock:
                result.testsRun += 1
                for what in ("errors", "failures", "skipped", "expectedFailures", "unexpectedSuccesses"):
                    getattr(result, what).extend(getattr(own, what))
                if result.failfast and not own.wasSuccessful():
                    result.stop()
                print(f"{test} ... {how} {time.monotonic() - since:.1f} s", file=sys.stderr, flush=True)

        try:
            self.refuse_what_is_not_called(kind)
            if not getattr(kind, "__unittest_skip__", False):
                kind.setUpClass()
            with concurrent.futures.ThreadPoolExecutor(self.most) as pool:
                for done in [pool.submit(one, test) for test in tests]:
                    done.result()
        except unittest.SkipTest as reason:
            for test in tests:
                result.startTest(test)
                result.addSkip(test, str(reason))
        except Exception:
            result.addError(tests[0], sys.exc_info())
        finally:
            kind.doClassCleanups()
            for failure in kind.tearDown_exceptions:
                result.addError(tests[0], failure)


def campaign(count):
    """How many random cases to try, and the seed by which they are drawn: DTRAIN_COUNT and DTRAIN_SEED, else `count` and another each time."""
    return int(os.environ.get("DTRAIN_COUNT", count)), os.environ.get("DTRAIN_SEED", str(time.time_ns() % 1000000))


@contextlib.contextmanager
def held_sessions():
    """Keeps the folder that all mpirun of this user share: one that ends as the last removes it, another that begins just then fails."""
    sessions = pathlib.Path(tempfile.gettempdir()) / f"ompi.{os.uname().nodename.partition('.')[0]}.{os.getuid()}"
    own = sessions / f"pid.{os.getpid()}"
    while not own.exists():
        with contextlib.suppress(FileNotFoundError):
            os.makedirs(sessions, 0o700, exist_ok=True)
            own.mkdir(0o700)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # others have theirs in it
            own.rmdir()
            sessions.rmdir()


def main(at_once=1):
    """Runs the tests of the program that was started, at_once at a time."""
    for program in (DTRAIN, MPIEXEC):
        if not shutil.which(program):
            sys.exit(f"{program} is missing; build dtrain first, or name it in DTRAIN_PROGRAM or DTRAIN_MPIEXEC")
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    loader = unittest.TestLoader()
    if at_once > 1:
        SideBySide.most = at_once
        loader.suiteClass = SideBySide
    with held_sessions():
        result = unittest.main(exit=False, verbosity=2, testLoader=loader).result
    if not result.wasSuccessful() or (result.skipped and os.environ.get("DTRAIN_REQUIRE_ALL") == "1"):
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and result.testsRun <= len(result.skipped) else 0)
