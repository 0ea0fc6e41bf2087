"""Samples in record files, written here by the published formats: the same bits on any number of processes, and damage named."""

import gzip
import io
import os
import struct
import tarfile
import unittest

import program

COUNT = 24
COMMON = {
    "seed": 4,
    "epochs": 2,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 3},
    "distributed": {"logical_ranks": 3},
    "data": {"split": {"valid": 0.25}, "image": {"size": [32, 32]}, "augment": {"hflip": 0.5}},
}


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


TABLE = list(crc_table())


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(features):
    """A tf.train.Example; values are bytes or a whole number."""
    entries = b""
    for name, value in features.items():
        feature = field(1, field(1, value)) if isinstance(value, bytes) else field(3, field(1, varint(value)))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


class Records(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", COUNT)
        pictures = sorted(file for file in (cls.folder / "chips").rglob("*") if file.suffix in (".png", ".jpg"))
        assert len(pictures) == COUNT
        classes = sorted({picture.parent.name for picture in pictures})
        (cls.folder / "tf").mkdir()
        (cls.folder / "tar").mkdir()
        for part in range(2):
            records, archive = b"", io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w") as tar:
                for picture in pictures[part::2]:
                    data, number = picture.read_bytes(), classes.index(picture.parent.name)
                    records += record(example({"image/class/label": number, "image/encoded": data}))
                    for name, content in ((picture.name, data), (f"{picture.stem}.cls", str(number).encode())):
                        info = tarfile.TarInfo(name)
                        info.size = len(content)
                        tar.addfile(info, io.BytesIO(content))
            (cls.folder / f"tf/part-0000{part}-of-00002{'.gz' * part}").write_bytes(gzip.compress(records) if part else records)
            (cls.folder / f"tar/{part}.t{'gz' if part else 'ar'}").write_bytes(
                gzip.compress(archive.getvalue()) if part else archive.getvalue())
        cls.write_config("tf", COMMON, {"data": {"format": "tfrecord", "root": "tf"}})
        cls.write_config("tar", COMMON, {"data": {"format": "webdataset", "root": "tar"}})

    def hash_of(self, name, ranks, *words):
        folder = f"{name}-{ranks}-{len(words)}"
        self.good("--config", f"{name}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=120)
        return self.run_at(folder).hash()

    def test_record_files_train_to_the_same_bits_on_any_number_of_processes_and_threads(self):
        self.assertEqual(self.hash_of("tf", 3, "data.loader.threads=3", "data.loader.prefetch=1"), self.hash_of("tf", None))
        self.assertEqual(self.hash_of("tar", 2), self.hash_of("tar", None))

    def test_check_tells_of_record_files(self):
        self.assertIn(f"2 TFRecord files, {COUNT} records", self.good("check", "--config", "tf.yaml").out)
        self.assertIn(f"2 tar archives, {COUNT} samples", self.good("check", "--config", "tar.yaml").out)

    def test_a_damaged_record_is_named_by_file_number_and_offset(self):
        good = (self.folder / "tf/part-00000-of-00002").read_bytes()
        second = 16 + struct.unpack("<Q", good[:8])[0]
        bad = bytearray(good)
        bad[second + 500] ^= 4
        (self.folder / "bad").mkdir()
        (self.folder / "bad/a.tfrecord").write_bytes(bad)
        place = f"bad/a.tfrecord: record 1 at byte {second:,}: "
        for words in (["check"], ["check", "--quick"], ["--run-dir", "bad-run"]):
            ended = self.call(*words, "--config", "tf.yaml", "data.root=bad")
            self.assertEqual(ended.code, 65, ended)
            self.assertIn(place + "the data have a wrong checksum", ended.err)

    def test_what_others_packed_is_unpacked_within_the_memory_there_is(self):
        """256 MB of zeros in a file of 256 KB take 256 MB of memory, not three times that, and 71 with a sentence if
        that is too much."""
        (self.folder / "zeros").mkdir()
        with tarfile.open(self.folder / "zeros/a.tar.gz", "w:gz", compresslevel=1) as tar:
            for name, content in (("1.png", bytes(256 << 20)), ("1.cls", b"0"), ("2.png", b"x"), ("2.cls", b"1")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        words = ("check", "--quick", "--config", "tar.yaml", "data.root=zeros", "data.split.valid=0.5")
        self.fails(self.call(*words, "data.loader.decompressed_mb=100"), 65, "a.tar.gz holds more than 100,000,000 bytes",
                   "data.loader.decompressed_mb")
        plain = self.peak_of("info")
        self.assertLess(self.peak_of(*words) - plain, 1.3 * (256 << 20))  # 1.2 times, and pages of the program
        most = plain + (200 << 20)
        self.fails(self.call(*words, through=program.limited("data", most)), 71,
                   "decompressing", "a.tar.gz needs", "ulimit -d can give", "decompress it once on disk")
        self.fails(self.call("check", "--quick", "--config", "tar.yaml", "data={format: synthetic, root: null}",
                             "data.synthetic.samples=100000000", through=program.limited("data", most)), 71,
                   "the table of the samples", "ulimit -d can give")

    def peak_of(self, *words):
        """Bytes of memory that a call held at once."""
        if program.SANITIZED:
            raise unittest.SkipTest("a sanitizer's own memory would be measured")
        started = self.start(*words)
        _, _, usage = os.wait4(started.process.pid, 0)
        started.process.returncode = 0
        started.ended()
        return 1024 * usage.ru_maxrss


if __name__ == "__main__":
    program.main()
