"""data.loader.cache changes what is read, never a result."""

import itertools
import signal

import program

COUNT, EPOCHS = 20, 2
MEMORY = 4 << 30  # bytes that a process may have in tests of too little memory
COMMON = {
    "seed": 4,
    "epochs": EPOCHS,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 3},
    "distributed": {"logical_ranks": 3},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"split": {"valid": 0.2, "stratify": True}, "augment": {"hflip": 0.5, "vflip": 0.5, "rot90": 0.5}},
}
# As they are, by a window, and resized; grey; with masks, smaller than the canvas, by a window.
KINDS = {
    "whole": {"data": {"format": "image_folder", "root": "chips", "image": {"size": [128, 128]}}},
    "window": {"data": {"format": "image_folder", "root": "chips", "image": {"size": [128, 128], "window": [48, 40]},
                        "augment": {"random_window": True, "rot90": 0}}},
    "resized": {"data": {"format": "image_folder", "root": "chips", "image": {"size": [48, 48]}}},
    "grey": {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv", "image": {"size": [32, 32]}}},
    "masks": {"model": {"name": "unet", "base_width": 2},
              "data": {"format": "image_mask", "root": "cells",
                       "image": {"size": [160, 160], "resize": "pad", "window": [48, 48]},
                       "augment": {"random_window": True}}},
}


class Cache(program.ProgramTest):
    runs = itertools.count(1)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kind in ("chips", "xray", "cells"):
            cls.sample(kind, COUNT)
        for name, part in KINDS.items():
            cls.write_config(name, COMMON, part)

    def train(self, name, *words, ranks=None, folder=None):
        """Runs in its own folder."""
        folder = folder or f"{name}-{next(self.runs)}"
        ended = self.good("--config", f"{name}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=120)
        return self.run_at(folder), ended

    def test_the_result_is_the_same_with_a_cache_and_without(self):
        for name in KINDS:
            plain, _ = self.train(name)
            for ranks in {"window": (2,), "masks": (3,)}.get(name, (None,)):
                with self.subTest(name=name, ranks=ranks):
                    cached, ended = self.train(name, "data.loader.cache=device", ranks=ranks)
                    self.assertEqual(cached.hash(), plain.hash())
                    self.assertEqual(cached.result_rows(), plain.result_rows())
                    self.assertEqual(cached.facts()["fingerprint"], plain.facts()["fingerprint"])
                    self.assertRegex(ended.err, r"cache  up to \d+ MB for \d+ pictures of \d+ x \d+ x [13] (bytes|floats)")
                    if ranks is None:  # one process reads every picture once
                        read = [float(row["read_mb_per_s"]) for row in cached.rows()]
                        self.assertGreater(read[0], 0)
                        self.assertEqual(read[1:], [0] * (EPOCHS - 1))

    def test_pictures_may_go_once_they_have_been_seen(self):
        self.sample("chips", COUNT, "passing")
        started = self.start("--config", "resized.yaml", "--run-dir", "passing-run", "data.root=passing", "epochs=1000000",
                             "data.loader.cache=device")
        run = self.run_at("passing-run")
        try:
            program.wait_until(lambda: (run.folder / "epochs.csv").exists() and run.rows(), 60, "the first epoch")
            program.shutil.rmtree(self.folder / "passing")
            epochs = len(run.rows())
            program.wait_until(lambda: len(run.rows()) >= epochs + 2, 60, "two whole epochs without pictures")
            started.send(signal.SIGUSR1)
        except BaseException:
            started.kill()
            raise
        ended = started.wait(60)
        self.assertEqual(ended.code, 75, ended)
        plain, _ = self.train("resized", "epochs=1000000", "--limit-steps", run.facts()["steps"])
        self.assertEqual(run.hash(), plain.hash())

    def test_a_cache_is_fresh_after_a_resume(self):
        self.train("resized", "epochs=1", "data.loader.cache=device", folder="longer")
        resumed, _ = self.train("resized", "data.loader.cache=device", folder="longer")
        self.assertGreater(float(resumed.rows()[1]["read_mb_per_s"]), 0)
        self.assertEqual(resumed.hash(), self.train("resized")[0].hash())

    def test_check_tells_the_memory(self):
        words = ("check", "--config", "resized.yaml", "--json", "data.loader.cache=device", "epochs=100")
        for options, ranks in (((), 1), (("--quick",), 1), (("--world-size", 3), 3)):
            json = self.good(*words, *options).json()
            # 16 training pictures in each process in the end; the validation part in batches of 3, shared out.
            valid = {1: 4, 3: 3}[ranks]
            self.assertAlmostEqual(json["cache_mb"], (16 + valid) * 48 * 48 * 3 * 4 / 1e6)
        self.assertNotIn("cache_mb", self.good(*words[:4]).json())

    def test_what_cannot_fit_is_refused_with_both_figures(self):
        self.fails(self.call("--config", "whole.yaml", "--run-dir", "huge", "data.loader.cache=device",
                             "data={format: synthetic, root: , synthetic: {samples: 10000, classes: 2}, image: {size: [1024, 1024]}}",
                             "data.split.stratify=false",
                             through=program.limited("data", MEMORY)),
                   78, "data.loader.cache", "MB for", "this process can have", "cache=none")


if __name__ == "__main__":
    program.main(at_once=3)
