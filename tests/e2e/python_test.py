"""The programs of docs/python.md and docs/export.md, run out of these pages, give the scores of dtrain predict; Keras' weights convert."""

import csv
import json
import os
import random
import re
import struct
import subprocess
import zlib

import made_pictures
import program

PYTHON = os.environ.get("DTRAIN_PYTHON", "python3")
# Runs programs one after the other in one process, which imports torch once.
RUNNER = """
import contextlib, io, json, sys
said = []
for text in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(text, "page", "exec"), {"__name__": "__main__"})
    said.append(out.getvalue())
print(json.dumps(said))
"""
SIDE = 32
COMMON = {"seed": 3, "epochs": 1, "batch": {"per_rank": 8}, "distributed": {"logical_ranks": 1}, "device": "cpu"}
LABELS = {"data": {"format": "csv", "root": "new", "labels": "./labels.csv", "csv": {"path": "file", "labels": ["wet", "old"]},
                   "image": {"size": [SIDE, SIDE]}, "split": {"valid": 0.5, "stratify": True}}}


def image(**keys):
    return {"model": {"name": "small_cnn"}, "data": {"image": keys}}


RUNS = {"densenet121": {"model": {"name": "densenet121"}}, "resnet18": {"model": {"name": "resnet18"}},
        "squash": image(size=[40, 48]), "pad": image(size=[40, 64], resize="pad", window=[33, 48]),
        "crop": image(size=[50, 40], resize="crop", window=[48, 32], range=[10, 3000]), "grey": image(channels=1, mean=[5e-4], std=[0.3]),
        "resnet34": {"model": {"name": "resnet34"}, "data": {"image": {"channels": 1, "mean": [0.4], "std": [0.3]}}}}
CALIBRATED = ("resnet18", "squash", "onnx")
MASKS = {"model": {"name": "unet"}, "data": {"format": "image_mask", "root": "cells", "image": {"size": [SIDE, 64]}, "split": {"valid": 0.5, "stratify": True}}}
UNETS = {"masks": {"model": {"base_width": 2}}, "shallow": {"model": {"base_width": 2, "levels": 2}}, "encoded": {"model": {"encoder": "resnet18"}}}


def programs_of(page):
    return re.findall(r"^```python\n(.*?)^```", (program.ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


class Python(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(8)
        for folder in ("new", "all", "cells/images", "cells/masks"):
            (cls.folder / folder).mkdir(parents=True)
        for i, size in enumerate(((32, 32), (61, 40), (29, 97), (120, 100))):
            (cls.folder / f"new/{i}.png").write_bytes(made_pictures.png(made_pictures.drawn(draw, *size, True)))
            cell = made_pictures.drawn(draw, SIDE, 64, False)
            (cls.folder / f"cells/images/{i}.png").write_bytes(made_pictures.png(cell))
            (cls.folder / f"cells/masks/{i}.png").write_bytes(made_pictures.png([[255 * (value > 128) for value in row] for row in cell]))
        for path in (cls.folder / "new").iterdir():
            (cls.folder / "all" / path.name).write_bytes(path.read_bytes())
        (cls.folder / "all/grey.png").write_bytes(made_pictures.png(made_pictures.drawn(draw, 45, 50, False)))
        (cls.folder / "all/deep.png").write_bytes(made_pictures.png(made_pictures.drawn(draw, 70, 33, False, 4095), bits=16))
        (cls.folder / "labels.csv").write_text("file,wet,old\n" + "".join(f"{i}.png,{i % 2},{i // 2}\n" for i in range(4)))
        (cls.folder / "scripts").symlink_to(program.ROOT / "scripts")

    def require(self, *modules):
        found = subprocess.run([PYTHON, "-c", "import " + ", ".join(modules)], capture_output=True, check=False)
        if found.returncode != 0:
            self.skipTest(f"no Python with {', '.join(modules)} (DTRAIN_PYTHON)")

    def predicted(self, run, pictures_in, *parts):
        """Trains the run and gives the table of what dtrain predict says: name → scores."""
        self.write_config(run, COMMON, *parts)
        self.good("--config", f"{run}.yaml", "--run-dir", f"runs/{run}", "--quiet")
        if run in CALIBRATED:  # a temperature that moves scores far from 0.5
            program.change_metadata(self.folder / f"runs/{run}/best.safetensors", lambda metadata: metadata.update(
                fitted=json.dumps({"temperature": 0.05, "temperature_from": "valid"})))
        self.good("predict", "--checkpoint", f"runs/{run}", "--input", pictures_in, "--output", f"said/{run}", "--quiet")
        with open(self.folder / f"said/{run}/predictions.csv", newline="", encoding="utf-8") as file:
            return {row["path"]: [float(row[name]) for name in row if name.startswith("score_")] for row in csv.DictReader(file)}

    def printed(self, texts):
        """What the programs print: for each, name → scores."""
        told = subprocess.run([PYTHON, "-B", "-c", RUNNER], input=json.dumps(texts), capture_output=True, text=True, cwd=self.folder, check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        words = [[line.split() for line in said.splitlines() if not line.startswith("path ")] for said in json.loads(told.stdout)]
        return [{line[0]: [float(word) for word in line[1:]] for line in lines} for lines in words]

    def compare(self, said, expected, most=1e-5):
        largest = 0
        for mine, theirs in zip(said, expected, strict=True):
            self.assertEqual(mine.keys(), theirs.keys())
            for name, scores in theirs.items():
                self.assertEqual(len(mine[name]), len(scores))
                differences = [abs(a - b) for a, b in zip(mine[name], scores)]
                self.assertLess(max(differences), most, name)
                largest = max(largest, *differences)
        return largest

    def test_programs_of_the_page_give_the_scores_of_predict(self):
        self.require("torch", "torchvision", "safetensors", "numpy", "PIL", "yaml")
        torchvision, own = programs_of("python.md")
        jobs = [(run, "new" if run in ("densenet121", "resnet18") else "all", LABELS, part) for run, part in RUNS.items()]
        jobs += [(run, "cells/images", MASKS, part) for run, part in UNETS.items()]
        expected = program.all_of([lambda job=job: self.predicted(*job) for job in jobs], most=2)
        texts = [(torchvision if where == "new" else own).replace("runs/chexnet/", f"runs/{run}/").replace("runs/unet/", f"runs/{run}/")
                 .replace('Path("new")', f'Path("{where}")') for run, where, *_ in jobs]
        largest = self.compare(self.printed(texts), expected)
        print(f"largest difference of {len(jobs)} networks in PyTorch: {largest:.1e}")

    def test_the_program_of_the_export_page_gives_the_scores_of_predict(self):
        self.require("onnxruntime", "numpy", "PIL")
        expected = self.predicted("onnx", "new", LABELS, RUNS["resnet18"])
        self.good("export", "--checkpoint", "runs/onnx", "--output", "chexnet.onnx", "--with-input", "raw")
        self.compare(self.printed(programs_of("export.md")), [expected])

    def test_pictures_that_pillow_would_cut_to_8_bits_are_refused(self):
        self.require("torch", "numpy", "PIL")
        draw = random.Random(2)
        (self.folder / "deep_colour.png").write_bytes(made_pictures.png(made_pictures.drawn(draw, 9, 7, True, 65535), bits=16))
        deep = made_pictures.png(made_pictures.drawn(draw, 9, 14, False, 65535), bits=16)  # as grey and alpha of half the width
        head = deep[12:16] + struct.pack(">IIBBBBB", 7, 9, 16, 4, 0, 0, 0)
        (self.folder / "deep_alpha.png").write_bytes(deep[:12] + head + struct.pack(">I", zlib.crc32(head)) + deep[33:])
        text = """
import sys
sys.path.insert(0, "scripts")
import dtrain_models
image = {"size": [9, 7], "channels": 1, "resize": "squash", "mean": [0.4], "std": [0.3]}
for name in ("deep_colour.png", "deep_alpha.png", "all/deep.png"):
    try:
        print(name, *dtrain_models.read_picture(name, image).shape)
    except ValueError as error:
        assert str(error).startswith(name) and "8 bits" in str(error)
        print(name)
"""
        self.assertEqual(self.printed([text]), [{"deep_colour.png": [], "deep_alpha.png": [], "all/deep.png": [1, 9, 7]}])

    def test_weights_of_keras_are_converted(self):
        self.require("h5py", "torch", "torchvision", "safetensors")
        judged = subprocess.run([PYTHON, "-B", program.ROOT / "tests/support/reference/keras_weights.py", "."], cwd=self.folder,
                                capture_output=True, text=True, check=False)
        self.assertEqual(judged.returncode, 0, judged.stderr)
        said = json.loads(judged.stdout)
        for name in ("whole", "weights"):
            self.assertEqual(said.pop(name)[0], 0)
        for name in ("resnet", "resnet_notop"):
            code, told = said.pop(name)
            self.assertEqual(code, 0)
            self.assertIn("data.image.mean=[0.48502, 0.457957, 0.407604]", told)
            self.assertIn("halves the picture", told)
        self.write_config("keras", COMMON, LABELS, {"model": {"name": "densenet121", "weights": "whole.safetensors"}})
        banner = self.good("--config", "keras.yaml", "--dry-run").err
        self.assertIn("whole.safetensors: 606 of 727 tensors loaded; num_batches_tracked absent", banner)
        self.assertNotIn("left at random", banner)
        reasons = {"headless": "lacks the last layer", "vgg": "'block1_conv1' is no layer", "unsaid": "say how its pictures were prepared", "keras3": "no list of layers",
                   "text": "cannot be read as plain weights"}
        self.assertEqual(said.keys(), reasons.keys())
        for name, reason in reasons.items():
            self.assertEqual(said[name][0], 1)
            self.assertIn(reason, said[name][1])
            self.assertEqual(said[name][1].count("\n"), 1)


if __name__ == "__main__":
    program.main(at_once=1)
