"""One configuration gives one result, bit for bit, on 1, 2, 3 and 4 processes."""

import program

# 44 pictures leave 36 for training: four steps of 8 and one of 4, in which two of the four logical ranks take part.
COUNT, TRAIN, BATCH, EPOCHS = 44, 36, 8, 2
COMMON = {
    "seed": 11,
    "epochs": EPOCHS,
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 4},
    "data": {
        "split": {"valid": 8 / COUNT, "seed": 3, "stratify": True},
        "augment": {"hflip": 0.5, "vflip": 0.5, "rot90": 0.5, "brightness": 0.2, "contrast": 0.2},
    },
}
CHIPS = {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}}
XRAY = {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv", "image": {"size": [32, 32]}}
CELLS = {"format": "image_mask", "root": "cells", "image": {"size": [64, 64]}}
ADAM = {"name": "adam", "learning_rate": 0.001}
HEAVY = 100
MOMENTUM = {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9, "nesterov": True}


class SameBits(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kind in ("chips", "xray", "cells"):
            cls.sample(kind, COUNT)

    def train(self, name, ranks, *words):
        folder = f"{name}-{ranks}" + "".join(words).replace("/", "_")
        self.good("--config", f"{name}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=240)
        return self.run_at(folder)

    def short_run(self, name, *words):
        """One step of the same job, by one process without a launcher."""
        folder = f"{name}-one-step" + "".join(words)
        self.good("--config", f"{name}.yaml", "--run-dir", folder, "--limit-steps", 1, *words)
        run = self.run_at(folder)
        self.assertEqual(run.facts()["steps"], 1)
        return run

    def joined_and_trained(self, run, ranks):
        """The processes were one job of `ranks`, and it went through all its samples in enough steps."""
        facts = run.facts()
        self.assertEqual((facts["ranks"], facts["logical_ranks"], len(facts["hosts"])), (ranks, 4, ranks))
        self.assertEqual([host["rank"] for host in facts["hosts"]], [str(rank) for rank in range(ranks)])
        self.assertGreaterEqual(facts["steps"], 10)
        self.assertRegex(facts["result_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual((run.folder / "DONE").read_text(), f"result_sha256 {facts['result_sha256']}\n")
        rows = run.rows()
        self.assertEqual([int(row["ranks"]) for row in rows], [ranks] * EPOCHS)
        self.assertEqual([int(row["samples"]) for row in rows], [TRAIN] * EPOCHS)
        self.assertEqual([int(row["steps"]) for row in rows], [TRAIN // BATCH + 1] * EPOCHS)
        self.assertEqual(len(run.events("step")), facts["steps"])

    def judge(self, name, *parts):
        self.write_config(name, COMMON, *parts)
        runs = {}
        for ranks in (1, 2, 3, 4):
            runs[ranks] = self.train(name, ranks)
            self.joined_and_trained(runs[ranks], ranks)
        hashes = {ranks: run.hash() for ranks, run in runs.items()}
        self.assertEqual(len(set(hashes.values())), 1, hashes)
        first = runs[1]
        self.assertEqual(program.result_of(first.checkpoints()[-1]), first.hash())
        for ranks, run in runs.items():
            self.assertEqual(run.result_rows(), first.result_rows(), f"{ranks} processes")
            self.assertEqual(run.facts()["fingerprint"], first.facts()["fingerprint"])
            self.assertEqual(program.tensor_checksums(run.checkpoints()[-1]), program.tensor_checksums(first.checkpoints()[-1]))
        self.training_moved_the_weights(name, first)
        return first

    def training_moved_the_weights(self, name, trained):
        early = self.short_run(name)
        before = program.tensor_checksums(early.checkpoints()[-1], "model.")
        after = program.tensor_checksums(trained.checkpoints()[-1], "model.")
        self.assertEqual(before.keys(), after.keys())
        self.assertGreater(len(before), 10)
        self.assertEqual([tensor for tensor in before if before[tensor] == after[tensor]], [], "tensors that training left alone")
        other_seed = self.short_run(name, "seed=12")
        self.assertEqual(len({early.hash(), other_seed.hash(), trained.hash()}), 3)

    def test_small_cnn_with_dropout_and_momentum(self):
        run = self.judge("small_cnn", {"model": {"name": "small_cnn", "dropout": 0.5}, "data": CHIPS, "optimizer": MOMENTUM})
        self.assertNotEqual(self.train("small_cnn", 2, "seed=12").hash(), run.hash())
        self.assertNotEqual(self.train("small_cnn", 2, "model.dropout=0").hash(), run.hash(), "dropout was off")
        for key in ("hflip", "vflip", "rot90", "brightness", "contrast"):
            self.assertNotEqual(self.train("small_cnn", 2, f"data.augment.{key}=0").hash(), run.hash(), f"{key} was off")
        self.assertNotEqual(self.train("small_cnn", 3, "distributed.logical_ranks=3").hash(), run.hash(), "V does not matter")

    def test_unet_with_batch_normalisation_and_adam(self):
        self.judge("unet", {"model": {"name": "unet"}, "data": CELLS, "optimizer": ADAM})

    def test_densenet121_with_14_labels_and_adam(self):
        self.judge("densenet121", {"model": {"name": "densenet121"}, "data": XRAY, "optimizer": ADAM})

    def test_resnet50_with_momentum(self):
        self.judge("resnet50", {"model": {"name": "resnet50"}, "data": CHIPS, "optimizer": MOMENTUM})

    def test_bfloat16_with_batch_normalisation(self):
        self.judge("unet_bf16", {"precision": "bf16", "model": {"name": "unet"}, "data": {**CELLS, "image": {"size": [32, 32]}}, "optimizer": ADAM})

    def test_float16_with_a_scaled_loss(self):
        """A term of the loss so heavy that the first scales overflow: steps are skipped, the same ones by any number of processes."""
        run = self.judge("small_cnn_fp16", {"precision": "fp16", "model": {"name": "small_cnn"}, "data": XRAY, "optimizer": ADAM,
                                            "loss": {"pos_weight": [HEAVY] * 14}})
        steps = run.events("step")
        skipped = [event["step"] for event in steps if event.get("skipped")]
        self.assertEqual(skipped[0], 1)
        self.assertNotIn(len(steps), skipped)
        self.assertEqual(sum(int(row["skipped_steps"]) for row in run.rows()), len(skipped))
        self.assertEqual(steps[-1]["loss_scale"], 65536 / 2 ** len(skipped))
        for ranks in (2, 3, 4):
            more = self.run_at(f"small_cnn_fp16-{ranks}").events("step")
            self.assertEqual([(event["train_loss"], event["loss_scale"]) for event in more],
                             [(event["train_loss"], event["loss_scale"]) for event in steps])

    def test_whole_batches_dealt_out_and_a_global_batch_that_does_not_divide(self):
        self.write_config("pieces", COMMON, {"model": {"name": "small_cnn"}, "data": {**CHIPS, "distribute": "batches"}, "optimizer": ADAM})
        options = ("batch.per_rank=", "batch.global=10")
        runs = {ranks: self.train("pieces", ranks, *options) for ranks in (1, 3, 4)}
        self.assertEqual(len({run.hash() for run in runs.values()}), 1)
        self.assertEqual([int(row["samples"]) for row in runs[3].rows()], [TRAIN] * EPOCHS)
        self.assertEqual([int(row["steps"]) for row in runs[3].rows()], [4] * EPOCHS)


if __name__ == "__main__":
    program.main()
