"""Which rule for the learning rate suits more ranks: short runs, a page, and a file that a training takes."""

import csv

import program

CONFIG = {
    "name": "rates", "seed": 3, "epochs": 40,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "optimizer": {"name": "sgd", "learning_rate": 0.02, "momentum": 0.9},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 3}, "image": {"size": [16, 16]}, "split": {"valid": 20 / 60}},
}


class Advise(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("rates", CONFIG)

    def table(self, name):
        with open(self.folder / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_short_runs_end_in_a_rule_that_a_training_takes(self):
        words = ("sweep", "--config", "rates.yaml", "--advise", "--ranks", "2", "--repeat", "1", "epochs=6", "--output", "advice")
        listed = self.good(*words, "--dry-run")
        self.assertEqual(len(listed.out.splitlines()), 1 + 8)
        self.assertFalse((self.folder / "advice").exists())
        ended = self.good(*words, timeout=180)
        rows = self.table("advice/points.csv")
        self.assertEqual([(row["ranks"], row["state"], row["epochs_done"]) for row in rows], [("1", "done", "6")] + [("2", "done", "6")] * 7)
        lowest = {}
        for row in rows[1:]:
            rule = row["schedule.scale_with_ranks"], row["schedule.warmup"]
            lowest[rule] = min(float(epoch["valid_loss"]) for epoch in self.table(f"{row['run_dir']}/epochs.csv"))
            self.assertEqual(self.run_at(row["run_dir"]).facts()["logical_ranks"], 2)
        scale, warmup = min(lowest, key=lowest.get)
        self.assertIn(f"For V = 2 set schedule.scale_with_ranks: {scale} and schedule.warmup: {warmup}.", ended.out)
        self.assertIn("the remaining 34 epochs of 40", ended.out)
        self.assertIn("advice/advice.yaml", ended.err)
        shown = self.good("--config", "rates.yaml", "--config", "advice/advice.yaml", "--print-config")
        self.assertIn(f"scale_with_ranks: {scale}", shown.out)
        self.assertIn("logical_ranks: 2", shown.out)
        page = (self.folder / "advice/report.html").read_text()
        self.assertIn(">Advice<", page)
        self.assertIn(f"scale_with_ranks: {scale} and", page)
        self.assertIn('advise: {"epochs":6,"of_epochs":40,"present":["linear","none"],"seeds":1}\n', (self.folder / "advice/study.yaml").read_text())
        again = self.good(*words)
        self.assertIn("8 done, 0 to run", again.err)
        self.assertEqual(self.table("advice/points.csv"), rows)
        self.assertIn("For V = 2 set", self.good("report", "advice", "--text").out)

    def test_what_cannot_be_advised_is_refused(self):
        common = ("sweep", "--config", "rates.yaml", "--advise")
        for words, code, told in ((common, 64, "needs a number of ranks above 1"),
                                  ((*common, "--ranks", "1"), 64, "needs a number of ranks above 1"),
                                  ((*common, "--ranks", "2,4"), 64, "one number of ranks"),
                                  ((*common, "--ranks", "2", "--over", "epochs=1,2"), 64, "--over does not go with --advise"),
                                  ((*common, "--ranks", "2", "--folds", "2"), 64, "--folds does not go with --advise"),
                                  ((*common, "--ranks", "2", "batch.per_rank=null", "batch.global=8"), 78, "--advise is for batch.per_rank")):
            with self.subTest(words):
                self.fails(self.call(*words, "--output", "refused"), code, told)
        self.assertFalse((self.folder / "refused").exists())
        self.fails(self.call(*common, "--ranks", "2", "--repeat", "1", "epochs=1", "optimizer.learning_rate=1e30", "--output", "lost", timeout=120),
                   79, "8 of 8 points failed")


if __name__ == "__main__":
    program.main(at_once=2)
