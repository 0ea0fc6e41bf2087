"""What the hostile cases share: how a case is written down, the folder it plays in, how dtrain is run under limits and judged.

A case plays in a folder of its own (Site). dtrain may write into cwd/ and tmp/ of it and nowhere else: home/, data/ and
neighbour/ are compared byte for byte before and after.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import stat
import struct
import sys
import tempfile
import threading
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import program  # noqa: E402

SECONDS = 20  # that a call may take unless its case says otherwise
MEMORY_MB = 300  # above what a training of the same tiny network takes
MOST_MEMORY_MB = 2000  # a call that takes more is killed
MOST_OUTPUT = 16 << 20  # bytes on stdout or stderr
REFUSALS = (64, 65, 66, 71, 74, 77, 78)
# What a terminal would act upon, or show in another position: C0 but tab and line feed, DEL, C1, bidirectional marks.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
NOT_TEXT = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8, as Python represents them

CASES = []


class Skip(Exception):
    """This machine cannot run the case."""


class Call:
    """One call of dtrain: its arguments, and what is unusual about it."""

    def __init__(self, *words, env=None, through=(), meanwhile=None, line=None, after=None):
        self.words, self.env, self.through, self.meanwhile, self.line, self.after = words, env or {}, through, meanwhile, line, after


class Case:
    """A name (ground/attack/variant), who makes its files and its command line, and how the call may end.

    codes: the exit codes that are right. says: words of which each must stand on stderr when the call is refused. why: the
    reason where 0 is among the codes. mute: stderr is not there to be judged. untouched: paths in cwd/ that must stay
    as they were. long: takes seconds, or needs what not every machine has; not among the tenth that CTest plays.
    """

    def __init__(self, name, make, codes, says=(), why="", seconds=SECONDS, memory_mb=MEMORY_MB, mute=False, untouched=(), long=False):
        self.name, self.make, self.says, self.why = name, make, says, why
        self.codes = (codes,) if isinstance(codes, int) else tuple(codes)
        self.seconds, self.memory_mb, self.mute, self.untouched, self.long = seconds, memory_mb, mute, untouched, long
        self.ground, self.attack = name.split("/")[:2]
        assert 0 not in self.codes or why, f"{name}: why is 0 right?"
        assert all(other.name != name for other in CASES), f"{name} is there twice"


def case(name, codes, *says, **limits):
    """Decorator of a function that takes a Site and returns a Call, or the arguments of one."""
    def add(make):
        CASES.append(Case(name, make, codes, says, **limits))
        return make
    return add


# --- files


def png_chunk(kind, data, crc=None):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data) if crc is None else crc)


def png(width, height, rows=None, depth=8, colour=2, extra=b"", packed=None, interlace=0):
    """A PNG of these rows of bytes, or with these bytes for IDAT."""
    header = struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, depth, colour, 0, 0, interlace)
    if packed is None:
        packed = zlib.compress(b"".join(b"\0" + row for row in rows or []))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def picture(number, side=32, grey=False):
    """A PNG that differs from those of other numbers."""
    dice = random.Random(number)
    return png(side, side, [dice.randbytes(side * (1 if grey else 3)) for _ in range(side)], colour=0 if grey else 2)


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = _crc_table()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def odd_file(path, kind):
    """Something that is not a regular file, at `path`."""
    path = pathlib.Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "dangling":
        path.symlink_to("nothing-here")
    elif kind == "loop":
        path.symlink_to(path.name)
    else:  # a device
        path.symlink_to("/dev/" + kind)
    return path


# --- the folder of a case


def merged(under, over):
    """A value of None removes the key."""
    both = {key: value for key, value in {**under, **over}.items() if value is not None}
    return {key: merged(under[key], value) if isinstance(value, dict) and isinstance(under.get(key), dict) else value
            for key, value in both.items()}


SMALL = {
    "epochs": 1, "model": {"name": "small_cnn"}, "batch": {"per_rank": 16},
    "data": {"format": "image_folder", "root": "../data", "split": {"valid": 0.2, "by": "order"}, "image": {"size": [32, 32]}},
}


class Fixtures:
    """Files that dtrain makes once, copied into the folders of many cases."""

    def __init__(self, folder):
        self.folder, self.made, self.lock = pathlib.Path(folder), {}, threading.RLock()

    def get(self, name):
        with self.lock:
            if name not in self.made:
                site = Site(self.folder / name, random.Random(0), self)
                self.made[name] = getattr(self, "make_" + name)(site)
            return self.made[name]

    def good(self, site, *words):
        ended = program.Started(words, env=site.environment(), cwd=site.work).wait(120)
        if ended.code != 0:
            raise AssertionError(f"dtrain cannot make what the cases start from\n{ended}")

    def make_run(self, site):
        site.pictures()
        self.good(site, "--config", site.config(), "--run-dir", "run", "--progress", "none")
        return site.work / "run"

    def make_packed(self, site):
        site.pictures()
        self.good(site, "pack", "--config", site.config(), "--output", "packed", "--samples-per-shard", "8", "--progress", "none")
        return site.work / "packed"

    def make_chips(self, site):
        self.good(site, "sample", "--kind", "chips", "--count", "8", "--output", "chips")
        return site.work / "chips"


class Site:
    """The folder of one case. Paths that start in it are given to dtrain relative to cwd/, its working directory."""

    def __init__(self, folder, dice, fixtures):
        self.folder, self.random, self.fixtures = pathlib.Path(folder), dice, fixtures
        for name in ("cwd", "home/.ssh", "data", "neighbour/run/checkpoints", "tmp"):
            (self.folder / name).mkdir(parents=True)
        self.work, self.home, self.data, self.neighbour = (self.folder / name for name in ("cwd", "home", "data", "neighbour"))
        (self.home / ".bashrc").write_text("# my shell\n")
        (self.home / ".ssh/authorized_keys").write_text("ssh-ed25519 AAAA me@there\n")
        (self.neighbour / "thesis.txt").write_text("years of work\n")
        for name in ("log.txt", "epochs.csv", "metrics.jsonl", "checkpoints/epoch-0009-step-00000090.safetensors", "flight.txt"):
            (self.neighbour / "run" / name).write_text(f"{name} of somebody else's run\n")

    def environment(self):
        return {"HOME": str(self.home), "TMPDIR": str(self.folder / "tmp"), "LC_ALL": "C.UTF-8"}

    def pictures(self, count=12, into=None):
        """Two classes of small pictures, the same for every case."""
        for number in range(count):
            folder = (into or self.data) / ("good" if number % 2 else "bad")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"p{number:02}.png").write_bytes(picture(number))

    def config(self, over=None, name="c.yaml"):
        (self.work / name).write_text(json.dumps(merged(SMALL, over or {}), indent=1))
        return name

    def listed(self, text, over=None):
        """A configuration whose training part is what the list in cwd/train.txt names."""
        self.write("train.txt", text)
        whole = merged(SMALL, over or {})
        whole["data"]["split"] = {"files": {"train": "./train.txt"}}
        (self.work / "c.yaml").write_text(json.dumps(whole, indent=1))

    def write(self, name, content):
        """A file in cwd/, or elsewhere in the case's folder by ../"""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        return path

    def copy(self, name):
        """A fixture, in cwd/."""
        return pathlib.Path(shutil.copytree(self.fixtures.get(name), self.work / name, symlinks=True))

    def trained(self):
        """A finished run of one epoch over the pictures, in cwd/run, with its configuration in cwd/c.yaml."""
        self.pictures()
        self.config()
        return self.copy("run")

    def train(self, *words, run="run"):
        return Call("--config", "c.yaml", "--run-dir", run, "--progress", "none", *words)


def fingerprint(path):
    """What must not change about a file, a link or anything else."""
    status = os.lstat(path)
    facts = [stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_ino, status.st_mtime_ns]
    if stat.S_ISLNK(status.st_mode):
        facts.append(os.readlink(path))
    elif stat.S_ISREG(status.st_mode):
        facts.append(status.st_size)
        if status.st_size < 1 << 20:
            facts.append(hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
    return facts


def snapshot(tops):
    found = {}
    for top in tops:
        if os.path.lexists(top):
            found[str(top)] = fingerprint(top)
        for folder, folders, files in os.walk(top):
            for name in folders + files:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):  # gone meanwhile, or deeper than a path reaches
                    found[path] = fingerprint(path)
    return found


def changes(before, after):
    told = [f"removed {path}" for path in before if path not in after] + [f"made {path}" for path in after if path not in before]
    return told + [f"changed {path}" for path in before if path in after and before[path] != after[path]]


# --- running


class Watched:
    """How one call ended, and what time and memory it took."""

    def __init__(self, words):
        self.words, self.code, self.killed, self.peak_mb, self.seconds = words, None, "", 0.0, 0.0
        self.out = self.err = ""


def megabytes(pid, key):
    """A line of /proc/PID/status, 0 once the process is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(text.partition(key + ":")[2].split()[0]) / 1024
    return 0.0


def text_of(stream):
    stream.flush()
    stream.buffer.seek(0)
    return stream.buffer.read(MOST_OUTPUT).decode("utf-8", "surrogateescape")


def run(site, call, seconds):
    """Runs the call to its end, or kills it if it takes too long or too much memory, or prints too much."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets our own peak
    own_mb = megabytes(os.getpid(), "VmHWM")
    started = program.Started(call.words, line=call.line, env={**site.environment(), **call.env}, cwd=site.work, through=call.through)
    watched = Watched(started.words)
    pid = started.process.pid
    helper = call.meanwhile(started) if call.meanwhile else None
    pause = 0.004
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        watched.seconds = time.monotonic() - started.since
        watched.peak_mb = max(watched.peak_mb, megabytes(pid, "VmHWM"))
        if watched.seconds > seconds:
            watched.killed = f"did not end within {seconds} s"
        elif watched.peak_mb > MOST_MEMORY_MB:
            watched.killed = f"took more than {MOST_MEMORY_MB} MB"
        elif max(os.fstat(stream.fileno()).st_size for stream in (started.out, started.err)) > MOST_OUTPUT:
            watched.killed = f"said more than {MOST_OUTPUT >> 20} MiB"
        if watched.killed:
            for child in [*program.children(pid), pid]:
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            break
        time.sleep(pause)
        pause = min(0.03, pause * 1.2)
    watched.seconds = time.monotonic() - started.since
    if usage.ru_maxrss / 1024 > own_mb + 8:  # else it may be our own, which a child begins with
        watched.peak_mb = max(watched.peak_mb, usage.ru_maxrss / 1024)
    watched.code = started.process.returncode = os.waitstatus_to_exitcode(status)
    if helper is not None:
        helper.join(10)
    watched.out, watched.err = text_of(started.out), text_of(started.err)
    started.out.close()
    started.err.close()
    return watched


# --- judging


def unprintable(text):
    for what, pattern in (("control or bidirectional character", CONTROL), ("byte that is not UTF-8", NOT_TEXT)):
        if found := pattern.search(text):
            return f"{what} {found.group()!r} in …{text[max(0, found.start() - 40):found.end() + 20]!r}"
    return ""


def judge_words(case_, watched):
    """Complaints about what the call printed."""
    for name, text in (("stdout", watched.out), ("stderr", watched.err)):
        if bad := unprintable(text):
            yield f"{name} has a {bad}"
    for trace in program.CRASHES:
        if trace in watched.err:
            yield f"stderr holds '{trace}'"
    if case_.mute:
        return
    lines = watched.err.rstrip("\n").splitlines()
    errors = [line for line in lines if line.startswith("dtrain: error ")]
    if watched.code == 0 or watched.code == 75:
        if errors and watched.code == 0:
            yield f"it ended with 0 and said '{errors[-1]}'"
        return
    if len(errors) != 1 or lines[-1:] != errors:
        yield f"{len(errors)} error lines, and the last line is '{lines[-1] if lines else ''}'"
        return
    if not errors[0].startswith(f"dtrain: error {watched.code}:"):
        yield f"it ended with {watched.code} and said '{errors[0]}'"
    for word in case_.says:
        if word not in watched.err:
            yield f"'{word}' is not named: '{errors[0]}'"


def judge(case_, watched, baseline_mb):
    if watched.killed:
        yield watched.killed
    elif watched.code not in case_.codes:
        how = f"signal {-watched.code}" if watched.code < 0 else f"code {watched.code}"
        yield f"ended with {how}, right is {' or '.join(map(str, case_.codes))}"
    if not watched.killed and watched.peak_mb > baseline_mb + case_.memory_mb:
        yield f"took {watched.peak_mb:.0f} MB, {baseline_mb + case_.memory_mb:.0f} are allowed"
    if not watched.killed:
        yield from judge_words(case_, watched)


def play(case_, folder, seed, fixtures, baseline_mb):
    """Runs one case; returns how the call ended and the complaints, none if all was well."""
    site = Site(folder, random.Random(f"{seed}/{case_.name}"), fixtures)
    call = case_.make(site)
    if not isinstance(call, Call):
        call = Call(*call)
    guarded = [site.home, site.data, site.neighbour, *(site.work / path for path in case_.untouched)]
    before = snapshot(guarded)
    watched = run(site, call, case_.seconds)
    complaints = list(judge(case_, watched, baseline_mb))
    told = changes(before, snapshot(guarded))
    complaints += [f"what is not its own: {change.replace(str(site.folder) + '/', '')}" for change in told[:3]]
    complaints += [f"what is not its own: {len(told) - 3} changes more"] if len(told) > 3 else []
    complaints += [f"a core file: {path}" for path in site.work.glob("core*")]
    if call.after and not watched.killed:
        complaints += [complaint for complaint in [call.after(watched)] if complaint]
    return watched, complaints


@contextlib.contextmanager
def room(keep):
    """A temporary folder for the whole campaign."""
    folder = tempfile.mkdtemp(prefix="dtrain-hostile-")
    try:
        yield pathlib.Path(folder)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
