"""data.loader: how samples are read changes neither their order nor their contents."""

import itertools
import pathlib
import re
import shutil
import tarfile

import program

COUNT, EPOCHS = 48, 2
COMMON = {
    "seed": 4,
    "epochs": EPOCHS,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 3},
    "distributed": {"logical_ranks": 4},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"format": "image_folder", "image": {"size": [32, 32]},
             "augment": {"hflip": 0.5, "rot90": 0.5}},
}
REPLACE = "data.loader.on_bad_sample=replace"
MEMORY = 4 << 30  # bytes that a process may have in tests of too little memory


def shared_memory():
    """The bytes of our shared memory that each process has mapped, by process id."""
    found = {}
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = [line.split() for line in maps.read_text().splitlines() if "/memfd:dtrain" in line]
        except OSError:  # it has ended
            continue
        ranges = [[int(end, 16) for end in line[0].split("-")] for line in lines]
        if ranges:
            found[int(maps.parent.name)] = sum(end - begin for begin, end in ranges)
    return found


class Loader(program.ProgramTest):
    runs = itertools.count(1)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        chips = cls.sample("chips", COUNT)
        for name in ("good", "damaged"):
            for picture in sorted(chips.glob("*/*.*")):
                part = "valid" if int(re.sub(r"\D", "", picture.stem)) % 5 == 0 else "train"
                target = cls.folder / name / part / picture.parent.name / picture.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(picture, target)
            cls.write_config(name, COMMON, {"data": {"root": name}})
        train = sorted((cls.folder / "damaged/train").glob("*/*.png"))
        cls.bad = [train[3], train[4], train[11], train[-1]]
        cls.bad[0].write_bytes(b"")
        cls.bad[1].write_bytes(b"GIF89a no picture of ours")
        cls.bad[2].write_bytes(cls.bad[2].read_bytes()[:-300])
        program.flip_byte(cls.bad[3])
        for number in range(3):  # the same pictures in archives
            with tarfile.open(cls.folder / f"archives-{number}.tar", "w") as archive:
                for i, picture in enumerate(sorted(chips.glob("*/*.*"))):
                    if i % 3 != number:
                        continue
                    archive.add(picture, f"{i:03}{picture.suffix}")
                    label = cls.folder / "label.cls"
                    label.write_text(picture.parent.name)
                    archive.add(label, f"{i:03}.cls")
        (cls.folder / "records").mkdir()
        for archive in cls.folder.glob("archives-*.tar"):
            shutil.move(archive, cls.folder / "records" / archive.name)
        cls.write_config("records", COMMON, {"data": {"format": "webdataset", "root": "records", "split": {"valid": 0.2}}})

    def train(self, name, *words, ranks=None):
        """Runs in its own folder."""
        folder = f"run-{next(self.runs)}"
        ended = self.good("--config", f"{name}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=120)
        return self.run_at(folder), ended

    def plain(self, name, *words):
        """The run that others must equal, by one process without a launcher; made once."""
        return self.once((name, *words), lambda: self.train(name, *words))

    def test_bad_samples_are_replaced_alike_however_the_job_is_carried_out(self):
        plain, ended = self.plain("damaged", REPLACE)
        self.assertEqual([row["replaced_samples"] for row in plain.rows()], ["4"] * EPOCHS)
        self.assertEqual([event["replaced_samples"] for event in plain.events("epoch")], [4] * EPOCHS)
        self.assertEqual(ended.err.count("4 samples could not be decoded"), EPOCHS, ended)
        self.assertIn(self.bad[0].name + " is empty", ended.err)
        self.assertIn("and 1 more", ended.err)
        self.assertIn("replaced 4 samples", ended.err)
        for ranks, *words in ((3, "data.loader.cache=ram"), (3, "data.loader.pipeline=sequential"),
                              (2, "data.loader.cache=device", "data.loader.threads=3"), (1, "data.loader.prefetch=7", "data.loader.max_bad=4")):
            with self.subTest(ranks=ranks, words=words):
                other, told = self.train("damaged", REPLACE, *words, ranks=ranks)
                self.assertEqual(other.hash(), plain.hash())
                self.assertEqual(other.result_rows(), plain.result_rows())
                self.assertEqual(told.err.count("4 samples could not be decoded"), EPOCHS, told)
                self.assertIn(self.bad[0].name + " is empty", told.err)

    def test_a_run_that_stops_inside_an_epoch_counts_on_and_names_what_was_replaced_since(self):
        plain, _ = self.plain("damaged", REPLACE)
        seen = set()
        for steps, ranks in ((1, None), (2, 2), (3, None)):
            words = ("--config", "damaged.yaml", "--run-dir", f"halves-{steps}", REPLACE)
            self.good(*words, "--limit-steps", steps)
            lines = self.good(*words, ranks=ranks).err.splitlines()
            self.assertEqual(self.run_at(f"halves-{steps}").hash(), plain.hash())
            self.assertEqual([row["replaced_samples"] for row in self.run_at(f"halves-{steps}").rows()], ["4"] * EPOCHS)
            at = next(i for i, line in enumerate(lines) if "4 samples could not be decoded" in line)
            named = 0
            if lines[at].endswith("were replaced by others of the training part:"):
                named = sum("damaged/train/" in line for line in lines[at + 1:at + 4])
                named += sum(int(n) for n in re.findall(r"… and (\d+) more", lines[at + 4]))
                before = re.findall(r"and (\d+) before this start", "\n".join(lines[at + 1:at + 6]))
                self.assertEqual(named + sum(map(int, before)), 4, lines)
                seen.add(bool(before))
            else:
                self.assertTrue(lines[at].endswith("; all of them before this start"), lines[at])
                seen.add("all")
        self.assertTrue(seen & {True, "all"}, seen)

    def test_bad_samples_end_the_run_where_they_are_not_replaced_or_too_many(self):
        for ranks in (None, 3):
            fail = self.start("--config", "damaged.yaml", "--run-dir", f"fail-{ranks}", ranks=ranks)
            many = self.start("--config", "damaged.yaml", "--run-dir", f"many-{ranks}", REPLACE, "data.loader.max_bad=3", ranks=ranks)
            ended, many = fail.wait(60), many.wait(60)
            self.assertEqual(ended.code, 65, ended)
            self.assertEqual(many.code, 65, many)
            self.assertIn("4 samples of this epoch could not be decoded so far, more than data.loader.max_bad (3)", many.err)
            lines = many.err.splitlines()
            told = next(i for i, line in enumerate(lines) if line.startswith("dtrain: error 65"))
            self.assertIn("damaged/train/", "\n".join(lines[:told]))
            self.assertTrue(lines[told].endswith("see above"), many)

    def test_a_bad_sample_of_the_validation_part_always_ends_the_run(self):
        shutil.copytree(self.folder / "good", self.folder / "judged")
        bad = sorted((self.folder / "judged/valid").glob("*/*.png"))[2]
        bad.write_bytes(b"")
        ended = self.call("--config", "good.yaml", f"data.root={self.folder}/judged", "--run-dir", "judge", REPLACE)
        self.fails(ended, 65, bad.name, "is empty", "belongs to a part that is evaluated")

    def test_a_run_that_failed_goes_on_with_replace(self):
        words = ("--config", "damaged.yaml", "--run-dir", "changed")
        self.assertEqual(self.call(*words).code, 65)
        self.good(*words, REPLACE)
        self.assertEqual(self.run_at("changed").hash(), self.plain("damaged", REPLACE)[0].hash())

    def test_the_result_is_the_same_with_a_cache_in_shared_memory(self):
        windows = ("data.image.size=[128, 128]", "data.image.window=[32, 32]", "data.augment.random_window=true")
        for words, numbers in (((), (None, 4)), (windows, (2,)), (("data.augment.contrast=0.3",), (2,))):
            plain, _ = self.plain("good", *words)
            for ranks in numbers:
                with self.subTest(words=words, ranks=ranks):
                    cached, ended = self.train("good", *words, "data.loader.cache=ram", ranks=ranks)
                    self.assertEqual(cached.hash(), plain.hash())
                    self.assertEqual(cached.result_rows(), plain.result_rows())
                    self.assertIn(f"cache: {COUNT} of {COUNT} pictures", ended.err)
                    self.assertGreater(float(cached.rows()[0]["read_mb_per_s"]), 0)
                    self.assertEqual(float(cached.rows()[1]["read_mb_per_s"]), 0)

    def test_a_killed_job_leaves_no_memory_behind(self):
        job = self.start("--config", "good.yaml", "--run-dir", "killed", "epochs=1000", "data.loader.cache=ram", ranks=2)
        program.wait_until(lambda: self.run_at("killed").steps_logged() > 20, 60, "steps are taken")
        ranks = job.ranks()
        self.assertEqual(len(ranks), 2)
        held = shared_memory()
        for rank in ranks:  # the expected size and half as much again, 64 MiB, and the table of the samples
            self.assertTrue(0 < held[rank] < 1.5 * COUNT * 32 * 32 * 3 * 4 + (64 << 20) + 1e5, held)
        job.kill()
        job.ended()
        program.wait_until(lambda: not any(program.alive(rank) for rank in ranks), 20, "the ranks are gone")
        self.assertFalse(set(ranks) & set(shared_memory()))

    def test_without_room_the_job_says_so_and_trains_without_a_cache(self):
        ended = self.good("--config", "good.yaml", "--run-dir", "roomless", "--dry-run", "data.loader.cache=ram", "batch.per_rank=1",
                          "data={format: synthetic, root: , synthetic: {samples: 20000, classes: 2}, "
                          "image: {size: [1024, 1024], window: [32, 32]}}", "task=multiclass", ranks=2,
                          through=program.limited("data", MEMORY))
        self.assertRegex(ended.err, r"no cache: data\.loader\.cache ram needs about [\d,]+ MB on each host, and \S+ can give [\d,]+ MB")
        self.assertIn("one step taken", ended.err)

    def test_the_old_pipeline_takes_the_same_file_and_gives_the_same_result(self):
        all_of_it = "data.loader={threads: auto, prefetch: 2, interleave: 10, cache: none, on_bad_sample: fail, max_bad: 100, pipeline: parallel}"
        old = "data.loader.pipeline=sequential"
        for name, ranks, *words in (("good", None, all_of_it), ("good", 3, all_of_it, old), ("good", None, all_of_it, old, "data.loader.cache=ram"),
                                    ("good", None, all_of_it, old, "data.loader.cache=device"), ("records", 2, old)):
            with self.subTest(name=name, ranks=ranks, words=words):
                other, ended = self.train(name, *words, ranks=ranks)
                self.assertEqual(other.hash(), self.plain(name)[0].hash())
                self.assertEqual(other.result_rows(), self.plain(name)[0].result_rows())
                self.assertEqual("loader sequential" in ended.err, old in words)

    def test_masks_of_nothing_are_told_by_one_that_can_be_decoded(self):
        cells = self.sample("cells", 10)
        masks = sorted(cells.glob("*masks*/*"))
        self.assertTrue(masks)
        for mask in masks:
            mask.write_bytes(b"P5 160 128 255\n" + bytes([7]) * (160 * 128))
        self.write_config("void", {"model": {"name": "unet", "base_width": 2}, "data": {
            "format": "image_mask", "root": "cells", "image": {"size": [64, 64]}, "split": {"valid": 0.2}}})
        words = ("--config", "void.yaml", "--run-dir", "void", REPLACE)
        self.fails(self.call(*words), 65, "no training mask holds any class", "has the pixel values 7")
        for mask in masks[:6]:
            mask.write_bytes(b"no mask")
        self.fails(self.call(*words), 65, "no training mask holds any class", "has the pixel values 7")
        for mask in masks:
            mask.write_bytes(b"no mask")
        self.fails(self.call(*words), 65, "no training mask can be decoded")

    def test_check_tells_the_memory_of_the_cache(self):
        json = self.good("check", "--config", "good.yaml", "--json", "data.loader.cache=ram").json()
        self.assertAlmostEqual(json["cache_mb"], COUNT * 32 * 32 * 3 * 4 / 1e6, delta=0.02)

    def test_the_records_asked_for_at_once_do_not_show(self):
        for number, ranks in ((1, None), (2, 2), (40, None)):
            other, _ = self.train("records", f"data.loader.interleave={number}", ranks=ranks)
            self.assertEqual(other.hash(), self.plain("records")[0].hash())

    def test_bench_input_tells_stages_and_pipelines(self):
        for ranks in (None, 2):
            ended = self.good("bench", "input", "--config", "good.yaml", "--limit-steps", 40, "--train-ms", 1, "--json",
                              "data.loader.prefetch=1", ranks=ranks)
            json = ended.json()
            self.assertEqual(json["ranks"], ranks or 1)
            for key in ("read_ms", "decode_ms", "transform_ms", "images_per_s", "read_mb_per_s"):
                self.assertGreater(json["stages"][key], 0, key)
            self.assertGreaterEqual(json["stages"]["batch_ms"], 0)
            for pipeline in ("sequential", "parallel", "bytes"):
                for key in ("threads", "images_per_s", "read_mb_per_s", "step_ms_median", "step_ms_p95"):
                    self.assertGreater(json[pipeline][key], 0, key)
                self.assertTrue(0 <= json[pipeline]["data_wait_share"] <= 1)
            self.assertIn("decode", ended.out)
            # With sequential each rank reads what all need; with parallel a batch or two are read before and after.
            old, new = (json[pipeline]["read_mb_per_s"] / json[pipeline]["images_per_s"] for pipeline in ("sequential", "parallel"))
            self.assertAlmostEqual(old / new / json["ranks"], 1, delta=0.2)
            passes = json["logical_ranks"] / json["ranks"]
            self.assertGreaterEqual(json["parallel"]["step_ms_median"], 1 * passes)

    def test_bench_input_can_sleep_instead_of_loading(self):
        for ranks in (1, 2):
            json = self.good("bench", "input", "--config", "good.yaml", "--limit-steps", 5, "--load-ms", 30, "--train-ms", 20,
                             "data.loader.threads=1", f"distributed.logical_ranks={ranks}", "--json", ranks=ranks).json()
            self.assertIsNone(json["stages"])
            self.assertIsNone(json["bytes"])
            self.assertEqual((json["load_ms"], json["train_ms"]), (30, 20))
            self.assertGreaterEqual(json["sequential"]["step_ms_median"], 30 * ranks + 20)
            self.assertGreaterEqual(json["parallel"]["step_ms_median"], 20)
            self.assertLess(json["parallel"]["step_ms_median"], json["sequential"]["step_ms_median"])
            self.assertEqual(json["parallel"]["read_mb_per_s"], 0)

    def test_bench_input_teaches(self):
        out = self.good("bench", "input", "--help").out
        for word in ("--load-ms", "--train-ms", "sequential", "Examples"):
            self.assertIn(word, out)
        self.fails(self.call("bench", "input"), 64, "--config")
        self.fails(self.call("bench", "input", "--config", "good.yaml", "--load-ms", "-1"), 64, "--load-ms")


if __name__ == "__main__":
    program.main(at_once=3)
