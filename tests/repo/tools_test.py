"""The tools of scripts/ beyond set-up and tests: what they refuse, and what they make of what programs say. The programs
are stood in for by small scripts, so that nothing here needs a build, PyTorch or matplotlib."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import tree

sys.path.insert(0, str(tree.ROOT / "scripts/peers"))
import standard  # noqa: E402

sys.path.insert(0, str(tree.ROOT / "scripts"))
import chaos_jobs  # noqa: E402
import stalls  # noqa: E402

# mpirun: starts the given program, once.
MPIRUN = 'while [[ $1 != */bin/* ]]; do shift; done; exec "$@"'


class Tools(tree.RuleTest):
    @contextlib.contextmanager
    def machine(self, programs):
        """A folder with the {path: bash text} in it and its bin on PATH; yields run(script, words …) in that folder."""
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            home = pathlib.Path(folder)
            for name, text in programs.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text("#!/bin/bash\n" + text + "\n", encoding="utf-8")
                (home / name).chmod(0o755)

            def run(script, *words, **variables):
                kept = {key: value for key, value in os.environ.items() if not key.startswith("DTRAIN_")}
                kept |= {"PATH": f"{home}/bin:{os.environ['PATH']}", "TMPDIR": str(home)} | variables
                return subprocess.run([tree.ROOT / "scripts" / script, *words], env=kept, cwd=home, capture_output=True, text=True,
                                      timeout=50, check=False)

            run.home = home
            yield run

    def ends(self, result, code, *words):
        """Ended with this code, and its last line on stderr names the words."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr.splitlines()[-1])


# Prints the next of the numbers at each call; a file keeps count.
NEXT = r'next() { local n; n=$(cat "$1.count" 2>/dev/null || echo 0); echo $((n + 1)) >"$1.count"; shift; echo "${@:n % $# + 1:1}"; }'
PYTHON = NEXT + r"""
case "$*" in
  *import*) echo '{"python": "3.11.0", "torch": "2.11.0+cpu"}' ;;
  *ddp_step.py*channels-last*) echo "{\"images_per_s\": $(next last 8 7 9), \"forward_images_per_s\": 30, \"warmup_steps\": 2, \"memory_peak_mb\": 400}" ;;
  *ddp_step.py*) echo "{\"images_per_s\": $(next first 4 5 6), \"forward_images_per_s\": 20, \"warmup_steps\": 2, \"memory_peak_mb\": 500, \"last_loss\": [0.7, 0.7]}" ;;
  *load_pictures.py*torchvision*) echo "{\"images_per_s\": $(next tv 60 70 50)}" ;;
  *load_pictures.py*) echo '{"images_per_s": 55}' ;;
  *allreduce.py*) echo '{"results": [{"algorithm": "gloo", "bytes": 4, "ms_median": 0.2}]}' ;;
  *) exit 9 ;;
esac"""
DTRAIN = NEXT + r"""
case "$*" in
  "info --json") echo '{"libtorch": "2.11.0", "dtrain": "1", "mpi": "M"}' ;;
  "bench step"*) echo "$*" >>asked; echo text; echo "{\"images_per_s\": $(next own 10 12 8), \"forward_images_per_s\": 45, \"warmup_steps\": 3, \"memory_peak_mb\": 300}" ;;
  "bench input"*) cp "$5" asked; echo '{"parallel": {"images_per_s": 180}, "sequential": {"images_per_s": 20}}' ;;
  *) echo "dtrain: error 78: not today" >&2; exit 78 ;;
esac"""
PROGRAMS = {"bin/mpirun": MPIRUN, "bin/torch_python": PYTHON, "build/bin/dtrain": DTRAIN}


class BenchPeers(Tools):
    WORDS = ("bench_peers", "--build", "build", "--python", "torch_python", "--ranks", "1")

    def test_the_ratio_is_that_of_medians_against_the_faster_layout_with_the_spread_of_the_pairs(self):
        with self.machine(PROGRAMS) as run:
            result = run(*self.WORDS, "--what", "step", "--models", "small_cnn", "--pairs", "3", "--output", "out.json")
            self.ends(result, 0)
            report = json.loads((run.home / "out.json").read_text())
            row, evaluation = report["results"]
            self.assertTrue(report["complete"])
            self.assertEqual((row["peer"], row["dtrain"], row["peers"]["channels-last"]), ("channels-last", [10, 12, 8], [8, 7, 9]))
            ratios = [row[f"times_as_fast{which}"] for which in ("", "_lowest", "_highest")]
            self.assertEqual(ratios, [1.25, 0.8889, 1.7143])
            self.assertEqual(result.stdout, (run.home / "out.md").read_text())
            self.assertRegex(result.stdout, r"\| step \| small_cnn \| .* \| 1\.25 \(0\.89 to 1\.71\) \| no difference seen \|")
            self.assertIn("400 / 300 MB (0.75 x)", result.stdout)
            self.assertEqual((evaluation["what"], evaluation["peer"], evaluation["times_as_fast"]), ("evaluation", "channels-last", 1.5))

    def test_dtrain_is_asked_for_the_standard_settings(self):
        with self.machine(PROGRAMS) as run:
            self.ends(run(*self.WORDS, "--what", "step", "--models", "unet", "--pairs", "1"), 0)
            asked = (run.home / "asked").read_text()
            for word in ("model.name=unet", "task=segmentation", "batch.per_rank=2", "data.image.size=[384, 512]",
                         "data.image.channels=1", "optimizer.momentum=0.9", "--limit-steps 12", "distributed.threads=1"):
                self.assertIn(word, asked)

    def test_loading_is_measured_on_a_list_of_the_pictures_against_the_faster_decoder(self):
        with self.machine(PROGRAMS | {"pictures/b/1.PNG": "", "pictures/2,3.jpg": "", "pictures/notes.txt": ""}) as run:
            words = (*self.WORDS, "--what", "input", "--pairs", "3")
            self.ends(run(*words), 64, "--pictures DIR")
            self.ends(run(*words, "--pictures", "nowhere"), 66, "nowhere is not a folder")
            self.ends(run(*words, "--pictures", "bin"), 66, "no PNG or JPEG file")
            result = run(*words, "--pictures", "pictures")
            self.ends(result, 0)
            self.assertRegex(result.stdout, r"\| input \| 2 files \(jpg, png\) \| .* \| 3\.00 \(2\.57 to 3\.60\) \| faster \|")
            asked = json.loads((run.home / "asked").read_text())["data"]
            self.assertEqual((asked["loader"], asked["image"]["size"]), ({"threads": 1}, [standard.INPUT_SIZE] * 2))

    def test_a_python_without_torch_is_told_what_to_install(self):
        with self.machine(PROGRAMS | {"bin/torch_python": "echo \"No module named 'torch'\" >&2; exit 1"}) as run:
            self.ends(run(*self.WORDS), 66, "No module named 'torch'", "pip install -r scripts/peers/requirements.txt", "--python")

    def test_a_missing_program_is_told_how_to_build(self):
        with self.machine({}) as run:
            self.ends(run(*self.WORDS), 66, "build/bin/dtrain is missing", "--target dtrain")

    def test_a_failing_run_is_named_with_its_last_words(self):
        with self.machine(PROGRAMS) as run:
            self.ends(run(*self.WORDS, "--what", "startup"), 69, "first_step.py", "code 9")
            fails = PROGRAMS | {"bin/torch_python": PYTHON.replace("*) exit 9", "*) echo '{\"to_first_step_s\": 2}'")}
        with self.machine(fails) as run:
            self.ends(run(*self.WORDS, "--what", "startup"), 69, "--dry-run", "code 78", "not today")

    def test_a_size_that_was_not_measured_is_named(self):
        with self.machine(PROGRAMS) as run:
            self.ends(run(*self.WORDS, "--what", "allreduce"), 69, "gloo", "1000000 bytes")

    def test_bad_words_are_refused(self):
        with self.machine(PROGRAMS) as run:
            self.ends(run(*self.WORDS, "--what", "speed"), 64, "speed", "allreduce, startup, step")
            self.ends(run(*self.WORDS, "--pairs", "0"), 64, "--pairs")
            self.ends(run(*self.WORDS, "--output", "a.txt"), 64, "a.txt", ".json")
            self.ends(run(*self.WORDS[:-1], "100000"), 64, "100000", "cores")

    def test_the_page_of_the_peers_tells_the_standard_settings(self):
        page = (tree.ROOT / "scripts/peers/README.md").read_text(encoding="utf-8")
        rows = next(rows for rows in tree.markdown_tables(page) if rows[0][0] == "network")[1:]
        told = {re.split(r" \(", row[0])[0]: (int(row[1]), row[2], int(row[3]), int(row[5])) for row in rows}
        jobs = {name: (job.batch, f"{job.height} x {job.width} x {job.channels}", job.outputs, job.steps)
                for name, job in standard.JOBS.items()}
        self.assertEqual(told, jobs)


def flips(planted, caught, named, code=0):
    """A chaos_flips that reports these results."""
    whole = {"planted": planted, "caught": caught, "named": named}
    summary = whole | {"by_kind": {"parameter": whole, "buffer": {"planted": 0, "caught": 0, "named": 0}}, "check_share": 0.0031}
    return f"echo \"$*\" >asked; echo '{json.dumps(whole)}'; echo text; echo '{json.dumps(summary)}'; exit {code}"


class Chaos(Tools):
    def flips(self, program, *words):
        with self.machine({"bin/mpirun": MPIRUN} | ({"build/bin/chaos_flips": program} if program else {})) as run:
            result = run("chaos", "flips", "--build", "build", *words)
            self.asked = (run.home / "asked").read_text().split() if (run.home / "asked").exists() else None
            return result

    def test_flips_that_were_all_caught_and_named_are_told_as_a_table(self):
        result = self.flips(flips(1200, 1200, 1200), "--count", "1200", "--seed", "5")
        self.ends(result, 0, "planted 1200")
        self.assertEqual(self.asked, ["--count", "1200", "--seed", "5"])
        table = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(table[0], ["planted", "caught", "named"])
        self.assertEqual(table[1:4], [["parameter"] + 3 * ["1,200"], ["buffer"] + 3 * ["0"], ["all"] + 3 * ["1,200"]])
        self.assertIn("0.31%", result.stdout)

    def test_a_flip_that_was_missed_or_not_named_fails(self):
        self.ends(self.flips(flips(10, 9, 9, 1), "--count", "10"), 1, "1 of 10 flips were not caught", "--seed 1")
        self.ends(self.flips(flips(10, 10, 8, 1), "--count", "10"), 1, "0 of 10", "2 not put down to the right rank")

    def test_fewer_flips_than_asked_for_fail(self):
        self.ends(self.flips(flips(9, 9, 9), "--count", "10"), 1, "9 flips", "10 were asked for")

    def test_good_figures_with_a_bad_code_fail(self):
        self.ends(self.flips(flips(10, 10, 10, 1), "--count", "10"), 1, "code 1")

    def test_a_program_that_fails_or_tells_nothing_is_named(self):
        self.ends(self.flips("exit 80", "--count", "10"), 69, "chaos_flips", "code 80")
        self.ends(self.flips("echo text", "--count", "10"), 69, "planted and caught and named")

    def test_a_program_that_was_not_built_is_told_how_to_build(self):
        self.ends(self.flips(None, "--count", "10"), 66, "build/bin/chaos_flips is missing", "--target chaos_flips")

    def damage(self, whole, *words, code=0):
        summary = whole | {"by_kind": {"bit": whole}, "by_file": {"best.safetensors": whole}, "seconds": 2.0}
        program = f"echo \"$*\" >asked; echo '{json.dumps(summary)}'; exit {code}"
        with self.machine({"build/bin/chaos_damage": program}) as run:
            result = run("chaos", "damage", "--build", "build", *words)
            self.asked = (run.home / "asked").read_text().split() if (run.home / "asked").exists() else None
            return result

    def test_damages_that_were_all_found_and_named_are_told_as_a_table(self):
        whole = {"planted": 1200, "harmless": 7, "found": 1193, "named": 1193}
        result = self.damage(whole, "--count", "1200", "--seed", "5")
        self.ends(result, 0, "planted 1200")
        self.assertEqual(self.asked, ["--count", "1200", "--seed", "5"])
        table = [line.split() for line in result.stdout.splitlines()]
        self.assertEqual(table[0], ["planted", "harmless", "found", "named"])
        self.assertEqual([row[0] for row in table[1:4]], ["bit", "best.safetensors", "all"])
        self.assertEqual(table[3][1:], ["1,200", "7", "1,193", "1,193"])
        self.assertIn("600 damages per second", result.stdout)
        one = {"planted": 1, "harmless": 0, "found": 1, "named": 1}
        self.ends(self.damage(one, "--trial", "12"), 0)
        self.assertEqual(self.asked, ["--trial", "12", "--seed", "1"])

    def test_a_damage_that_was_missed_or_not_named_fails(self):
        self.ends(self.damage({"planted": 10, "harmless": 1, "found": 8, "named": 8}, "--count", "10", code=1), 1, "1 of 10 damages")
        self.ends(self.damage({"planted": 10, "harmless": 0, "found": 10, "named": 9}, "--count", "10", code=1), 1, "1 of those found")
        self.ends(self.damage({"planted": 9, "harmless": 0, "found": 9, "named": 9}, "--count", "10"), 1, "10 were asked for")
        self.ends(self.damage({"planted": 10}, "--count", "10"), 69, "harmless and found and named")
        self.ends(self.damage({}), 64, "--count")

    def test_bad_words_are_refused(self):
        self.ends(self.flips(None), 64, "--count")
        self.ends(self.flips(None, "--count", "0"), 64, "--count")
        self.ends(self.flips(None, "--count", "5", "--ranks", "1"), 64, "--ranks")


class Stalls(Tools):
    """What a trial draws and what it accepts; chaos.stalls makes real ones."""

    LINE = "dtrain: error 76 [rank 0 @ a]: stalled 6 s in all-reduce 9 (step 3); waiting for rank 2, last seen in update at step 3"

    def test_a_seed_and_a_number_are_always_the_same_trial(self):
        draws = [[vars(stalls.Trial(7, number, stalls.KINDS)) | {"draw": None} for number in range(50)] for _ in range(2)]
        self.assertEqual(*draws)
        self.assertEqual({trial["kind"] for trial in draws[0]}, set(stalls.KINDS))
        self.assertTrue(all(0 <= trial["victim"] < trial["ranks"] <= 4 for trial in draws[0]))

    def test_only_76_from_one_rank_that_names_the_victim_is_right(self):
        trial = stalls.Trial(1, 0, ["stop"])
        trial.victim = 2
        trial.judge(76, [self.LINE])
        trial.judge(76, ["dtrain: error 76 [rank 2 @ a]: stalled 6 s in data loading (step 3); the other ranks wait for this one"])
        for code, lines in ((69, [self.LINE]), (76, []), (76, [self.LINE] * 2), (76, [self.LINE.replace("rank 2", "rank 1")])):
            with self.assertRaises(stalls.Wrong):
                trial.judge(code, lines)

    def test_bad_words_are_refused(self):
        with self.machine({}) as run:
            self.ends(run("chaos", "stalls"), 64, "--count")
            self.ends(run("chaos", "stalls", "--count", "1", "--kinds", "flood"), 64, "'flood' is none of stop, disk, link")
            self.ends(run("chaos", "stalls", "--count", "1", "--build", "build"), 66, "build/bin/dtrain is missing")
            self.ends(run("chaos", "slow"), 64, "--minutes")


class Jobs(Tools):
    """How a campaign judges the end of a job; e2e.chaos has real ones."""

    def test_a_signal_that_found_the_run_done_came_too_late_and_nothing_else_did(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as home:
            folder = pathlib.Path(home)
            campaign = chaos_jobs.Campaign.__new__(chaos_jobs.Campaign)
            campaign.hash = "right"
            (folder / "run.json").write_text('{"result_sha256": "right"}')
            for code in (0, -signal.SIGUSR1, 75, -signal.SIGKILL):
                self.assertFalse(campaign.too_late(folder, code), "no DONE")
            (folder / "DONE").write_text("")
            for code, late in ((0, True), (-signal.SIGUSR1, True), (75, False), (-signal.SIGKILL, False), (70, False)):
                self.assertEqual(campaign.too_late(folder, code), late, code)
            campaign.hash = "another"
            with self.assertRaisesRegex(chaos_jobs.Failed, "another result"):
                campaign.too_late(folder, -signal.SIGUSR1)


# What scripts/hosts looks for, whatever the machine of this test is like.
ROOT_WITH_TOOLS = {f"bin/{name}": "exit 1" for name in ("ip", "unshare", "nsenter", "setsid", "mpirun")} | {"bin/id": "echo 0"}


class Hosts(Tools):
    """Refusals; e2e.hosts makes real ones."""

    def test_a_user_without_root_is_refused(self):
        with self.machine(ROOT_WITH_TOOLS | {"bin/id": "echo 1000"}) as run:
            for words in (["up", "2"], ["run", "-np", "2", "--", "true"], ["rsh", "host1", "true"], ["down"]):
                self.ends(run("hosts", *words), 77, "root")

    def test_a_machine_without_namespaces_is_refused_and_nothing_is_left(self):
        with self.machine(ROOT_WITH_TOOLS) as run:
            self.ends(run("hosts", "up", "2"), 77, "CAP_SYS_ADMIN")
            self.assertFalse((run.home / "dtrain-hosts").exists())

    def test_without_hosts_run_says_how_to_make_them_and_down_has_nothing_to_do(self):
        with self.machine(ROOT_WITH_TOOLS) as run:
            self.ends(run("hosts", "run", "-np", "2", "--", "true"), 66, "scripts/hosts up 2")
            self.ends(run("hosts", "rsh", "host1", "true"), 66, "scripts/hosts up 2")
            self.ends(run("hosts", "down"), 0, "no hosts are up")

    def test_bad_words_are_refused(self):
        with self.machine(ROOT_WITH_TOOLS) as run:
            self.ends(run("hosts"), 64, "up, run, rsh, down")
            self.ends(run("hosts", "up"), 64, "up takes a number")
            self.ends(run("hosts", "up", "0"), 64, "'0'")
            self.ends(run("hosts", "up", "65"), 64, "'65'")
            self.ends(run("hosts", "up", "2", "3"), 64, "'3'")
            self.ends(run("hosts", "up", "2", "--shm", "lots"), 64, "'lots'")
            self.ends(run("hosts", "run", "-np", "2"), 64, "after --")
            self.ends(run("hosts", "run", "--", "true"), 64, "-np")
            self.ends(run("hosts", "run", "--hots", "2", "--", "true"), 64, "--hots")
            self.ends(run("hosts", "run", "-np"), 64, "-np takes a value")
            self.ends(run("hosts", "rsh", "host1"), 64, "rsh takes")
            self.ends(run("hosts", "down", "now"), 64, "down")

    def test_pid_files_that_somebody_else_could_have_laid_out_are_not_believed(self):
        with self.machine(ROOT_WITH_TOOLS) as run:
            (run.home / "elsewhere").mkdir()
            (run.home / "dtrain-hosts").symlink_to("elsewhere")
            (run.home / "elsewhere/host1.pid").write_text(f"{os.getpid()} 1\n")
            self.ends(run("hosts", "down"), 0, "no hosts are up")
            self.assertTrue((run.home / "elsewhere/host1.pid").exists())

    def test_a_pid_that_another_process_has_by_now_is_left_alone(self):
        with self.machine(ROOT_WITH_TOOLS) as run:
            bystander = subprocess.Popen(["sleep", "60"])
            try:
                (run.home / "dtrain-hosts").mkdir()
                (run.home / "dtrain-hosts/host1.pid").write_text(f"{bystander.pid} 1\n")
                self.ends(run("hosts", "down"), 0, "no hosts are up")
                self.assertIsNone(bystander.poll())
                self.assertFalse((run.home / "dtrain-hosts").exists())
            finally:
                bystander.kill()
                bystander.wait()


HEADER = "epoch,steps,samples,train_loss,valid_loss,learning_rate"


class PlotCurves(Tools):
    def plot(self, tables, *words, **variables):
        """plot_curves on run folders {name: epochs.csv}; matplotlib is a module that only says it is missing."""
        with self.machine({"modules/matplotlib.py": ""}) as run:
            (run.home / "modules/matplotlib.py").write_text("raise ImportError(name='matplotlib')\n")
            for name, text in tables.items():
                (run.home / name).mkdir()
                (run.home / name / "epochs.csv").write_text(text)
            return run("plot_curves", "--output", "a.svg", *words, PYTHONPATH=str(run.home / "modules"), **variables)

    def test_a_missing_matplotlib_is_told_after_the_runs_were_read(self):
        good = f"{HEADER}\n1,5,36,0.7,,0.1\n2,10,36,0.6,0.5,0.1\n"
        self.ends(self.plot({"a": good}, "a"), 66, "'matplotlib' is missing", "pip install matplotlib")
        self.ends(self.plot({"a": good}, "a", DTRAIN_PYTHON=sys.executable), 66, "'matplotlib' is missing")
        self.assertEqual(self.plot({"a": good}, "a", DTRAIN_PYTHON="echo").stdout.split()[1:], ["--output", "a.svg", "a"])

    def test_tables_that_cannot_be_drawn_are_named(self):
        self.ends(self.plot({}, "a"), 66, "a/epochs.csv does not exist")
        self.ends(self.plot({"a": HEADER + "\n"}, "a"), 65, "a/epochs.csv has no epochs yet")
        self.ends(self.plot({"a": f"{HEADER}\n1,5,36,low,0.5,0.1\n"}, "a"), 65, "a/epochs.csv", "low")
        self.ends(self.plot({"a": "epoch,loss\n1,0.5\n"}, "a"), 65, "a/epochs.csv", "train_loss")

    def test_bad_words_are_refused(self):
        self.ends(self.plot({}, "a", "b", "--label", "A"), 64, "1 labels for 2 runs")
        self.ends(self.plot({}), 64, "RUN")
        self.ends(self.plot({}, *"abcdefghi"), 64, "9 runs")
        self.ends(self.plot({}, "a", "--output", "a.png"), 64, "a.png", ".svg")

    def test_equal_runs_give_equal_bytes_with_the_labels_and_no_date(self):
        python = os.environ.get("DTRAIN_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no Python with matplotlib (DTRAIN_PYTHON)")
        with self.machine({}) as run:
            for name in ("a", "b"):
                (run.home / name).mkdir()
                (run.home / name / "epochs.csv").write_text(f"{HEADER}\n1,5,36,0.7,,0.1\n2,10,36,0.6,0.5,0.1\n")
            for name in ("one.svg", "two.svg"):
                drawn = subprocess.run([python, tree.ROOT / "scripts/plot_curves", "--output", name, "--label", "V = 1", "a", "--label",
                                        "V = 8", "b"], cwd=run.home, capture_output=True, text=True, check=False)
                self.ends(drawn, 0, name)
            picture = (run.home / "one.svg").read_text()
            self.assertEqual(picture, (run.home / "two.svg").read_text())
            self.assertLess(len(picture), 40_000)
            for word in (">V = 1<", ">V = 8<", ">training loss<", ">validation loss<"):
                self.assertIn(word, picture)
            self.assertNotRegex(picture, r"<dc:date>|fill: ?(#ffffff|white)")


if __name__ == "__main__":
    tree.main()
