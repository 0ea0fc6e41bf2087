"""dtrain report: runs, studies and tables of other tools, as a page, a table and sentences."""

import csv
import shutil

import program

SMALL = {
    "name": "small", "seed": 3, "epochs": 3,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 3}, "image": {"size": [16, 16]}, "split": {"valid": 20 / 60}},
}
MAP = r"""columns: {time_per_epoch: epoch_seconds, loss: train_loss, iou: valid_iou, training_time: elapsed_s}
ranks: 'log_hvd_(\d+)\.csv'
series: Horovod
epochs: 2
"""


class Report(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)
        cls.logs = cls.write_logs()
        cls.swept = cls.good("sweep", "--config", "small.yaml", "--ranks", "1,2", "--repeat", 2, "--output", "study", timeout=120)

    def table(self, name):
        with open(self.folder / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def page(self, name):
        text = (self.folder / name).read_text()
        self.assertIn('<meta name="generator" content="dtrain report"/>', text)
        self.assertNotIn("<script", text)
        return text

    @classmethod
    def write_logs(cls):
        """Tables as another tool writes them: the first epoch is long, the final metric and the whole time are in every row."""
        (cls.folder / "logs").mkdir()
        (cls.folder / "hvd.yaml").write_text(MAP)
        for ranks, seconds, total, iou in ((1, (66, 37.44, 38), 150, 0.965), (2, (58, 19.10, 19.2), 100, 0.968), (14, (43, 2.78, 2.8), 50, 0.888)):
            lines = [",time_per_epoch,loss,lr,training_time,iou"] + [f"{i},{time},0.5,0.001,{total},{iou}" for i, time in enumerate(seconds)]
            (cls.folder / f"logs/log_hvd_{ranks}.csv").write_text("\n".join(lines) + "\n")
        return [f"logs/log_hvd_{ranks}.csv" for ranks in (14, 1, 2)]

    def test_a_sweep_ends_with_the_report_that_the_command_writes_too(self):
        self.assertIn("study/report.html", self.swept.err)
        table = (self.folder / "study/scaling.csv").read_text()
        self.assertIn("small", self.page("study/report.html"))
        shutil.copytree(self.folder / "study", self.folder / "moved")
        (self.folder / "moved/report.html").unlink()
        ended = self.good("report", "moved/")
        self.assertIn("written: moved/report.html, moved/scaling.csv; next: open the page in a browser", ended.err)
        self.assertEqual((self.folder / "moved/scaling.csv").read_text(), table)
        self.page("moved/report.html")
        self.good("report", "moved")  # a later one takes the place of an earlier one
        said = self.good("report", "study", "--text")
        self.assertIn("small, valid_auroc", said.out)
        self.assertIn("2 ranks", said.out)

    def test_runs_started_by_hand_become_a_series_by_their_configurations(self):
        runs = [row["run_dir"] for row in self.table("study/points.csv") if row["seed"] == "3"]
        self.fails(self.call("report", *runs), 64, "name one with --output DIR")
        self.good("report", *runs, "--output", "by_hand")
        rows = self.table("by_hand/scaling.csv")
        self.assertEqual([(row["ranks"], row["runs"]) for row in rows], [("1", "1"), ("2", "1")])
        for run in runs:  # of one name
            self.assertIn(run, self.page("by_hand/report.html"))
        before = sorted(path.name for path in (self.folder / runs[0]).iterdir())
        self.assertIn("The best valid_auroc is", self.good("report", runs[0], "--text").out)
        self.assertEqual(sorted(path.name for path in (self.folder / runs[0]).iterdir()), before)
        # A run that goes on: the last row is being written.
        shutil.copytree(self.folder / runs[0], self.folder / "going")
        (self.folder / "going/DONE").unlink()
        with open(self.folder / "going/epochs.csv", "a", encoding="utf-8") as file:
            file.write("4,10,4")
        ended = self.good("report", "going")
        self.assertIn("torn line", ended.err)
        self.page("going/report.html")
        self.good("report", runs[1])
        self.good("verify", runs[1])

    def test_tables_of_another_tool_lie_beside_a_study(self):
        self.good("report", "study", "--map", "hvd.yaml", *self.logs, "--output", "both")
        rows = {(row["series"], row["ranks"]): row for row in self.table("both/scaling.csv")}
        self.assertEqual(set(rows), {("small", "1"), ("small", "2"), ("Horovod", "1"), ("Horovod", "2"), ("Horovod", "14")})
        last = rows["Horovod", "14"]
        self.assertEqual((f"{float(last['speedup']):.2f}", f"{float(last['efficiency']):.2f}", last["metric"], last["time_to_train_s"]),
                         ("13.47", "0.96", "0.888", "50"))
        said = self.good("report", "--map", "hvd.yaml", *self.logs, "--text").out
        self.assertTrue(said.startswith("3 runs\n"), said)
        self.assertIn("From start to end the speed-up on 14 ranks is 3.00 instead of 13.47", said)

    def test_what_cannot_be_reported_is_refused_in_one_sentence(self):
        (self.folder / "bad.yaml").write_text("columns: {time: epoch_secs}\nrank: 'a'\nranks: 'a(b'\n")
        ended = self.call("report", "--map", "bad.yaml", *self.logs, "--text")
        self.assertEqual(ended.code, 78, ended)
        for words in ("bad.yaml:1:17: 'epoch_secs' is no column", "bad.yaml:2:1: unknown key 'rank' (did you mean 'ranks'?)",
                      "bad.yaml:3:8: ranks: 'a(b' is not a regular expression"):
            self.assertIn(words, ended.err)
        (self.folder / "empty").mkdir()
        (self.folder / "taken").mkdir()
        (self.folder / "taken/report.html").write_text("mine")
        for code, words, says in ((66, ["nothing"], "nothing does not exist"), (65, ["empty"], "neither a run's folder nor a study's"),
                                  (65, ["study/runs"], "such as study/runs/*"),
                                  (64, ["study", "study/"], "study is given twice"), (64, self.logs, "need --map"), (64, [], "needs what to report"),
                                  (64, ["study", "--map", "hvd.yaml"], "no such file is given"),
                                  (64, ["study", "--output", "taken"], "was not written by dtrain report"),
                                  (64, ["study", "--text", "--output", "x"], "--text writes nothing"),
                                  (66, ["--map", "none.yaml", *self.logs, "--text"], "none.yaml")):
            self.fails(self.call("report", *words), code, says)
        self.assertEqual((self.folder / "taken/report.html").read_text(), "mine")
        self.assertFalse((self.folder / "taken/scaling.csv").exists())


if __name__ == "__main__":
    program.main()
