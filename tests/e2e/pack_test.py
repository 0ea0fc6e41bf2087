"""dtrain pack from end to end: the same bytes for any number of ranks, the same training bits as from the source,
interrupted and killed packing continues, damage is named, and Python reads what is written."""

import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import zlib

import program
from records_test import masked_crc

COUNT = 28
COMMON = {
    "task": "multiclass",
    "seed": 4,
    "epochs": 1,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 8},
    "distributed": {"logical_ranks": 2},
    "data": {"image": {"size": [128, 128]}, "augment": {"hflip": 0.5, "vflip": 0.5}},
}


def chunks_of_png(data):
    """The pixels of an 8-bit PNG without interlacing, as (width, height, channels, bytes)."""
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", body)
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    step = 3 if colour == 2 else 1
    row, above, lines, raw = width * step, bytes(width * step), b"", zlib.decompress(packed)
    for y in range(height):
        kind, line = raw[y * (row + 1)], bytearray(raw[y * (row + 1) + 1:(y + 1) * (row + 1)])
        for x in range(row):
            left, up, corner = (line[x - step] if x >= step else 0), above[x], (above[x - step] if x >= step else 0)
            guess = left + up - corner
            paeth = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[x] = line[x] + (0, left, up, (left + up) // 2, paeth)[kind] & 255
        lines, above = lines + bytes(line), bytes(line)
    return width, height, step, lines


class Pack(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", COUNT)
        cls.write_config("source", COMMON, {"data": {"format": "image_folder", "root": "chips", "split": {"valid": 0.25}}})
        cls.write_config("packed", COMMON, {"data": {"format": "packed", "root": "one"}})
        cls.told = cls.good("pack", "--config", "source.yaml", "--output", "one", "--samples-per-shard", "8")

    def bytes_of(self, name):
        return {path.name: path.read_bytes() for path in sorted((self.folder / name).iterdir())}

    def trained(self, config, ranks, folder, *words):
        self.good("--config", f"{config}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=120)
        return self.run_at(folder).hash()

    def test_any_number_of_ranks_and_threads_writes_the_same_bytes(self):
        self.good("pack", "--config", "source.yaml", "--output", "three", "--samples-per-shard", "8", "data.loader.threads=3", ranks=3)
        self.assertEqual(self.bytes_of("three"), self.bytes_of("one"))
        self.assertIn("train-00000-of-0000", " ".join(self.bytes_of("one")))

    def test_no_sample_is_packed_in_the_place_of_another(self):
        self.fails(self.call("pack", "--config", "source.yaml", "--output", "no", "data.loader.on_bad_sample=replace"), 78, "keeps every sample")
        self.assertFalse((self.folder / "no").exists())

    def test_training_from_shards_has_the_bits_of_training_from_the_pictures(self):
        part = ("data.image.window=[64, 64]", "data.augment.random_window=true")  # drawn for each picture
        expected = self.trained("source", None, "run-source", *part)
        self.assertEqual(self.trained("packed", None, "run-packed", *part), expected)
        self.assertEqual(self.trained("packed", 2, "run-packed-2", "data.loader.threads=2", *part), expected)
        self.assertEqual(self.trained("packed", None, "run-cached", "data.loader.cache=device", *part), expected)
        self.good("pack", "--config", "source.yaml", "--output", "small", "--codec", "deflate")
        self.assertEqual(self.trained("packed", None, "run-deflate", "data.root=small", *part), expected)
        self.assertLess(sum(map(len, self.bytes_of("small").values())), sum(map(len, self.bytes_of("one").values())))
        part = part[:1]
        judged = self.good("eval", "--config", "packed.yaml", "--checkpoint", "run-source/best.safetensors", "--json", *part).json()
        self.assertEqual(judged["samples"], self.good("eval", "--config", "source.yaml", "--checkpoint",
                                                      "run-packed/best.safetensors", "--json", *part).json()["samples"])

    def test_the_lines_that_are_printed_train_and_check_passes(self):
        (self.folder / "printed.yaml").write_text(self.told.out)
        self.assertIn("format: packed", self.told.out)
        self.good("--config", "packed.yaml", "--config", "printed.yaml", "--dry-run")
        for words in ([], ["--quick"]):
            self.assertIn(f"packed shards, {COUNT} records", self.good("check", "--config", "packed.yaml", *words).out)

    def test_a_pack_that_is_killed_goes_on_to_the_same_bytes(self):
        pictures = shutil.copytree(self.folder / "chips", self.folder / "late_chips")
        words = ["pack", "--config", "source.yaml", "data.root=late_chips", "--output", "killed", "--samples-per-shard", "1"]
        with program.Lease(max(pictures.rglob("*.*"))):  # the last of its part, which it cannot read
            started = self.start(*words)
            try:
                program.wait_until(lambda: program.waits_for_lease(started.process.pid), 60, "the last picture")
            finally:
                started.kill()
        started.ended()
        self.assertGreater(len(list(self.folder.glob("killed/*.dtpack"))), 3)
        self.fails(self.call("check", "--config", "packed.yaml", "data.root=killed"), 65, "not completely packed")
        again = self.good(*words, ranks=2)
        self.assertRegex(again.err, r"[1-9]\d* already existed")
        self.good("pack", "--config", "source.yaml", "--output", "whole", "--samples-per-shard", "1")
        self.assertEqual(self.bytes_of("killed"), self.bytes_of("whole"))
        self.assertIn(f"; {COUNT} already existed", self.good(*words).err)

    def test_a_pack_that_is_stopped_says_so_and_goes_on(self):
        pictures = shutil.copytree(self.folder / "chips", self.folder / "held_chips")
        words = ["pack", "--config", "source.yaml", "data.root=held_chips", "--output", "stopped", "--samples-per-shard", "1"]
        # One rank comes to this picture early and gets no further; the other one writes its shards.
        with program.Lease(min(pictures.rglob("*.*"))):
            started = self.start(*words, ranks=2)
            try:
                program.wait_until(lambda: len(list(self.folder.glob("stopped/*.dtpack"))) >= 3, 60, "three shards")
                program.wait_until(lambda: any(map(program.waits_for_lease, started.ranks())), 60, "a rank at the picture")
                program.signal_through_mpirun(started, signal.SIGUSR1)
            except BaseException:
                started.kill()
                raise
        ended = started.wait(60)
        self.assertEqual(ended.code, 75, ended)
        self.assertIn("stopped; finished shards are kept, and the same command continues from there", ended.err)
        self.assertLess(len(list(self.folder.glob("stopped/*.dtpack"))), COUNT)
        self.assertRegex(self.good(*words).err, r"[1-9]\d* already existed")

    def test_a_stop_in_the_middle_of_a_shard_is_heeded(self):
        words = ["pack", "--config", "source.yaml", "--output", "midway", "--samples-per-shard", COUNT, "--codec", "deflate", "data.image.size=[1500, 1500]"]
        started = self.start(*words)
        program.wait_until(lambda: (self.folder / "midway/manifest.json").exists(), 60, "the manifest")
        started.send(signal.SIGTERM)
        self.assertEqual(started.wait(60).code, 75)
        self.assertEqual(list(self.folder.glob("midway/*.dtpack*")), [])

    def test_a_folder_of_another_job_is_refused(self):
        self.fails(self.call("pack", "--config", "source.yaml", "--output", "one", "--samples-per-shard", "9"), 64, "another job")
        self.fails(self.call("pack", "--config", "source.yaml", "--output", "chips"), 64, "not empty")
        self.fails(self.call("pack", "--config", "source.yaml"), 64, "--output")
        self.fails(self.call("pack", "--config", "source.yaml", "--output", "x", "--expand", "hflop"), 64, "did you mean 'hflip'")
        self.fails(self.call("pack", "--config", "source.yaml", "--output", "x", "--quality", "90"), 64, "--quality")
        self.fails(self.call("pack", "--config", "source.yaml", "--output", "x", "--to", "tfrecord", "--codec", "raw"), 64, "--codec")
        self.assertFalse((self.folder / "x").exists())

    def test_the_enlarged_training_part_is_six_times_as_large_and_no_copy_crosses_the_split(self):
        small = "data.image.size=[64, 64]"
        self.good("pack", "--config", "source.yaml", "--output", "six", "--expand", "vflip,hflip,rot90,rot180,rot270", small, ranks=2)
        checked = self.good("check", "--config", "packed.yaml", "data.root=six", small, "--json").json()["parts"]
        plain = self.good("check", "--config", "packed.yaml", "--json").json()["parts"]
        self.assertEqual(checked["train"]["samples"], 6 * plain["train"]["samples"])
        self.assertEqual(checked["valid"]["samples"], plain["valid"]["samples"])
        alone = self.trained("packed", None, "run-six", "data.root=six", small)
        self.assertEqual(self.trained("packed", 2, "run-six-2", "data.root=six", small), alone)

    def test_verify_names_every_damaged_record_by_file_number_and_offset(self):
        self.good("pack", "--config", "source.yaml", "--output", "bad", "--samples-per-shard", "8")
        self.assertEqual(self.good("verify", "bad", "--json").json()["ok"], True)
        shard = sorted((self.folder / "bad").glob("train-*.dtpack"))[1]
        good = shard.read_bytes()
        offsets = [struct.unpack_from("<q", good, 128 + 48 * i)[0] for i in range(8)]
        bad = bytearray(good)
        for number in (3, 7):
            bad[offsets[number] + 999] ^= 16
        shard.write_bytes(bad)
        ended = self.call("verify", "bad")
        self.fails(ended, 65, "2 findings against 'bad'")
        for number in (3, 7):
            self.assertRegex(ended.err, rf"{shard.name}: record {number} \(.*\) at byte {offsets[number]:,}: its bytes have a wrong checksum")
        self.assertEqual(self.call("verify", shard).code, 65)
        self.assertRegex(self.call("--config", "packed.yaml", "data.root=bad", "--run-dir", "run-bad").err, r"record [37] \(")
        shard.write_bytes(good[:-64])
        self.fails(self.call("verify", "bad"), 65, shard.name, "it was cut")
        self.fails(self.call("check", "--config", "packed.yaml", "data.root=bad"), 65, shard.name, "it was cut")
        shard.unlink()
        self.fails(self.call("verify", "bad"), 66, shard.name)

    def test_python_reads_a_shard_set_and_finds_its_damage(self):
        script = [sys.executable, program.ROOT / "scripts/read_packed"]
        shards = sorted((self.folder / "one").glob("*.dtpack"))
        listed = subprocess.run([*script, *shards], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(len(listed), COUNT)
        shard = sorted((self.folder / "one").glob("valid-*.dtpack"))[0]
        one = subprocess.run([*script, shard, "--picture", "1"], capture_output=True, check=True).stdout
        path = next(line for line in listed if line.startswith(f"{shard.name} 1 ")).split()[-1]
        self.good("pack", "--config", "source.yaml", "--output", "deflated", "--samples-per-shard", "8", "--codec", "deflate")
        two = subprocess.run([*script, self.folder / "deflated" / shard.name, "--picture", "1"], capture_output=True, check=True).stdout
        self.assertEqual(one, two)
        if path.endswith(".png"):
            width, height, channels, pixels = chunks_of_png((self.folder / "chips" / path).read_bytes())
            self.assertEqual(one, f"P{channels // 2 + 5}\n{width} {height}\n255\n".encode() + pixels)
        bad = bytearray(shard.read_bytes())
        bad[-1] ^= 1
        (self.folder / "bad.dtpack").write_bytes(bad)
        found = subprocess.run([*script, self.folder / "bad.dtpack"], capture_output=True, text=True, check=False)
        self.assertEqual((found.returncode, found.stdout.count("DAMAGED")), (65, 1))

    def test_python_reads_what_is_packed_for_other_programs_and_the_lines_that_are_printed_train(self):
        self.write_config("rest", {key: value for key, value in COMMON.items() if key not in ("task", "data")})
        for folder, to, ranks in (("tar", "webdataset", None), ("tf", "tfrecord", 2)):
            told = self.good("pack", "--config", "source.yaml", "--output", folder, "--to", to, "--samples-per-shard", "8", ranks=ranks)
            (self.folder / f"{to}.yaml").write_text(told.out)
            self.good("--config", "rest.yaml", "--config", f"{to}.yaml", "--dry-run")
        members = {}
        for path in sorted((self.folder / "tar").glob("train-*.tar")):
            with tarfile.open(path) as archive:
                members.update({member.name: archive.extractfile(member).read() for member in archive})
        keys = sorted({name.partition(".")[0] for name in members})
        self.assertEqual(len(members), 3 * len(keys))
        records = []
        for path in sorted((self.folder / "tf").glob("train-*.tfrecord")):
            data, at = path.read_bytes(), 0
            while at < len(data):
                size = struct.unpack_from("<Q", data, at)[0]
                self.assertEqual(data[at + 8:at + 12], masked_crc(data[at:at + 8]))
                records.append(data[at + 12:at + 12 + size])
                if len(records) % 8 == 1:  # checksums in Python are slow
                    self.assertEqual(data[at + 12 + size:at + 16 + size], masked_crc(records[-1]))
                at += size + 16
        self.assertEqual(len(records), len(keys))
        for number, key in enumerate(keys):
            self.assertIn(members[key + ".png"], records[number])
            self.assertIn(re.search(rb'"path":"([^"]*)"', members[key + ".json"])[1], records[number])
        self.assertEqual(self.good("verify", "tf", "--json").json()["ok"], True)


if __name__ == "__main__":
    program.main(at_once=3)
