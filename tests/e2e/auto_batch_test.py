"""batch.per_rank: auto is found once, in processes that may die, and kept as a number."""

import math
import re

import program

LIMIT = 420_000_000  # bytes
SMALL = {
    "seed": 5, "epochs": 1, "model": {"name": "small_cnn"}, "task": "multiclass", "batch": {"per_rank": "auto"},
    "optimizer": {"name": "sgd"}, "distributed": {"logical_ranks": 2},
    "data": {"format": "synthetic", "synthetic": {"samples": 240, "classes": 2}, "image": {"size": [96, 96]}, "split": {"valid": 0.1}},
}
PASTE = re.compile(r"^batch\.per_rank: (\d+)$", re.M)


class AutoBatch(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("auto", SMALL)

    def stored(self, run):
        return int(re.search(r"^ *per_rank: (\d+)", (self.run_at(run).folder / "config.yaml").read_text(), re.M)[1])

    def test_what_is_found_trains_and_goes_on_with_any_number_of_processes_and_much_more_does_not_fit(self):
        with program.limited_memory(LIMIT) as limited:
            words = ("auto.yaml", "--run-dir", "found", "--limit-steps", "1")
            first = self.good(*words, through=limited)
            found = int(PASTE.search(first.err)[1])
            self.assertIn("the process can have 4", first.err)
            self.assertIn("MB of the control group /dtrain-test", first.err)
            self.assertRegex(first.err, r"batch\.per_rank: auto: trying \d+ …")
            self.assertEqual(self.stored("found"), found)
            on_two = self.good("auto.yaml", "--run-dir", "found", ranks=2)
            self.assertNotIn("auto", on_two.err)
            self.assertTrue(self.run_at("found").done())
            self.assertIn("is finished with this configuration", self.good("auto.yaml", "--run-dir", "found").err)
            pasted = self.good("auto.yaml", "--run-dir", "pasted", f"batch.per_rank={found}", through=limited)
            self.assertNotIn("auto", pasted.err)
            self.assertEqual(self.run_at("pasted").hash(), self.run_at("found").hash())
            larger = self.call("auto.yaml", "--run-dir", "larger", f"batch.per_rank={math.ceil(1.7 * found)}", through=limited)
            self.assertIn(larger.code, (71, -9), larger)  # a message, or the kernel's way
            self.assertFalse(self.run_at("larger").done())
        differs = self.call("auto.yaml", "--run-dir", "found", f"batch.per_rank={found + 1}", "epochs=2")
        self.fails(differs, 78, "belongs to another configuration")
        self.assertIn(f"batch.per_rank was {found} and is now {found + 1}", differs.err)

    def test_two_processes_share_the_memory(self):
        with program.limited_memory(LIMIT) as limited:
            said = self.good("auto.yaml", "--dry-run", ranks=2, through=limited).err
        self.assertIn("each of 2 processes can have 2", said)
        self.assertIn("dry run: one step taken", said)
        self.assertIn(f"batch  {PASTE.search(said)[1]} per rank x 2 logical ranks", said)

    def test_it_ends_at_the_training_part_and_leaves_nothing_behind(self):
        said = self.good("auto.yaml", "data.synthetic.samples=20", "output.dir=nothing", "--dry-run").err
        self.assertEqual(PASTE.search(said)[1], "9")
        self.assertIn("by 1 trial", said)
        self.assertIn("the training part has no more for one step", said)
        self.assertFalse((self.folder / "nothing").exists())

    def test_commands_that_do_not_train_use_the_number_or_ask_for_one(self):
        small = ("auto.yaml", "data.synthetic.samples=20", "data.image.size=[24, 24]")
        self.good(*small, "--run-dir", "done")
        self.assertEqual(self.stored("done"), 9)
        self.good("eval", "--checkpoint", "done")
        self.good("eval", "--checkpoint", "done", "--config", *small, "--output", "again")
        out = self.good("check", *small, "--json").out
        self.assertIn("batch.per_rank: auto: about 9 by the estimate of memory", out)
        for words in (("bench", "step", *small), ("bench", "input", *small), ("sweep", "--config", *small, "--ranks", "1,2", "--output", "study")):
            with self.subTest(words=words[:2]):
                self.fails(self.call(*words), 78, "batch.per_rank is auto, which a training run finds when it begins", "needs a number")

    def test_a_trial_that_fails_for_another_reason_passes_its_error_on(self):
        self.fails(self.call("auto.yaml", "--dry-run", "optimizer.learning_rate=1e30"), 79, "batch.per_rank: auto: a trial failed: ")

    def test_too_large_a_batch_is_told_with_one_that_fits(self):
        ended = self.call("auto.yaml", "batch.per_rank=2000", "data.synthetic.samples=6000", "--run-dir", "large",
                          through=program.limited("data", 1_000_000_000))
        self.fails(ended, 71, "; batch.per_rank=", " would fit by the estimate of memory, and batch.per_rank=auto finds the largest that does")


if __name__ == "__main__":
    program.main(at_once=2)
