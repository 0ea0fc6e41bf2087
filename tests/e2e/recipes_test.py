"""Recipes that people compare with: each has one result for any number of processes, and over a stop."""

import program

CHIPS = {
    "seed": 11,
    "epochs": 2,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 3},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"format": "image_folder", "root": "chips", "split": {"valid": 0.2, "stratify": True}, "image": {"size": [32, 32]}},
}
CELLS = {
    "seed": 11,
    "epochs": 2,
    "model": {"name": "unet", "base_width": 2, "levels": 3},
    "loss": {"name": "bce_dice", "deep_supervision": True},
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 3},
    "optimizer": {"name": "adam", "learning_rate": 0.01},
    "data": {"format": "image_mask", "root": "cells", "split": {"valid": 0.2}, "image": {"size": [32, 32]}},
}


class Recipes(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 40)
        cls.sample("cells", 16)
        cls.write_config("cells", CELLS)
        cls.write_config("chips", CHIPS)
        rare = sorted(path for path in (cls.folder / "chips").iterdir() if path.is_dir())[0]
        for path in sorted(rare.iterdir())[4:]:
            path.unlink()

    def same_on_any_number_of_processes(self, config, name, words, ranks=(1, 2, 3)):
        """Trains on each number of processes, and once with a stop in the first epoch; returns the first one's end."""
        ended = [self.good("--config", f"{config}.yaml", "--run-dir", f"{name}-{count}", *words, ranks=count, timeout=120) for count in ranks]
        hashes = {self.run_at(f"{name}-{count}").hash() for count in ranks}
        stopped = ("--config", f"{config}.yaml", "--run-dir", f"{name}-stopped", *words)
        self.good(*stopped, "--limit-steps", 3, ranks=2)
        self.good(*stopped, timeout=120)
        hashes.add(self.run_at(f"{name}-stopped").hash())
        self.assertEqual(len(hashes), 1, hashes)
        return ended[0]

    def test_balanced_sampling_with_augmentation(self):
        words = ("data.sampling=balanced", "data.augment={rotate: 20, hflip: 0.5}")
        ended = self.same_on_any_number_of_processes("chips", "balanced", words)
        self.assertRegex(ended.out + ended.err, r"sampling balanced: each epoch draws \d+ or one more from each of \d+ groups of equal labels")
        cached = ("data.sampling=balanced", "data.augment={hflip: 0.5}")
        self.good("--config", "chips.yaml", "--run-dir", "plain", *cached)
        self.good("--config", "chips.yaml", "--run-dir", "kept", *cached, "data.loader.cache=device", ranks=3)
        self.assertEqual(self.run_at("plain").hash(), self.run_at("kept").hash())
        checked = self.good("check", "--config", "chips.yaml", *words)
        self.assertIn("sampling balanced: each epoch draws", checked.out)
        self.assertNotIn("weighs them again", checked.out)
        late = ("optimizer.groups=[{match: '0.*', freeze: true}]", "optimizer.freeze_until=4000 steps")
        checked = self.good("check", "--config", "chips.yaml", "--output", "twice.json", *words, "loss.class_weight=balanced", *late)
        self.assertIn("leave out one of data.sampling and loss.class_weight", checked.out)
        self.assertIn("frozen groups never train", checked.out)

    def test_deep_supervision(self):
        self.same_on_any_number_of_processes("cells", "deep", ())
        best = self.folder / "deep-1/best.safetensors"
        header = program.checkpoint_header(best)
        self.assertIn("deep.0.weight", header)
        self.good("--config", "cells.yaml", "--run-dir", "shallow", "loss.deep_supervision=false")
        self.assertNotEqual(self.run_at("shallow").hash(), self.run_at("deep-1").hash())
        self.good("eval", "--checkpoint", best, "--output", "judged")
        self.good("predict", "--checkpoint", best, "--input", "cells/images", "--output", "masks")
        self.assertEqual(len(list((self.folder / "masks/masks").rglob("*.png"))), 16)
        checked = self.good("check", "--config", "cells.yaml")
        self.assertIn("deep.0", checked.out)
        self.fails(self.call("--config", "cells.yaml", "model.levels=2"), 78, "loss.deep_supervision has no effect")


if __name__ == "__main__":
    program.main(at_once=3)
