"""dtrain verify checks every byte that a run has written, reports what is damaged, and changes nothing."""

import pathlib
import shutil

import program

CONFIG = {
    "epochs": 2,
    "seed": 9,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.3, "stratify": True}},
}


class Verify(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 24)
        cls.write_config("chips", CONFIG)
        cls.good("--config", "chips.yaml", "--run-dir", "whole")

    def copy(self, name):
        """A copy of the finished run, to be damaged."""
        shutil.copytree(self.folder / "whole", self.folder / name)
        return self.run_at(name)

    def test_a_whole_run_is_told_file_by_file(self):
        run = self.run_at("whole")
        before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
        ended = self.good("verify", "whole", "--json")
        self.assertIn(f"\nall {len(ended.json()['files'])} files are intact\n", ended.out)
        found = ended.json()
        self.assertEqual((found["kind"], found["ok"], found["notes"]), ("run", True, []))
        self.assertTrue(all(file["ok"] for file in found["files"]))
        names = [pathlib.Path(file["path"]).name for file in found["files"]]
        self.assertEqual(names, [path.name for path in reversed(run.checkpoints())] +
                         ["best.safetensors", "config.yaml", "run.json", "epochs.csv", "metrics.jsonl", "DONE"])
        self.assertIn("2 epochs", ended.out)
        self.assertEqual(found["files"][0]["result_sha256"], run.hash())
        self.assertEqual({path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}, before)

    def test_one_checkpoint_or_a_folder_of_them(self):
        newest = self.run_at("whole").checkpoints()[-1]
        ended = self.good("verify", newest, "--json")
        file = ended.json()["files"][0]
        tensors = [name for name in program.checkpoint_header(newest) if name != "__metadata__"]
        self.assertEqual((ended.json()["kind"], file["tensors"], file["epoch"]), ("checkpoint", len(tensors), 2))
        self.assertIn(f"ok: {len(tensors)} tensors", ended.out)
        self.assertEqual(self.good("verify", "whole/best.safetensors", "--json").json()["kind"], "weights")
        self.assertEqual(len(self.good("verify", "whole/checkpoints/", "--json").json()["files"]), 2)
        self.good("verify", "whole", ranks=2)

    def test_a_damaged_tensor_is_named_with_its_place_and_the_other_files_are_looked_at(self):
        run = self.copy("flipped")
        program.flip_byte(run.checkpoints()[-1])
        ended = self.call("verify", "flipped", "--json")
        self.fails(ended, 65, run.checkpoints()[-1].name, "tensor 'optimizer.", "bytes", "of the file")
        found = ended.json()
        self.assertEqual([file["ok"] for file in found["files"]].count(False), 1)
        self.assertIn("cannot be recomputed", ended.out)
        self.assertFalse(found["ok"])

    def test_a_file_without_its_checksums_is_no_checkpoint_of_ours(self):
        self.copy("cut")
        with open(self.folder / "cut/best.safetensors", "r+b") as file:
            file.truncate(1000)
        self.fails(self.call("verify", "cut"), 65, "cut/best.safetensors")
        self.fails(self.call("verify", "cut/best.safetensors"), 65, "cut/best.safetensors")

    def test_a_state_that_no_run_leaves_is_refused_by_verify_a_resume_and_eval_alike(self):
        run = self.copy("impossible")
        (run.folder / "DONE").unlink()
        newest = run.checkpoints()[-1]
        data = ("data.root=chips", "epochs=3")
        # tests/unit/checkpoint tries each field, with the reader that all three use.
        field = "schedule"
        program.change_state(newest, schedule={"bad_epochs": 0, "best": None, "reductions": -5})
        self.fails(self.call("verify", newest), 65, newest.name, field)
        self.fails(self.call("--config", "chips.yaml", "--run-dir", "impossible", "--resume", newest, *data), 65, newest.name, field)
        self.fails(self.call("eval", "--config", "chips.yaml", "--checkpoint", newest, "--output", "out"), 65, newest.name, field)
        shutil.copy(self.folder / "whole/checkpoints" / newest.name, newest)
        program.change_state(newest, trained_on="")
        self.good("verify", newest)

    def test_weights_whose_list_of_training_samples_is_garbage_are_not_judged(self):
        best = self.copy("garbage").folder / "best.safetensors"
        program.change_metadata(best, lambda metadata: metadata.update(trained_on="garbage"))
        self.fails(self.call("eval", "--config", "chips.yaml", "--checkpoint", best, "--output", "out"), 65, "best.safetensors", "trained_on")

    def test_a_best_that_the_newest_checkpoint_does_not_know_is_told(self):
        self.good("--config", "chips.yaml", "--run-dir", "foreign", "epochs=1", "data.split={valid: 0, stratify: false}")
        shutil.copy(self.folder / "whole/best.safetensors", self.folder / "foreign")
        notes = self.good("verify", "foreign", "--json").json()["notes"]
        self.assertEqual(len(notes), 1, notes)
        self.assertIn("the newest checkpoint knows of no best", notes[0])

    def test_every_other_damaged_file_is_named(self):
        damages = {
            "config.yaml": lambda text: text.replace("seed:", "sead:", 1),
            "run.json": lambda text: text.replace('"result_sha256": "', '"result_sha256": "00', 1),
            "epochs.csv": lambda text: text.replace("\n2,", "\n3,", 1),
            "metrics.jsonl": lambda text: text.replace('{"event"', '{"event', 1),
            "DONE": lambda text: "",
        }
        for number, names in enumerate((("config.yaml", "epochs.csv", "DONE"), ("run.json", "metrics.jsonl"))):
            folder = self.copy(f"bad_{number}").folder
            for name in names:
                text = (folder / name).read_text()
                self.assertNotEqual(damages[name](text), text)
                (folder / name).write_text(damages[name](text))
            ended = self.call("verify", folder.name)
            self.assertEqual(ended.code, 65, ended)
            for name in names:
                with self.subTest(name):
                    self.assertIn(f"{folder.name}/{name}: damaged", ended.out)
                    self.assertIn(f"{folder.name}/{name}", ended.err)

    def test_what_a_kill_leaves_behind_is_told_and_is_no_error(self):
        run = self.copy("torn")
        for name, text in (("epochs.csv", "3,12"), ("metrics.jsonl", '{"event":"st')):
            with open(run.folder / name, "a", encoding="utf-8") as file:
                file.write(text)
        (run.folder / "checkpoints/epoch-0003-step-00000099.safetensors.tmp").write_text("half")
        (run.folder / "checkpoints/epoch-0003-step-00000099.safetensors.aside").write_text("old")
        (run.folder / "DONE").unlink()
        notes = self.good("verify", "torn", "--json").json()["notes"]
        self.assertEqual(len(notes), 4)
        for note, words in zip(sorted(notes), ("99.safetensors.aside", "99.safetensors.tmp", "epochs.csv ends in a torn line",
                                               "metrics.jsonl ends in a torn line")):
            self.assertIn(words, note)

    def test_what_is_not_there_or_nothing_of_ours_is_told(self):
        self.fails(self.call("verify", "none"), 66, "none")
        self.fails(self.call("verify"), 64, "PATH")
        self.fails(self.call("verify", "chips"), 65, "neither a run folder nor")
        self.fails(self.call("verify", "chips.yaml"), 65, "chips.yaml")

    def test_files_are_closed_to_strangers(self):
        run = self.run_at("whole").folder
        for path in [run, *run.rglob("*")]:
            self.assertEqual(path.stat().st_mode & (0o027 if path.is_dir() else 0o137), 0, f"{path} {path.stat().st_mode:o}")


if __name__ == "__main__":
    program.main(at_once=3)
