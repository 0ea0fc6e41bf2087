"""Data sets in others' layouts, folds, and weights that must not be evaluated on what they were trained on."""

import json
import os
import shutil

import program

SMALL = {
    "epochs": 1,
    "seed": 9,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "data": {"image": {"size": [32, 32]}},
}
OBSERVATIONS = ("No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,Edema,Consolidation,Pneumonia,"
                "Atelectasis,Pneumothorax,Pleural Effusion,Pleural Other,Fracture,Support Devices").split(",")


class Data(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chips = cls.sample("chips", 36)
        cls.xray = cls.sample("xray", 40)
        cls.cells = cls.sample("cells", 10)

    def make_chexpert(self):
        """A folder as CheXpert's small copy is, of generated pictures; every label in turn is 1, 0, -1 or empty."""
        root = self.folder / "CheXpert-v1.0-small"
        pictures = sorted((self.xray / "images").iterdir())
        for part, some in (("train", pictures[:30]), ("valid", pictures[30:])):
            lines = ["Path,Sex,Age,Frontal/Lateral,AP/PA," + ",".join(OBSERVATIONS)]
            for number, picture in enumerate(some):
                name = f"{part}/patient{number // 2 + (0 if part == 'train' else 64541):05}/study1/view{number % 2 + 1}_frontal.png"
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(picture, root / name)
                cells = [("1.0", "0.0", "-1.0", "")[(number + k) % 4] for k in range(14)]
                lines.append(f"CheXpert-v1.0-small/{name},Male,60,Frontal,AP," + ",".join(cells))
            (root / f"{part}.csv").write_text("\n".join(lines) + "\n")
        return {"data": {"format": "chexpert", "root": str(root)}}

    def test_chexpert_trains_with_its_own_lists_or_with_folds_of_patients(self):
        self.write_config("chexpert", SMALL, self.make_chexpert())
        ended = self.good("check", "--config", "chexpert.yaml", "--json", "data.chexpert.uncertain_labels={Edema: ones}")
        facts = ended.json()
        self.assertEqual((facts["parts"]["train"]["samples"], facts["parts"]["valid"]["samples"]), (30, 10))
        wanted = {name: sum((number + k) % 4 in ((0, 2) if name == "Edema" else (0,)) for number in range(30))
                  for k, name in enumerate(OBSERVATIONS)}
        self.assertEqual(facts["parts"]["train"]["classes"], wanted)
        self.assertEqual(facts["leaks"], [])
        self.assertIn("uncertain labels (-1)", ended.out)
        self.good("--config", "chexpert.yaml", "--run-dir", "chexpert", "data.chexpert.uncertain=zeros")
        self.assertNotEqual(self.run_at("chexpert").rows()[0]["valid_auroc_Edema"], "")
        facts = self.good("check", "--config", "chexpert.yaml", "--json", "--quick", "data.labels=train.csv",
                          "data.split={fold: 2 of 3, by: patient, stratify: true}").json()
        self.assertEqual((facts["leaks"], [facts["parts"][part]["samples"] for part in ("train", "valid", "test")]), ([], [20, 10, 0]))

    def test_a_part_of_chexpert_trains_and_its_training_list_alone_is_split_by_shares(self):
        self.write_config("chexpert", SMALL, self.make_chexpert())
        root = self.folder / "CheXpert-v1.0-small"
        shutil.rmtree(root / "train/patient00003")
        self.fails(self.call("check", "--config", "chexpert.yaml"), 66, "names 2 pictures", "data.on_missing: skip")
        ended = self.good("check", "--config", "chexpert.yaml", "--json", "data.on_missing=skip")
        self.assertEqual(ended.json()["parts"]["train"]["samples"], 28)
        self.assertIn("2 rows of train.csv left out", ended.out)
        (root / "valid.csv").unlink()
        shutil.rmtree(root / "valid")
        ended = self.good("--config", "chexpert.yaml", "--run-dir", "part", "data.on_missing=skip", "data.split.by=patient")
        self.assertIn("2 rows of train.csv left out", ended.err)
        ended = self.good("eval", "--config", "chexpert.yaml", "--checkpoint", "part/best.safetensors", "data.on_missing=skip",
                          "data.split.by=patient")
        self.assertIn("2 rows of train.csv left out", ended.err)
        parts = self.good("check", "--config", "chexpert.yaml", "--json", "--quick", "data.on_missing=skip", "data.split.by=patient").json()["parts"]
        self.assertGreater(parts["valid"]["samples"], 0)

    def test_a_folder_for_nnunet_trains(self):
        root = self.folder / "Dataset001_Cells"
        for folder in ("imagesTr", "labelsTr"):
            (root / folder).mkdir(parents=True)
        for picture in (self.cells / "images").iterdir():
            shutil.copy(picture, root / f"imagesTr/{picture.stem}_0000.png")
            shutil.copy(self.cells / "masks" / picture.name, root / "labelsTr" / picture.name)
        description = {"channel_names": {"0": "grey"}, "labels": {"background": 0, "cell": 255}, "numTraining": 10, "file_ending": ".png"}
        (root / "dataset.json").write_text(json.dumps(description))
        self.write_config("nnunet", SMALL, {"model": {"name": "unet", "base_width": 4},
                                            "data": {"format": "image_mask", "root": str(root), "split": {"fold": "1 of 5", "stratify": True}}})
        ended = self.good("check", "--config", "nnunet.yaml", "--json")
        facts = ended.json()
        self.assertEqual((facts["parts"]["train"]["samples"], facts["parts"]["valid"]["samples"]), (8, 2))
        self.assertGreater(facts["parts"]["train"]["pixel_percent"]["cell"], 1)
        self.good("--config", "nnunet.yaml", "--run-dir", "nnunet")
        self.assertNotEqual(self.run_at("nnunet").rows()[0]["valid_iou"], "")
        (root / "dataset.json").write_text(json.dumps({**description, "file_ending": ".nii.gz"}))
        self.fails(self.call("check", "--config", "nnunet.yaml"), 65, "dataset.json", "NIfTI")
        deep = json.dumps({**description, "numTraining": "DEEP"}).replace('"DEEP"', "[" * 200_000 + "]" * 200_000)
        (root / "dataset.json").write_text(deep)
        self.fails(self.call("check", "--config", "nnunet.yaml"), 65, "dataset.json", "deeper than 64 levels")

    def test_a_pipe_or_a_device_for_a_file_is_a_sentence_and_for_the_configuration_a_pipe_will_do(self):
        os.mkfifo(self.folder / "pipe")
        self.write_config("pipes", SMALL, {"data": {"format": "image_folder", "root": "chips"}})
        pipe = str(self.folder / "pipe")
        for words in (("verify", pipe), ("eval", "--config", "pipes.yaml", "--checkpoint", pipe),
                      ("check", "--config", "pipes.yaml", f"data.split.files={{train: {pipe}, valid: {pipe}}}")):
            with self.subTest(words=words):
                self.fails(self.call(*words, timeout=20), 65, "pipe", "not a file")
        started = self.start("check", "--quick", "--config", pipe)
        (self.folder / "pipe").write_text((self.folder / "pipes.yaml").read_text().replace("chips", str(self.chips)))
        self.assertEqual(started.wait(30).code, 0)

    def test_weights_are_not_judged_by_what_they_were_trained_on(self):
        self.write_config("chips", SMALL, {"data": {"format": "image_folder", "root": "chips", "split": {"fold": "1 of 3", "stratify": True}}})
        self.good("--config", "chips.yaml", "--run-dir", "chips_run")
        run = self.run_at("chips_run")
        for file in (run.folder / "best.safetensors", run.checkpoints()[-1]):
            words = ("eval", "--config", "chips.yaml", "--checkpoint", file, "--output", "judged", "--json")
            own = self.good(*words).json()
            self.assertEqual((own["samples"], own["split_sha256"]), (12, run.facts()["split_sha256"]))
            other = self.call(*words, "data.split.fold=2 of 3")
            self.fails(other, 65, "was trained on 12 of the 12 samples of the valid part", "--allow-trained")
        self.assertEqual(self.good(*words, "--split", "train").json()["samples"], 24)
        self.assertEqual(self.good(*words, "data.split.fold=2 of 3", "--allow-trained").json()["samples"], 12)
        self.sample("chips", 80, "more_chips")
        mixed = self.call("eval", "--config", "chips.yaml", "--checkpoint", run.folder / "best.safetensors", "--output", "judged",
                          "data.root=more_chips", "data.split.fold=2 of 3")
        self.fails(mixed, 65, "was trained on")  # the first 36 have the names of those trained on


if __name__ == "__main__":
    program.main()
