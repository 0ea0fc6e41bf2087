"""Many runs of one configuration: all points are run, also after a kill in the middle; failures stop nothing else."""

import csv
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import tempfile

import program

SMALL = {
    "name": "small", "seed": 3, "epochs": 3,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 3}, "image": {"size": [16, 16]}, "split": {"valid": 20 / 60}},
}
FAILING = 1e30  # a learning rate that diverges at once


class Sweep(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)
        cls.cores = len(os.sched_getaffinity(0))

    def table(self, folder, name="points.csv"):
        with open(self.folder / folder / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def hashes(self, folder):
        return {row["point"]: row["result_sha256"] for row in self.table(folder)}

    # What it runs.

    def test_ranks_and_values_become_runs_that_are_those_of_plain_starts(self):
        ended = self.good("sweep", "--config", "small.yaml", "--ranks", "1,2", "--over", "epochs=2,3", "--output", "plain")
        rows = self.table("plain")
        self.assertEqual([row["point"] for row in rows], [f"ranks-{ranks}_epochs-{epochs}" for epochs in (2, 3) for ranks in (1, 2)])
        for row in rows:
            self.assertEqual((row["state"], row["exit_code"], row["seed"], row["fold"], row["epochs_done"]), ("done", "0", "3", "", row["epochs"]))
            run = self.run_at(row["run_dir"])
            epochs = run.rows()
            self.assertEqual(row["result_sha256"], run.hash())
            best = max(range(len(epochs)), key=lambda i, epochs=epochs: float(epochs[i][row["metric"]]))
            self.assertEqual((float(row["best"]), int(row["best_epoch"])), (float(epochs[best][row["metric"]]), best + 1))
            self.assertEqual((self.folder / f"plain/logs/log_{row['point']}.csv").read_text(), (run.folder / "epochs.csv").read_text())
            if int(row["ranks"]) <= self.cores:
                steady = epochs[1:]
                seconds = sum(float(epoch["epoch_seconds"]) for epoch in steady)
                self.assertAlmostEqual(float(row["images_per_s"]), sum(float(epoch["samples"]) for epoch in steady) / seconds, 6)
                whole = seconds + sum(float(epoch["valid_seconds"]) for epoch in steady)
                self.assertAlmostEqual(float(row["epochs_per_hour"]) / (3600 * len(steady) / whole), 1, 9)
                self.assertEqual(float(row["elapsed_s"]), float(epochs[-1]["elapsed_s"]))
        self.good("--config", "small.yaml", "--run-dir", "one", "epochs=2", ranks=2)
        self.assertEqual(self.run_at("one").hash(), self.hashes("plain")["ranks-2_epochs-2"])
        for line in (self.folder / "plain/scaling.csv").read_text().splitlines()[:1]:
            self.assertEqual(line, "series,device,nodes,ranks,runs,epochs_per_hour,images_per_s,time_to_train_s,speedup,efficiency,metric,metric_spread")
        scaling = {(row["series"], row["ranks"]): row for row in self.table("plain", "scaling.csv")}
        self.assertEqual(len(scaling), 4)
        alone, both = scaling["epochs=3", "1"], scaling["epochs=3", "2"]
        self.assertEqual((alone["speedup"], alone["efficiency"], alone["device"], alone["nodes"]), ("1", "1", "cpu", "1"))
        if self.cores > 1:
            self.assertAlmostEqual(float(both["efficiency"]), float(both["epochs_per_hour"]) / (2 * float(alone["epochs_per_hour"])), 9)
        self.assertIn("speed-up", ended.out)
        self.assertIn("next: dtrain eval --checkpoint plain/runs/", ended.err)
        again = self.good("sweep", "--config", "small.yaml", "--ranks", "1,2", "--over", "epochs=2,3", "--output", "plain")
        self.assertIn("4 done, 0 to run", again.err)
        self.assertEqual(self.table("plain"), rows)

    def test_seeds_and_folds_end_in_mean_and_deviation_and_more_ranks_than_cores_in_no_rates(self):
        ranks = self.cores + 1
        ended = self.good("sweep", "--config", "small.yaml", "--ranks", ranks, "--repeat", 2, "--folds", 2, "epochs=2", "batch.per_rank=2",
                          "--output", "folds", timeout=120)
        rows = self.table("folds")
        self.assertEqual([(row["seed"], row["fold"]) for row in rows], [("3", "1"), ("4", "1"), ("3", "2"), ("4", "2")])
        self.assertEqual(len({row["result_sha256"] for row in rows}), 4)
        for row in rows:
            self.assertEqual((row["images_per_s"], row["epochs_per_hour"], row["elapsed_s"]), ("", "", ""))
            self.assertEqual(row["processes"], str(self.cores))
            facts = self.run_at(row["run_dir"]).facts()
            self.assertEqual((facts["logical_ranks"], facts["ranks"]), (ranks, self.cores))
        (group,) = self.table("folds", "scaling.csv")
        best = [float(row["best"]) for row in rows]
        self.assertEqual((group["series"], group["runs"], group["images_per_s"], group["speedup"]), ("small", "4", "", ""))
        self.assertAlmostEqual(float(group["metric"]), statistics.fmean(best), 12)
        self.assertAlmostEqual(float(group["metric_spread"]), statistics.stdev(best), 12)
        self.assertIn("±", ended.out)
        self.assertIn("their rates are left empty", ended.err)

    # It survives.

    def test_a_sweep_that_is_killed_goes_on_to_the_same_results_and_leaves_no_process(self):
        words = ("sweep", "--config", "small.yaml", "--ranks", "1,2", "--over", f"optimizer.learning_rate=0.001,{FAILING}", "epochs=20", "checkpoint.every=5 steps")
        straight = self.start(*words, "--output", "straight").wait(120)
        self.fails(straight, 79, "2 of 4 points failed", "--retry-failed")
        killed = self.folder / "killed"
        # What a killed mpirun leaves lies in the test's own folder.
        start = functools.partial(self.start, *words, "--output", "killed", env={"TMPDIR": str(self.folder)})
        job = start()
        try:
            for steps in (3, 2):  # of the first point, then of the second
                point = f"ranks-{1 if steps == 3 else 2}_learning-rate-0.001"
                run = self.run_at(f"killed/runs/{point}")
                program.wait_until(lambda run=run, steps=steps: run.steps_logged() >= steps or run.done(), 60, f"steps of {point}")
                family = program.children(job.process.pid)
                os.killpg(job.process.pid, signal.SIGKILL)
                job.process.wait()
                job.ended()
                program.wait_until(lambda family=family: not any(map(program.alive, family)), 20, "every process of the sweep to end")
                self.assertTrue(len(family) >= 2, family)
                job = start()
            self.fails(job.wait(120), 79, "2 of 4 points failed")
        finally:
            job.kill()
        self.assertEqual(self.hashes("killed"), self.hashes("straight"))
        states = [(row["state"], row["exit_code"]) for row in self.table("killed")]
        self.assertEqual(states, [("done", "0")] * 2 + [("failed", "79")] * 2)
        for row in self.table("killed")[:2]:
            run = self.run_at(row["run_dir"])
            self.assertEqual([event["step"] for event in run.events("step")], list(range(1, run.facts()["steps"] + 1)))
            self.assertEqual(run.result_rows(), self.run_at(row["run_dir"].replace("killed", "straight")).result_rows())
        self.assertIn("learning_rate", self.table("killed")[2]["message"])
        self.assertEqual({path.name for path in killed.iterdir()}, {".lock", "study.yaml", "points.csv", "scaling.csv", "report.html", "runs", "logs"})
        # Failed points stay failed until they are asked for.
        log = killed / f"logs/log_{self.table('killed')[2]['point']}.txt"
        before = log.read_text()
        self.fails(self.call(*words, "--output", "killed"), 79, "2 of 4 points failed")
        self.assertEqual(log.read_text(), before)
        self.fails(self.call(*words, "--output", "killed", "--retry-failed"), 79, "2 of 4 points failed")
        self.assertGreater(len(log.read_text()), len(before))

    def test_a_signal_is_passed_on_the_point_saves_and_the_same_command_goes_on(self):
        words = ("sweep", "--config", "small.yaml", "epochs=100000", "checkpoint.every=1000 epochs", "--over", "seed=1,2", "--output", "stopped")
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            run = self.run_at("stopped/runs/ranks-1_seed-1")
            before = run.steps_logged()
            job = self.start(*words)
            try:
                program.wait_until(lambda before=before: run.steps_logged() > before + 3, 60, "steps")
                # So no mpirun that ends removes the folder that another begins in.
                held = list(pathlib.Path(tempfile.gettempdir()).glob(f"ompi.*.{os.getuid()}/pid.{job.process.pid}"))
                refused = self.call(*words) if number == signal.SIGTERM else None
                job.send(number)
                ended = job.wait(60)
            finally:
                job.kill()
            self.assertEqual(ended.code, 75, ended)
            self.assertEqual(ended.errors, [])
            self.assertEqual((len(held), any(path.exists() for path in held)), (1, False))
            self.assertIn("the same command goes on", ended.err)
            self.assertEqual([row["state"] for row in self.table("stopped")], ["stopped", "waiting"])
            self.assertEqual(int(run.checkpoints()[-1].name.rpartition("-")[2].partition(".")[0]), run.steps_logged())
            if refused:
                self.fails(refused, 78, "another job is sweeping into stopped", f"process {job.process.pid}", "--output")

    # What it refuses, before anything starts.

    def test_points_that_would_be_refused_are_all_listed_and_nothing_is_started(self):
        ended = self.call("sweep", "--config", "small.yaml", "--ranks", "1,64", "--over", "optimizer.learning_rate=0.1,fast", "--output", "refused")
        self.fails(ended, 78, "3 of 4 points would be refused", "nothing was started")
        for words in (("ranks-64_learning-rate-0.1: ", "samples"), ("ranks-1_learning-rate-fast and 1 more: ", "optimizer.learning_rate")):
            self.assertTrue(any(all(word in line for word in words) for line in ended.err.splitlines()), (words, ended))
        self.assertFalse((self.folder / "refused").exists())

    def test_two_spellings_of_one_value_are_one_run(self):
        words = ("sweep", "--config", "small.yaml", "--over", "optimizer.learning_rate=0.01,1e-2,0.02", "--output", "twice")
        ended = self.call(*words)
        self.fails(ended, 64, "1 of 3 points would be refused")
        self.assertIn("ranks-1_learning-rate-1e-2: would be the same run as ranks-1_learning-rate-0.01", ended.err)
        self.assertFalse((self.folder / "twice").exists())

    def test_an_empty_table_of_points_loses_nothing(self):
        words = ("sweep", "--config", "small.yaml", "--over", f"optimizer.learning_rate=0.001,{FAILING}", "epochs=1", "--output", "emptied")
        self.fails(self.call(*words), 79, "1 of 2 points failed")
        rows, times = self.table("emptied"), [path.stat().st_mtime_ns for path in sorted(self.folder.glob("emptied/runs/*/DONE"))]
        (self.folder / "emptied/points.csv").write_text("")
        ended = self.call(*words)
        self.fails(ended, 79, "1 of 2 points failed")
        self.assertEqual(ended.err.count("emptied/points.csv is empty and counts for nothing"), 1, ended)
        self.assertEqual([path.stat().st_mtime_ns for path in sorted(self.folder.glob("emptied/runs/*/DONE"))], times)
        self.assertEqual(self.table("emptied"), rows)

    def test_all_points_keep_what_the_study_began_with_before_a_default_changed(self):
        self.write_config("masks", SMALL, {"task": "segmentation", "epochs": 1, "model": {"name": "unet", "base_width": 1, "levels": 1},
                                           "data": {"synthetic": {"classes": 1}}})
        words = ("sweep", "--config", "masks.yaml", "--repeat", 2, "--output", "older")
        self.good(*words)
        first, second = (self.folder / "older/runs" / row["point"] for row in self.table("older"))
        stored = (first / "config.yaml").read_text()
        (first / "config.yaml").write_text(re.sub("fused: true .*", "fused: false", stored))  # as an older version had run it
        shutil.rmtree(second)
        ended = self.good(*words)
        self.assertIn("all points have model.fused=false, as the study began", ended.err)
        self.assertIn("fused: false", (second / "config.yaml").read_text())

    def test_a_dry_run_lists_the_points_and_writes_nothing(self):
        ended = self.good("sweep", "--config", "small.yaml", "--ranks", "1,2", "--dry-run")
        self.assertEqual([line.split()[0] for line in ended.out.splitlines()], ["point", "ranks-1", "ranks-2"])
        self.assertFalse((self.folder / "studies").exists())

    def test_command_lines_and_folders_that_cannot_be_meant_are_refused(self):
        common = ("sweep", "--config", "small.yaml")
        (self.folder / "mine").mkdir()
        (self.folder / "mine/notes.txt").write_text("mine")
        for words, code, told in (((*common, "--over", "epochs"), 64, "KEY=VALUE"), ((*common, "--ranks", "0"), 64, "above 0"), ((*common, "--ranks", "1,,2"), 64, "'' is not a whole number above 0"),
                                  ((*common, "--ranks", "1,2,"), 64, "'1,2,' is not a list of whole numbers"),
                                  ((*common, "--over", "name=a,b"), 64, "names its run folders itself"),
                                  ((*common, "--zip", "--over", "epochs=1,2"), 64, "--zip"),
                                  ((*common, "--over", "epochs=1", "epochs=2"), 64, "--over varies epochs, and epochs=2 sets it"),
                                  ((*common, "--output", "mine"), 64, "was not begun by dtrain sweep"),
                                  (("sweep", "--config", "none.yaml"), 66, "none.yaml"),
                                  (("sweep",), 64, "--config")):
            with self.subTest(words):
                self.fails(self.call(*words), code, told)
        self.fails(self.call(*common, ranks=2), 64, "without mpirun", rank=0)
        nowhere = self.folder / "empty"
        nowhere.mkdir()
        self.fails(self.call(*common, env={"PATH": str(nowhere)}), 66, "mpirun is not on PATH")
        self.assertEqual([path.name for path in (self.folder / "mine").iterdir()], ["notes.txt"])

    def test_a_study_that_is_asked_for_something_else_names_the_difference(self):
        words = ("sweep", "--config", "small.yaml", "epochs=1", "--output", "other")
        self.good(*words)
        self.assertEqual(json.loads((self.folder / "other/study.yaml").read_text().splitlines()[2].partition(": ")[2]), [1])
        self.fails(self.call(*words, "--ranks", "1,2"), 78, "--ranks was [1] and is now [1,2]", "name another --output")
        self.fails(self.call(*words, "optimizer.learning_rate=0.5"), 78, "optimizer.learning_rate was 0.001 and is now 0.5")
        run = pathlib.Path(self.table("other")[0]["run_dir"])
        config = self.folder / run / "config.yaml"
        config.write_text(config.read_text().replace("learning_rate: 0.001", "learning_rate: 0.002"))
        self.fails(self.call(*words), 78, f"{run} holds a finished run of another configuration or other data", "0.002")


if __name__ == "__main__":
    program.main(at_once=2)
