"""What a trained network says of pictures without labels: tables and masks, the same bytes on any number of ranks."""

import csv
import fcntl
import json
import os
import shutil
import signal
import struct
import tarfile
import zlib

import program

COMMON = {"epochs": 1, "seed": 4, "batch": {"per_rank": 3}, "distributed": {"logical_ranks": 2}}
RUNS = {
    "chips": {"model": {"name": "small_cnn"},
              "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.4}}},
    "cells": {"epochs": 8, "batch": {"per_rank": 1}, "model": {"name": "unet", "base_width": 2}, "optimizer": {"learning_rate": 0.01},
              "data": {"format": "image_mask", "root": "cells", "image": {"size": [128, 160]}, "split": {"valid": 0.4}}},
    "small": {"model": {"name": "unet", "base_width": 2}, "data": {"format": "image_mask", "root": "sevens", "image": {"size": [64, 96]},
              "image_mask": {"mask_values": {"7": 1}}}},
}


def table_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def png_samples(path):
    """Height, width, channels and the samples of a PNG file that is not interlaced, row by row, by the specification alone; every filter."""
    data = path.read_bytes()
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body), path
        if kind == b"IHDR":
            width, height, bits, colour = struct.unpack(">IIBB", body[:10])
            assert bits in (8, 16) and colour in (0, 2), path
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    channels = 3 if colour == 2 else 1
    step, length = channels * bits // 8, width * channels * bits // 8
    raw, rows, above = zlib.decompress(packed), [], bytes(length)
    for y in range(height):
        kind, row = raw[y * (length + 1)], bytearray(raw[y * (length + 1) + 1:(y + 1) * (length + 1)])
        for x in range(length):
            left, corner = (row[x - step], above[x - step]) if x >= step else (0, 0)
            guess = left + above[x] - corner
            paeth = min((left, above[x], corner), key=lambda value: abs(guess - value))
            row[x] = (row[x] + (0, left, above[x], (left + above[x]) // 2, paeth)[kind]) & 255
        rows.append(bytes(row) if bits == 8 else struct.unpack(f">{length // 2}H", row))
        above = row
    return height, width, channels, rows


def png_rows(path):
    """The rows of a grey 8-bit PNG file."""
    _, _, channels, rows = png_samples(path)
    assert channels == 1 and isinstance(rows[0], bytes), path
    return rows


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Predict(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 20)
        cls.sample("cells", 10)
        shutil.copytree(cls.folder / "cells", cls.folder / "sevens")
        for path in (cls.folder / "sevens/masks").iterdir():  # other values than the usual ones
            rows = [bytes(7 if value else 0 for value in row) for row in png_rows(path)]
            path.write_bytes(cls.png(rows))

        def train(name):
            cls.write_config(name, COMMON, RUNS[name])
            cls.good("--config", f"{name}.yaml", "--run-dir", f"runs/{name}")
            if name != "small":
                cls.good("eval", "--checkpoint", f"runs/{name}")
        program.all_of([lambda name=name: train(name) for name in RUNS])

    @staticmethod
    def png(rows):
        def chunk(kind, body):
            return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b"")

    def list_of_valid(self, name, below):
        """A list of the pictures that eval judged, in eval's order, beside its table of them."""
        table = table_of(self.folder / f"runs/{name}/predictions_valid.csv")
        (self.folder / f"{name}.txt").write_text("".join(f"{below}/{row['path']}\n" for row in table))
        return table

    def test_scores_are_those_of_eval_for_the_same_pictures_and_batch(self):
        judged = self.list_of_valid("chips", "chips")
        ended = self.good("predict", "--checkpoint", "runs/chips", "--input", "chips.txt", "--output", "of_list", "--json")
        said = table_of(self.folder / "of_list/predictions.csv")
        self.assertEqual([row["path"] for row in said], ["chips/" + row["path"] for row in judged])
        names = [column for column in judged[0] if column.startswith("score_")]
        self.assertEqual(list(said[0]), ["path", *names, "class"])
        for mine, theirs in zip(said, judged):
            self.assertEqual([mine[name] for name in names], [theirs[name] for name in names])
            self.assertEqual("score_" + mine["class"], max(names, key=lambda name: float(mine[name])))
        facts = ended.json()
        self.assertEqual((facts["pictures"], facts["unread"], facts["batch"]), (len(judged), 0, 3))
        self.assertIn("next:", ended.err)

    def test_every_file_has_the_same_bytes_on_1_2_and_3_ranks(self):
        for run, kind in (("chips", "chips"), ("small", "cells/images")):
            words = ("predict", "--checkpoint", f"runs/{run}", "--input", kind, "--batch", "2", "--quiet", "--output")
            jobs = [lambda ranks=ranks: self.good(*words, f"{run}_{ranks}", ranks=ranks if ranks > 1 else None) for ranks in (1, 2, 3)]
            program.all_of(jobs)
            alone = files_in(self.folder / f"{run}_1")
            self.assertEqual(len(alone), 3 + (10 if run == "small" else 0))
            for ranks in (2, 3):
                self.assertEqual(files_in(self.folder / f"{run}_{ranks}"), alone)

    def test_masks_give_the_iou_that_eval_tells(self):
        judged = self.list_of_valid("cells", "cells")
        (self.folder / "alone").mkdir()
        shutil.copy(self.folder / "runs/cells/best.safetensors", self.folder / "alone/unet.safetensors")
        self.good("predict", "--checkpoint", "alone/unet.safetensors", "--input", "cells.txt", "--output", "cell_masks")
        found = 0
        for row in judged:
            mine = png_rows(self.folder / "cell_masks/masks/cells" / row["path"])
            truth = png_rows(self.folder / "cells" / row["path"].replace("images", "masks"))
            self.assertEqual((len(mine), len(mine[0])), (128, 160))
            self.assertLessEqual({value for line in mine for value in line}, {0, 255})
            pairs = [(a > 0, b > 0) for ours, theirs in zip(mine, truth) for a, b in zip(ours, theirs)]
            either = sum(a or b for a, b in pairs)
            found += sum(a for a, _ in pairs)
            self.assertAlmostEqual(sum(a and b for a, b in pairs) / either, float(row["iou"]), delta=1e-9)
        self.assertGreater(found, 0)
        for row in table_of(self.folder / "cell_masks/predictions.csv"):
            self.assertTrue(0 < float(row["score_foreground"]) < 1)

    def test_masks_have_the_size_and_the_values_of_the_originals(self):
        words = ("predict", "--checkpoint", "runs/small", "--input", "cells/images", "--output")
        self.good(*words, "all_of_it", "--threshold", "0")
        self.good(*words, "none_of_it", "--threshold", "1")
        for name, value in (("all_of_it", 7), ("none_of_it", 0)):
            masks = list((self.folder / name / "masks").iterdir())
            self.assertEqual(len(masks), 10)
            for path in masks:
                self.assertEqual(png_rows(path), [bytes([value]) * 160] * 128)

    def test_masks_of_a_network_that_saw_generated_ones_have_the_numbers_of_their_classes(self):
        self.write_config("generated", COMMON, {"task": "segmentation", "model": {"name": "unet", "base_width": 2}, "data": {
            "format": "synthetic", "image": {"size": [16, 16], "channels": 1}, "synthetic": {"samples": 8, "classes": 2}}})
        self.good("--config", "generated.yaml", "--run-dir", "runs/generated")
        self.good("predict", "--checkpoint", "runs/generated", "--input", "cells/images", "--output", "numbered", "--threshold", "0")
        masks = list((self.folder / "numbered/masks").iterdir())
        self.assertEqual(len(masks), 10)
        for path in masks:
            self.assertLessEqual(set(b"".join(png_rows(path))), {1, 2})

    def test_a_table_and_an_archive_of_the_same_pictures_give_the_same_scores(self):
        self.list_of_valid("chips", "chips")
        paths = (self.folder / "chips.txt").read_text().split()
        with open(self.folder / "visits.csv", "w", newline="", encoding="utf-8-sig") as file:
            csv.writer(file).writerows([["visit", "picture"], *((number, path) for number, path in enumerate(paths))])
        with tarfile.open(self.folder / "visits.tar", "w") as archive:
            for number, path in enumerate(paths):
                archive.add(self.folder / path, f"{number:03}.jpg")
        words = ("predict", "--checkpoint", "runs/chips", "--batch", "3", "--quiet", "--input")
        calls = [("chips.txt", "--output", "by_list"), ("visits.csv", "--column", "picture", "--output", "by_table"),
                 ("visits.tar", "--output", "by_archive")]
        program.all_of([lambda call=call: self.good(*words, *call, ranks=2) for call in calls])
        self.assertEqual(*((self.folder / name / "predictions.csv").read_bytes() for name in ("by_list", "by_table")))
        listed, archived = (table_of(self.folder / name / "predictions.csv") for name in ("by_list", "by_archive"))
        self.assertEqual([row.pop("path") for row in archived], [f"visits.tar/{number:03}.jpg" for number in range(len(paths))])
        for row in listed:
            row.pop("path")
        self.assertEqual(archived, listed)

    def test_members_of_an_archive_cannot_lead_out_of_the_output(self):
        foreign = self.folder / "keep/x.png"
        foreign.parent.mkdir()
        foreign.write_text("mine")
        picture = next((self.folder / "cells/images").iterdir())
        with tarfile.open(self.folder / "over.tar", "w") as archive:
            archive.add(picture, "../../../keep/x.png", filter=lambda member: member)
            archive.add(picture, "/keep/y.png")
        self.good("predict", "--checkpoint", "runs/small", "--input", "over.tar", "--output", "under")
        self.assertEqual(foreign.read_text(), "mine")
        masks = sorted(str(path.relative_to(self.folder / "under/masks")) for path in (self.folder / "under/masks").rglob("*.png"))
        self.assertEqual(masks, ["over.tar/keep/x.png", "over.tar/keep/y.png"])

    def test_weights_that_say_nothing_of_themselves_are_told_by_a_configuration(self):
        whole = (self.folder / "runs/chips/best.safetensors").read_bytes()
        header_bytes = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + header_bytes])
        header.pop("__metadata__")
        text = json.dumps(header).encode()
        (self.folder / "others").mkdir()
        (self.folder / "others/net.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + header_bytes:])
        words = ("predict", "--config", "chips.yaml", "--input", "chips", "--output")
        foreign, ours = ("--checkpoint", "others/net.safetensors"), ("--checkpoint", "runs/chips")
        calls = ((*words, "told", *foreign, "data.classes=[defect, good]"), (*words, "ours", *ours), (*words, "refused", *foreign),
                 (*words, "refused", *ours, "data.classes=[a, b, c]"), (*words, "refused", *ours, "model.name=resnet18"))
        told, known, unnamed, more, other = program.all_of([lambda call=call: self.call(*call) for call in calls])
        self.assertEqual((told.code, known.code), (0, 0), told.err + known.err)
        self.assertEqual(*((self.folder / name / "predictions.csv").read_bytes() for name in ("told", "ours")))
        turned = self.call(*words, "told", *foreign, "data.classes=[good, defect]")
        self.fails(turned, 78, "columns is path,score_defect,score_good,class, but now it is path,score_good,score_defect,class")
        self.fails(unnamed, 78, "does not name the classes", "data.classes")
        self.fails(more, 78, "was trained for 2 classes (defect, good), but the configuration says a, b, c")
        self.fails(other, 78, "runs/chips/best.safetensors", "model.name was small_cnn and is now resnet18")
        self.assertFalse((self.folder / "refused").exists())

    def test_a_picture_that_cannot_be_read_is_named_and_changes_no_other_row(self):
        words = ("predict", "--checkpoint", "runs/chips", "--batch", "3")
        self.good(*words, "--input", "chips", "--output", "whole")
        whole = {row["path"]: row for row in table_of(self.folder / "whole/predictions.csv")}
        shutil.copytree(self.folder / "chips", self.folder / "damaged")
        bad = sorted((self.folder / "damaged").rglob("*.jpg"))[1]
        bad.write_bytes(bad.read_bytes()[:200])
        name = str(bad.relative_to(self.folder / "damaged"))
        gone = sorted((self.folder / "damaged").rglob("*.jpg"))[4]
        gone.unlink()
        gone.symlink_to("gone.jpg")
        lost = str(gone.relative_to(self.folder / "damaged"))
        for ranks in (None, 2):
            ended = self.call(*words, "--input", "damaged", "--output", f"mended_{ranks}", ranks=ranks)
            self.fails(ended, 65, "2 pictures of the 20 in --input 'damaged' could not be read", f"mended_{ranks}/predictions.csv", rank=ranks and 0)
            self.assertIn("left out: ", ended.err)
            self.assertIn(name, ended.err)
            rows = {row["path"]: row for row in table_of(self.folder / f"mended_{ranks}/predictions.csv")}
            for path in (name, lost):
                self.assertEqual(set(rows.pop(path).values()), {path, ""})
            self.assertEqual(rows, {path: row for path, row in whole.items() if path not in (name, lost)})
        self.fails(self.call(*words, "--input", "damaged", "--output", "failed", "--on-bad", "fail"), 65, name, "--on-bad skip")
        self.assertFalse((self.folder / "failed/predictions.csv").exists())
        again = self.call(*words, "--input", "damaged", "--output", "mended_2")
        self.fails(again, 65, "2 pictures of the 20")
        for said in ("nothing was left to do", "of which 2 could not be read", f"left out by an earlier start: {name}"):
            self.assertIn(said, again.err)

    def test_a_killed_prediction_goes_on_to_the_same_bytes(self):
        for copy in ("a", "b", "c"):
            shutil.copytree(self.folder / "sevens/images", self.folder / "thirty" / copy)
        words = ("predict", "--checkpoint", "runs/small", "--input", "thirty", "--batch", "1", "--output")
        self.good(*words, "at_once")
        whole = files_in(self.folder / "at_once")

        def begun():
            description = self.folder / "killed/predict.json"
            return description.exists() and json.loads(description.read_text())["batches"] >= 8
        job = self.start(*words, "killed")
        program.wait_until(begun, 30, "the first round")
        job.kill()
        job.ended()
        self.good(*words, "killed", ranks=2)
        self.assertEqual(files_in(self.folder / "killed"), whole)
        self.assertIn("nothing was left to do", self.good(*words, "killed").err)
        for changed, difference in (("--threshold=0.6", "--threshold is 0.5, but now it is 0.6"), ("data.image.size=[128,96]", "data.image.size is")):
            self.fails(self.call(*words, "killed", changed), 78, difference)
        self.fails(self.call(*words, "killed", env={"ATEN_CPU_CAPABILITY": "default"}), 78, "processor: vector code is", "DEFAULT")
        shutil.copytree(self.folder / "thirty", self.folder / "elsewhere")
        elsewhere = [word if word != "thirty" else "elsewhere" for word in words]
        self.fails(self.call(*elsewhere, "killed"), 78, "--input is", "/thirty, but now it is", "/elsewhere; name another folder")
        os.utime(self.folder / "thirty/a" / os.listdir(self.folder / "thirty/a")[0])
        self.fails(self.call(*words, "killed"), 78, "hash of when the pictures were changed is")
        shutil.copy(next((self.folder / "elsewhere/a").iterdir()), self.folder / "elsewhere/a/one_more.png")
        self.fails(self.call(*elsewhere, "killed"), 78, "--input is")  # not the hash of its list
        self.assertEqual(files_in(self.folder / "killed"), whole)

    def test_a_stopped_prediction_keeps_every_batch_that_is_finished(self):
        job = self.start("predict", "--checkpoint", "runs/small", "--input", "cells/images", "--batch", "1", "--mirror", "--output", "stopped")
        masks = self.folder / "stopped/masks"
        program.wait_until(lambda: job.process.poll() is not None or (masks.exists() and len(list(masks.glob("*.png"))) >= 2), 30, "two masks")
        job.process.send_signal(signal.SIGUSR1)
        self.assertIn(job.wait(30).code, (0, 75))
        self.assertEqual(json.loads((self.folder / "stopped/predict.json").read_text())["batches"], len(list(masks.glob("*.png"))))

    def test_half_written_rows_and_masks_are_written_anew(self):
        words = ("predict", "--checkpoint", "runs/small", "--input", "cells/images", "--batch", "2", "--output")
        self.good(*words, "begun")
        folder = self.folder / "begun"
        whole = files_in(folder)
        lines = whole["predictions.csv"].splitlines(keepends=True)
        standing = json.loads(whole["predict.json"])
        standing.update(batches=3, rows_bytes=len(b"".join(lines[:7])), complete=False)
        (folder / "predict.json").write_text(json.dumps(standing))
        (folder / "predictions.csv.part").write_bytes(b"".join(lines[:8]) + lines[8][:5])
        (folder / "predictions.csv").unlink()
        for mask in sorted((folder / "masks").iterdir())[6:]:
            mask.rename(mask.with_name(mask.name + ".tmp"))
        ended = self.good(*words, "begun", "--json", ranks=2)
        self.assertIn("continuing after 3 batches of 5", ended.err)
        self.assertEqual(ended.json()["computed"], 4)
        self.assertEqual(files_in(folder), whole)
        lost = sorted((folder / "masks").iterdir())[5]
        lost.unlink()
        again = self.good(*words, "begun", "--json")
        self.assertIn("continuing after 2 batches of 5", again.err)
        self.assertEqual(again.json()["computed"], 6)
        self.assertEqual(files_in(folder), whole)
        (folder / ".lock").write_text("a lock of another program")
        self.fails(self.call(*words, "begun"), 64, "holds a .lock that is not of dtrain predict")
        self.assertEqual((folder / ".lock").read_text(), "a lock of another program")
        (folder / ".lock").write_bytes(whole[".lock"])
        with open(folder / ".lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fails(self.call(*words, "begun"), 78, "another job is predicting into begun")
        (folder / "predict.json").write_text("[]")
        self.fails(self.call(*words, "begun"), 65, "was not written by dtrain predict")

    def test_what_cannot_be_predicted_is_refused_before_anything_is_written(self):
        (self.folder / "nothing").mkdir()
        (self.folder / "taken").mkdir()
        (self.folder / "taken/diary.txt").write_text("mine")
        pair = self.folder / "pair"
        pair.mkdir()
        image = next((self.folder / "cells/images").iterdir())
        shutil.copy(image, pair / "a.png")
        shutil.copy(image, pair / "a.jpg")
        bare = self.folder / "bare.safetensors"
        header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        bare.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
        shutil.copytree(self.folder / "cells/masks", self.folder / "old/masks")
        closed = self.folder / "closed"
        closed.mkdir(mode=0o555)
        chips = {"checkpoint": "runs/chips", "input": "chips", "output": "refused"}
        cases = (
            ({"checkpoint": "bare.safetensors"}, 64, ("bare.safetensors", "holds no configuration")),
            ({"checkpoint": "runs/none"}, 66, ("runs/none does not exist",)),
            ({"input": "nothing"}, 65, ("'nothing' holds no picture",)),
            ({"input": "absent"}, 66, ("'absent' does not exist",)),
            ({"output": "chips"}, 64, ("'chips' is the input itself",)),
            ({"output": ".", "input": "chips/good"}, 64, ("'.' holds the input",)),
            ({"checkpoint": "runs/small", "input": "old/masks", "output": "old"}, 64, ("'old' holds the input",)),
            ({"checkpoint": "runs/small", "input": "old/masks", "output": "old/masks"}, 64, ("is the input itself",)),
            ({"column": "path"}, 64, ("--column names a column of a table",)),
            ({"output": "taken"}, 64, ("'taken' is not empty",)),
            ({"output": "taken/diary.txt"}, 64, ("is a file",)),
            ({"output": "closed/here"}, 77, ("closed/here",)),
            ({"checkpoint": "runs/small", "input": "pair"}, 65, ("a.jpg' and 'a.png'", "a.png;")),
            ({"threshold": "0.4"}, 64, ("--threshold is for masks",)),
            ({"threshold": "1.5", "checkpoint": "runs/small"}, 64, ("--threshold",)),
            ({"threshold": "nan", "checkpoint": "runs/small"}, 64, ("--threshold", "'nan' is not a number from 0 to 1")),
        )
        calls = []
        for changed, _, _ in cases:
            words = [word for name, value in {**chips, **changed}.items() for word in (f"--{name}", value)]
            calls.append(lambda words=words: self.call("predict", *words, through=program.without_write_override()))
        for (changed, code, words), ended in zip(cases, program.all_of(calls)):
            with self.subTest(changed):
                self.fails(ended, code, *words)
        self.assertFalse((self.folder / "refused").exists())
        self.assertEqual(os.listdir(self.folder / "taken"), ["diary.txt"])
        self.assertEqual(os.listdir(self.folder / "old"), ["masks"])
        self.assertEqual(files_in(self.folder / "old/masks"), files_in(self.folder / "cells/masks"))
        self.fails(self.call("predict", "--checkpoint", "runs/chips", "--input", "nothing", "--output", "refused", ranks=2), 65, "holds no picture", rank=0)


if __name__ == "__main__":
    program.main(at_once=3)
