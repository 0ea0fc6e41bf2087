"""Pictures of other kinds than PNG and JPEG, from file to weights: TIFF stacks, 16 bits, BMP, PNM, NumPy arrays."""

import random
import shutil
import struct
import zlib

import made_pictures
import program

SIDE = 32
COMMON = {
    "seed": 3,
    "epochs": 2,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "distributed": {"logical_ranks": 2},
    "data": {"split": {"valid": 0.25}, "image": {"size": [SIDE, SIDE], "channels": 1}, "augment": {"hflip": 0.5}},
}


def tiff(pages, bits):
    """A grey TIFF, deflated: rows of samples for each page."""
    file = b"II*\0" + struct.pack("<I", 8)
    for number, rows in enumerate(pages):
        packed = zlib.compress(b"".join(struct.pack(f"<{len(row)}{'H' if bits == 16 else 'B'}", *row) for row in rows))
        packed += b"\0" * (len(packed) % 2)
        place = len(file) + 2 + 8 * 12 + 4
        fields = {256: len(rows[0]), 257: len(rows), 258: bits, 259: 8, 262: 1, 273: place, 278: len(rows), 279: len(packed)}
        file += struct.pack("<H", len(fields)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields.items())
        file += struct.pack("<I", place + len(packed) if number + 1 < len(pages) else 0) + packed
    return file


def pgm(rows, white):
    return f"P2\n{len(rows[0])} {len(rows)}\n{white}\n".encode() + "\n".join(" ".join(map(str, row)) for row in rows).encode()


def npy(kind, rows, fortran=False):
    """Grey, as numpy.save writes it."""
    order = [column for column in zip(*rows)] if fortran else rows
    header = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    code = {"|u1": "B", "|b1": "?", "<u2": "<H", ">u2": ">H"}[kind]
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + b"".join(struct.pack(code, value) for line in order for value in line)


def bmp(rows):
    data = b"".join(bytes(value for value in row for _ in range(3)) for row in reversed(rows))  # rows of 32 need no padding
    return b"BM" + struct.pack("<IIIIiiHHIIIIII", 54 + len(data), 0, 54, 40, SIDE, SIDE, 1, 24, 0, len(data), 0, 0, 0, 0) + data


def rows_of(dice, bright, top):
    """Noise below `top`, twice as bright for one of the classes."""
    return [[dice.randrange(top) if bright else dice.randrange(top // 2) for _ in range(SIDE)] for _ in range(SIDE)]


class Formats(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dice = random.Random(5)
        for bright, name in enumerate(("dark", "light")):
            folder = cls.folder / "mixed" / name
            folder.mkdir(parents=True)
            (folder / "stack.tif").write_bytes(tiff([rows_of(dice, bright, 4096) for _ in range(12)], 16))
            for i in range(3):
                (folder / f"single{i}.tiff").write_bytes(tiff([rows_of(dice, bright, 4096)], 16))
                (folder / f"plain{i}.pgm").write_bytes(pgm(rows_of(dice, bright, 4096), 65535))
            (cls.folder / "bytes" / name).mkdir(parents=True)
            for i in range(8):
                rows = rows_of(dice, bright, 256)
                (cls.folder / "bytes" / name / f"{i}.bmp").write_bytes(bmp(rows))
        cls.make_arrays(dice)
        for part in ("images", "masks"):
            (cls.folder / "volume" / part).mkdir(parents=True)
        slices = [rows_of(dice, True, 65536) for _ in range(12)]
        masks = [[[255 if value > 32768 else 0 for value in row] for row in rows] for rows in slices]
        (cls.folder / "volume/images/v.tif").write_bytes(tiff(slices, 16))
        (cls.folder / "volume/masks/v.tif").write_bytes(tiff(masks, 8))
        cls.make_channels(dice)
        cls.write_config("mixed", COMMON, {"data": {"format": "image_folder", "root": "mixed", "image": {"range": [0, 4095]}}})
        cls.write_config("bytes", COMMON, {"data": {"format": "image_folder", "root": "bytes"}})
        cls.write_config("volume", COMMON, {"model": {"name": "unet", "base_width": 2}, "data": {"format": "image_mask", "root": "volume"}})

    @classmethod
    def make_arrays(cls, dice):
        """The same pixels twice, under the same names, as NumPy arrays and as PGM: the format is known from the first
        bytes."""
        for number in range(16):
            top, kind = (65536, ("<u2", ">u2")[number // 2 % 2]) if number % 4 < 2 else (256, "|u1")
            rows = rows_of(dice, number % 2, top)
            mask = [[value > top // 4 for value in row] for row in rows]
            for root, picture, bits in (("arrays", npy(kind, rows, number % 8 < 4), npy("|b1", mask)), ("drawn", pgm(rows, top - 1), pgm(
                    [[255 * value for value in row] for row in mask], 255))):
                for place, content in ((("dark", "light")[number % 2], picture), ("pairs/images", picture), ("pairs/masks", bits)):
                    folder = cls.folder / (root + "-" + place if "/" in place else root + "/" + place)
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / f"{number}.npy").write_bytes(content)
        for root in ("arrays", "drawn"):
            cls.write_config(root, COMMON, {"data": {"format": "image_folder", "root": root}})
            cls.write_config(root + "-pairs", COMMON, {"model": {"name": "unet", "base_width": 2}, "data": {"format": "image_mask", "root": root + "-pairs"}})

    @classmethod
    def make_channels(cls, dice):
        """Two grey files a picture, in nnU-Net's layout too, of which the mask needs both; and pages whose masks are those of
        their neighbours."""
        for number in range(12):
            low, high = ([[dice.randrange(256) for _ in range(SIDE)] for _ in range(SIDE)] for _ in range(2))
            mask = [[255 if a > b else 0 for a, b in zip(*rows)] for rows in zip(low, high)]
            for name, content in (("two/images/{}_0000", low), ("two/images/{}_0001", high), ("two/masks/{}", mask),
                                  ("cases/imagesTr/{}_0000", low), ("cases/imagesTr/{}_0001", high), ("cases/labelsTr/{}", mask)):
                path = cls.folder / (name.format(f"c{number:02}") + ".png")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(made_pictures.png(content))
        (cls.folder / "cases/dataset.json").write_text(
            '{"channel_names": {"0": "T1", "1": "T2"}, "labels": {"background": 0, "a": 255}, "numTraining": 12, "file_ending": ".png"}')
        network = {"task": "segmentation", "model": {"name": "unet", "base_width": 2, "levels": 2}}
        for name, root, image in (("two", "two", {"channels": 2, "files": ["_0000", "_0001"]}), ("cases", "cases", {"channels": 2}),
                                  ("slices", "volume", {"channels": 3, "slices": 3})):
            cls.write_config(name, COMMON, network, {"data": {"format": "image_mask", "root": root, "image": image}})

    def alone(self, name):
        """The run by one process; made once."""
        self.once(name, lambda: self.good("--config", f"{name}.yaml", "--run-dir", f"{name}-1", timeout=120))
        return self.run_at(f"{name}-1")

    def test_they_train_to_the_same_bits_on_any_number_of_processes_and_with_a_cache(self):
        for name, ranks in (("mixed", 2), ("bytes", None), ("volume", 2)):
            with self.subTest(name):
                self.good("--config", f"{name}.yaml", "--run-dir", f"{name}-cached", "data.loader.cache=device", ranks=ranks, timeout=120)
                self.assertEqual(self.alone(name).hash(), self.run_at(f"{name}-cached").hash())

    def test_arrays_are_the_pictures_that_they_hold(self):
        for ending, task in (("", "multiclass"), ("-pairs", "segmentation")):
            with self.subTest(ending):
                self.assertEqual(self.alone("arrays" + ending).hash(), self.alone("drawn" + ending).hash())
                packed = f"packed{ending}"
                self.good("pack", "--config", f"arrays{ending}.yaml", "--output", packed, "--progress", "none")
                self.good("--config", f"arrays{ending}.yaml", f"task={task}", "data.format=packed", f"data.root={packed}", "--run-dir", f"{packed}-1",
                          timeout=120)
                self.assertEqual(self.run_at(f"{packed}-1").hash(), self.alone("drawn" + ending).hash())
        json = self.good("check", "--config", "arrays.yaml", "--json").json()
        self.assertEqual(sum(part["samples"] for part in json["parts"].values()), 16)

    def test_pictures_of_several_files_and_pages_with_their_neighbours(self):
        for name, root, lines in (("two", "two/images", 12), ("slices", "volume/images", 12)):
            with self.subTest(name):
                self.good("--config", f"{name}.yaml", "--run-dir", f"{name}-2", "data.loader.cache=ram", ranks=2, timeout=120)
                self.assertEqual(self.alone(name).hash(), self.run_at(f"{name}-2").hash())
                self.good("check", "--config", f"{name}.yaml", "--preview", f"{name}.png", "--world-size", "2")
                self.good("pack", "--config", f"{name}.yaml", "--output", f"{name}-packed", "--progress", "none")
                self.good("verify", f"{name}-packed")
                packed = self.good("--config", f"{name}.yaml", "data.format=packed", f"data.root={name}-packed", "--run-dir", f"{name}-p", timeout=120)
                self.assertEqual(self.run_at(f"{name}-p").hash(), self.alone(name).hash(), packed)
                self.good("eval", "--checkpoint", f"{name}-1", "--output", f"{name}-eval")
                best = shutil.copy(self.run_at(f"{name}-1").folder / "best.safetensors", self.folder / f"{name}.safetensors")
                self.good("predict", "--checkpoint", best, "--input", root, "--output", f"{name}-predicted", "--overlay")
                self.assertEqual(len((self.folder / f"{name}-predicted/predictions.csv").read_text().splitlines()), lines + 1)
        self.assertEqual(self.alone("two").facts()["steps"], self.alone("cases").facts()["steps"])
        self.assertIn("files: [_0000, _0001]", self.good("--config", "cases.yaml", "--print-config").out)
        self.assertIn("files: [_0000, _0001]", self.good("init", "cases").out)
        self.fails(self.call("pack", "--config", "two.yaml", "--output", "records", "--to", "tfrecord"), 78, "channels that are no colours")
        self.fails(self.call("--config", "two.yaml", "data.image.channels=3"), 78, "data.image.files [_0000, _0001] makes 2 channels")
        self.fails(self.call("--config", "bytes.yaml", "data.image.slices=3", "data.image.channels=3"), 78, "is a page of a stack")

    def test_the_range_changes_what_the_network_sees(self):
        self.good("--config", "mixed.yaml", "--run-dir", "narrow", "data.image.range=[0, 2047]", timeout=120)
        self.assertNotEqual(self.run_at("narrow").hash(), self.alone("mixed").hash())
        self.fails(self.call("--config", "mixed.yaml", "data.image.range=[9, 9]"), 78, "data.image.range", "low less than high")

    def test_check_looks_at_every_page(self):
        for options in ((), ("--quick",)):
            json = self.good("check", "--config", "mixed.yaml", "--json", *options).json()
            self.assertEqual(sum(part["samples"] for part in json["parts"].values()), 2 * (12 + 3 + 3))

    def test_unequal_stacks_and_foreign_files_end_with_65(self):
        masks = self.folder / "volume/masks/v.tif"
        whole = masks.read_bytes()
        masks.write_bytes(tiff([[[0] * SIDE] * SIDE] * 11, 8))
        try:
            self.assertIn("v: 12 pages, its mask has 11", self.call("--config", "volume.yaml").err)
        finally:
            masks.write_bytes(whole)
        alien = self.folder / "bytes/dark/9.tif"
        for content, word in ((b"RIFF1234WEBPVP8 ", "a WebP picture"), (tiff([[[0] * SIDE] * SIDE], 8)[:-20], "damaged TIFF"),
                              (b"P5 60000 60000 255 x", "allowed"), (b"P5 9000 9000 255 x", "too short"),
                              (npy("|u1", [[0] * SIDE] * SIDE).replace(b"(32, 32)", b"(4,8,32)"), "no picture of a stack can be chosen")):
            alien.write_bytes(content)
            try:
                self.fails(self.call("--config", "bytes.yaml", "--run-dir", "alien"), 65, "9.tif", word)
            finally:
                alien.unlink()


if __name__ == "__main__":
    program.main()
