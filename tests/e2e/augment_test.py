"""Augmentation changes the result, but one configuration still gives one result on any number of processes."""

import itertools

import program

COUNT, EPOCHS = 30, 2
EVERYTHING = {
    "hflip": 0.5, "vflip": 0.5, "rot90": 0.5, "random_crop": [0.3, 1], "random_crop_aspect": [0.8, 1.25], "rotate": 20, "scale": 0.2,
    "translate": 0.1, "elastic": 2, "elastic_grid": 4, "blur": 1, "brightness": 0.2, "contrast": 0.2, "gamma": 0.3, "noise": 0.05,
    "cutout": 0.25, "trivial_augment": True, "mixup": 0.4, "cutmix": 1,
}
COMMON = {
    "seed": 11,
    "epochs": EPOCHS,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 3},
    "distributed": {"logical_ranks": 3},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"split": {"valid": 0.2, "stratify": True}, "augment": EVERYTHING},
}
KINDS = {
    "chips": {"data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}}},
    "xray": {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv",
                      "image": {"size": [32, 32], "resize": "crop"}}},
    "cells": {"model": {"name": "unet", "base_width": 2},
              "data": {"format": "image_mask", "root": "cells",
                       "image": {"size": [64, 64], "resize": "pad"}}},
}
# The value with which each key does nothing.
OFF = {"random_crop": "none", "random_crop_aspect": "[0.1, 0.11]", "elastic_grid": "2", "trivial_augment": "false"}


class Augmentation(program.ProgramTest):
    runs = itertools.count(1)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kind, part in KINDS.items():
            cls.sample(kind, COUNT)
            cls.write_config(kind, COMMON, part)

    def train(self, name, *words, ranks=None):
        folder = f"{name}-{next(self.runs)}"
        self.good("--config", f"{name}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=120)
        return self.run_at(folder)

    def plain(self, name):
        """The run without further words by one process; made once."""
        return self.once(name, lambda: self.train(name))

    def test_with_everything_on_the_result_is_the_same_on_any_number_of_processes(self):
        threads = ("data.loader.threads=3", "data.loader.prefetch=5")
        for name, ranks, words in (("chips", 3, threads), ("xray", 2, ()), ("cells", 3, threads)):
            with self.subTest(name=name, ranks=ranks):
                more = self.train(name, *words, ranks=ranks)
                self.assertEqual(more.hash(), self.plain(name).hash())
                self.assertEqual(more.result_rows(), self.plain(name).result_rows())

    def test_each_key_does_something(self):
        """The first step's pictures differ where any of the keys is off."""
        words = {"none": []}
        for key in EVERYTHING:
            words[key] = [f"data.augment.{key}={OFF.get(key, '0')}"]
        words["random_crop"].append("data.augment.random_crop_aspect=")
        words["elastic"].append("data.augment.elastic_grid=")
        hashes = {key: self.train("chips", "--limit-steps", 1, *off).hash() for key, off in words.items()}
        self.assertEqual(len(set(hashes.values())), 1 + len(EVERYTHING), hashes)

    def test_evaluation_sees_the_pictures_as_they_are(self):
        best = self.plain("chips").folder / "best.safetensors"
        words = ("eval", "--config", "chips.yaml", "--checkpoint", best, "--json")
        self.good(*words, "--output", "judged")
        self.write_config("other", COMMON, KINDS["chips"], {"data": {"augment": {**EVERYTHING, "noise": 0.9, "rotate": 0, "mixup": 0}}})
        self.good(*words, "--config", "other.yaml", "--output", "again")
        self.fails(self.call(*words, "data.augment.noise=0.9"), 78, "data.augment.noise has no effect on dtrain eval")
        self.assertEqual((self.folder / "judged/predictions_valid.csv").read_text(), (self.folder / "again/predictions_valid.csv").read_text())

    def test_mixing_goes_with_a_cache_and_the_rest_is_refused(self):
        moved = {key: 0.5 for key in ("hflip", "vflip", "rot90")}
        self.write_config("kept", COMMON, KINDS["chips"])
        path = self.folder / "kept.yaml"
        config = program.json.loads(path.read_text())
        config["data"]["augment"] = {**moved, "mixup": 0.4, "cutmix": 1}
        path.write_text(program.json.dumps(config))
        plain = self.train("kept")
        self.assertEqual(self.train("kept", "data.loader.cache=device", ranks=2).hash(), plain.hash())
        others = {"random_crop": "[0.5, 1]", "rotate": 5, "scale": 0.1, "translate": 0.1, "elastic": 2, "blur": 1, "brightness": 0.1,
                  "contrast": 0.1, "gamma": 0.1, "noise": 0.1, "cutout": 0.1, "trivial_augment": "true"}
        ended = self.call("--config", "kept.yaml", "data.loader.cache=device", *(f"data.augment.{key}={v}" for key, v in others.items()))
        self.assertEqual(ended.code, 78, ended)
        for key in others:  # each of them is reported, in its own line
            self.assertEqual(sum(line.endswith(f"where data.augment.{key} is applied; leave one of the two out") and "data.loader.cache" in line
                                 for line in ended.err.splitlines()), 1, (key, ended.err))

    def test_values_out_of_bounds_are_refused(self):
        # In one call, those that do not hide each other: a value is only compared with others if it is valid itself.
        for lines in (
            {"rotate=181": ("data.augment.rotate", "[0, 180]", "181"), "scale=1": ("data.augment.scale", "[0, 1)"),
             "random_crop=0.5": ("data.augment.random_crop", "a list of two", "(0, 1]"), "elastic=0": ("data.augment.elastic_grid has no effect",),
             "cutout=1": ("data.augment.cutout", "[0, 1)"), "noise=2": ("data.augment.noise", "[0, 1]"), "mixup=-1": ("data.augment.mixup",),
             "gamm=1": ("data.augment.gamm", "'gamma'")},
            {"rotate=-5": ("data.augment.rotate",), "random_crop=[0.5, 1.5]": ("data.augment.random_crop", "(0, 1]"),
             "elastic_grid=1": ("data.augment.elastic_grid",)},
            {"random_crop=[0.9, 0.2]": ("data.augment.random_crop", "low less than high")},
            {"random_crop=none": ("data.augment.random_crop_aspect has no effect",)},
        ):
            ended = self.call("--config", "chips.yaml", *(f"data.augment.{word}" for word in lines))
            self.assertEqual(ended.code, 78, ended)
            for word, expected in lines.items():
                with self.subTest(word):
                    self.assertEqual(sum(all(part in line for part in expected) for line in ended.err.splitlines()), 1, ended)
        self.fails(self.call("--config", "chips.yaml", "batch.per_rank=1", "data.augment.cutmix=0"), 78, "data.augment.mixup", "batch.per_rank is 1")
        for command, batch in (((), "{per_rank: , global: 3}"), (("check",), "{per_rank: , global: 5}"),
                               (("check",), "{per_rank: , global: 6, accumulate: 2}")):
            self.fails(self.call(*command, "--config", "chips.yaml", f"batch={batch}", "data.augment.mixup=0"), 78,
                       "data.augment.cutmix mixes the pictures of one batch", "3 logical ranks")


if __name__ == "__main__":
    program.main(at_once=3)
