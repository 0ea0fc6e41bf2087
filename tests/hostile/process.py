"""The environment of a process: its streams, its limits, signals, its working directory, and planted libraries."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from kit import Call, Skip, case, program
from packed import after_a_while
from records import MEMBERS, archive, webdataset
from scans import dicom

# --- streams

COMMANDS = {
    "check": ("check", "--config", "c.yaml"),
    "check-json": ("check", "--config", "c.yaml", "--json"),
    "train": ("--config", "c.yaml", "--run-dir", "new", "--progress", "none"),
    "eval-json": ("eval", "--config", "c.yaml", "--checkpoint", "run/best.safetensors", "--output", "out", "--json"),
    "verify": ("verify", "run"),
    "verify-json": ("verify", "run", "--json"),
    "info": ("info",),
    "info-json": ("info", "--json"),
    "print-config": ("--config", "c.yaml", "--print-config"),
    "print-schema": ("--print-schema",),
    "schema-markdown": ("--print-schema=markdown",),
    "pack": ("pack", "--config", "c.yaml", "--output", "packed", "--progress", "none"),
    "bench-input": ("bench", "input", "--config", "c.yaml", "--limit-steps", "1", "--json"),
    "sample": ("sample", "--kind", "chips", "--count", "4", "--output", "sampled"),
    "help": ("--help",),
    "version": ("--version",),
}

CLOSED = "<&- >&- 2>&-"


def table_is_a_table(site):
    """Nothing that was meant for a stream is in a file of the run."""
    for folder in ("run", "new"):
        path = site.work / folder / "epochs.csv"
        if path.exists():
            first, *rows = path.read_text().splitlines()
            if not first.startswith("epoch,steps,") or any(row.count(",") != first.count(",") for row in rows):
                return f"{path.name} begins with {first[:60]!r}"
    return ""


def stream(name, codes, words, through, **limits):
    def make(site):
        site.trained()
        return Call(*words, through=through, after=lambda watched: table_is_a_table(site))
    case(name, codes, **limits)(make)


for what, words in COMMANDS.items():
    # Training prints only its log, which also goes to a file.
    codes = (0, 74) if what in ("train", "sample") else 74
    why = "what it says on stdout is beside its work" if codes != 74 else ""
    stream(f"streams/full/{what}", codes, words, program.redirected(">/dev/full"), why=why)
    stream(f"streams/pipe/{what}", codes, words, program.unread(1), why=why)
for what in ("check", "train", "eval-json", "verify", "info", "pack"):
    words = COMMANDS[what]
    for name, streams in {"all": CLOSED, "out": ">&-", "err": "2>&-", "in": "<&-", "out-and-err": ">&- 2>&-"}.items():
        if name in ("in", "out-and-err") and what not in ("train", "check"):
            continue
        stream(f"streams/closed-{name}/{what}", (0, 74), words, program.redirected(streams), why="a closed stream is one that nobody reads",
               mute="2>" in streams)
    stream(f"streams/full-err/{what}", (0, 74), words, program.redirected("2>/dev/full"), why="who closes his ears is not owed an error", mute=True)
    if what in ("check", "train"):
        stream(f"streams/pipe-err/{what}", (0, 74), words, program.unread(2), why="who closes his ears is not owed an error", mute=True)


@case("streams/closed-all/refusal", 78, mute=True)
def closed_refusal(site):
    """The error's line must not get into a file either."""
    site.pictures()
    site.config({"nonsense": 1})
    return Call("--config", "c.yaml", through=program.redirected(CLOSED))


@case("streams/closed-all/resume", 0, why="a closed stream is one that nobody reads", mute=True)
def closed_resume(site):
    site.trained()
    return Call(*site.train("epochs=3").words, through=program.redirected(CLOSED), after=lambda watched: table_is_a_table(site))


# --- limits


for number in (10, 13, 16, 20, 24, 40):
    for what in ("train", "check"):
        stream(f"limits/files-{number}/{what}", (0, 71, 74), COMMANDS[what], program.limited("nofile", number), why="it may do with so few")


@case("limits/files-24/many-archives", (0, 71, 74), why="it may do with so few")
def many_archives(site):
    for number in range(40):
        (site.data / f"a{number:02}.tar").write_bytes(archive([(f"{number}x{name}", content) for name, content in MEMBERS[:4]]))
    words = webdataset(site, archive(MEMBERS))
    return Call(*words, through=program.limited("nofile", 24))


_least_mb = []


def least_address_space():
    """Megabytes of address space in which `dtrain --version` starts, to 16."""
    if not _least_mb:
        low, high = 64, 4096
        while high - low > 16:
            middle = (low + high) // 2
            line = [*program.limited("as", middle << 20), program.DTRAIN, "--version"]
            ended = subprocess.run(line, capture_output=True, check=False, env=program.environment())
            low, high = (low, middle) if ended.returncode == 0 else (middle, high)
        _least_mb.append(high)
    return _least_mb[0]


for more in (0, 16, 32, 64, 128, 256):
    for what in ("train", "check", "eval-json"):
        def tight(site, more=more, what=what):
            site.trained()
            return Call(*COMMANDS[what], through=program.limited("as", least_address_space() + more << 20))
        case(f"limits/memory-{more}/{what}", (0, 71), why="it may do with so little")(tight)


@case("limits/memory-data/large-pictures", (0, 71), why="it may do with so little", memory_mb=1500)
def large_pictures(site):
    site.pictures()
    site.config({"data": {"image": {"size": [4096, 4096]}}})
    return Call("check", "--config", "c.yaml", through=program.limited("data", 600 << 20))


for kilobytes in (16, 64, 300, 500, 1_000):
    def small_files(site, kilobytes=kilobytes):
        site.pictures()
        site.config()
        return Call(*site.train().words, through=program.limited("fsize", kilobytes << 10))
    case(f"limits/file-size-{kilobytes}/train", 74)(small_files)
for what, kilobytes in (("eval-json", 0), ("pack", 4), ("sample", 4)):
    def small_output(site, what=what, kilobytes=kilobytes):
        site.trained()
        # stdout and stderr are files here too.
        return Call(*COMMANDS[what], through=program.limited("fsize", kilobytes << 10))
    case(f"limits/file-size-{kilobytes}/{what}", 74, mute=kilobytes == 0)(small_output)
for kilobytes in (256, 512, 1024):
    stream(f"limits/stack-{kilobytes}/check", (0, 71), COMMANDS["check"], program.limited("stack", kilobytes << 10), why="it may do with so little")


@case("limits/processes/train", (0, 71, 74), why="root has no limit of processes")
def processes(site):
    site.trained()
    return Call(*site.train("epochs=2").words, through=program.limited("nproc", 1))


# --- signals and surroundings


def signalled(number, count=1):
    def make(site):
        site.pictures()
        site.config({"epochs": 4000, "checkpoint": {"every": "1000 epochs"}})

        def begin(started):
            def send():
                program.wait_until(lambda: program.Run(site.work / "run").steps_logged() > 5 or not program.alive(started.process.pid), 10, "steps")
                for _ in range(count):
                    with contextlib.suppress(OSError):
                        os.kill(started.process.pid, number)
                    time.sleep(0.05)
            return after_a_while(send, 0.0, 0.1, site)(started)

        def saved(watched):
            return "" if watched.code != 75 or list((site.work / "run/checkpoints").glob("*.safetensors")) else "75, and there is no checkpoint"
        return Call(*site.train().words, meanwhile=begin, after=saved)
    return make


for name in ("HUP", "TERM", "USR1", "INT"):
    case(f"signals/one/{name}", 75)(signalled(getattr(signal, "SIG" + name)))
case("signals/many/USR1", 75)(signalled(signal.SIGUSR1, 20))
case("signals/many/HUP", 75)(signalled(signal.SIGHUP, 5))


@case("signals/one/PIPE", 75)
def piped(site):
    """The signal is ignored: this training is stopped by its time limit."""
    call = signalled(signal.SIGPIPE, 3)(site)
    return Call(*call.words, "--max-time", "2s", meanwhile=call.meanwhile, after=call.after)


@case("surroundings/no-home/train", 0, why="nothing is kept in HOME")
def no_home(site):
    site.pictures()
    site.config()
    return Call(*site.train().words, env={"HOME": "/nowhere/at/all", "TMPDIR": "/nowhere"})


@case("surroundings/removed-folder/train", (65, 66, 74, 77))
def removed_folder(site):
    """The working directory is gone when the program starts."""
    site.pictures()
    config = site.write("../tmp/c.yaml", (site.work / site.config()).read_text())
    (site.folder / "tmp/gone").mkdir()
    from_there = ["sh", "-c", 'cd ../tmp/gone && rmdir ../gone && exec "$0" "$@"']
    return Call("--config", str(config), "--run-dir", "run", "--progress", "none", through=from_there)


@case("surroundings/environment/letters", (0, 78), why="variables that are no keys are none of its business")
def environment(site):
    site.pictures()
    return Call("check", "--config", site.config(), env={"DTRAIN_\x1b[31m": "1", "DTRAIN_CONFIG__\x1b]0;x\x07": "2", "LANG": "\x1b", "TZ": "../" * 300})


@case("surroundings/arguments/megabyte", (64, 78))
def arguments(site):
    return "check", "--config", site.config(), *(f"key{number}=" + "x" * 1_000 for number in range(1_000))


# --- planted libraries

SOURCE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((constructor)) static void run(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/OWNED", getenv("HOME"));
  close(open(path, O_CREAT | O_WRONLY, 0600));
}
"""


def stranger(site, *paths):
    """A library that leaves a file in HOME when it is loaded, at each of these paths in cwd/."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Skip("no C compiler")
    source = site.write("../tmp/stranger.c", SOURCE)
    library = source.with_suffix(".so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    for path in paths:
        (site.work / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, site.work / path)


def needed():
    """Names of the libraries that the program asks the loader for."""
    reader = shutil.which("readelf")
    if not reader:
        raise Skip("no readelf")
    text = subprocess.run([reader, "-d", program.DTRAIN], capture_output=True, text=True, check=True).stdout
    return re.findall(r"NEEDED.*\[(.*)\]", text)


@case("modules/loader/libisal-in-the-working-directory", 0, why="what lies in the working directory is nobody's library")
def libisal(site):
    stranger(site, "libisal.so.2")
    return ("--version",)


@case("modules/loader/every-name-in-the-working-directory", 0, why="what lies in the working directory is nobody's library")
def every_name(site):
    stranger(site, *needed())
    return ("--version",)


@case("modules/loader/names-beneath-the-working-directory", 0, why="what lies in the working directory is nobody's library")
def beneath(site):
    stranger(site, *(f"{folder}/{name}" for name in needed() for folder in ("lib", "tls", "x86_64", "glibc-hwcaps/x86-64-v3")))
    return ("--version",)


def dicom_set(site):
    site.pictures()
    (site.data / "good/hostile.dcm").write_bytes(dicom())
    site.config()


def real_module():
    program_file = pathlib.Path(program.DTRAIN).resolve()
    for folder in (program_file.parent, program_file.parent / "lib", program_file.parent.parent / "lib"):
        if (folder / "libdtrain_dicom.so").exists():
            return folder / "libdtrain_dicom.so"
    raise Skip("this build reads no DICOM")


def program_in(site, folder, module=None):
    """A copy of the program in cwd/FOLDER/bin; `module`, a path in cwd/, gets a copy of the real module."""
    path = site.work / folder / "bin/dtrain"
    path.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(program.DTRAIN), path)
    if module:
        (site.work / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(real_module(), site.work / module)
    return path


def calls(site, path, *words):
    dicom_set(site)
    return Call(line=[str(path), *(words or ("check", "--config", "c.yaml"))])


@case("modules/dicom/in-the-working-directory", (0, 65), why="the module beside the program reads the file")
def module_in_cwd(site):
    dicom_set(site)
    stranger(site, "libdtrain_dicom.so", "lib/libdtrain_dicom.so", "libdtrain_cuda.so", "lib/libdtrain_cuda.so")
    return "check", "--config", "c.yaml"


for above, place in {"one-above": "a/b/libdtrain_dicom.so", "two-above": "a/libdtrain_dicom.so", "two-above-lib": "a/lib/libdtrain_dicom.so",
                     "three-above": "libdtrain_dicom.so", "three-above-lib": "lib/libdtrain_dicom.so"}.items():
    def climbing(site, place=place):
        path = program_in(site, "a/b")
        stranger(site, place)
        return calls(site, path)
    case(f"modules/dicom/{above}", 65, "hostile.dcm")(climbing)


@case("modules/cuda/above", (0, 64, 65, 69, 78), why="info tells that this build has no GPU code")
def cuda_above(site):
    path = program_in(site, "a/b")
    stranger(site, "libdtrain_cuda.so", "lib/libdtrain_cuda.so", "a/libdtrain_cuda.so", "a/lib/libdtrain_cuda.so")
    return calls(site, path, "info")


@case("modules/dicom/beside-the-program-of-a-stranger", 66, "hostile.dcm")
def other_build(site):
    """In the right folder, without this build's stamp: reported before any of its code has run."""
    path = program_in(site, "a")
    stranger(site, "a/lib/libdtrain_dicom.so")
    return calls(site, path)


@case("modules/dicom/right-place", 0, why="an installation: bin/ and lib/ of one prefix", long=True)
def right_place(site):
    return calls(site, program_in(site, "a", "a/lib/libdtrain_dicom.so"))


@case("modules/dicom/of-another-user", 77, "libdtrain_dicom.so", long=True)
def of_another_user(site):
    if os.geteuid() != 0:
        raise Skip("only root gives files away")
    path = program_in(site, "a", "a/lib/libdtrain_dicom.so")
    os.chown(site.work / "a/lib/libdtrain_dicom.so", 12345, 12345)
    return calls(site, path)


@case("modules/dicom/in-a-folder-of-everybody", 77, "hostile.dcm", long=True)
def folder_of_everybody(site):
    path = program_in(site, "a", "a/lib/libdtrain_dicom.so")
    (site.work / "a/lib").chmod(0o777)
    return calls(site, path)


@case("modules/dicom/written-by-everybody", 77, "libdtrain_dicom.so", long=True)
def written_by_everybody(site):
    path = program_in(site, "a", "a/lib/libdtrain_dicom.so")
    (site.work / "a/lib/libdtrain_dicom.so").chmod(0o666)
    return calls(site, path)


@case("modules/dicom/cut", 66, "hostile.dcm", long=True)
def cut_module(site):
    path = program_in(site, "a", "a/lib/libdtrain_dicom.so")
    os.truncate(site.work / "a/lib/libdtrain_dicom.so", 5_000)
    return calls(site, path)


@case("modules/dicom/fifo", 77, "hostile.dcm", seconds=8)
def module_fifo(site):
    path = program_in(site, "a")
    (site.work / "a/lib").mkdir()
    os.mkfifo(site.work / "a/lib/libdtrain_dicom.so")
    return calls(site, path)
