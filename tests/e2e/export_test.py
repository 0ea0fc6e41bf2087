"""A trained network as an ONNX file: its scores are those of dtrain predict, and nothing is overwritten unasked."""

import csv
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess

import made_pictures
import program

SIDE = 32
PYTHON = os.environ.get("DTRAIN_PYTHON", "python3")
ORACLE = [PYTHON, "-B", str(program.ROOT / "tests/support/reference/onnx_scores.py")]
COMMON = {"seed": 3, "epochs": 1, "batch": {"per_rank": 4}, "distributed": {"logical_ranks": 1}, "device": "cpu"}
FOLDERS = {"data": {"format": "image_folder", "root": "classes", "image": {"size": [SIDE, SIDE]}, "split": {"valid": 0.5, "stratify": True}}}
LABELS = {"data": {"format": "csv", "root": ".", "labels": "labels.csv", "csv": {"path": "file", "labels": ["wet", "old, red", "x"]},
                   "image": {"size": [SIDE, SIDE], "range": [20, 220]}, "split": {"valid": 0.5}}}
MASKS = {"model": {"base_width": 2}, "data": {"format": "image_mask", "root": "cells", "image": {"size": [SIDE, SIDE], "mean": [0.4], "std": [0.3]},
                                              "split": {"valid": 0.5}}}
ENCODED = {**MASKS, "model": {"encoder": "resnet18"}, "data": {**MASKS["data"], "image": {"size": [SIDE, SIDE], "channels": 1}}}


def normalised(plane, image, c):
    low, high = image.get("range", (0, 255))
    return [[(min(max((value - low) / (high - low), 0), 1) - image["mean"][c]) / image["std"][c] for value in row] for row in plane]


def flat(values):
    return [number for value in values for number in flat(value)] if isinstance(values, list) else [values]


class Export(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(5)
        cls.pictures = {kind: [made_pictures.drawn(draw, SIDE, SIDE, kind == "rgb") for _ in range(4)] for kind in ("rgb", "grey")}
        for folder in ("classes/even", "classes/odd", "cells/images", "cells/masks", "rgb", "grey"):
            (cls.folder / folder).mkdir(parents=True)
        for i, (colour, grey) in enumerate(zip(*cls.pictures.values())):
            (cls.folder / f"rgb/{i}.png").write_bytes(made_pictures.png(colour))
            (cls.folder / f"grey/{i}.png").write_bytes(made_pictures.png(grey))
            (cls.folder / f"classes/{('even', 'odd')[i % 2]}/{i}.png").write_bytes(made_pictures.png(colour))
            (cls.folder / f"cells/images/{i}.png").write_bytes(made_pictures.png(grey))
            (cls.folder / f"cells/masks/{i}.png").write_bytes(made_pictures.png([[255 * (value > 128) for value in row] for row in grey]))
        rows = [f"rgb/{i}.png,{i % 2},{i // 2},{int(i == 1)}\n" for i in range(4)]
        (cls.folder / "labels.csv").write_text('file,wet,"old, red",x\n' + "".join(rows))

    def trained(self, network, data=FOLDERS):
        """The run of a network, made once: of one step, which is enough to have weights."""
        name = network + {id(LABELS): "-labels", id(ENCODED): "-encoded"}.get(id(data), "")

        def train():
            self.write_config(name, COMMON, {"model": {"name": network}}, data)
            self.good("--config", f"{name}.yaml", "--run-dir", f"runs/{name}", "--limit-steps", "1", "--quiet")
            return name
        return self.once(name, train)

    def predicted(self, weights, kind):
        output = self.folder / "said" / pathlib.Path(weights).name
        self.good("predict", "--checkpoint", weights, "--input", kind, "--output", output, "--batch", "4", "--quiet")
        with open(output / "predictions.csv", newline="", encoding="utf-8") as file:
            return [[float(row[name]) for name in row if name.startswith("score_")] for row in csv.DictReader(file)]

    def exported(self, weights, *words):
        output = f"{pathlib.Path(weights).name}{''.join(words)}.onnx"
        self.good("export", "--checkpoint", weights, "--output", output, *words)
        return str(self.folder / output)

    def networks(self):
        schema = json.loads(self.good("--print-schema").out)
        names = schema["properties"]["model"]["properties"]["name"]
        return names.get("enum") or names["anyOf"][0]["enum"]

    def calibrated(self, run):
        """The weights of a run with a temperature, which moves scores far from 0.5, and thresholds where there are labels."""
        weights = self.folder / f"{run}-calibrated.safetensors"
        fitted = {"temperature": 0.02, "temperature_from": "valid"}
        if run.endswith("-labels"):
            fitted.update(thresholds=[0.25, None, 0.75], thresholds_from="valid:youden")
        shutil.copy(self.folder / f"runs/{run}/best.safetensors", weights)
        program.change_metadata(weights, lambda metadata: metadata.update(fitted=json.dumps(fitted)))
        return weights

    def test_onnxruntime_gives_the_scores_of_predict_for_every_network(self):
        if subprocess.run([*ORACLE, "--check"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no Python with onnxruntime (DTRAIN_PYTHON)")
        jobs = [(name, MASKS if name == "unet" else FOLDERS) for name in self.networks()] + [("small_cnn", LABELS), ("unet", ENCODED)]
        self.assertGreater(len(jobs), 8)

        def look(job):
            network, data = job
            run, kind = self.trained(network, data), "grey" if data in (MASKS, ENCODED) else "rgb"
            weights = self.calibrated(run) if network == "small_cnn" else f"runs/{run}"  # one of classes, one of labels
            said = self.predicted(weights, kind)
            raw = [made_pictures.planes(picture) for picture in self.pictures[kind]]
            image = self.image_of(f"runs/{run}")
            asked = {self.exported(weights): [[normalised(plane, image, c) for c, plane in enumerate(one)] for one in raw]}
            if data is not FOLDERS or network == "resnet18":  # how pixels get in does not depend on the network
                asked[self.exported(weights, "--with-input", "raw")] = raw
            return said, asked
        looked = program.all_of([lambda job=job: look(job) for job in jobs], most=2)
        everything = {path: pixels for _, asked in looked for path, pixels in asked.items()}
        told = subprocess.run(ORACLE, input=json.dumps(everything), capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        answers = json.loads(told.stdout)
        largest = 0
        for said, asked in looked:
            for path in asked:
                answer = answers[path]
                scores = [[statistics.fmean(flat(score)) for score in row] for row in answer["scores"]]
                differences = [abs(a - b) for mine, theirs in zip(scores, said) for a, b in zip(mine, theirs)]
                self.assertEqual(len(differences), 4 * len(said[0]), path)
                largest = max(largest, *differences)
                self.assertLess(max(differences), 1e-5, path)
                self.assertLess(max(abs(a - b) for a, b in zip(flat(answer["scores"][0]), flat(answer["alone"][0]))), 1e-5)
                self.assertEqual(answer["metadata"]["input"], "raw" if "raw" in path else "normalised")
        print(f"largest difference of {len(answers)} exported networks: {largest:.1e}")

    def image_of(self, run):
        """data.image of a run's configuration, as the file holds it."""
        text = self.good("export", "--checkpoint", run, "--print-config").out.partition("\n  image:")[2]
        image = {}
        for line in text.splitlines()[1:]:
            key, _, value = line.partition("#")[0].strip().partition(": ")
            if not line.startswith("    "):
                break
            if value.strip().startswith("["):
                image[key] = json.loads(value)
        return image

    def test_the_file_tells_its_classes_and_how_pictures_are_prepared(self):
        told = self.good("export", "--checkpoint", f"runs/{self.trained('small_cnn', LABELS)}", "--output", "told.onnx", "--with-input", "raw")
        self.assertIn(f"pictures float32 [N, 3, {SIDE}, {SIDE}]: pixel values, of which 20 … 220 is the range", told.out)
        self.assertIn("scores float32 [N, 3]: probabilities of wet, old, red, x", told.out)
        file = (self.folder / "told.onnx").read_bytes()
        for text in ('["wet","old, red","x"]', '"size":[32,32],"channels":3,"resize":"squash","range":[20.0,220.0]', "weights_sha256", "multilabel",
                     self.run_at(f"runs/{self.trained('small_cnn', LABELS)}").facts()["result_sha256"]):
            self.assertIn(text.encode(), file)
        self.assertNotIn(b"temperature", file)

    def test_what_was_fitted_is_in_the_graph_and_in_the_metadata(self):
        told = self.good("export", "--checkpoint", self.calibrated(self.trained("small_cnn", LABELS)), "--output", "fitted.onnx").out
        self.assertIn("fitted  temperature 0.0200, in the graph; thresholds, in the metadata", told)
        file = (self.folder / "fitted.onnx").read_bytes()
        for text in ('"Div', "temperature", "0.02", "thresholds", "[0.25,0.5,0.75]"):
            self.assertIn(text.strip('"').encode(), file)

    def test_nothing_is_overwritten_unasked_and_equal_weights_give_equal_bytes(self):
        words = ("export", "--checkpoint", f"runs/{self.trained('small_cnn')}", "--output")
        self.good(*words, "again.onnx")
        first = (self.folder / "again.onnx").read_bytes()
        (self.folder / "again.onnx").write_text("something else")
        self.fails(self.call(*words, "again.onnx"), 64, "again.onnx", "exists", "--force")
        self.assertEqual((self.folder / "again.onnx").read_text(), "something else")
        self.good(*words, "again.onnx", "--force", ranks=2)
        self.assertEqual((self.folder / "again.onnx").read_bytes(), first)
        (self.folder / "folder.onnx").mkdir()
        self.fails(self.call(*words, "folder.onnx", "--force"), 64, "not a regular file")
        self.assertEqual([path.name for path in self.folder.glob("*.tmp")], [])

    def test_bad_words_and_files_are_refused_in_one_sentence(self):
        run = f"runs/{self.trained('small_cnn')}"
        newest = self.run_at(run).checkpoints()[-1]
        (self.folder / "alone").mkdir()
        shutil.copy(newest, self.folder / "alone/cut.safetensors")
        with open(self.folder / "alone/cut.safetensors", "r+b") as file:
            file.truncate(newest.stat().st_size - 100)
        head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (self.folder / "alone/foreign.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + bytes(4))
        (self.folder / "alone/text.safetensors").write_text("weights?")
        cases = [((), 64, "--checkpoint"),
                 (("--checkpoint", run), 64, "--output"),
                 (("--checkpoint", run, "--output", "net.pt"), 64, "must end in .onnx"),
                 (("--checkpoint", run, "--output", "net.onnx", "--with-input", "tiff"), 64, "--with-input"),
                 (("--checkpoint", "runs/none", "--output", "net.onnx"), 66, "runs/none"),
                 (("--checkpoint", run, "--output", "nowhere/net.onnx"), 66, "--output 'nowhere/net.onnx': there is no folder nowhere"),
                 (("--checkpoint", "alone/cut.safetensors", "--output", "net.onnx"), 65, "alone/cut.safetensors"),
                 (("--checkpoint", "alone/text.safetensors", "--output", "net.onnx"), 65, "alone/text.safetensors"),
                 (("--checkpoint", "alone/foreign.safetensors", "--output", "net.onnx"), 64, "alone/foreign.safetensors", "--config FILE"),
                 (("--checkpoint", "alone/foreign.safetensors", "--config", "small_cnn.yaml", "--output", "net.onnx"), 65, "does not name the classes"),
                 (("--checkpoint", run, "--config", "other.yaml", "--output", "net.onnx"), 78, "and is now resnet18")]
        self.write_config("other", COMMON, {"model": {"name": "resnet18"}}, FOLDERS)
        for words, code, *texts in cases:
            self.fails(self.call("export", *words), code, *texts)
            self.assertFalse((self.folder / "net.onnx").exists())
        self.fails(self.call("export", "--checkpoint", run, "--output", "net.onnx", "data.classes=[odd, even]"), 78, "was trained for 2 classes (even, odd)")
        self.assertIn("was trained on pictures that were prepared otherwise: data.image.size was [32, 32] and is now [48, 48]",
                      self.good("export", "--checkpoint", f"runs/{self.trained('resnet18')}", "--output", "large.onnx", "data.image.size=[48,48]").err)
        (self.folder / "closed").mkdir(mode=0o500)
        ended = self.call("export", "--checkpoint", run, "--output", "closed/net.onnx", through=program.without_write_override())
        self.fails(ended, 77, "closed/net.onnx")


if __name__ == "__main__":
    program.main(at_once=2)
