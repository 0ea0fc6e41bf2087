"""What scripts/gpu_check does when a part of it hangs, crashes or finds something wrong, when it is stopped, and when it is called
again. The parts are small programs, and dtrain is a script: nothing here needs a build."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import tree

sys.path.insert(0, str(tree.ROOT / "scripts"))
import common  # noqa: E402
import parts  # noqa: E402

Part = parts.Part
OF = {"program": "a check", "machine": "this one"}

# parts.try_parts() in another process, which may be killed; each part is given as [name, limit, words].
TRY = """
import json, pathlib, sys
import common, parts
def main():
    report = parts.Report(pathlib.Path(sys.argv[1]), {"program": "a check"})
    parts.try_parts([parts.Part(*part) for part in json.loads(sys.argv[2])], report, 60)
    return 0
common.ends(main)
"""

# scripts/gpu_check, one part of which has little time.
CHECK = """
import importlib.machinery, importlib.util, sys
import common
loader = importlib.machinery.SourceFileLoader("gpu_check", {script!r})
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(check)
check.limits_for = lambda args: dict.fromkeys(check.LIMITS, 20) | {{"rates.densenet121.tf32": 0.5}}
common.ends(check.main)
"""

# The hash of what scripts/gpu_check uses, and again after a line was added to each of these files.
HASHES = """
import importlib.machinery, importlib.util, sys
import common
loader = importlib.machinery.SourceFileLoader("gpu_check", str(common.TOP / "scripts/gpu_check"))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(check)
print(check.hash_of(sys.argv[1]))
for name in sys.argv[2:]:
    with open(common.TOP / name, "a") as file:
        file.write("#\\n")
    print(check.hash_of(sys.argv[1]))
"""

# Replaces dtrain. Densenet in tf32 hangs, runs of two ranks in bf16 crash.
DTRAIN = """#!/bin/bash
echo "$*" >>asked
case "$*" in
  "info --json") echo '{"host": "here", "gpus": [], "why_no_gpu": ""}' ;;
  *densenet121*precision=tf32*) sleep 100 ;;
  "bench step"*) echo '{"images_per_s": 10}' ;;
  *bits-bf16-2*) kill -SEGV $$ ;;
  *--run-dir*) while [[ $1 != --run-dir ]]; do shift; done; mkdir "$2"; echo '{"result_sha256": "abc"}' >"$2/run.json" ;;
  *) exit 9 ;;
esac
"""
MPIRUN = '#!/bin/bash\nwhile [[ $1 != */dtrain ]]; do shift; done; exec "$@"\n'


class Reports(tree.RuleTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtrain-repo-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "report.json"
        self.said = io.StringIO()

    def counting(self, name, *words):
        """A part that counts each try in a file with its name, and then runs `words`."""
        return Part(name, 5, ["sh", "-c", f"echo x >>{self.folder / name}; {' '.join(words)}"])

    def times(self, name):
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def tried(self, *the_parts, total_s=60, again=False, of=OF):
        """The report after a call, and the parts that it did not try."""
        with contextlib.redirect_stderr(self.said):
            report = parts.Report(self.path, of, again)
            self.left = parts.try_parts(the_parts, report, total_s)
        return self.on_disk()

    def on_disk(self):
        return json.loads(self.path.read_text())

    def states(self, report):
        return {name: part["state"] for name, part in report["parts"].items()}

    def test_a_part_that_hangs_and_one_that_crashes_leave_all_others_in_the_report(self):
        def wrong(attempt):
            attempt.told["half"] = 1
            attempt.expect(2 * 2 == 5, "two times two is not five")
            attempt.told["whole"] = 2

        def late(attempt):
            attempt.told["before"] = 3
            attempt.run(["sleep", "100"])
            attempt.told["after"] = 4

        report = self.tried(Part("first", 5, ["true"]), Part("hangs", 1, ["sh", "-c", "echo at it; sleep 100"]),
                            Part("crashes", 5, ["sh", "-c", "echo oh >&2; kill -SEGV $$"]), Part("wrong", 5, wrong),
                            Part("late", 0.3, late), Part("broken", 5, lambda attempt: {}["there is none"]),
                            Part("no such program", 5, ["/none/of/it"]), Part("last", 5, ["true"]))
        self.assertEqual(self.states(report), {
            "first": "passed", "hangs": "timed out", "crashes": "wrong", "wrong": "wrong", "late": "timed out", "broken": "broke off",
            "no such program": "broke off", "last": "passed"})
        sentences = {name: part["wrong"] for name, part in report["parts"].items()}
        self.assertRegex(sentences["hangs"][0], r"sleep 100' did not end within \S+ s; its last words: at it")
        self.assertIn("was ended by signal 11 (Segmentation fault): oh", sentences["crashes"][0])
        self.assertEqual(sentences["wrong"], ["two times two is not five"])
        self.assertIn("KeyError: 'there is none' (gpu_check_report_test.py:", sentences["broken"][0])
        self.assertIn("/none/of/it", sentences["no such program"][0])
        self.assertEqual(report["wrong"], [one for name in sentences for one in sentences[name]])
        self.assertEqual(len(report["wrong"]), 6)
        self.assertEqual(report["parts"]["wrong"]["told"], {"half": 1, "whole": 2})
        self.assertEqual(report["parts"]["late"]["told"], {"before": 3}, "what was found out before the time was up")

    def test_the_report_is_on_the_disk_after_every_part(self):
        def look(attempt):
            attempt.told["seen"] = self.states(self.on_disk())
        report = self.tried(Part("one", 5, ["true"]), Part("two", 5, ["false"]), Part("three", 5, look), Part("four", 5, ["true"]))
        self.assertEqual(report["parts"]["three"]["told"]["seen"], {"one": "passed", "two": "wrong", "three": "running"})
        self.assertEqual(list(self.folder.iterdir()), [self.path])

    def test_a_second_call_repeats_nothing_that_has_passed_and_begins_with_what_was_never_tried(self):
        good, bad = self.counting("good"), self.counting("bad", "false")
        self.tried(good, bad)
        report = self.tried(good, self.counting("bad"), self.counting("new", "cp", str(self.path), str(self.folder / "then")))
        self.assertEqual({name: self.times(name) for name in ("good", "bad", "new")}, {"good": 1, "bad": 2, "new": 1})
        self.assertEqual(self.states(json.loads((self.folder / "then").read_text())),
                         {"good": "passed", "bad": "wrong", "new": "running"}, "what was never tried comes first")
        self.assertEqual(self.states(report), {"good": "passed", "bad": "passed", "new": "passed"})
        self.assertEqual((report["wrong"], report["parts"]["bad"]["tries"]), ([], 2))
        self.assertIn("good: passed before", self.said.getvalue())

    def test_another_program_or_machine_begins_anew_and_so_does_again(self):
        self.tried(self.counting("part"))
        for number, how in enumerate(({"of": {**OF, "machine": "another"}}, {"again": True, "of": {**OF, "machine": "another"}}), 1):
            before = self.path.read_text()
            self.tried(self.counting("part"), **how)
            self.assertEqual(self.times("part"), number + 1)
            self.assertEqual((self.folder / f"report.json.{number}").read_text(), before)
        self.tried(self.counting("part"), of={**OF, "machine": "another"})
        self.assertEqual(self.times("part"), 3)

    def test_a_file_of_another_kind_is_left_alone(self):
        for text in ("[]", "no JSON", '{"parts": {}}', '{"parts": {"a": {}}, "seconds": 1}', '{"parts": 1, "seconds": 1}'):
            self.path.write_text(text)
            with self.assertRaises(common.Refused) as refused:
                self.tried(Part("one", 5, ["true"]))
            self.assertEqual((refused.exception.code, self.path.read_text()), (78, text))
        for self.path in (self.folder, pathlib.Path("/dev/null")):
            with self.assertRaises(common.Refused) as refused:
                self.tried(Part("one", 5, ["true"]))
            self.assertIn("is not a file", str(refused.exception))

    def test_a_report_that_cannot_be_written_ends_it(self):
        self.path = self.folder / "none/report.json"
        with self.assertRaises(common.Refused) as refused:
            self.tried(self.counting("part"))
        self.assertEqual((refused.exception.code, self.times("part")), (74, 0))

    def test_no_part_is_begun_that_might_not_end_in_time(self):
        report = self.tried(Part("short", 10, ["sleep", "0.2"]), Part("long", 30, ["true"]), Part("shorter", 5, ["true"]), total_s=30.1)
        self.assertEqual((self.states(report), self.left), ({"short": "passed", "shorter": "passed"}, ["long"]))

    def test_what_a_program_that_is_ended_has_started_is_ended_too(self):
        self.tried(Part("hangs", 1, ["sh", "-c", f"sleep 100 & echo $! >{self.folder}/pid; exit 3"]))
        pid = int((self.folder / "pid").read_text())
        for _ in range(100):
            if not common.alive(pid):
                break
            time.sleep(0.1)
        self.assertFalse(common.alive(pid))

    def start(self, *the_parts):
        return subprocess.Popen([sys.executable, "-B", "-c", TRY, self.path, json.dumps([[p.name, p.limit_s, p.work] for p in the_parts])],
                                env={**os.environ, "PYTHONPATH": str(tree.ROOT / "scripts")}, stderr=subprocess.PIPE, text=True)

    def ended(self, process):
        process.communicate(timeout=200)
        return process.returncode

    def test_a_call_that_was_killed_is_gone_on_with(self):
        first, last = self.counting("first"), self.counting("last")
        self.assertEqual(self.ended(self.start(first, self.counting("deadly", "kill -9 $PPID"), last)), -signal.SIGKILL)
        self.assertEqual(self.states(self.on_disk()), {"first": "passed", "deadly": "running"})
        self.assertEqual(self.ended(self.start(first, self.counting("deadly", "kill -9 $PPID"), last)), -signal.SIGKILL)
        self.assertEqual(self.states(self.on_disk()), {"first": "passed", "deadly": "running", "last": "passed"},
                         "a part that ends everything keeps no other from its turn")
        self.assertEqual(self.ended(self.start(first, self.counting("deadly"), last)), 0)
        self.assertEqual(set(self.states(self.on_disk()).values()), {"passed"})
        self.assertEqual({name: self.times(name) for name in ("first", "deadly", "last")}, {"first": 1, "deadly": 3, "last": 1})

    def test_a_call_that_is_told_to_stop_says_in_the_report_where(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)):
            process = self.start(Part("first", 5, ["true"]), Part("at it", 30, ["sleep", "100"]), Part("last", 5, ["true"]))
            while not self.path.exists() or self.states(self.on_disk()).get("at it") != "running":
                time.sleep(0.02)
            process.send_signal(number)
            self.assertEqual(self.ended(process), code)
            self.assertEqual(self.states(self.on_disk()), {"first": "passed", "at it": "interrupted"})
            self.assertEqual(self.on_disk()["wrong"], ["at it was interrupted"])
            self.path.unlink()


class GpuCheck(tree.RuleTest):
    def check(self, home, *words):
        for name, text in {"dtrain": DTRAIN, "mpirun": MPIRUN}.items():
            (home / name).write_text(text)
            (home / name).chmod(0o755)
        script = CHECK.format(script=str(tree.ROOT / "scripts/gpu_check"))
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DTRAIN_")}
        return subprocess.run(
            [sys.executable, "-B", "-c", script, "--quick", "--program", home / "dtrain", "--python", "/bin/false", *words],
            cwd=home, env={**kept, "PYTHONPATH": str(tree.ROOT / "scripts"), "DTRAIN_MPIEXEC": str(home / "mpirun")},
            capture_output=True, text=True, timeout=200, check=False)

    def test_a_part_that_hangs_and_one_that_crashes_leave_all_others_and_are_tried_once_more(self):
        with tree.made_up_tree({}) as home:
            words = ("--only", "bits.fp32,bits.bf16,rates,graphs.fp32", "--output", "gpu.json")
            ended = self.check(home, *words)
            self.assertEqual(ended.returncode, 1, ended.stderr)
            report = json.loads((home / "gpu.json").read_text())
            bad = {"bits.bf16": "wrong", "rates.densenet121.tf32": "timed out"}
            good = dict.fromkeys(("bits.fp32", "graphs.fp32", "rates.densenet121.fp32", "rates.densenet121.bf16", "rates.resnet50.fp32",
                                  "rates.resnet50.tf32", "rates.resnet50.bf16"), "passed")
            self.assertEqual({name: part["state"] for name, part in report["parts"].items()}, bad | good)
            self.assertEqual(len(report["wrong"]), 2, report["wrong"])
            self.assertEqual(set(report["parts"]["bits.bf16"]["told"]), {"1 alone"})
            self.assertEqual(report["parts"]["rates.resnet50.tf32"]["told"]["dtrain"], {"images_per_s": 10})
            self.assertEqual(report["info"]["host"], "here")
            (home / "asked").unlink()
            self.assertEqual(self.check(home, *words).returncode, 1)
            asked = (home / "asked").read_text().splitlines()
            self.assertEqual(len([line for line in asked if "--run-dir" in line]), 2, "bits.bf16 alone once more")
            self.assertEqual(len([line for line in asked if "bench step" in line]), 1, "densenet121 in tf32 alone once more")
            (home / "asked").unlink()
            self.assertEqual(self.check(home, "--only", "graphs.fp32", "--output", "gpu.json", "--again").returncode, 0)
            self.assertEqual(len((home / "asked").read_text().splitlines()), 3)
            self.assertEqual(json.loads((home / "gpu.json.1").read_text())["parts"].keys(), report["parts"].keys())

    def test_what_has_passed_is_tried_again_after_a_change_to_anything_that_it_used(self):
        with tree.made_up_tree({"bin/dtrain": "", "bin/test_gpu": ""}) as home:
            for folder in ("scripts", "configs"):
                shutil.copytree(tree.ROOT / folder, home / folder)
            used = ("bin/dtrain", "bin/test_gpu", "scripts/gpu_check", "scripts/chaos_jobs.py", "scripts/common.py", "scripts/parts.py", "scripts/peers/ddp_step.py",
                    "scripts/peers/standard.py", "configs/chexnet.yaml")
            ended = subprocess.run([sys.executable, "-B", "-c", HASHES, home / "bin/dtrain", *used], capture_output=True, text=True,
                                   env={**os.environ, "PYTHONPATH": str(home / "scripts")}, timeout=200, check=True)
            self.assertEqual(len(set(ended.stdout.split())), 1 + len(used))

    def test_without_a_file_the_report_goes_to_stdout(self):
        with tree.made_up_tree({}) as home:
            ended = self.check(home, "--only", "graphs")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual(json.loads(ended.stdout)["parts"]["graphs.bf16"]["told"],
                             {"model": "densenet121", "batch": 2, "plain": 10, "recorded": 10})

    def test_a_gpu_is_held_40_minutes_at_most_and_a_part_8(self):
        with tree.made_up_tree({}) as home:
            listed = self.check(home, "--list").stdout.splitlines()
            limits = [int(line.split()[1]) for line in listed]
            self.assertGreater(len(limits), 10)
            self.assertLessEqual(max(limits), 8 * 60)
            self.assertLessEqual(sum(limits), 40 * 60)

    def test_bad_words_are_refused(self):
        with tree.made_up_tree({"other.json": "{}"}) as home:
            for code, word, words in ((64, "'rate'", ("--only", "rate")), (66, "none/r.json", ("--output", "none/r.json")),
                                      (78, "other.json", ("--output", "other.json")), (66, "none", ("--program", "none"))):
                ended = self.check(home, *words)
                self.assertEqual(ended.returncode, code, ended.stderr)
                self.assertIn(word, ended.stderr.splitlines()[-1])


if __name__ == "__main__":
    tree.main()
