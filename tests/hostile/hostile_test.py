#!/usr/bin/env python3
"""Hostile files, folders, names and machines against dtrain, each case under a limit of time and memory.

  tests/hostile/hostile_test.py                        every case once
  tests/hostile/hostile_test.py --count 300            so many, spread over grounds and attacks; beyond the last one from the
                                                       first again, with other dice
  tests/hostile/hostile_test.py --tenth                a tenth of these 300, quick ones, always the same: what CTest runs
  tests/hostile/hostile_test.py --only 'tar/*' --keep  some, by name; their folders stay
  tests/hostile/hostile_test.py --list                 names, and how each may end

A case holds if dtrain ends in time with one of the codes that are right for it, without a crash, within its memory, says so in
one printable line that names the file or key, and changes nothing outside of its own folder. DTRAIN_PROGRAM names another dtrain.
exit codes: 0 all held, 1 one did not, 64 bad command line, 66 no dtrain
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import pathlib
import random
import resource
import shlex
import shutil
import sys
import threading
import time

import kit
import program

import folders  # noqa: F401  each adds its cases
import names  # noqa: F401
import packed  # noqa: F401
import pictures  # noqa: F401
import process  # noqa: F401
import records  # noqa: F401
import scans  # noqa: F401
import states  # noqa: F401
import tables  # noqa: F401
import weights  # noqa: F401
import yamls  # noqa: F401

TENTH = 30


def spread(cases):
    """The cases in an order of which any first part is mixed by ground and attack; the same on every machine."""
    left = {}
    for case in random.Random(15).sample(cases, len(cases)):
        left.setdefault(case.ground, {}).setdefault(case.attack, []).append(case)
    order, used = [], collections.Counter()
    while left:
        for ground, attacks in list(left.items()):
            attack = min(attacks, key=lambda name: used[name])
            used[attack] += 1
            order.append(attacks[attack].pop())
            if not attacks[attack]:
                del attacks[attack]
            if not attacks:
                del left[ground]
    return order


def chosen(args):
    """(case, seed) in the order in which they are played."""
    cases = [case for case in kit.CASES if not args.only or any(fnmatch.fnmatch(case.name, pattern) for pattern in args.only)]
    if args.tenth:
        cases = spread([case for case in cases if not case.long])[:TENTH]
    order = spread(cases)
    count = args.count or len(order)
    return [(order[i % len(order)], args.seed + i // len(order)) for i in range(count)] if order else []


class Campaign:
    def __init__(self, args):
        self.args, self.failures, self.skipped, self.ran, self.longest = args, [], [], 0, []
        self.lock = threading.Lock()  # guards what is counted and printed

    def play(self, folder):
        fixtures = kit.Fixtures(folder / "fixtures")
        fixtures.get("run")
        # Of children that have ended: the largest so far was the training above.
        baseline_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        since = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for played in [pool.submit(self.one, case, seed, folder / f"{number:04}", fixtures, baseline_mb)
                           for number, (case, seed) in enumerate(chosen(self.args))]:
                played.result()
        return time.monotonic() - since

    def one(self, case, seed, folder, fixtures, baseline_mb):
        try:
            watched, complaints = kit.play(case, folder, seed, fixtures, baseline_mb)
        except kit.Skip as reason:
            with self.lock:
                self.skipped.append(case)
                print(f"{case.name} ... skipped: {reason}", flush=True)
        else:
            with self.lock:
                self.ran += 1
                self.longest.append((watched.seconds, case.name))
                print(f"{case.name} ... {'FAIL' if complaints else 'ok'}  {watched.code}, {watched.seconds:.2f} s, {watched.peak_mb:.0f} MB", flush=True)
                if complaints:
                    self.tell(case, seed, folder, watched, complaints)
        if not self.args.keep:
            shutil.rmtree(folder, ignore_errors=True)

    def tell(self, case, seed, folder, watched, complaints):
        self.failures.append(case)
        for complaint in complaints:
            print(f"  FAIL {case.name}: {complaint}"[:1000])
        said = (watched.out[-400:] + watched.err[-1200:]).encode("ascii", "backslashreplace").decode()
        print("    $ " + shlex.join(map(str, watched.words)))
        print("".join(f"    | {line}\n" for line in said.splitlines()), end="")
        print(f"    again: tests/hostile/hostile_test.py --keep --seed {seed} --only {shlex.quote(case.name)}"
              + (f"   folder: {folder}" if self.args.keep else ""), flush=True)

    def end(self, seconds):
        for took, name in sorted(self.longest, reverse=True)[:5]:
            print(f"  {took:6.2f} s  {name}")
        print("-" * 70)
        print(f"Ran {self.ran} cases in {seconds:.1f} s\n")
        facts = [f"{word}={len(cases)}" for word, cases in (("failures", self.failures), ("skipped", self.skipped)) if cases]
        print(("FAILED" if self.failures else "OK") + (f" ({', '.join(facts)})" if facts else ""))


def read_command_line():
    parser = argparse.ArgumentParser(prog="tests/hostile/hostile_test.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, metavar="N", help="cases to play (default: each once)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, other dice in the generators (default 1)")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="names, with * for any letters; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (default 1)")
    parser.add_argument("--tenth", action="store_true", help="a stable choice of thirty quick ones")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument("--keep", action="store_true", help="leave the folders")
    parser.exit_on_error = False
    try:
        args, rest = parser.parse_known_args()
    except argparse.ArgumentError as error:
        args, rest = None, [str(error)]
    if rest or args.jobs < 1 or (args.count is not None and args.count < 1):
        print(f"hostile_test.py: error: {' '.join(rest) or '--count and --jobs are at least 1'}; see --help", file=sys.stderr)
        sys.exit(64)
    return args


def main():
    args = read_command_line()
    if args.list:
        for case, _ in chosen(args):
            print(f"{case.name}  {' or '.join(map(str, case.codes))}{' (0: ' + case.why + ')' if case.why else ''}")
        print(f"{len(chosen(args))} cases")
        return 0
    if not os.access(program.DTRAIN, os.X_OK):
        print(f"{program.DTRAIN} is missing; build dtrain first, or name it in DTRAIN_PROGRAM", file=sys.stderr)
        return 66
    campaign = Campaign(args)
    with kit.room(args.keep) as folder:
        seconds = campaign.play(pathlib.Path(folder))
    campaign.end(seconds)
    if campaign.skipped and os.environ.get("DTRAIN_REQUIRE_ALL") == "1":
        return 1
    return 1 if campaign.failures else program.SKIPPED if campaign.skipped and not campaign.ran else 0


if __name__ == "__main__":
    sys.exit(main())
