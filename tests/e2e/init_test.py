"""A folder becomes a configuration: check accepts what was written, or the file says what to do; then a step of training."""

import io
import json
import random
import tarfile

import made_pictures
import program

SIDE = 24


class Init(program.ProgramTest):
    def picture(self, name, rows=None):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made_pictures.png(rows or made_pictures.drawn(self.random, SIDE, SIDE, False)))

    def setUp(self):
        super().setUp()
        self.random = random.Random(7)

    def classes(self, folder):
        for name in ("even", "odd"):
            for i in range(10):
                self.picture(f"{folder}/{name}/{name}{i}.png")

    def masks(self, folder):
        for i in range(10):
            self.picture(f"{folder}/image/{i}.png")
            self.picture(f"{folder}/label/{i}.png", [[255 * (x > 11) for x in range(SIDE)] for _ in range(SIDE)])

    def table(self, folder, header, cells):
        for i in range(20):
            self.picture(f"{folder}/p{i}.png")
        rows = "".join(f"p{i}.png,{cells(i)}\n" for i in range(20))
        (self.folder / folder / "list.csv").write_text(f"file,{header}\n{rows}")

    def test_what_is_written_passes_check_and_takes_a_step(self):
        self.classes("plain")
        for part in ("Train", "val"):
            self.classes(f"parts/{part}")
        self.masks("cells")
        self.table("rows", "label,patient", lambda i: ('cat' if i % 2 else '"dog, brown"') + f",{i // 2}")

        def job(name):
            told = self.good("init", name, "--output", f"{name}.yaml")
            self.assertEqual(told.out, "")
            self.assertIn(f"dtrain check --config {name}.yaml", told.err)
            self.assertNotIn("to do", told.err)
            self.good("check", "--config", f"{name}.yaml", "--output", f"{name}.json")
            self.good("--config", f"{name}.yaml", "--dry-run", "--quiet")
            return (self.folder / f"{name}.yaml").read_text()
        texts = program.all_of([lambda name=name: job(name) for name in ("plain", "parts", "cells", "rows")])
        for text, words in zip(texts, ("even 10, odd 10", "Train/, val/ are the parts: 20 train, 20 valid", "0 in 50 %, 255 in 50 %",
                                       "patients: each stays")):
            self.assertIn(words, " ".join(text.replace("#", " ").split()))

    def test_what_only_a_person_knows_is_left_to_choose_and_check_leads_there(self):
        self.table("three", "site,scanner", lambda i: f"{'ABC'[i % 3]},{'XY'[i % 2]}")
        told = self.good("init", "three")
        self.assertRegex(told.err, r"to do: line \d+: which column of list.csv is the label")
        self.assertIn("# TO DO: which column of list.csv is the label", told.out)
        (self.folder / "three.yaml").write_text(told.out)
        self.fails(self.call("check", "--config", "three.yaml", "--output", "three.json"), 78, "data.csv.label")
        (self.folder / "three.yaml").write_text(told.out.replace("# label: scanner", "label: scanner"))
        self.good("check", "--config", "three.yaml", "--output", "three.json")

    def test_the_fields_of_an_archives_json_files_are_offered_as_labels_and_patients(self):
        (self.folder / "archives").mkdir()
        with tarfile.open(self.folder / "archives/all.tar", "w") as archive:
            for i in range(20):
                facts = {"finding": "AB"[i % 2], "patient": f"p{i // 2}", "of": {"which": 1}, "number": i}
                for name, data in (("png", made_pictures.png(made_pictures.drawn(self.random, SIDE, SIDE, False))),
                                   ("json", json.dumps(facts).encode())):
                    member = tarfile.TarInfo(f"{i:03}.{name}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        told = self.good("init", "archives", "--output", "archives.yaml")
        self.assertIn("uncomment one of the lines of data.webdataset.label", told.err)
        text = (self.folder / "archives.yaml").read_text()
        self.assertIn('group: "json:patient"', text)
        (self.folder / "archives.yaml").write_text(text.replace('# label: "json:finding"', 'label: "json:finding"'))
        self.assertIn("B", self.good("check", "--config", "archives.yaml", "--quick", "--output", "archives.json").out)

    def test_bad_input_is_one_sentence_and_nothing_is_overwritten(self):
        self.classes("kept")
        (self.folder / "empty").mkdir()
        (self.folder / "mine.yaml").write_text("mine")
        for words, code, said in ((("init",), 64, "needs the folder"), (("init", "nowhere"), 66, "'nowhere' does not exist"),
                                  (("init", "empty"), 65, "holds no picture"), (("init", "mine.yaml"), 65, "neither a folder nor a record file"),
                                  (("init", "kept", "--output", "mine.yaml"), 64, "--force"),
                                  (("init", "kept", "--output", "nowhere/a.yaml"), 66, "nowhere/a.yaml")):
            with self.subTest(words):
                self.fails(self.call(*words), code, said)
        self.assertEqual((self.folder / "mine.yaml").read_text(), "mine")
        self.good("init", "kept", "--output", "mine.yaml", "--force")
        self.assertIn("format: image_folder", (self.folder / "mine.yaml").read_text())


if __name__ == "__main__":
    program.main()
