"""A run folder belongs to one job from its start to its end: what is not a run's is never overwritten, links are not
followed, and if a folder is taken away while in use, nothing is lost unreported."""

import json
import os
import pathlib
import shutil

import program

SMALL = {
    "seed": 5,
    "epochs": 2,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "data": {"image": {"size": [32, 32]}, "split": {"valid": 0.25}},
}
LONG = ("epochs=1000000", "checkpoint.every=1 step", "--progress", "none")


class RunFolder(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL, {"data": {"format": "synthetic", "synthetic": {"samples": 24, "classes": 3}}})
        cls.good("--config", "small.yaml", "--run-dir", "whole")

    def train(self, folder, *words):
        return self.call("--config", "small.yaml", "--run-dir", folder, "--progress", "none", *words)

    def copy(self, name):
        shutil.copytree(self.folder / "whole", self.folder / name)
        return self.folder / name

    def content(self, folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}

    def test_a_folder_of_somebody_else_is_neither_written_nor_moved(self):
        foreign = self.folder / "proj"
        foreign.mkdir()
        (foreign / "config.yaml").write_text("mine: 1\n")
        (foreign / "log.txt").write_text("mine\n")
        before = self.content(foreign)
        for words in (("proj",), ("proj/", "--resume", "never"), ("proj/.", "--dry-run")):
            self.fails(self.train(*words), 78, "proj holds config.yaml and 1 other", "--run-dir")
        ended = program.Started(("--config", "../small.yaml", "--run-dir", ".", "--resume", "never"), cwd=foreign).wait(60)
        self.fails(ended, 78, "proj holds config.yaml")
        self.assertEqual(self.content(foreign), before)
        self.assertFalse((self.folder / "proj.1").exists())

    def test_resume_never_moves_a_run_aside_whatever_way_its_folder_is_written(self):
        run = self.copy("again")
        self.assertEqual(self.train("again/", "--resume", "never").code, 0)
        self.assertTrue((self.folder / "again.1/DONE").exists())
        ended = program.Started(("--config", "../small.yaml", "--run-dir", ".", "--resume", "never", "--progress", "none"), cwd=run).wait(60)
        self.assertEqual(ended.code, 0, ended)
        self.assertTrue((self.folder / "again.2/DONE").exists())
        self.assertTrue((run / "DONE").exists())

    def test_links_and_pipes_in_the_place_of_a_runs_files_are_refused_by_name(self):
        target = self.folder / "victim"
        target.mkdir()
        (target / ".bashrc").write_text("mine\n")
        (target / "rank-0000.json").write_text("mine\n")
        run = self.copy("linked")
        shutil.rmtree(run / "checkpoints")
        (run / "DONE").unlink()
        # tests/unit/runlog tries every name, with the function that both commands call.
        for name, to in (("log.txt", target / ".bashrc"), ("metrics.jsonl", target / "new"), ("checkpoints", target)):
            with self.subTest(name):
                path = run / name
                kept = path.read_bytes() if path.exists() else None
                path.unlink(missing_ok=True)
                path.symlink_to(to)
                self.fails(self.train("linked"), 78, f"linked/{name} is a symbolic link")
                self.fails(self.call("verify", "linked"), 65, f"linked/{name} is a symbolic link")
                path.unlink()
                if kept is not None:
                    path.write_bytes(kept)
        (run / "epochs.csv").unlink()
        os.mkfifo(run / "epochs.csv")
        self.fails(self.train("linked"), 78, "linked/epochs.csv is a pipe")
        self.assertEqual(sorted(path.name for path in target.iterdir()), [".bashrc", "rank-0000.json"])
        self.assertEqual((target / ".bashrc").read_text(), "mine\n")

    def taken(self, name, take):
        """A run whose folder is taken away in the middle; how it ended."""
        job = self.start("--config", "small.yaml", "--run-dir", name, *LONG)
        run = self.run_at(name)
        try:
            program.wait_until(lambda: run.checkpoints() or job.process.poll() is not None, 60, "a checkpoint")
            take(self.folder / name)
            ended = job.wait(60)
        finally:
            job.kill()
        self.fails(ended, 74, f"the run folder {name} ", "while it was in use", f"is saved in {name}.rescued", f"--run-dir {name}.rescued")
        rescued = self.run_at(f"{name}.rescued")
        saved = rescued.events("step")[-1]["step"]
        self.assertIn(f"step {saved} is saved", ended.errors[0])
        self.good("verify", rescued.folder.name)
        self.good("--config", "small.yaml", "--run-dir", rescued.folder.name, *LONG, "--limit-steps", 1)
        self.assertEqual([event["step"] for event in rescued.events("step")], list(range(1, saved + 2)))
        return ended

    def test_a_folder_that_is_removed_ends_the_run_with_74_and_what_is_in_memory_beside_it(self):
        def remove(path):
            while path.exists():  # the run may still be writing
                shutil.rmtree(path, ignore_errors=True)
        self.taken("removed", remove)
        self.assertFalse((self.folder / "removed").exists())

    def test_a_folder_that_is_moved_is_told_with_its_new_name(self):
        ended = self.taken("moved", lambda path: path.rename(self.folder / "elsewhere"))
        self.assertIn(f"was moved to {self.folder}/elsewhere", ended.errors[0])
        self.assertFalse((self.folder / "moved").exists())
        self.good("verify", "elsewhere")

    def test_a_link_in_the_folders_place_is_not_written_through(self):
        other = self.folder / "other"
        other.mkdir()

        def take(path):
            path.rename(self.folder / "away")
            path.symlink_to(other)
        self.taken("replaced", take)
        self.assertEqual(list(other.iterdir()), [])

    def test_a_second_job_under_the_name_of_a_moved_folder_has_it_for_itself(self):
        second = []

        def take(path):
            path.rename(self.folder / "first")
            second.append(self.start("--config", "small.yaml", "--run-dir", path.name, "--progress", "none"))
        self.taken("entered", take)
        self.assertEqual(second[0].wait(60).code, 0)
        self.good("verify", "entered")
        self.assertEqual(self.run_at("entered").hash(), self.run_at("whole").hash())
        self.assertEqual(len(self.run_at("entered").events("start")), 1)

    def test_verify_asks_for_every_row_and_every_file_of_a_finished_run(self):
        def without_first_row(run):
            lines = (run / "epochs.csv").read_text().splitlines(True)
            (run / "epochs.csv").write_text("".join(lines[:1] + lines[2:]))

        def without_last_row(run):
            lines = (run / "epochs.csv").read_text().splitlines(True)
            (run / "epochs.csv").write_text("".join(lines[:-1]))

        def without_a_step(run):
            lines = (run / "metrics.jsonl").read_text().splitlines(True)
            (run / "metrics.jsonl").write_text("".join(line for line in lines if '"step":3,' not in line))

        def with_one_row_more(run):
            with open(run / "epochs.csv", "a", encoding="utf-8") as file:
                file.write("3" + (run / "epochs.csv").read_text().splitlines()[-1][1:] + "\n")

        def without(*names):
            return {f"/{name} is missing": lambda run, name=name: (run / name).unlink() for name in names}

        # Differences of one group are found in one folder.
        for number, damages in enumerate((
            {"epochs.csv ends with epoch 3, but the run has finished 2": with_one_row_more, "step 4 follows step 2": without_a_step},
            {"epochs.csv, line 2: epoch 2 follows where epoch 1": without_first_row},
            {"epochs.csv ends with epoch 1, but the run has finished 2": without_last_row, **without("run.json", "log.txt")},
            without("config.yaml", "epochs.csv", "metrics.jsonl", "best.safetensors"),
            {"holds no valid checkpoint": lambda run: shutil.rmtree(run / "checkpoints")},
        )):
            run = self.copy(f"part{number}")
            for damage in damages.values():
                damage(run)
            ended = self.call("verify", run.name)
            self.assertEqual(ended.code, 65, ended)
            for words in damages:
                with self.subTest(words):
                    self.assertIn(words, ended.err)

    def test_a_resume_keeps_the_best_weights_of_the_run(self):
        self.assertEqual(self.train("halves", "--limit-steps", "12").code, 0)
        self.assertTrue((self.folder / "halves/best.safetensors").exists())
        ended = self.train("halves")
        self.assertEqual((ended.code, "set aside" in ended.err), (0, False), ended)
        self.assertEqual((self.folder / "halves/best.safetensors").read_bytes(), (self.folder / "whole/best.safetensors").read_bytes())

    def test_verify_knows_the_later_of_two_checkpoints_of_one_step(self):
        self.assertEqual(self.train("each", "checkpoint.every=1 step").code, 0)
        steps = [path.name.rpartition("-")[2] for path in self.run_at("each").checkpoints()]
        self.assertLess(len(set(steps)), len(steps), "no two of one step")
        self.good("verify", "each")

    def test_the_lock_is_its_owners_alone(self):
        self.assertEqual((self.folder / "whole/.lock").stat().st_mode & 0o777, 0o600)

    def test_reports_timelines_and_sheets_replace_their_own_kind_alone(self):
        self.sample("chips", 12)
        self.write_config("chips", SMALL, {"data": {"format": "image_folder", "root": "chips"}})
        foreign = self.folder / "notes.json"
        foreign.write_text('{"mine": 1}\n')
        pathlib.Path(self.folder / "link.json").symlink_to("nothing")
        check = ("check", "--config", "chips.yaml", "--quick")
        train = ("--config", "small.yaml", "--run-dir", "traced", "--limit-steps", "1", "--resume", "never")
        for ended in (self.call(*check, "--output", "notes.json"), self.call(*check, "--preview", "notes.json"),
                      self.call(*train, "--trace", "notes.json")):
            self.fails(ended, 78, "notes.json exists and is not a ")
        self.fails(self.call(*check, "--output", "link.json"), 78, "link.json is not a regular file")
        self.assertEqual(foreign.read_text(), '{"mine": 1}\n')
        (self.folder / "judged").mkdir()
        (self.folder / "judged/predictions_valid.csv").write_text("my,own\n")
        judge = ("eval", "--config", "whole/config.yaml", "--checkpoint", "whole/best.safetensors", "--output", "judged")
        self.fails(self.call(*judge), 78, "predictions_valid.csv exists and is not a table of predictions")
        (self.folder / "judged/predictions_valid.csv").unlink()
        for _ in range(2):  # files of their own kind are replaced
            self.good(*judge)
            self.good(*check, "--output", "report.json", "--preview", "sheet.png")
            self.good(*train, "--trace", "timeline.json")
        self.assertEqual(json.loads((self.folder / "report.json").read_text())["report"], "dtrain-check-1")


if __name__ == "__main__":
    program.main(at_once=3)
