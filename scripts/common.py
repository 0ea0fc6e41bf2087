"""Imported by the Python commands of scripts/: where the project lies, one voice, starting programs, reading their JSON."""
import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
NAME = pathlib.Path(sys.argv[0]).name


class Refused(Exception):
    """One sentence for the user, and the exit code (docs/errors.md)."""

    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code


class TimedOut(Refused):
    """A program that did not end in time and was killed."""

    def __init__(self, sentence):
        super().__init__(sentence, 76)


class Parser(argparse.ArgumentParser):
    """Prints the help text as it is written, and ends a bad command line with one sentence and 64."""

    def __init__(self, **options):
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message):
        raise Refused(f"{message}; see {self.prog.partition(' ')[0]} --help", 64)


def say(text):
    """Prints one line on stderr, so that stdout has only results."""
    print(f"{NAME}: {text}", file=sys.stderr, flush=True)


def ends(main):
    """Runs main() and ends the process with the code it returns, or with one sentence."""
    # As an exception, so that running programs are ended and cleaned up. Under nohup a lost terminal is still ignored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        sys.exit(main())
    except Refused as refused:
        say(f"error: {refused}")
        sys.exit(refused.code)
    except KeyboardInterrupt:
        sys.exit(130)


def count(text):
    """argparse type: a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


def one_of(known):
    """argparse type: words of `known`, separated by commas."""
    def read(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise Refused(f"'{word}' is none of {', '.join(known)}", 64)
        return words
    return read


def built(folder, name, target):
    """The path of a program in a build folder."""
    path = pathlib.Path(folder).resolve() / "bin" / name
    if not os.access(path, os.X_OK):
        raise Refused(f"{path} is missing; build it with cmake --build --preset release --target {target}, "
                      "or name the folder of another build with --build", 66)
    return str(path)


def launcher(ranks, slots="--use-hwthread-cpus"):
    """The words that start `ranks` processes, at most one per hardware thread; with slots="--oversubscribe" any number.
    $DTRAIN_MPIEXEC names another mpirun."""
    mpirun = os.environ.get("DTRAIN_MPIEXEC", "mpirun")
    if not shutil.which(mpirun):
        raise Refused(f"{mpirun} is missing; scripts/setup installs Open MPI", 66)
    return [mpirun, slots, "--bind-to", "none", "-np", str(ranks)]


def environment(**more):
    """This environment without settings of dtrain that would affect a measured run; Open MPI may be started by root."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DTRAIN_CONFIG__")}
    return {**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}


def alive(pid):
    """True unless the process is gone or is a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def stop(process):
    """Ends a program that we started: politely first, because mpirun then ends its ranks."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stop_group(process):
    """The same for a program that began a session: processes left in its process group are ended, too."""
    stop(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Ended:
    """How a program ended: code, stdout, stderr, seconds from its start to its end."""

    def __init__(self, words, code, out, err, seconds):
        self.words, self.code, self.out, self.err, self.seconds = words, code, out, err, seconds

    def last_words(self):
        lines = [line for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        ours = [line for line in lines if line.startswith("dtrain: error")]
        errors = [line for line in lines if "error" in line.lower()]
        return (ours or errors or lines or ["it said nothing"])[-1].strip()

    def how(self):
        return f"ended with {self.code}" if self.code >= 0 else f"was ended by signal {-self.code} ({signal.strsignal(-self.code)})"


def run(words, env=None, timeout=1800):
    """Runs a program to its end with its output kept. Throws TimedOut; the program and its process group are gone then."""
    started = time.monotonic()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", env=env or environment(), start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        stop_group(process)
        said = Ended(words, process.returncode, *rest_of(process), time.monotonic() - started).last_words()
        raise TimedOut(f"{shlex.join(map(str, words))} did not end within {timeout:.1f} s; its last words: {said}") from None
    except BaseException:
        stop_group(process)
        raise
    return Ended(words, process.returncode, out, err, time.monotonic() - started)


def rest_of(process):
    """The output of a program that was ended. A process that it started may still hold the pipes, so this does not
    wait."""
    try:
        return process.communicate(timeout=1)
    except subprocess.TimeoutExpired:
        return "", ""


def last_json(text):
    """The JSON object on the last line of `text` that is one, else None."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                return None
    return None
