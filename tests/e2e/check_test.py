"""dtrain check writes down what it found, and shows what the network will see."""

import json
import random
import shutil
import struct
import zlib

import program

COUNT = 24
COMMON = {"epochs": 2, "model": {"name": "small_cnn"}, "batch": {"per_rank": 4}, "data": {"split": {"valid": 0.25}}}
AUGMENT = {"hflip": 0.5, "rotate": 20, "elastic": 2, "noise": 0.05, "cutout": 0.2}
KINDS = {
    "chips": {"data": {"format": "image_folder", "root": "chips", "image": {"size": [64, 64]}, "augment": {**AUGMENT, "mixup": 1, "cutmix": 1}}},
    "xray": {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv", "split": {"by": "patient"},
                      "image": {"size": [300, 280], "channels": 1},
                      "augment": AUGMENT}},
    "cells": {"model": {"name": "unet", "base_width": 2},
              "data": {"format": "image_mask", "root": "cells", "image": {"size": [96, 64]}, "augment": {**AUGMENT, "mixup": 1, "cutmix": 1}}},
}


def png_pixels(path):
    """Height, width and the rows of an 8-bit RGB PNG file, whole and with good checksums."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height, bits, colour = struct.unpack(">IIBB", body[:10])
            assert (bits, colour) == (8, 2)
            size = (height, width)
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    assert len(zlib.decompress(packed)) == size[0] * (1 + 3 * size[1])
    return size


def rewritten(png):
    """The same pixels in other bytes: one chunk of data, compressed again, and a comment."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    at, packed, head = 8, b"", b""
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        packed += png[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        head = png[at + 8:at + 8 + length] if kind == b"IHDR" else head
        at += 12 + length
    data = zlib.compress(zlib.decompress(packed), 1)
    return png[:8] + chunk(b"IHDR", head) + chunk(b"tEXt", b"Comment\0another file") + chunk(b"IDAT", data) + chunk(b"IEND", b"")


class Check(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kind, part in KINDS.items():
            cls.sample(kind, COUNT)
            cls.write_config(kind, COMMON, part)

    def test_a_preview_is_a_readable_picture_of_the_right_size(self):
        # Six columns: as it is and five epochs; tiles of 64 are doubled, of 96 x 64 doubled, of 300 x 280 shrunk to 256 x 238.
        for name, tile_width, least_height in (("chips", 128, 2 * 128), ("xray", 238, 6 * 256), ("cells", 128, 6 * 192)):
            with self.subTest(name=name):
                ended = self.good("check", "--config", f"{name}.yaml", "--preview", f"{name}.png", "--quick", "--output", f"{name}.json")
                self.assertIn(f"preview: {name}.png", ended.out)
                height, width = png_pixels(self.folder / f"{name}.png")
                self.assertEqual(width, 12 + 6 * (tile_width + 12))
                self.assertGreater(height, least_height)
        first = (self.folder / "chips.png").read_bytes()
        table = self.good("check", "--config", "cells.yaml", "--quick", "--output", "cells.json").out.partition("network: ")[2].splitlines()[1:]
        rows = table[:next(i for i, line in enumerate(table) if " parameters; " in line)]
        self.assertIn("conv_transpose", {row.split()[1] for row in rows})
        self.assertEqual(len({len(row) for row in rows}), 1, table)
        self.good("check", "--config", "chips.yaml", "--preview", "again.png", "data.loader.threads=3", "--output", "again.json")
        self.assertEqual((self.folder / "again.png").read_bytes(), first)
        self.good("check", "--config", "chips.yaml", "--preview", "other.png", "--quick", "seed=5", "--output", "other.json")
        self.assertNotEqual((self.folder / "other.png").read_bytes(), first)

    def test_what_was_found_is_written_for_programs_as_check_json(self):
        ended = program.Started(("check", "--config", "chips.yaml", "--json"), cwd=self.folder).wait(60)  # start() would name a file
        self.assertEqual(ended.code, 0, ended)
        written = json.loads((self.folder / "check.json").read_text())
        self.assertEqual((written.pop("bad"), written.pop("duplicates")), ([], []))
        self.assertEqual(written, ended.json())
        self.assertEqual(written["format"], "image_folder")
        self.assertIn(f"split {written['split_sha256'][:12]}", ended.out)
        quick = self.good("check", "--config", "chips.yaml", "--quick", "--output", "found.json").out
        self.assertIn("pixels were not looked at, so damaged, blank or equal pictures may be left: dtrain check without --quick finds them", quick)
        self.assertNotRegex(quick, r"\nall \d+ pictures can be read")
        self.assertEqual(json.loads((self.folder / "found.json").read_text())["pictures_ok"], COUNT)

    def test_bad_pictures_and_duplicates_are_in_it_by_name(self):
        shutil.copytree(self.folder / "chips", self.folder / "spoilt")
        pictures = sorted((self.folder / "spoilt").glob("*/*"))
        names = [str(path.relative_to(self.folder / "spoilt")) for path in pictures]
        pictures[3].write_bytes(pictures[3].read_bytes()[:-90])
        twin = pictures[5].with_name("twin" + pictures[5].suffix)
        shutil.copy(pictures[5], twin)
        ended = self.call("check", "--config", "chips.yaml", "data.root=spoilt", "data.split={valid: 0.2, seed: 1}", "--output", "spoilt.json",
                          "--preview", "spoilt.png")
        self.assertEqual(ended.code, 65, ended)
        found = json.loads((self.folder / "spoilt.json").read_text())
        self.assertEqual([(bad["path"], bad["code"]) for bad in found["bad"]], [(names[3], 65)])
        self.assertIn(names[3], found["bad"][0]["error"])
        self.assertEqual(found["duplicates"], [sorted([names[5], str(twin.relative_to(self.folder / "spoilt"))])])
        self.assertGreater(png_pixels(self.folder / "spoilt.png")[0], 200)  # a picture of those that can be read

    def test_the_same_picture_in_another_file_and_class_is_told(self):
        shutil.copytree(self.folder / "chips", self.folder / "twins")
        one = sorted((self.folder / "twins").glob("*/*.png"))[0]
        other = sorted(folder for folder in (self.folder / "twins").iterdir() if folder != one.parent)[0] / "twin.png"
        other.write_bytes(rewritten(one.read_bytes()))
        ended = self.call("check", "--config", "chips.yaml", "data.root=twins", "--output", "twins.json")
        found = json.loads((self.folder / "twins.json").read_text())
        names = [str(path.relative_to(self.folder / "twins")) for path in (one, other)]
        self.assertEqual([sorted(group) for group in found["duplicates"]], [sorted(names)])
        self.assertRegex(found["warnings"][0], "1 picture occurs more than once with different labels, such as ")
        self.assertIn(". 1 picture occurs more than once", ended.out)
        self.assertIn("contradictory_labels", [finding["name"] for finding in found["worth_a_look"]])
        for seed in range(20):  # with some seed they are in different parts
            ended = self.call("check", "--config", "chips.yaml", "data.root=twins", f"data.split={{valid: 0.5, seed: {seed}}}",
                              "--output", "parted.json")
            if ended.code == 65:
                break
        self.assertEqual(ended.code, 65, ended)
        self.assertIn("split leak: the same picture is in several parts", ended.err)

    def test_pictures_that_are_not_read_are_never_lost(self):
        shutil.copytree(self.folder / "chips", self.folder / "mixed")
        folder = sorted(path for path in (self.folder / "mixed").iterdir() if path.is_dir())[0]
        for name in ("a.webp", "b.GIF", "c.gif"):
            (folder / name).write_bytes(b"RIFF")
        self.fails(self.call("check", "--config", "chips.yaml", "data.root=mixed", "--output", "mixed.json"), 65, "3 pictures of formats that are not read (2 of .gif, 1 of .webp)",
                   f"{folder.name}/a.webp")
        self.assertEqual(json.loads((self.folder / "mixed.json").read_text())["code"], 65)

    def test_the_last_line_trains_what_was_checked(self):
        split = "data.split={valid: 0.5, seed: 1}"
        told = self.good("check", "--config", "chips.yaml", "--config", "chips.yaml", split, "seed=5", "--output", "told.json").out.splitlines()[-1]
        self.assertTrue(told.endswith(f"dtrain --config chips.yaml --config chips.yaml '{split}' seed=5"), told)

    def findings(self, name, *words, **how):
        self.good("check", *words, "--output", f"{name}.json", **how)
        return json.loads((self.folder / f"{name}.json").read_text())["worth_a_look"]

    def looked_at(self, name, *words, **how):
        """Names of what is worth a look, the sentences, and what was printed. The exit code is 0."""
        ended = self.good("check", *words, "--output", f"{name}.json", **how)
        found = json.loads((self.folder / f"{name}.json").read_text())["worth_a_look"]
        weights = [finding["weight"] for finding in found]
        self.assertEqual(weights, sorted(weights, reverse=True))
        for number, finding in enumerate(found, 1):
            self.assertIn(f"  {number}. {finding['sentence']}", ended.out)
        return [finding["name"] for finding in found], " ".join(finding["sentence"] for finding in found), ended.out

    def test_what_is_worth_a_look_is_listed_by_weight_and_ends_with_0(self):
        shutil.copytree(self.folder / "chips/good", self.folder / "spelt/Good")
        shutil.copytree(self.folder / "chips/defect", self.folder / "spelt/good")
        names, text, out = self.looked_at("spelt", "--config", "chips.yaml", "data.root=spelt", "--world-size", 9, "batch.per_rank=2")
        self.assertLess(names.index("class_spelling"), names.index("warmup"))
        self.assertIn("few_updates", names)
        for part in ("'Good', 'good' differ only in case or spaces", "9 times the base rate", "schedule.warmup='1 epoch'"):
            self.assertIn(part, text)
        self.assertRegex(out, r"can be read; look at the \d things above, then: mpirun -np 9 ")
        banner = self.good("--config", "chips.yaml", "data.root=spelt", "--dry-run").err
        self.assertIn("worth a look: 'Good', 'good' differ only in case or spaces and count as separate classes: use one spelling", banner)

    def test_a_copy_in_another_part_is_told_at_the_start_of_training_too(self):
        for kind in ("good", "defect"):
            pictures = sorted((self.folder / "chips" / kind).iterdir())
            for part, some in (("train", pictures[:10]), ("valid", pictures[10:13])):
                (self.folder / "copies" / part / kind).mkdir(parents=True)
                for picture in some:
                    shutil.copy(picture, self.folder / "copies" / part / kind)
        words = ("--config", "chips.yaml", "data.root=copies", "data.split=null", "--dry-run")
        self.assertNotIn("split leak", self.good(*words).err)
        shutil.copy(self.folder / "copies/train/good" / sorted((self.folder / "chips/good").iterdir())[0].name, self.folder / "copies/valid/good/a copy.jpg")
        self.assertRegex(self.good(*words).err, r"split leak: the same picture is in several parts \(train: train/good/.*, valid: valid/good/a copy.jpg\)")

    def test_a_job_against_which_nothing_stands_is_told_so(self):
        self.write_config("plain", COMMON, {"task": "multilabel", "data": {"format": "synthetic", "image": {"size": [16, 16]},
                                                                           "synthetic": {"samples": 400, "classes": 2}}})
        names, _, out = self.looked_at("plain", "--config", "plain.yaml")
        self.assertEqual(names, [])
        self.assertIn("all 400 pictures can be read; nothing speaks against it; next: dtrain --config ", out)
        limit = 1_500_000_000
        names, text, out = self.looked_at("large", "--config", "plain.yaml", "model={name: densenet121}", "data.image.size=[224, 224]",
                                          "data.synthetic.samples=60", "batch.per_rank=48", through=program.limited("data", limit))
        self.assertEqual(names[0], "memory")
        self.assertIn("and ulimit -d has 1,500 MB in all: batch.per_rank=", text)
        self.assertNotIn("nothing speaks against", out)

    def test_the_estimate_of_memory_has_its_margin_which_is_wider_where_layers_are_frozen(self):
        if program.SANITIZED:
            self.skipTest("a sanitizer keeps tensors in LibTorch's own memory, which has gaps")
        self.write_config("memory", COMMON, {"task": "multilabel", "data": {"format": "synthetic", "image": {"size": [16, 16]}}})
        for words, told, margin in (((), "a tenth", 0.1), (('optimizer.groups=[{match: "0.*", freeze: true}]',), "a quarter", 0.25)):
            with self.subTest(words=words):
                ended = self.good("check", "memory.yaml", *words, "--json", "--output", "memory.json")
                self.assertIn(f"give or take {told}", ended.err + ended.out)
                report = json.loads((self.folder / "memory.json").read_text())
                for end, factor in zip(report["memory_range_mb"], (1 - margin, 1 + margin)):
                    self.assertAlmostEqual(end, factor * report["memory_mb"])

    def test_values_of_masks_that_fall_away_and_dark_pictures_are_told_with_what_takes_them_in(self):
        folder = self.folder / "grey"
        for kind in ("images", "masks"):
            (folder / kind).mkdir(parents=True)
        for number in range(10):
            rows = [bytes(value for x in range(32) for value in divmod(64 * number + x * y, 256)) for y in range(32)]
            (folder / f"images/{number}.pgm").write_bytes(b"P5 32 32 65535\n" + b"".join(rows))
            (folder / f"masks/{number}.pgm").write_bytes(b"P5 32 32 255\n" + (bytes(16) + bytes([128]) * 8 + bytes([255]) * 8) * 32)
        _, text, _ = self.looked_at("grey", "--config", "cells.yaml", "data.root=grey", "data.image.size=[32, 32]")
        self.assertIn("the pixel value 128 (25.0 % of the masks' pixels, in 10 masks of 10) counts as background", text)
        self.assertIn("data.image_mask.mask_values={128: 2, 255: 1}", text)
        self.assertIn("data.image.range=[0, 2047]", text)
        banner = self.good("--config", "cells.yaml", "data.root=grey", "data.image.size=[32, 32]", "--dry-run").err
        for sentence in ("the pixel value 128 (25.0 % of", "data.image.range=[0, 2047]"):
            self.assertEqual(banner.count(sentence), 1, banner)
        words = ("check", "--config", "cells.yaml", "data.root=grey", "data.image.size=[32, 32]", "data.image_mask.mask_values={7: 1}",
                 "--output", "void.json")
        self.fails(self.call(*words), 65, "masks/", "pixel values 0, 128, 255", "set 'data.image_mask.mask_values={128: 1, 255: 2}'")

    def test_the_banner_of_a_training_says_what_matters_of_it(self):
        for folder in ("dim/many", "dim/lone"):
            (self.folder / folder).mkdir(parents=True)
        for number in range(60):
            drawn = random.Random(number)
            pixels = bytes(drawn.randrange(2) for _ in range(1024))  # values 0 and 1, as if they were floats in [0, 1]
            (self.folder / f"dim/{'many' if number else 'lone'}/{number}.pgm").write_bytes(b"P5 32 32 255\n" + pixels)
        words = ("--config", "chips.yaml", "data.root=dim", "data.split.valid=0.02", "data.image.size=[32, 32]", "data.augment.mixup=0",
                 "data.augment.cutmix=0", "batch.per_rank=500")
        listed = {one["sentence"] for one in self.findings("dim", *words) if one["weight"] >= 45}
        banners = []
        for ranks in (1, 2):
            err = self.good(*words, "distributed.logical_ranks=2", "--run-dir", f"dim-{ranks}", "--limit-steps", "1", ranks=ranks).err
            banners.append([line for line in err.splitlines() if "data.image.range" in line])
            self.assertIn("by a look at 32 of 60 pictures, the pixels of all 32 pictures of 8 bits lie between 0 and 1 of 255", err)
            self.assertIn("one step takes the whole training part (", err)
            self.assertIn("AUROC of lone", err)
            self.assertRegex(err, "the valid part has [12] samples?, so each of them")
        self.assertEqual(*banners)
        self.assertTrue(any("data.image.range=[0, 1]" in sentence for sentence in listed), listed)
        resumed = self.good(*words, "distributed.logical_ranks=2", "--run-dir", "dim-1").err
        self.assertNotIn("by a look at", resumed)
        self.assertIn("one step takes the whole training part (", resumed)

    def test_pictures_and_masks_that_were_exchanged_are_told(self):
        err = self.good("--config", "cells.yaml", "data.image_mask={images: masks, masks: images}", "--dry-run").err
        self.assertIn("exchange the folders of images and masks in the configuration", err)

    def test_a_file_that_cannot_be_written_is_an_error(self):
        self.fails(self.call("check", "--config", "chips.yaml", "--quick", "--output", "no/such/folder/check.json"), 66, "no/such/folder")
        self.fails(self.call("check", "--config", "chips.yaml", "--quick", "--preview", "no/such/sheet.png", "--output", "sheet.json"), 66, "no/such")


if __name__ == "__main__":
    program.main(at_once=3)
