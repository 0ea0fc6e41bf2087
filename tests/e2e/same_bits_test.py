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
CELLS = {"format": "image_mask", "root": "cells", "image": {"size": [32, 32]}}
ADAM = {"name": "adam", "learning_rate": 0.001}
HEAVY = 100
MOMENTUM = {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9, "nesterov": True}
SMALLER = {"data": {"image": {"size": [16, 16]}}}  # a CPU convolves float16 slowly
# A deep network adds only its layers, which every step uses: two steps, of 8 and of 4, are enough. The small networks
# test epochs, the metrics of many pictures and the other numbers of processes.
FEW = 12
DEEP = {"epochs": 1, "data": {"split": {"valid": 4 / COUNT, "test": (COUNT - 4 - FEW) / COUNT}}}
EVERY_STEP = ("checkpoint.every=1 steps", "checkpoint.keep=100")


class SameBits(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kind in ("chips", "xray", "cells"):
            cls.sample(kind, COUNT)

    def train(self, name, ranks, *words):
        folder = f"{name}-{ranks}"
        self.good("--config", f"{name}.yaml", "--run-dir", folder, *words, ranks=ranks, timeout=240)
        return self.run_at(folder)

    def short_run(self, name, *words):
        """One step of the same job, by one process without a launcher."""
        folder = f"{name}-one-step" + "".join(words)
        self.good("--config", f"{name}.yaml", "--run-dir", folder, "--limit-steps", 1, *words)
        run = self.run_at(folder)
        self.assertEqual(run.facts()["steps"], 1)
        return run.hash()

    def joined_and_trained(self, run, ranks, epochs, samples):
        """Checks that the processes were one job of `ranks`, and that it took all its samples in enough steps."""
        facts = run.facts()
        self.assertEqual((facts["ranks"], facts["logical_ranks"], len(facts["hosts"])), (ranks, 4, ranks))
        self.assertEqual([host["rank"] for host in facts["hosts"]], [str(rank) for rank in range(ranks)])
        self.assertEqual(facts["steps"], epochs * (samples // BATCH + 1))
        self.assertRegex(facts["result_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual((run.folder / "DONE").read_text(), f"result_sha256 {facts['result_sha256']}\n")
        rows = run.rows()
        self.assertEqual([int(row["ranks"]) for row in rows], [ranks] * epochs)
        self.assertEqual([int(row["samples"]) for row in rows], [samples] * epochs)
        self.assertEqual([int(row["steps"]) for row in rows], [samples // BATCH + 1] * epochs)
        self.assertEqual(len(run.events("step")), facts["steps"])

    def judge(self, name, *parts, processes=(1, 2, 3, 4), epochs=EPOCHS, samples=TRAIN):
        self.write_config(name, COMMON, *parts)
        runs = {}
        for ranks in processes:
            runs[ranks] = self.train(name, ranks, *(EVERY_STEP if ranks == 1 else ()))
            self.joined_and_trained(runs[ranks], ranks, epochs, samples)
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
        early = trained.checkpoints()[0]
        self.assertTrue(early.name.startswith("epoch-0000-step-00000001."), early)
        before = program.tensor_checksums(early, "model.")
        after = program.tensor_checksums(trained.checkpoints()[-1], "model.")
        self.assertEqual(before.keys(), after.keys())
        self.assertGreater(len(before), 10)
        self.assertEqual([tensor for tensor in before if before[tensor] == after[tensor]], [], "tensors that training left alone")
        self.assertEqual(len({program.result_of(early), self.short_run(name, "seed=12"), trained.hash()}), 3)

    def test_small_cnn_with_dropout_and_momentum(self):
        run = self.judge("small_cnn", {"model": {"name": "small_cnn", "dropout": 0.5}, "data": CHIPS, "optimizer": MOMENTUM})
        # That each kind of augmentation changes the result is shown in augment_test.py.
        steps = [program.result_of(run.checkpoints()[0])]
        self.assertEqual(self.short_run("small_cnn"), steps[0])
        steps += [self.short_run("small_cnn", word) for word in ("model.dropout=0", "distributed.logical_ranks=3")]
        self.assertEqual(len(set(steps)), 3, "dropout was off, or V does not matter")

    def test_unet_with_batch_normalisation_and_adam(self):
        self.judge("unet", {"model": {"name": "unet"}, "data": CELLS, "optimizer": ADAM})

    def test_a_loss_over_the_whole_batch(self):
        run = self.judge("unet_dice", {"model": {"name": "unet", "base_width": 4}, "data": CELLS,
                                       "optimizer": ADAM, "loss": {"name": "bce_dice"}}, processes=(1, 3))
        self.assertIn("one more forward pass a step", (run.folder / "log.txt").read_text())
        self.assertNotEqual(self.short_run("unet_dice", "loss.dice=per_rank"), program.result_of(run.checkpoints()[0]))

    def test_densenet121_with_14_labels_and_adam(self):
        self.judge("densenet121", {"model": {"name": "densenet121"}, "data": XRAY, "optimizer": ADAM}, DEEP, processes=(1, 3),
                   epochs=1, samples=FEW)

    def test_resnet50_with_momentum_and_two_threads_a_process(self):
        # Of 32 x 32 pictures a single pixel reaches the last layers: after two steps an evaluation is not finite.
        self.judge("resnet50", {"model": {"name": "resnet50"}, "data": {**CHIPS, "image": {"size": [48, 48]}}, "optimizer": MOMENTUM,
                                "distributed": {"threads": 2}}, DEEP, processes=(1, 3), epochs=1, samples=FEW)

    def test_unet_with_an_encoder_from_a_resnet(self):
        self.judge("encoder", {"model": {"name": "unet", "encoder": "resnet18"}, "optimizer": ADAM,
                               "data": {**CELLS, "image": {"size": [32, 64]}, "augment": {"rot90": 0}}}, DEEP, processes=(1, 3), epochs=1,
                   samples=FEW)

    def test_bfloat16_with_batch_normalisation(self):
        run = self.judge("unet_bf16", {"precision": "bf16", "model": {"name": "unet"}, "optimizer": ADAM,
                                       "data": {**CELLS, "image": {"size": [32, 32]}}}, processes=(1, 3))
        self.assertNotEqual(self.short_run("unet_bf16", "precision=fp32"), program.result_of(run.checkpoints()[0]), "bf16 computed as fp32")

    def test_float16_with_a_scaled_loss(self):
        """A term of the loss so heavy that the first scales overflow: steps are skipped, the same ones by any number of processes."""
        run = self.judge("small_cnn_fp16", {"precision": "fp16", "model": {"name": "small_cnn"}, "data": XRAY, "optimizer": ADAM,
                                            "loss": {"pos_weight": [HEAVY] * 14}}, SMALLER, processes=(1, 3))
        steps = run.events("step")
        skipped = [event["step"] for event in steps if event.get("skipped")]
        self.assertEqual(skipped[0], 1)
        self.assertNotIn(len(steps), skipped)
        self.assertEqual(sum(int(row["skipped_steps"]) for row in run.rows()), len(skipped))
        self.assertEqual(steps[-1]["loss_scale"], 65536 / 2 ** len(skipped))
        more = self.run_at("small_cnn_fp16-3").events("step")
        self.assertEqual([(event["train_loss"], event["loss_scale"]) for event in more],
                         [(event["train_loss"], event["loss_scale"]) for event in steps])

    def test_whole_batches_dealt_out_and_a_global_batch_that_does_not_divide(self):
        self.write_config("pieces", COMMON, {"model": {"name": "small_cnn"}, "data": {**CHIPS, "distribute": "batches"}, "optimizer": ADAM})
        options = ("batch.per_rank=", "batch.global=10")
        runs = {ranks: self.train("pieces", ranks, *options) for ranks in (1, 3)}
        self.assertEqual(len({run.hash() for run in runs.values()}), 1)
        self.assertEqual([int(row["samples"]) for row in runs[3].rows()], [TRAIN] * EPOCHS)
        self.assertEqual([int(row["steps"]) for row in runs[3].rows()], [4] * EPOCHS)


if __name__ == "__main__":
    program.main(at_once=2)
