"""What is made of a network's scores: averages of networks and mirrored views, tiles, pictures of them, labels."""

import json
import math
import shutil
import struct

import predict_test
import program
from predict_test import files_in, png_rows, png_samples, table_of

COMMON = {"epochs": 1, "seed": 4, "batch": {"per_rank": 3}, "distributed": {"logical_ranks": 2}}
CHIPS = {"data": {"format": "image_folder", "root": "chips", "split": {"valid": 0.4}}}
CELLS = {"epochs": 3, "optimizer": {"learning_rate": 0.01}, "model": {"name": "unet", "base_width": 2},
         "data": {"format": "image_mask", "root": "cells", "split": {"valid": 0.4}}}
RUNS = {
    "small": (CHIPS, {"model": {"name": "small_cnn"}, "data": {"image": {"size": [32, 32]}}}),
    "deep": (CHIPS, {"model": {"name": "resnet18"}, "data": {"image": {"size": [48, 40], "mean": [0.4, 0.4, 0.4], "std": [0.3, 0.3, 0.3]}}}),
    "cells": (CELLS, {"data": {"image": {"size": [64, 80]}}}),
    "others": (CELLS, {"seed": 5, "data": {"image": {"size": [96, 96], "resize": "pad"}}}),
    "xray": ({"model": {"name": "small_cnn"}, "data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv",
                                                       "image": {"size": [32, 32]}, "split": {"valid": 0.4}}},),
}


class PredictViews(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 8)
        cls.sample("cells", 6)
        cls.sample("xray", 12)

        def train(name):
            cls.write_config(name, COMMON, *RUNS[name])
            cls.good("--config", f"{name}.yaml", "--run-dir", f"runs/{name}")
        program.all_of([lambda name=name: train(name) for name in RUNS])

    def predict(self, output, runs, *words, ranks=None, input=None, batch=2):
        """The table of a prediction, by path. `runs`: names."""
        folder = input or {"small": "chips", "deep": "chips", "xray": "xray/images"}.get(runs[0], "cells/images")
        named = [word for name in runs for word in ("--checkpoint", f"runs/{name}")]
        self.good("predict", *named, "--input", folder, "--output", output, "--batch", batch, "--quiet", *words, ranks=ranks)
        return {row["path"]: row for row in table_of(self.folder / output / "predictions.csv")}

    def scores(self, output, name):
        return png_samples(self.folder / output / "scores/foreground" / name)[3]

    def close(self, one, other, most=1):
        self.assertEqual([len(row) for row in one], [len(row) for row in other])
        self.assertLessEqual(max(abs(a - b) for mine, theirs in zip(one, other) for a, b in zip(mine, theirs)), most)

    def rewrite(self, run, name, change):
        """A run's weights under another name, their metadata changed; checksums, which would no longer be right, left out."""
        weights = (self.folder / f"runs/{run}/best.safetensors").read_bytes()
        length = struct.unpack("<Q", weights[:8])[0]
        header = json.loads(weights[8:8 + length])
        metadata = {key: value for key, value in header["__metadata__"].items() if not key.startswith("crc32c.")}
        change(metadata)
        header = json.dumps({**header, "__metadata__": metadata}).encode()
        header += b" " * (-len(header) % 8)
        (self.folder / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + weights[8 + length:])

    def test_networks_of_different_sizes_are_averaged(self):
        alone = [self.predict(f"alone_{name}", [name]) for name in ("small", "deep")]
        both = self.predict("both", ["small", "deep"])
        self.assertEqual(len(both), 8)
        for path, row in both.items():
            for column in row:
                if column.startswith("score_"):
                    self.assertEqual(float(row[column]), (float(alone[0][path][column]) + float(alone[1][path][column])) / 2)
        made_of = json.loads((self.folder / "both/predict.json").read_text())["made_of"]
        hashes = [json.loads((self.folder / f"alone_{name}/predict.json").read_text())["made_of"]["hash of the weights"] for name in ("small", "deep")]
        self.assertEqual([made_of["hash of the weights"], made_of["--checkpoint 2: hash of the weights"]], hashes)

    def test_masks_of_two_networks_are_called_from_the_mean_of_their_probabilities(self):
        for runs in (["cells"], ["others"], ["cells", "others"]):
            self.predict("of_" + "_".join(runs), runs, "--scores", "--threshold", "0.4")
        for path in sorted((self.folder / "cells/masks").iterdir())[:2]:
            one, other, both = (self.scores(folder, path.name) for folder in ("of_cells", "of_others", "of_cells_others"))
            self.assertEqual((len(both), len(both[0])), (128, 160))
            self.close(both, [[(a + b) / 2 for a, b in zip(mine, theirs)] for mine, theirs in zip(one, other)])
            mask = png_rows(self.folder / "of_cells_others/masks" / path.name)
            for values, row in zip(mask, both):
                for value, score in zip(values, row):
                    self.assertTrue(value == (255 if score > 0.4 * 65535 else 0) or abs(score - 0.4 * 65535) < 1)

    def test_a_class_cannot_lead_out_of_the_folder_of_scores(self):
        self.rewrite("cells", "named", lambda metadata: metadata.update(classes=json.dumps(["../up: <1>"])))
        self.good("predict", "--checkpoint", "named.safetensors", "--input", "cells/images", "--output", "named", "--scores")
        self.assertEqual([path.name for path in (self.folder / "named/scores").iterdir()], ["_.._up_ _1_"])
        self.assertEqual(len(list((self.folder / "named/scores/_.._up_ _1_").iterdir())), 6)

    def test_with_mirror_a_mirrored_picture_gets_the_mirrored_mask_and_the_same_scores(self):
        turned = self.folder / "turned"
        turned.mkdir()
        name = sorted(path.name for path in (self.folder / "cells/images").iterdir())[0]
        rows = png_rows(self.folder / "cells/images" / name)
        flips = {"as_is": lambda picture: picture, "left": lambda picture: [row[::-1] for row in picture], "up": lambda picture: picture[::-1]}
        for word, flip in flips.items():
            (turned / f"{word}.png").write_bytes(predict_test.Predict.png(flip(rows)))
        self.predict("turned_masks", ["cells"], "--mirror", "--scores", input="turned", batch=3)
        self.predict("unturned_masks", ["cells"], "--scores", input="turned", batch=3)
        straight = self.scores("turned_masks", "as_is.png")
        self.assertNotEqual(straight, self.scores("unturned_masks", "as_is.png"))
        for word in ("left", "up"):
            self.close(flips[word](self.scores("turned_masks", f"{word}.png")), straight, 2)
        table = self.predict("turned_scores", ["deep"], "--mirror", input="turned", batch=3)
        for column in ("score_defect", "score_good"):
            self.assertAlmostEqual(float(table["left.png"][column]), float(table["as_is.png"][column]), delta=1e-5)

    def test_a_picture_larger_than_the_window_is_put_together_from_tiles(self):
        name = sorted(path.name for path in (self.folder / "cells/images").iterdir())[0]
        rows = png_rows(self.folder / "cells/images" / name)
        (self.folder / "large").mkdir()
        (self.folder / "large/whole.png").write_bytes(predict_test.Predict.png(rows))
        parts = self.folder / "parts"
        parts.mkdir()
        tops, lefts = (0, 32, 64), (0, 40, 80)  # of tiles of 64 x 80 in 128 x 160, half overlapping
        for top in tops:
            for left in lefts:
                (parts / f"{top}_{left}.png").write_bytes(predict_test.Predict.png([row[left:left + 80] for row in rows[top:top + 64]]))
        self.predict("parts_seen", ["cells"], "--scores", input="parts", batch=1)
        window = ("data.image.size=[128, 160]", "data.image.window=[64, 80]", "--scores")
        self.predict("tiled", ["cells"], *window, input="large", batch=1)

        def bell(place, length):
            return math.exp(-((place - (length - 1) / 2) / (length / 8)) ** 2 / 2)
        seen = {(top, left): self.scores("parts_seen", f"{top}_{left}.png") for top in tops for left in lefts}
        blended, whole = [], self.scores("tiled", "whole.png")
        for y in range(0, 128, 5):
            blended.append([])
            for x in range(160):
                tiles = [(bell(y - top, 64) * bell(x - left, 80), said[y - top][x - left])
                         for (top, left), said in seen.items() if 0 <= y - top < 64 and 0 <= x - left < 80]
                blended[-1].append(sum(weight * score for weight, score in tiles) / sum(weight for weight, _ in tiles))
        self.close(whole[::5], blended, 2)
        self.predict("less", ["cells"], *window, "--tile-overlap", "0", input="large", batch=1)
        self.assertNotEqual(self.scores("less", "whole.png"), whole)
        said = self.good("predict", "--checkpoint", "runs/cells", "--input", "large", "--output", "tiled", "--batch=1", *window)
        self.assertIn("resized to 128 × 160 and seen in 9 tiles of 64 × 80", said.err)

    def test_overlays_and_activation_maps_lie_over_the_picture(self):
        self.predict("undrawn", ["cells"], "--scores")
        first = sorted((self.folder / "undrawn/scores/foreground").iterdir())[0]
        seen = [score for row in png_samples(first)[3] for score in row]
        self.predict("drawn", ["cells"], "--overlay", "--threshold", sorted(seen)[len(seen) // 2] / 65535)  # half is foreground
        lines = 0
        self.assertEqual(len(list((self.folder / "drawn/overlays").iterdir())), 6)
        for path in sorted((self.folder / "drawn/overlays").iterdir())[:1]:
            mask = png_rows(self.folder / "drawn/masks" / path.name)
            picture = png_rows(self.folder / "cells/images" / path.name)
            height, width, channels, rows = png_samples(path)
            self.assertEqual((height, width, channels), (128, 160, 3))
            for y, row in enumerate(rows):
                for x in range(width):
                    around = {mask[b][a] for b in range(max(0, y - 1), min(height, y + 2)) for a in range(max(0, x - 1), min(width, x + 2))}
                    line = mask[y][x] > 0 and len(around) > 1
                    lines += line
                    self.assertEqual(row[3 * x:3 * x + 3], bytes((255, 92, 72)) if line else bytes([picture[y][x]] * 3))
        self.assertGreater(lines, 0)
        table = self.predict("seen", ["deep"], "--cam")
        for word in ("defect", "good"):
            self.predict(f"seen_{word}", ["deep"], f"--cam={word}")
        for path, row in table.items():
            place = path.rsplit(".", 1)[0] + ".png"
            best = (self.folder / f"seen_{row['class']}/cams" / place).read_bytes()
            self.assertEqual((self.folder / "seen/cams" / place).read_bytes(), best)
            self.assertNotEqual((self.folder / ("seen_good" if row["class"] == "defect" else "seen_defect") / "cams" / place).read_bytes(), best)

    def test_labels_are_called_from_a_threshold_on(self):
        table = self.predict("labelled", ["xray"], "--threshold", "0.5")
        names = [column[6:] for column in next(iter(table.values())) if column.startswith("score_")]
        self.assertEqual(list(next(iter(table.values()))), ["path", *(f"score_{name}" for name in names), *(f"label_{name}" for name in names)])
        self.assertEqual(len(names), 14)
        for row in table.values():
            for name in names:
                self.assertEqual(row[f"label_{name}"], str(int(float(row[f"score_{name}"]) >= 0.5)))
        plain = self.predict("unlabelled", ["xray"])
        self.assertEqual(list(next(iter(plain.values()))), ["path", *(f"score_{name}" for name in names)])
        # What eval has fitted to the network is used; a threshold on the command line wins.
        chosen = [0.45, None, 0.55] + [0.5] * 11
        fitted = {"temperature": 2.0, "temperature_from": "valid", "thresholds": chosen, "thresholds_from": "valid:youden"}
        self.rewrite("xray", "fitted", lambda metadata: metadata.update(fitted=json.dumps(fitted)))
        words = ("predict", "--checkpoint", "fitted.safetensors", "--input", "xray/images", "--batch=2", "--output")
        ended = self.good(*words, "by_fit")
        self.assertIn("temperature 2, fitted on valid; thresholds chosen on valid:youden", ended.err)
        for row in table_of(self.folder / "by_fit/predictions.csv"):
            for name, threshold in zip(names, chosen):
                before, score = float(plain[row["path"]][f"score_{name}"]), float(row[f"score_{name}"])
                self.assertAlmostEqual(score, 1 / (1 + math.exp(-math.log(before / (1 - before)) / 2)), delta=1e-12)
                self.assertEqual(row[f"label_{name}"], str(int(score >= (0.5 if threshold is None else threshold))))
        self.assertIn("not used", self.good(*words, "by_word", "--threshold=1").err)
        self.assertEqual({row[f"label_{names[0]}"] for row in table_of(self.folder / "by_word/predictions.csv")}, {"0"})

    def test_every_file_has_the_same_bytes_on_1_2_and_3_ranks_and_other_options_are_refused(self):
        tiles = ("--mirror", "--scores", "--overlay", "data.image.size=[96, 112]", "data.image.window=[64, 80]")
        for runs, words, each in ((["cells", "others"], tiles, 3), (["deep"], ("--mirror", "--cam"), 1)):
            name = runs[0]
            program.all_of([lambda ranks=ranks: self.predict(f"{name}_{ranks}", runs, *words, ranks=ranks if ranks > 1 else None) for ranks in (1, 2, 3)])
            alone = files_in(self.folder / f"{name}_1")
            self.assertEqual(len(alone), 3 + each * (6 if each == 3 else 8))
            for ranks in (2, 3):
                self.assertEqual(files_in(self.folder / f"{name}_{ranks}"), alone)
        named = ("predict", "--checkpoint", "runs/cells", "--checkpoint", "runs/others", "--input", "cells/images", "--output", "cells_1", "--batch=2")
        cases = (((*named, "--tile-overlap=0.25", *tiles), "--tile-overlap is 0.5, but now it is 0.25"),
                 ((*named, *tiles[1:]), "--mirror is yes, but now it is no"),
                 ((*named, tiles[0], *tiles[2:]), "--scores is yes, but now it is no"),
                 ((*named[:3], *named[5:], *tiles), "number of --checkpoint is 2, but now it is 1"))
        for (_, said), ended in zip(cases, program.all_of([lambda words=words: self.call(*words) for words, _ in cases])):
            self.fails(ended, 78, said)

    def test_what_cannot_be_averaged_or_has_no_effect_is_refused(self):
        self.rewrite("small", "turned", lambda metadata: metadata.update(classes=json.dumps(["good", "defect"])))
        self.rewrite("cells", "swapped", lambda metadata: metadata.update(mask_values="[[0,1],[255,0]]"))
        shutil.copy(self.folder / "runs/small/best.safetensors", self.folder / "copy.safetensors")
        cases = (
            (("small", "turned.safetensors"), (), 65, ("good, defect", "defect, good", "same order")),
            (("small", "runs/cells"), (), 65, ("segmentation", "multiclass", "one task")),
            (("small", "copy.safetensors"), (), 64, ("the same weights",)),
            (("cells", "swapped.safetensors"), (), 65, ("masks of the pixel values", "255, 0", "0, 255")),
            (("small",), ("--cam",), 64, ("small_cnn", "global average pooling")),
            (("cells",), ("--cam",), 64, ("unet", "global average pooling")),
            (("deep",), ("--cam=worst",), 64, ("--cam=worst", "defect, good")),
            (("deep",), ("--overlay",), 64, ("--overlay is for masks",)),
            (("deep",), ("--scores",), 64, ("--scores is for masks",)),
            (("deep",), ("--threshold=0.5",), 64, ("--threshold is for masks and for labels",)),
            (("cells",), ("--tile-overlap=0.25",), 64, ("--tile-overlap has no effect",)),
            (("cells",), ("--tile-overlap=1",), 64, ("--tile-overlap",)),
        )
        calls = []
        for (first, *others), words, _, _ in cases:
            more = [word for other in others for word in ("--checkpoint", other)]
            calls.append(lambda first=first, more=more, words=words: self.call(
                "predict", "--checkpoint", f"runs/{first}", *more, "--input", "chips", "--output", "refused", *words))
        for case, ended in zip(cases, program.all_of(calls)):
            with self.subTest(case):
                self.fails(ended, case[2], *case[3])
        self.assertFalse((self.folder / "refused").exists())


if __name__ == "__main__":
    program.main(at_once=3)
