"""dtrain compare: two runs beside each other, from their folders alone."""

import csv
import json
import math
import shutil
import statistics

import program
from predict_test import table_of

COMMON = {"epochs": 2, "seed": 3, "model": {"name": "small_cnn"}, "batch": {"per_rank": 4}, "checkpoint": {"keep": 1},
          "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.5}}}
XRAY = {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv", "split": {"valid": 0.4, "by": "patient"}}}
CELLS = {"epochs": 3, "batch": {"per_rank": 2}, "model": {"name": "unet", "base_width": 2},
         "data": {"format": "image_mask", "root": "cells", "image": {"size": [64, 64]}}}


def delong(rows, others, name):
    """Difference of both areas and its z, by the definition: every pair of a positive and a negative is compared."""
    label = {row["path"]: row[f"label_{name}"] for row in rows}
    placements, areas = [], []
    for table in (rows, others):
        scores = {row["path"]: float(row[f"score_{name}"]) for row in table}
        positives, negatives = ([path for path in sorted(label) if label[path] == one] for one in "10")
        above = [[(scores[p] > scores[n]) + (scores[p] == scores[n]) / 2 for n in negatives] for p in positives]
        areas.append(statistics.mean(map(statistics.mean, above)))
        placements.append(([statistics.mean(row) for row in above], [statistics.mean(column) for column in zip(*above)]))
    variance = sum(statistics.variance([y - x for x, y in zip(*side)]) / len(side[0]) for side in zip(*placements))
    return areas[1] - areas[0], (areas[1] - areas[0]) / math.sqrt(variance)


class Compare(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kind, count in (("chips", 160), ("xray", 120), ("cells", 24)):
            cls.sample(kind, count)
        runs = {"slow": (COMMON, {"optimizer": {"learning_rate": 0.00003}}), "fast": (COMMON, {"optimizer": {"learning_rate": 0.0001}}),
                "lungs": (COMMON, XRAY), "lungs_2": (COMMON, XRAY | {"seed": 4}),
                "masks": (COMMON, CELLS), "masks_2": (COMMON, CELLS | {"optimizer": {"learning_rate": 0.01}})}

        def make(name):
            cls.write_config(name, *runs[name])
            cls.good("--config", f"{name}.yaml", "--run-dir", f"runs/{name}")
            cls.good("eval", "--checkpoint", f"runs/{name}")
        program.all_of([lambda name=name: make(name) for name in runs])

    def compared(self, a, b, *words):
        ended = self.good("compare", f"runs/{a}", f"runs/{b}", "--json", *words)
        self.assertIn(f"\nnext: dtrain report runs/{a} runs/{b} --output DIR draws the curves of both\n", ended.out)
        return ended, ended.json()

    def copy(self, run, name, without=()):
        """A copy of a run, to be edited."""
        folder = self.folder / f"runs/{name}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / f"runs/{run}", folder, ignore=shutil.ignore_patterns(*without))
        return folder

    def measured(self, run):
        return json.loads((self.folder / f"runs/{run}/metrics_valid.json").read_text())

    def test_two_runs_of_one_setting_that_differs(self):
        ended, facts = self.compared("slow", "fast")
        self.assertEqual(facts["config"], {"optimizer.learning_rate": {"a": "3e-05", "b": "1e-04"}})
        self.assertEqual(set(facts["config_without_effect"]), {"name"})
        self.assertEqual(facts["facts"], {})
        self.assertIn("They differ in 1 key (optimizer.learning_rate).", ended.out)
        self.assertFalse(facts["same_result"])
        # Weights are the same before the first step; its update makes the difference.
        self.assertEqual((facts["losses"]["first_step_apart"], facts["losses"]["steps_before_parting"]), (2, 1))
        steps = [[one["train_loss"] for one in self.run_at(f"runs/{run}").events("step")] for run in ("slow", "fast")]
        self.assertEqual(facts["losses"]["steps_of_both"], len(steps[0]))
        self.assertEqual(facts["losses"]["last_loss"], {"a": steps[0][-1], "b": steps[1][-1]})
        self.assertEqual(facts["losses"]["largest_relative_difference"],
                         max(abs(a - b) / max(abs(a), abs(b)) for a, b in zip(*steps)))
        values = facts["metrics"]["values"]
        for run, side in (("slow", "a"), ("fast", "b")):
            self.assertEqual({name: one[side] for name, one in values.items()},
                             {name: one and one["value"] for name, one in self.measured(run).items() if name in values})
        tables = [table_of(self.folder / f"runs/{run}/predictions_valid.csv") for run in ("slow", "fast")]
        difference, z = delong(*tables, "good")
        self.assertEqual(values["auroc"]["method"], "DeLong")
        self.assertAlmostEqual(values["auroc"]["difference"], difference, delta=1e-12)
        self.assertAlmostEqual(values["auroc"]["statistic"], z, delta=1e-9)
        self.assertAlmostEqual(values["auroc"]["p"], math.erfc(abs(z) / math.sqrt(2)), delta=1e-12)
        self.assertEqual(values["brier"]["method"], "bootstrap")
        self.assertTrue(values["brier"]["low"] <= values["brier"]["difference"] <= values["brier"]["high"])
        self.assertEqual(facts["time"]["a"]["elapsed_s"], float(self.run_at("runs/slow").rows()[-1]["elapsed_s"]))

    def test_the_other_way_round_it_is_the_mirror_image(self):
        forth, back = (self.compared(*pair)[1]["metrics"]["values"] for pair in (("slow", "fast"), ("fast", "slow")))
        for name, one in forth.items():
            with self.subTest(name):
                self.assertEqual((one["a"], one.get("no_test")), (back[name]["b"], back[name].get("no_test")))
                if "p" in one:
                    self.assertAlmostEqual(one["p"], back[name]["p"], delta=1e-9)
                    self.assertAlmostEqual(one["low"], -back[name]["high"], delta=1e-9)

    def test_a_run_and_its_copy_are_the_same(self):
        self.copy("slow", "copy")
        ended, facts = self.compared("slow", "copy")
        self.assertIn("Nothing differs that a result depends on", ended.out)
        self.assertIn("Their results are the same in every bit", ended.out)
        self.assertIn("same bits in all", ended.out)
        self.assertNotIn("what differs", ended.out)
        self.assertTrue(facts["same_result"])
        self.assertFalse([name for name, one in facts["metrics"]["values"].items() if "p" in one])

    def test_samples_of_one_patient_count_together(self):
        _, facts = self.compared("lungs", "lungs_2")
        rows = table_of(self.folder / "runs/lungs/predictions_valid.csv")
        other = {row["path"] for row in table_of(self.folder / "runs/lungs_2/predictions_valid.csv")}
        patients = {row["path"]: row["patient"] for row in rows if row["path"] in other}
        metrics = facts["metrics"]
        self.assertEqual((metrics["grouped_by"], metrics["samples"], metrics["groups"]),
                         ("patient", len(patients), len(set(patients.values()))))
        self.assertLess(metrics["groups"], metrics["samples"])
        self.assertEqual(metrics["samples_only_a"], len(rows) - len(patients))
        self.assertIn(metrics["values"]["auroc"].get("method", "Obuchowski"), ("Obuchowski", "DeLong"))
        self.assertIn("seed", facts["config"])

    def test_masks_are_compared_by_their_pixels(self):
        ended, facts = self.compared("masks", "masks_2")
        values = facts["metrics"]["values"]
        for name in ("iou", "iou_image", "dice"):
            for run, side in (("masks", "a"), ("masks_2", "b")):
                self.assertAlmostEqual(values[name][side], self.measured(run)[name]["value"], delta=1e-12)
        self.assertIn("valid iou:", ended.out)

    def test_predictions_of_weights_that_were_replaced_since_are_named(self):
        self.copy("slow", "replaced")
        shutil.copy(self.folder / "runs/fast/best.safetensors", self.folder / "runs/replaced/best.safetensors")
        ended, _ = self.compared("slow", "replaced")
        said = " ".join((ended.out + ended.err).split())
        self.assertIn("runs/replaced/predictions_valid.csv was written for other weights than "
                      "runs/replaced/best.safetensors has now; for these: dtrain eval --checkpoint runs/replaced", said)
        self.assertNotIn("runs/slow/predictions_valid.csv was written", said)

    def test_without_predictions_the_rest_is_told_and_the_command_is_named(self):
        self.copy("fast", "unjudged", without=("predictions_*", "metrics_valid.json"))
        ended = self.call("compare", "runs/slow", "runs/unjudged", "--json")
        self.fails(ended, 66, "runs/unjudged has no predictions of its valid part",
                   "dtrain eval --checkpoint runs/unjudged --split valid")
        self.assertIn("optimizer.learning_rate", ended.out)
        self.assertIn("B ÷ A", ended.out)
        self.assertIn("reason", json.loads(ended.out.splitlines()[-1])["metrics"])

    def test_a_run_that_still_goes_on_and_one_of_another_program_are_compared_as_far_as_they_go(self):
        folder = self.copy("fast", "torn", without=("DONE", "checkpoints"))
        events = (folder / "metrics.jsonl").read_text()
        (folder / "metrics.jsonl").write_text(events[:len(events) // 2])
        (folder / "config.yaml").write_text("optimizer: {warp: 9}\n")
        ended, facts = self.compared("slow", "torn")
        self.assertIn("ends in a torn line", ended.out)
        self.assertIn("the configuration of runs/torn is not compared", ended.out)
        self.assertLess(facts["losses"]["steps_of_both"], len(self.run_at("runs/slow").events("step")))
        self.assertEqual(facts["circumstances"]["state"], {"a": "finished", "b": "not finished"})

    def test_bad_input_ends_in_one_sentence(self):
        self.fails(self.call("compare", "runs/slow"), 64, "needs two runs")
        self.fails(self.call("compare", "runs/slow", "runs/fast", "runs/slow"), 64, "was given 3")
        self.fails(self.call("compare", "runs/slow", "runs/fast", "--draws", "10"), 64, "--draws")
        self.fails(self.call("compare", "runs/slow", "runs/nowhere"), 66, "runs/nowhere does not exist")
        self.fails(self.call("compare", "chips", "runs/slow"), 65, "chips is not a run's folder")
        self.fails(self.call("compare", "runs/slow/best.safetensors", "runs/slow"), 65, "is a file")
        self.fails(self.call("compare", "runs/slow", "runs/masks"), 65, "their metrics are not comparable: name two runs of one task")
        self.fails(self.call("compare", "runs/slow", "runs/lungs"), 65, "their metrics are not comparable: name two runs of one task")
        folder = self.copy("fast", "edited")
        table = folder / "predictions_valid.csv"
        rows = list(csv.reader(table.read_text().splitlines()))
        label = rows[0].index("label_good")
        edited = [rows[0]] + [row[:label - 1] + [str(1 - int(one)) for one in row[label - 1:label + 1]] + row[label + 1:] for row in rows[1:2]] + rows[2:]
        table.write_text("\n".join(map(",".join, edited)) + "\n")
        self.fails(self.call("compare", "runs/slow", "runs/edited"), 65, "the labels of 1 sample differ between the two runs")
        table.write_text("\n".join(",".join(row[:-1]) for row in rows) + "\n")
        self.fails(self.call("compare", "runs/slow", "runs/edited"), 65, "no column 'patient'", "run dtrain eval")


if __name__ == "__main__":
    program.main()
