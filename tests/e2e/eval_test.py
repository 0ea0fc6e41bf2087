"""What eval shows: files that anybody can check with a few lines of Python, the same bytes on any number of ranks; what it fits."""

import collections
import json
import math
import random
import shutil

import made_pictures
import program
from predict_test import files_in, png_rows, png_samples, table_of

SMALL = {"epochs": 3, "seed": 9, "model": {"name": "small_cnn"}, "batch": {"per_rank": 2}, "distributed": {"logical_ranks": 3}}
RUNS = {
    "chips": {"data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.4, "stratify": True}}},
    "xray": {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv", "image": {"size": [32, 32]},
                      "split": {"valid": 0.3, "test": 0.3, "by": "patient", "stratify": True}}},
    "cells": {"epochs": 8, "batch": {"per_rank": 1}, "model": {"name": "unet", "base_width": 2}, "optimizer": {"learning_rate": 0.01},
              "data": {"format": "image_mask", "root": "cells", "image": {"size": [128, 160]}, "split": {"valid": 0.4}}},
    # Three labels in batches of three: no whole number of vectors.
    "odd": {"batch": {"per_rank": 3}, "distributed": {"logical_ranks": 1},
            "data": {"format": "csv", "root": "odd", "labels": "./odd.csv", "csv": {"path": "file", "labels": ["a", "b", "c"]}, "image": {"size": [16, 16]},
                     "split": {"valid": 0.5}}},
    # Of two kinds that look alike; the weight lifts both above one half.
    "exclusive": {"epochs": 12, "batch": {"per_rank": 1}, "distributed": {"logical_ranks": 1}, "model": {"name": "unet", "base_width": 2}, "optimizer": {"learning_rate": 0.01}, "loss": {"name": "ce_dice", "class_weight": [1, 4, 4]},
                  "data": {"format": "image_mask", "root": "kinds", "image": {"size": [32, 48]}, "image_mask": {"mask_values": {100: 1, 200: 2}}, "split": {"valid": 0.4}}},
    "kinds": {"epochs": 12, "batch": {"per_rank": 1}, "distributed": {"logical_ranks": 1}, "model": {"name": "unet", "base_width": 2}, "optimizer": {"learning_rate": 0.01}, "loss": {"pos_weight": [4, 4]},
              "data": {"format": "image_mask", "root": "kinds", "image": {"size": [32, 48]}, "image_mask": {"mask_values": {100: 1, 200: 2}}, "split": {"valid": 0.4}}},
}


def scores_of(table, name):
    """Score and label of each sample whose label is known."""
    return [(float(row[f"score_{name}"]), int(row[f"label_{name}"])) for row in table if row[f"label_{name}"]]


def calibration_error(answers):
    """Of pairs (probability of the answer, whether it is right), in 15 bins."""
    bins = [[] for _ in range(15)]
    for sure, right in answers:
        bins[max(i for i in range(15) if i == 0 or sure > i / 15)].append(right - sure)
    return sum(abs(sum(one)) for one in bins) / len(answers)


def youden(scored):
    """The highest score with the largest sensitivity + specificity."""
    def index(threshold):
        called = [label for score, label in scored if score >= threshold]
        positives = sum(label for _, label in scored)
        return sum(called) * (len(scored) - positives) - (len(called) - sum(called)) * positives
    thresholds = sorted({score for score, _ in scored}, reverse=True)
    return max(thresholds, key=index)


def draw_kinds(folder, count):
    """Pictures of bright rectangles, whose masks say 100 or 200 by chance."""
    draw = random.Random(4)
    for part in ("images", "masks"):
        (folder / part).mkdir(parents=True)
    for i in range(count):
        picture, mask = made_pictures.drawn(draw, 32, 48, False, 90), [[0] * 48 for _ in range(32)]
        for value in (100, 200):
            top, left = draw.randrange(20), draw.randrange(36)
            for y in range(top, top + 12):
                mask[y][left:left + 12] = [value] * 12
                picture[y][left:left + 12] = [draw.randrange(value, value + 56) for _ in range(12)]
        (folder / f"images/{i}.png").write_bytes(made_pictures.png(picture))
        (folder / f"masks/{i}.png").write_bytes(made_pictures.png(mask))


def draw_odd(folder, count):
    draw = random.Random(6)
    (folder / "odd").mkdir()
    rows = ["file,a,b,c\n"]
    for i in range(count):
        (folder / f"odd/{i}.png").write_bytes(made_pictures.png(made_pictures.drawn(draw, 16, 16, False, 100 + i)))
        rows.append(f"{i}.png,{draw.randrange(2)},{int(i > 20)},{draw.randrange(2)}\n")
    (folder / "odd.csv").write_text("".join(rows))


class Eval(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw_kinds(cls.folder / "kinds", 10)
        draw_odd(cls.folder, 60)
        for name in ("kinds", "exclusive", "odd"):
            cls.write_config(name, SMALL, RUNS[name])
        for kind, count in (("chips", 60), ("xray", 120), ("cells", 12)):
            cls.sample(kind, count)
            cls.write_config(kind, SMALL, RUNS[kind])
        program.all_of([lambda name=name: cls.good("--config", f"{name}.yaml", "--run-dir", f"runs/{name}") for name in RUNS])

    def judge(self, run, output, *words, ranks=None):
        """What `dtrain eval` says and writes; the run's weights as a file of their own."""
        weights = self.folder / output / "best.safetensors"
        weights.parent.mkdir(exist_ok=True)
        shutil.copy(self.folder / f"runs/{run}/best.safetensors", weights)
        ended = self.good("eval", "--checkpoint", weights, "--output", output, "--json", *words, ranks=ranks)
        return ended, ended.json(), self.folder / output

    @staticmethod
    def fitted(folder):
        return program.checkpoint_header(folder / "best.safetensors")["__metadata__"].get("fitted")

    def test_of_classes_every_figure_follows_from_the_table_of_predictions(self):
        ended, facts, folder = self.judge("chips", "classes")
        table = table_of(folder / "predictions_valid.csv")
        names = ["defect", "good"]
        self.assertEqual(facts["positive"], "good")
        self.assertRegex(ended.out, r"\n  auroc .*, positive: good\n")
        self.assertNotRegex(ended.out, r"\n  accuracy .*positive")
        self.assertIn("positive is the second class, good", ended.out)
        counts = {(a, b): 0 for a in names for b in names}
        squares, answers = 0, []
        for row in table:
            scores = {name: float(row[f"score_{name}"]) for name in names}
            truth = next(name for name in names if row[f"label_{name}"] == "1")
            answer = max(names, key=scores.get)
            counts[truth, answer] += 1
            squares += (scores["defect"] - (truth == "defect")) ** 2
            answers.append((scores[answer], answer == truth))
        confusion = table_of(folder / "confusion_valid.csv")
        self.assertEqual([row["class"] for row in confusion], names)
        self.assertEqual({(row["class"], name): int(row[f"predicted_{name}"]) for row in confusion for name in names}, counts)
        for name, other in (names, names[::-1]):
            found, missed, called = counts[name, name], counts[name, other], counts[other, name]
            for figure, part, whole in (("sensitivity", found, found + missed), ("precision", found, found + called),
                                        ("specificity", counts[other, other], counts[other, other] + called),
                                        ("f1", 2 * found, 2 * found + missed + called)):
                value = facts[f"{figure}_{name}"]
                self.assertEqual(value is None, whole == 0)
                if value:
                    self.assertAlmostEqual(value["value"], part / whole, places=12)
        self.assertAlmostEqual(facts["brier"]["value"], squares / len(table), places=9)
        self.assertAlmostEqual(facts["ece"]["value"], calibration_error(answers), places=9)
        self.assertEqual(json.loads((folder / "metrics_valid.json").read_text()), facts)
        for file in ("predictions_valid.csv", "metrics_valid.json", "curves_valid.csv", "confusion_valid.csv"):
            self.assertIn(str(file), ended.out)

    def test_of_labels_the_curves_hold_the_areas(self):
        _, facts, folder = self.judge("xray", "labels")
        points = {}
        for row in table_of(folder / "curves_valid.csv"):
            points.setdefault(row["class"], []).append(row)
        seen = 0
        for name, rows in points.items():
            self.assertEqual((rows[0]["threshold"], rows[0]["precision"]), ("inf", "1"))
            area = facts[f"auroc_{name}"]
            self.assertEqual(area is None, rows[-1]["tpr"] == "" or rows[-1]["fpr"] == "")
            if area is None:
                continue
            pairs = [(float(row["tpr"]), float(row["fpr"]), float(row["precision"])) for row in rows]
            self.assertEqual((pairs[0][:2], pairs[-1][:2]), ((0, 0), (1, 1)))
            steps = list(zip(pairs, pairs[1:]))
            self.assertAlmostEqual(sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in steps), area["value"], places=9)
            self.assertAlmostEqual(sum((b[0] - a[0]) * b[2] for a, b in steps), facts[f"average_precision_{name}"]["value"], places=9)
            seen += 1
        self.assertGreater(seen, 3)
        self.assertNotIn("thresholds", facts)
        self.assertFalse((folder / "confusion_valid.csv").exists())

    def test_every_file_has_the_same_bytes_on_any_number_of_ranks(self):
        for run, words in (("xray", ("--calibrate", "--threshold-from", "test:youden")), ("cells", ("--masks",))):
            def files_by(ranks, run=run, words=words):
                _, _, folder = self.judge(run, f"{run}_by_{ranks}", *words, ranks=ranks)
                return files_in(folder)
            alone = files_by(None)
            self.assertGreaterEqual(len(alone), 3)
            for ranks in (2, 3):
                self.assertEqual(files_by(ranks), alone)

    def test_thresholds_are_chosen_on_one_part_and_hold_for_another(self):
        _, _, before = self.judge("xray", "chosen_on")
        ended, facts, folder = self.judge("xray", "chosen_for", "--split", "test", "--threshold-from", "valid:youden")
        self.assertIn("thresholds chosen by valid:youden", ended.out)
        chosen_on, judged = table_of(before / "predictions_valid.csv"), table_of(folder / "predictions_test.csv")
        chosen = 0
        for name, threshold in facts["thresholds"].items():
            scored = scores_of(chosen_on, name)
            if {label for _, label in scored} != {0, 1}:
                self.assertEqual(threshold, 0.5)
                continue
            self.assertEqual(threshold, youden(scored))
            chosen += 1
            positive = [score for score, label in scores_of(judged, name) if label == 1]
            if positive:
                found = sum(score >= threshold for score in positive)
                self.assertAlmostEqual(facts[f"sensitivity_{name}"]["value"], found / len(positive), places=12)
        self.assertGreater(chosen, 3)
        stored = json.loads(self.fitted(folder))
        self.assertEqual(stored["thresholds_from"], "valid:youden")
        self.assertEqual([one or 0.5 for one in stored["thresholds"]], list(facts["thresholds"].values()))
        again = self.good("eval", "--checkpoint", folder / "best.safetensors", "--output", folder, "--split", "test", "--json")
        self.assertEqual(again.json(), facts)
        self.good("verify", folder / "best.safetensors")
        weights = program.tensor_checksums(self.folder / "runs/xray/best.safetensors")
        self.assertEqual(program.tensor_checksums(folder / "best.safetensors"), weights)

    def test_a_temperature_makes_the_log_loss_least_and_is_kept(self):
        for run in ("chips", "xray"):
            _, raw, folder = self.judge(run, f"raw_{run}")
            table = table_of(folder / "predictions_valid.csv")
            ended, facts, folder = self.judge(run, f"cool_{run}", "--calibrate")
            cool = table_of(folder / "predictions_valid.csv")
            temperature = facts["temperature"]
            self.assertEqual((facts["temperature_from"], json.loads(self.fitted(folder))["temperature"]), ("valid", temperature))
            self.assertRegex(ended.out, r"temperature \S+, fitted on valid, the same part: log loss")
            self.assertEqual(facts["loss"], raw["loss"])
            slope, size = 0, 0
            for row, told in zip(table, cool):
                for name in [column[len("score_"):] for column in row if column.startswith("score_")][run == "chips":]:
                    p = float(row[f"score_{name}"])
                    logit = math.log(p / (1 - p))
                    after = 1 / (1 + math.exp(-logit / temperature))
                    self.assertAlmostEqual(float(told[f"score_{name}"]), after, places=9)
                    if row[f"label_{name}"]:
                        slope += logit * (after - int(row[f"label_{name}"]))
                        size += abs(logit)
            self.assertLess(abs(slope), 1e-9 * size)
            self.assertEqual(self.good("eval", "--checkpoint", folder / "best.safetensors", "--output", folder, "--json").json(), facts)

    def test_with_a_temperature_predict_says_the_same_to_the_last_digit(self):
        _, _, folder = self.judge("odd", "odd_judged", "--calibrate", "--threshold-from", "valid:youden")
        judged = table_of(folder / "predictions_valid.csv")
        (self.folder / "odd.txt").write_text("".join(f"odd/{row['path']}\n" for row in judged))
        self.good("predict", "--checkpoint", folder / "best.safetensors", "--input", "odd.txt", "--output", "odd_said")
        names = [f"score_{name}" for name in "abc"]
        said = table_of(self.folder / "odd_said/predictions.csv")
        self.assertEqual([[row[name] for name in names] for row in said], [[row[name] for name in names] for row in judged])
        self.assertGreater(len(said), 20)

    def test_where_it_cannot_be_kept_a_warning_says_so_and_the_result_is_printed(self):
        _, facts, folder = self.judge("chips", "kept", "--calibrate")
        shutil.copy(self.folder / "runs/chips/best.safetensors", folder)
        words = ("--calibrate", "--json", "--output", "elsewhere")
        folder.chmod(0o555)
        self.addCleanup(folder.chmod, 0o755)
        ended = self.good("eval", "--checkpoint", folder / "best.safetensors", *words, through=program.without_write_override())
        self.assertEqual((ended.json()["temperature"], self.fitted(folder)), (facts["temperature"], None))
        self.assertEqual(ended.err.count("cannot be kept in the weights file"), 1, ended)
        newest = self.run_at("runs/chips").checkpoints()[-1]
        before = newest.read_bytes()
        ended = self.good("eval", "--config", "chips.yaml", "--checkpoint", newest, *words)
        self.assertIn("is not a run's best.safetensors", ended.err)
        self.assertEqual(newest.read_bytes(), before)

    def test_through_a_link_it_is_kept_in_the_file_that_the_link_leads_to(self):
        _, _, folder = self.judge("chips", "linked")
        (self.folder / "link.safetensors").symlink_to(folder / "best.safetensors")
        (folder / "best.safetensors").chmod(0o664)
        ended = self.good("eval", "--checkpoint", "link.safetensors", "--output", folder, "--calibrate")
        self.assertIn(f"is kept in {(folder / 'best.safetensors').resolve()}", ended.err)
        self.assertIn("temperature", self.fitted(folder))
        self.assertTrue((self.folder / "link.safetensors").is_symlink())
        self.assertEqual((folder / "best.safetensors").stat().st_mode & 0o777, 0o664)

    def test_of_another_split_nothing_is_kept_and_no_figures_of_the_run_are_replaced(self):
        run = self.folder / "runs/xray"
        before = files_in(run)
        words = ("eval", "--checkpoint", "runs/xray", "--allow-trained", "data.split.valid=0.5", "--calibrate")
        self.fails(self.call(*words), 78, "another split", "name another folder with --output")
        ended = self.good(*words, "--output", "other_split", "--json")
        self.assertIn("temperature", ended.json())
        self.assertEqual(ended.err.count("holds for this output alone"), 1, ended.err)
        self.assertEqual(files_in(run), before)
        self.assertNotIn("test part", ended.err)
        _, _, folder = self.judge("xray", "fitted_on_test")
        for option in (("--calibrate",), ("--threshold-from", "test:youden")):
            ended = self.good("eval", "--checkpoint", folder / "best.safetensors", "--output", folder, "--split", "test", *option)
            self.assertIn(f"{option[0]} fits to the test part", ended.err)

    def test_pictures_prepared_otherwise_are_told_and_replace_no_figures_of_the_run(self):
        run = self.folder / "runs/chips"
        self.good("eval", "--checkpoint", "runs/chips")
        before = files_in(run)
        newest = self.run_at("runs/chips").checkpoints()[-1]
        other = ("data.image.range=[0, 128]", "data.image.resize=crop", "data.image.size=[40, 40]")
        told = ["data.image.size was [32, 32] and is now [40, 40]", "data.image.resize was squash and is now crop",
                "data.image.range was not set and is now [0, 128]"]
        for weights in ("runs/chips", newest):
            self.fails(self.call("eval", "--checkpoint", weights, *other), 78, *told, "name another folder with --output")
        ended = self.good("eval", "--checkpoint", "runs/chips", *other, "--output", "chips_prepared")
        self.assertIn(f"best.safetensors was trained on pictures that were prepared otherwise: {'; '.join(told)}", ended.err)
        self.assertEqual(files_in(run), before)
        fitted = self.good("eval", "--checkpoint", "runs/xray", other[0], "--calibrate", "--output", "xray_prepared", "--json")
        self.assertIn("temperature", fitted.json())
        self.assertIn("holds for this output alone, because it cannot be kept in the weights file: ", fitted.err)
        self.assertIsNone(self.fitted(self.folder / "runs/xray"))
        self.assertIn("range was not set", self.good("predict", "--checkpoint", "runs/chips", "--input", "chips", "--output", "chips_said", other[0]).err)
        self.assertNotIn("prepared otherwise", self.good("eval", "--checkpoint", "runs/chips", "data.image.size=[32, 32]").err)

    def test_new_probabilities_drop_the_thresholds_of_the_old_ones(self):
        _, _, folder = self.judge("xray", "dropped", "--threshold-from", "valid:sensitivity=0.8")
        ended = self.good("eval", "--checkpoint", folder / "best.safetensors", "--output", folder, "--calibrate", "--json")
        self.assertIn("valid:sensitivity=0.8 were for other probabilities and are dropped", ended.err)
        self.assertNotIn("thresholds", ended.json())
        self.assertNotIn("thresholds", json.loads(self.fitted(folder)))

    def test_what_fits_no_task_or_is_no_rule_is_refused(self):
        for run, words, told in (("chips", ("--threshold-from", "valid:youden"), "one class of several"),
                                 ("cells", ("--threshold-from", "valid:youden"), "predicts masks"),
                                 ("cells", ("--calibrate",), "predicts masks"),
                                 ("xray", ("--threshold-from", "youden"), "train, valid or test"),
                                 ("xray", ("--threshold-from", "valid:best"), "sensitivity=0.95"),
                                 ("xray", ("--threshold-from", "valid:sensitivity=1.1"), "sensitivity=0.95")):
            self.fails(self.call("eval", "--checkpoint", f"runs/{run}", *words), 64, told)
        self.assertIsNone(self.fitted(self.folder / "runs/xray"))

    def test_other_files_of_these_names_are_left_alone(self):
        folder = self.folder / "others"
        folder.mkdir()
        for name in ("metrics_valid.json", "curves_valid.csv", "confusion_valid.csv"):
            (folder / name).write_text("mine")
            self.fails(self.call("eval", "--checkpoint", "runs/chips", "--output", folder), 78, name)
            self.assertEqual([path.name for path in folder.iterdir()], [name])
            (folder / name).unlink()

    def test_masks_are_written_with_the_iou_that_is_told_and_a_sheet_of_cases(self):
        ended, facts, folder = self.judge("cells", "masks", "--masks")
        files = files_in(folder)
        rows = table_of(folder / "predictions_valid.csv")
        self.assertEqual({name for name in files if name.startswith("masks_valid/")}, {f"masks_valid/{row['path']}" for row in rows})
        self.assertTrue(files["cases_valid.png"].startswith(b"\x89PNG") and b"dtrain contact sheet" in files["cases_valid.png"][:512])
        found, seen = 0, []
        for row in rows:
            mine = png_rows(folder / "masks_valid" / row["path"])
            truth = png_rows(self.folder / "cells" / row["path"].replace("images", "masks"))
            self.assertEqual((len(mine), len(mine[0])), (len(truth), len(truth[0])))
            self.assertLessEqual({value for line in mine for value in line}, {0, 255})
            pairs = [(a > 0, b > 0) for ours, theirs in zip(mine, truth) for a, b in zip(ours, theirs)]
            either = sum(a or b for a, b in pairs)
            found += sum(a for a, _ in pairs)
            seen.append((sum(a and b for a, b in pairs) / either if either else 1, float(row["iou"])))
        self.assertGreater(found, 0)
        for mine, told in seen:
            self.assertAlmostEqual(mine, told, delta=1e-9)
        self.assertIn("dice", facts)
        self.assertRegex(ended.out, r"(?m)^masks: .*masks_valid$")
        distance = facts["hausdorff95_px"]
        self.assertTrue(distance["value"] is None or 0 <= distance["value"] < 200)

    def test_of_several_classes_the_figures_are_those_of_the_masks_that_are_written(self):
        self.judge_masks("kinds")

    def test_classes_that_exclude_each_other_are_called_against_background(self):
        """By eval, predict and training alike: the largest of three probabilities that add up to 1."""
        folder = self.judge_masks("exclusive")
        words = ("predict", "--checkpoint", "runs/exclusive", "--input", "kinds/images", "--scores", "--output")
        self.good(*words, "exclusive_predicted")
        self.good(*words, "exclusive_above_half", "--threshold", "0.5")
        surer = 0
        for path in sorted((folder / "masks_valid").rglob("*.png")):
            mine = png_rows(path)
            predicted = self.folder / "exclusive_predicted"
            self.assertEqual(png_rows(predicted / "masks" / path.name), mine)
            classes = [png_samples(scores / path.name)[3] for scores in sorted((predicted / "scores").iterdir())]
            self.assertEqual(len(classes), 2)
            for y, row in enumerate(mine):
                for x, value in enumerate(row):
                    one, two = (plane[y][x] for plane in classes)
                    background = 65535 - one - two
                    self.assertGreaterEqual(background, -1)
                    called = {0: background, 100: one, 200: two}[value]
                    self.assertGreaterEqual(called + 2, max(background, one, two))
            surer += png_rows(self.folder / "exclusive_above_half/masks" / path.name) != mine
        self.assertGreater(surer, 0)

    def judge_masks(self, run):
        _, facts, folder = self.judge(run, f"{run}_masks", "--masks")
        both, either, total = {100: 0, 200: 0}, {100: 0, 200: 0}, {}
        for row in table_of(folder / "predictions_valid.csv"):
            mine, truth = png_rows(folder / "masks_valid" / row["path"]), png_rows(self.folder / "kinds" / row["path"].replace("images", "masks"))
            pairs = collections.Counter((a, b) for ours, theirs in zip(mine, truth) for a, b in zip(ours, theirs))
            for value in both:
                both[value] += pairs[value, value]
                either[value] += sum(count for pair, count in pairs.items() if value in pair)
            agreed = pairs[100, 100] + pairs[200, 200]
            called, wanted = (sum(count for pair, count in pairs.items() if pair[side]) for side in (0, 1))
            total[row["path"]] = agreed / (called + wanted - agreed)
            self.assertAlmostEqual(float(row["iou"]), total[row["path"]], places=12)
        shares = [both[value] / either[value] for value in both]
        self.assertGreater(min(both.values()), 0, (both, either))
        self.assertAlmostEqual(facts["iou"]["value"], sum(shares) / 2, places=12)
        self.assertEqual([round(one["value"], 12) for name, one in facts.items() if name.startswith("iou_") and name != "iou_image"],
                         [round(share, 12) for share in shares])
        columns = table_of(self.folder / f"runs/{run}/epochs.csv")
        self.assertIn(facts["iou"]["value"], [float(row["valid_iou"]) for row in columns])
        return folder

    def test_where_no_mask_has_a_surface_the_pictures_without_a_distance_are_counted(self):
        shutil.copytree(self.folder / "kinds", self.folder / "blank")
        for path in (self.folder / "blank/masks").iterdir():
            path.write_bytes(made_pictures.png([[0] * 48] * 32))
        ended = self.good("eval", "--checkpoint", "runs/kinds", "data.root=blank", "--output", "blanks", "--json")
        facts = ended.json()
        each = {name: facts[name] for name in facts if name.startswith("hausdorff95_px_")}
        self.assertEqual(list(each.values()), [{"value": None, "undefined": facts["samples"]}] * 2)
        self.assertEqual(facts["hausdorff95_px"], {"value": None, "undefined": 2 * facts["samples"]})
        self.assertRegex(ended.out, rf"hausdorff95_px .*undefined: .* is empty \({2 * facts['samples']} left out\)")

    def test_masks_of_a_window_come_with_a_warning(self):
        words = ("eval", "--checkpoint", "runs/kinds", "--output", "windows", "data.image.window=[16, 32]")
        self.assertIn("outside the middle 16 × 32 pixels of data.image.window", self.good(*words, "--masks").err)
        self.assertNotIn("data.image.window,", self.good(*words).err)

    def test_masks_and_cases_replace_nothing_that_is_not_theirs(self):
        folder = self.folder / "foreign"
        for name in ("cases_valid.png", "masks_valid"):
            folder.mkdir()
            if name.endswith(".png"):
                (folder / name).write_bytes(b"a picture")
            else:
                shutil.copytree(self.folder / "cells/images", folder / name / "images")
            before = files_in(folder)
            self.fails(self.call("eval", "--checkpoint", "runs/cells", "--output", folder, "--masks"), 78, name)
            self.assertEqual(files_in(folder), before)
            shutil.rmtree(folder)
        self.fails(self.call("eval", "--checkpoint", "runs/chips", "--masks"), 64, "predicts none")


if __name__ == "__main__":
    program.main(at_once=3)
