"""Study files, points side by side, and what the folds of a cross-validation say together."""

import csv
import json
import os
import signal

import program

SMALL = {
    "name": "small", "seed": 3, "epochs": 2,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 2}, "image": {"size": [16, 16]}, "split": {"valid": 20 / 60}},
}
CHIPS = {**SMALL, "name": "chips", "task": "multiclass", "data": {"format": "image_folder", "root": "nowhere", "image": {"size": [16, 16]}, "split": {"valid": 0.25}}}
CELLS = {"name": "cells", "seed": 3, "epochs": 1, "batch": {"per_rank": 4}, "model": {"name": "unet", "base_width": 2},
         "data": {"format": "image_mask", "root": "cells", "image": {"size": [16, 16]}}}
SHIPPED = sorted((program.ROOT / "configs/studies").glob("*.yaml"))


class Study(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, config in (("small", SMALL), ("chips", CHIPS), ("cells", CELLS)):
            cls.write_config(name, config)
        cls.cores = len(os.sched_getaffinity(0))

    def table(self, path):
        with open(self.folder / path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def hashes(self, folder):
        return {row["point"]: row["result_sha256"] for row in self.table(f"{folder}/points.csv")}

    def study(self, name, text):
        (self.folder / "files").mkdir(exist_ok=True)
        (self.folder / f"files/{name}.yaml").write_text(text)
        return f"files/{name}.yaml"

    # Study files.

    def test_a_study_file_is_the_command_line_in_yaml_and_what_is_typed_wins(self):
        file = self.study("rates", """
title: Two rates
config: ../small.yaml
overrides: {epochs: 1, model: {dropout: 0.1}}
over: {optimizer.learning_rate: [0.01, 0.001]}
repeat: 2
expected: {source: a paper, figures: [as good as chance]}
tiny: {repeat: 1}
""")
        ended = self.good("sweep", file)
        self.assertIn("expected, as published: a paper\n  as good as chance\n", ended.out)
        self.assertIn('title: "Two rates"\n', (self.folder / "studies/rates/study.yaml").read_text())
        page = (self.folder / "studies/rates/report.html").read_text()
        self.assertIn("<h1>Two rates</h1>", page)
        self.assertIn("As published: a paper</h3>\n<ul class=\"says\"><li>as good as chance</li>", page)
        self.assertIn("As published: a paper\n  as good as chance\n", self.good("report", "studies/rates", "--text").out)
        self.good("sweep", "--config", "small.yaml", "epochs=1", "model.dropout=0.1", "--over", "optimizer.learning_rate=0.01,0.001",
                  "--repeat", "2", "--output", "typed")
        self.assertEqual(self.hashes("studies/rates"), self.hashes("typed"))
        self.assertEqual(len(self.hashes("typed")), 4)
        self.assertIn("4 done, 0 to run", self.good("sweep", file).err)
        self.good("sweep", file, "--tiny", "--ranks", "2", "epochs=2")
        self.assertEqual(list(self.hashes("studies/rates_tiny")), ["ranks-2_learning-rate-0.01", "ranks-2_learning-rate-0.001"])
        self.assertEqual({row["epochs_done"] for row in self.table("studies/rates_tiny/points.csv")}, {"2"})

    def test_data_that_are_not_there_are_generated_and_packed_in_the_studys_folder(self):
        file = self.study("stand_in", """
config: ../chips.yaml
overrides: {epochs: 1}
over:
  - data.format: [image_folder, packed]
    data.root: ["${DTRAIN_STUDY_DATA}", "${DTRAIN_STUDY}/shards"]
    data.split: [{valid: 0.25}, null]
sample: {kind: chips, count: 24, size: [20, 20]}
pack: {samples_per_shard: 8, expand: [hflip]}
""")
        self.fails(self.call("sweep", file, "--dry-run"), 66, "a start without --dry-run makes them")
        self.assertFalse((self.folder / "studies/stand_in").exists())
        self.good("sweep", file)
        folder = self.folder / "studies/stand_in"
        self.assertEqual(len(list((folder / "data").rglob("chip_*"))), 24)
        rows = self.table("studies/stand_in/points.csv")
        self.assertEqual([row["point"] for row in rows], ["ranks-1_format-image-folder", "ranks-1_format-packed"])
        plain, packed = (self.run_at(row["run_dir"]).rows()[0] for row in rows)
        self.assertEqual(int(packed["samples"]), 2 * int(plain["samples"]))  # each picture and its mirror image
        before = self.hashes("studies/stand_in")
        self.good("sweep", file)
        self.assertEqual(self.hashes("studies/stand_in"), before)
        # Data that are named are taken, and none generated.
        self.good("sweep", file, f"data.root={folder / 'data'}", "--output", "named", "--over", "seed=1,2")
        self.assertFalse((self.folder / "named/data").exists())

    def test_the_shipped_studies_pass_their_checks_in_their_tiny_form(self):
        self.assertEqual(len(SHIPPED), 6)
        for path in SHIPPED:
            with self.subTest(path.stem):
                ended = self.good("sweep", path, "--tiny", "--dry-run")
                self.assertIn("all of them pass the checks", ended.err)
        self.assertFalse((self.folder / "studies").exists() and list((self.folder / "studies").glob("*scaling_tiny")))

    def test_what_is_wrong_in_a_study_file_is_told_with_line_and_key_before_anything_is_made(self):
        broken = self.study("broken", "config: ../small.yaml\noverrides: {epochz: 1}\nranks: [none]\n")
        ended = self.call("sweep", broken)
        self.fails(ended, 78, "2 errors, listed above")
        self.assertIn("files/broken.yaml:2:13: unknown key 'epochz'", ended.err)
        self.assertIn("files/broken.yaml:3:9: ranks wants a whole number", ended.err)
        plain = self.study("plain", "config: ../small.yaml\n")
        for words, code, told in (((plain, "--tiny"), 64, "no section 'tiny'"), (("-c", "small.yaml", "--tiny"), 64, "--tiny is for study files"),
                                  (("-c", plain, "-c", broken), 64, "both study files"), (("-c", "small.yaml", "-c", plain), 64, "give it first")):
            with self.subTest(words):
                self.fails(self.call("sweep", *words), code, told)
        self.assertFalse((self.folder / "studies/broken").exists())

    # Side by side.

    def test_points_side_by_side_give_the_same_results_without_rates(self):
        if self.cores < 2:
            self.skipTest("one core")
        words = ("sweep", "--config", "small.yaml", "--ranks", "1,2", "--over", "seed=1,2")
        self.good(*words, "--output", "one")
        ended = self.good(*words, "--output", "two", "--jobs", 2)
        self.assertEqual(self.hashes("two"), self.hashes("one"))
        self.assertIn("2 at a time", ended.err)
        for row in self.table("two/points.csv"):
            self.assertEqual((row["jobs"], row["images_per_s"], row["epochs_per_hour"], row["elapsed_s"]), ("2", "", "", ""))
            self.assertLessEqual(int(row["processes"]), self.cores // 2)
        again = self.good(*words, "--output", "two")  # what was measured then stays what it was
        self.assertIn("2 at a time", again.err)
        self.assertEqual({row["images_per_s"] for row in self.table("two/points.csv")}, {""})
        self.fails(self.call(*words, "--output", "many", "--jobs", self.cores + 1), 64, "--jobs")

    def test_jobs_side_by_side_are_all_stopped_or_killed_and_go_on(self):
        if self.cores < 2:
            self.skipTest("one core")
        words = ("sweep", "--config", "small.yaml", "--over", "seed=1,2", "epochs=30", "checkpoint.every=5 steps")
        self.good(*words, "--output", "whole")
        runs = [self.run_at(f"broken/runs/ranks-1_seed-{seed}") for seed in (1, 2)]
        for number, steps in ((signal.SIGINT, 2), (signal.SIGKILL, 12)):
            job = self.start(*words, "--output", "broken", "--jobs", 2)
            try:
                program.wait_until(lambda steps=steps: all(run.steps_logged() >= steps for run in runs), 60, "steps of both")
                family = program.children(job.process.pid)
                if number == signal.SIGKILL:
                    os.killpg(job.process.pid, signal.SIGKILL)
                    job.process.wait()
                    job.ended()
                    program.wait_until(lambda family=family: not any(map(program.alive, family)), 20, "every process to end")
                else:
                    job.send(number)
                    self.assertEqual(job.wait(60).code, 75)
                    states = {row["state"] for row in self.table("broken/points.csv")}
                    self.assertIn(states, ({"stopped"}, {"stopped", "done"}))  # one may be done before the other has begun
            finally:
                job.kill()
        self.good(*words, "--output", "broken", "--jobs", 2)
        self.assertEqual(self.hashes("broken"), self.hashes("whole"))

    # Folds.

    def test_folds_are_pooled_for_each_seed_with_metrics_of_their_own(self):
        words = ("sweep", "--config", "small.yaml", "--folds", 3, "--output", "folds")
        ended = self.good(*words)
        rows = self.table("folds/predictions_pooled.csv")
        self.assertEqual(len({row["path"] for row in rows}), 60)
        for fold in "123":
            own = self.table(f"folds/evaluations/ranks-1_fold-{fold}/predictions_valid.csv")
            self.assertEqual([{**row, "fold": fold} for row in own], [row for row in rows if row["fold"] == fold])
        metrics = json.loads((self.folder / "folds/metrics_pooled.json").read_text())
        self.assertEqual((metrics["samples"], metrics["folds"]), (60, 3))
        label = next(name for name in rows[0] if name.startswith("label_"))
        score = label.replace("label_", "score_")
        with_it, without = ([float(row[score]) for row in rows if row[label] == value] for value in "10")
        right = sum((a > b) + (a == b) / 2 for a in with_it for b in without) / (len(with_it) * len(without))
        self.assertAlmostEqual(metrics[label.replace("label_", "auroc_")]["value"], right, 12)
        self.assertIn("3 folds pooled: 60 samples", ended.out)
        self.assertIn("95 %", ended.out)
        # An evaluation that was cut short is made again; the others stay.
        (self.folder / "folds/evaluations/ranks-1_fold-2/metrics_valid.json").unlink()
        again = self.good(*words)
        self.assertEqual(again.err.count("evaluating"), 1)
        self.assertEqual(json.loads((self.folder / "folds/metrics_pooled.json").read_text()), metrics)
        self.good("sweep", "--config", "small.yaml", "--folds", 2, "--repeat", 2, "epochs=1", "--output", "seeds")
        self.assertEqual({path.name for path in (self.folder / "seeds").glob("*pooled*.csv")},
                         {f"predictions_pooled_ranks-1_seed-{seed}.csv" for seed in (3, 4)})

    def test_folds_of_masks_are_pooled_picture_by_picture(self):
        self.good("sample", "--kind", "cells", "--count", "12", "--output", "cells")
        self.good("sweep", "--config", "cells.yaml", "--folds", 2, "--output", "masks")
        rows = self.table("masks/predictions_pooled.csv")
        self.assertEqual(len({row["path"] for row in rows}), 12)
        both, either = (sum(int(row[name]) for row in rows) for name in ("both_foreground", "predicted_foreground"))
        either += sum(int(row["mask_foreground"]) for row in rows) - both
        metrics = json.loads((self.folder / "masks/metrics_pooled.json").read_text())
        self.assertAlmostEqual(metrics["iou"]["value"], both / either, 12)
        self.assertTrue(all(row["dice"] for row in rows))


if __name__ == "__main__":
    program.main(at_once=2)
