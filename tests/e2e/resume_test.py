"""A run that was stopped by a limit, a signal or damage continues with any number of processes to the bits of an
undisturbed one."""

import csv
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import events
import program

# 44 training pictures, 6 steps an epoch: 9 steps are one epoch and a half.
STEPS, EPOCHS = 6, 4
SMALL = {
    "seed": 5,
    "epochs": EPOCHS,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "distributed": {"logical_ranks": 4},
    "data": {
        "format": "image_folder",
        "root": "chips",
        "image": {"size": [32, 32]},
        "split": {"valid": 8 / 52, "stratify": True},
        "augment": {"hflip": 0.5, "brightness": 0.2},
    },
}
PLATEAU = {"schedule": {"warmup": "0.5 epochs", "decay": {"name": "plateau", "patience": 0}}}
THAW = {
    "optimizer": {"groups": [{"match": "2.*", "freeze": True, "rate": 0.5}], "freeze_until": "2 epochs"},
    "ema": {"decay": 0.8},
    "checkpoint": {"best": {"monitor": "valid.ema_loss"}},
}
# Ends only by a signal, and saves only then.
ENDLESS = ("epochs=1000000", "data.image.size=[16, 16]", "checkpoint.every=1000000 epochs")
PYTHON = os.environ.get("DTRAIN_PYTHON", "python3")
SCALARS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1]).Reload()
scalars = {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
pictures = {tag: [(event.step, event.encoded_image_string[:4].hex()) for event in read.Images(tag)] for tag in read.Tags()["images"]}
print(json.dumps([scalars, pictures]))
"""
WATCHED = ("output.tensorboard=true", "--log-all-ranks")
UNET = {
    "epochs": 3,
    "model": {"name": "unet"},
    "loss": {"name": "bce_dice"},
    "optimizer": {"name": "sgd", "momentum": 0.9},
    "data": {"format": "image_mask", "root": "cells", "augment": {"vflip": 0.5, "rot90": 0.5, "contrast": 0.2}},
    "schedule": {"warmup": "4 steps", "decay": {"name": "cosine"}},
}


class Resume(program.ProgramTest):
    origin_steps = 3 * STEPS + 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 52)
        cls.sample("cells", 52)
        cls.write_config("small", SMALL)
        cls.write_config("plateau", SMALL, PLATEAU)
        cls.write_config("thaw", SMALL, THAW)
        cls.write_config("unet", {**SMALL, "data": {key: SMALL["data"][key] for key in ("image", "split")}}, UNET)

    def train(self, folder, *words, config="small", ranks=None):
        ended = self.good("--config", f"{config}.yaml", "--run-dir", folder, *words, ranks=ranks)
        return ended, self.run_at(folder)

    def never_stopped(self, config="small", *words):
        """The run that all others must equal, by one process; made once."""
        key = "-".join(("straight", config, *words))
        run = self.once(key, lambda: self.train(key, *words, config=config)[1])
        self.assertTrue(run.done())
        return run

    def stopped(self, folder, steps, config="small", ranks=None, words=()):
        """A run that a limit ended after `steps` updates."""
        ended, run = self.train(folder, "--limit-steps", steps, *words, config=config, ranks=ranks)
        self.assertFalse(run.done())
        self.assertEqual((run.facts()["steps"], run.facts()["ranks"]), (steps, ranks or 1))
        self.assertEqual(program.result_of(run.checkpoints()[-1]), run.hash())
        self.assertRegex(ended.err, rf"stopped at step \d+ by --limit-steps, saved .*{run.checkpoints()[-1].name}; the same command ")
        return run

    def stopped_once(self, folder):
        """A copy of a run that two processes made and a limit ended one step into its last epoch."""
        origin = self.once("origin", lambda: self.stopped("origin", self.origin_steps, ranks=2))
        shutil.copytree(origin.folder, self.folder / folder)
        return self.run_at(folder)

    def equal(self, run, other):
        self.assertTrue(run.done())
        self.assertEqual(run.hash(), other.hash())
        self.assertEqual(run.result_rows(), other.result_rows())
        self.assertEqual(len(run.rows()), run.facts()["epochs"])
        self.assertEqual(run.facts()["steps"], other.facts()["steps"])
        self.assertEqual([event["step"] for event in run.events("step")], list(range(1, run.facts()["steps"] + 1)))

    def test_one_epoch_and_a_half_on_two_processes_then_three(self):
        for config in ("plateau", "unet"):
            with self.subTest(config):
                straight = self.never_stopped(config)
                run = self.stopped(config, STEPS * 3 // 2, config, ranks=2, words=WATCHED)
                self.assertEqual(len(run.rows()), 1)
                self.assertNotEqual(run.hash(), straight.hash())
                self.train(config, *WATCHED, config=config, ranks=3)
                self.equal(run, straight)
                self.events_are_complete(run)
                self.each_rank_has_a_row(run)
                self.each_rank_has_a_log(run)
                self.assertEqual([row["ranks"] for row in run.rows()], ["2"] + ["3"] * (run.facts()["epochs"] - 1))
                self.assertEqual([event["step"] for event in run.events("resume")], [STEPS * 3 // 2])

    def events_are_complete(self, run):
        """TensorBoard's file has each step and each epoch once, with the figures of the other files."""
        single = lambda value: struct.unpack("<f", struct.pack("<f", value))[0]  # noqa: E731
        first, sheet, *rest = events.of_run(run)
        self.assertEqual((first.version, first.step), ("brain.Event:2", 0))
        self.assertEqual((sheet.step, list(sheet.pictures)), (0, ["preview"]))
        height, width, _, png = sheet.pictures["preview"].values()
        self.assertEqual(png[:8] + png[16:24], b"\x89PNG\r\n\x1a\n" + struct.pack(">II", width, height))
        steps = [event for event in rest if "step/loss" in event.scalars]
        told = run.events("step")
        self.assertEqual([event.step for event in steps], [event["step"] for event in told])
        self.assertEqual([event.scalars["step/loss"] for event in steps], [single(event["train_loss"]) for event in told])
        self.assertTrue(all(event["step_s"] > 0 and event["images_per_s"] > 0 for event in told))
        epochs = [event for event in rest if event not in steps]
        self.assertEqual([event.scalars["epoch/epoch"] for event in epochs], list(range(1, run.facts()["epochs"] + 1)))
        for event, row in zip(epochs, run.rows()):
            self.assertEqual(event.scalars["valid/loss"], single(float(row["valid_loss"])))

    def each_rank_has_a_row(self, run):
        """One for each epoch and rank; of an epoch that two starts shared, those of the second."""
        with open(run.folder / "ranks.csv", encoding="utf-8", newline="") as table:
            rows = list(csv.DictReader(table))
        self.assertEqual([(row["epoch"], row["rank"]) for row in rows],
                         [(row["epoch"], str(rank)) for row in run.rows() for rank in range(int(row["ranks"]))])
        self.assertTrue(all(0 < float(row["step_ms_median"]) <= float(row["step_ms_p95"]) for row in rows))
        self.assertTrue(all(float(row["compute_s"]) > 0 and float(row["memory_peak_mb"]) > 0 for row in rows))

    def each_rank_has_a_log(self, run):
        """Each start adds which process the rank was, and then each epoch that the rank ended, with its own times."""
        epochs = run.facts()["epochs"]
        for rank in range(3):
            told = (run.folder / f"log.rank-{rank}.txt").read_text()
            sizes = re.findall(rf" rank {rank} @ \S+ of (\d): process \d+, ", told)
            self.assertEqual(sizes, ["2", "3"] if rank < 2 else ["3"])
            self.assertEqual(re.findall(r" epoch (\d+) here:.* compute_s \d", told), [str(n) for n in range(1 if rank < 2 else 2, epochs + 1)])
        self.assertEqual(len(list(run.folder.glob("log.rank-*"))), 3)

    def test_tensorboard_reads_what_a_run_wrote(self):
        if subprocess.run([PYTHON, "-c", "import tensorboard"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no Python with tensorboard (DTRAIN_PYTHON)")
        _, run = self.train("shown", "output.tensorboard=true", "--limit-steps", STEPS + 1)
        read = subprocess.run([PYTHON, "-c", SCALARS, run.folder / "tensorboard"], capture_output=True, text=True, check=True)
        scalars, pictures = json.loads(read.stdout)
        self.assertEqual(pictures, {"preview": [[0, b"\x89PNG".hex()]]})
        self.assertEqual([step for step, _ in scalars["step/loss"]], list(range(1, STEPS + 2)))
        for (_, value), event in zip(scalars["step/loss"], run.events("step")):
            self.assertAlmostEqual(value, event["train_loss"], delta=1e-6 * abs(value))
        self.assertAlmostEqual(scalars["valid/accuracy"][0][1], float(run.rows()[0]["valid_accuracy"]), places=6)

    def test_frozen_layers_thaw_and_averages_move_whenever_a_run_stops(self):
        straight = self.never_stopped("thaw")
        self.assertIn(f"step {2 * STEPS + 1}: the frozen groups train from here on", (straight.folder / "log.txt").read_text())
        for ranks, steps in ((2, STEPS + 1), (3, STEPS - 1), (None, STEPS // 2)):  # before it, when it is time, and after
            run = self.train("thawing", "--limit-steps", steps, config="thaw", ranks=ranks)[1]
        later = ("optimizer.freeze_until=3 epochs", "--resume-with", "optimizer.freeze_until")
        self.fails(self.call("--config", "thaw.yaml", "--run-dir", "thawing", *later), 78, "cannot change once the frozen groups train")
        self.train("thawing", config="thaw", ranks=2)
        self.equal(run, straight)
        state = json.loads(program.checkpoint_header(straight.checkpoints()[-1])["__metadata__"]["state"])
        self.assertEqual(state["thawed_at"], 2 * STEPS)
        for row in run.rows():
            self.assertNotEqual(row["valid_ema_loss"], row["valid_loss"])
        best = min(run.rows(), key=lambda row: float(row["valid_ema_loss"]))
        self.assertEqual(best["epoch"], str(EPOCHS))  # so that the last checkpoint has the same average
        averaged = program.tensor_checksums(run.folder / "best.safetensors")
        for of_run in (run, straight):
            checkpoint = of_run.checkpoints()[-1]
            self.assertEqual(program.tensor_checksums(of_run.folder / "best.safetensors"), averaged)
            self.assertEqual(program.tensor_checksums(checkpoint, "ema."), averaged)
            self.assertNotEqual(program.tensor_checksums(checkpoint, "model."), averaged)
        # A run that had no average begins one with the weights of its checkpoint.
        self.train("begins", "--limit-steps", STEPS)
        words = ("ema.decay=0.8", "epochs=2", "--resume-with", "ema.decay")
        self.assertIn("valid_ema_loss", self.train("begins", *words)[1].rows()[-1])

    def test_float16_goes_on_with_its_loss_scale(self):
        # A small learning rate: whether a loss jumps so high that its gradients overflow depends on the processor's
        # rounding. Few steps and small pictures, since a CPU convolves float16 slowly.
        small = ("optimizer.learning_rate=0.0001", "data.image.size=[16, 16]", "epochs=2")
        words = ("precision=fp16", *small)
        straight = self.never_stopped("small", *words)
        left = 2
        run = self.stopped("fp16", STEPS * 2 - left, words=words, ranks=2)
        ended = self.call("--config", "small.yaml", "--run-dir", "fp16", "precision=bf16", *small)
        self.fails(ended, 78)
        self.assertIn("precision was fp16 and is now bf16", ended.err)
        self.train("fp16", *words, ranks=3)
        self.equal(run, straight)
        self.assertNotEqual(run.hash(), self.never_stopped("small", *small).hash(), "fp16 computed as fp32")
        scales = [json.loads(program.checkpoint_header(of.checkpoints()[-1])["__metadata__"]["state"])["loss_scale"] for of in (run, straight)]
        self.assertEqual(scales[0], scales[1])
        self.assertGreater(scales[0]["good_steps"], left, "counted over both starts")

    def test_many_stops_at_and_between_epoch_ends_by_one_to_four_processes(self):
        for ranks, steps in ((4, 1), (3, 7), (None, 10)):
            run = self.train("many", "--limit-steps", steps, ranks=ranks)[1]
            self.assertFalse(run.done())
        self.train("many", ranks=2)
        self.equal(run, self.never_stopped())
        self.assertEqual([event["step"] for event in run.events("resume")], [1, 8, 18])

    def test_a_limit_at_the_very_last_step_leaves_the_run_to_be_closed(self):
        run = self.stopped("last", STEPS * EPOCHS)
        self.assertIn("takes no more steps and marks the run as done", (run.folder / "log.txt").read_text())
        self.assertEqual(len(run.rows()), EPOCHS)
        self.assertEqual(run.hash(), self.never_stopped().hash())
        self.train("last")
        self.equal(run, self.never_stopped())

    def begun(self, folder, *words, ranks=None):
        """A run that would take hours, after a few steps."""
        started = self.start("--config", "small.yaml", "--run-dir", folder, *ENDLESS, *words, ranks=ranks)
        run = self.run_at(folder)
        try:
            program.wait_until(lambda: run.steps_logged() >= 7, 60, "the seventh step")
            return started, run
        except BaseException:
            started.kill()
            raise

    def signalled(self, folder, number, ranks, whom):
        """Such a run, and a signal to what `whom` names."""
        started, run = self.begun(folder, ranks=ranks)
        for pid in whom(started):
            os.kill(pid, number)
        return started, run

    def goes_on_to_the_same(self, run, ranks):
        """From where it was stopped to the end of the next epoch."""
        stopped = run.facts()["steps"]
        words = (*ENDLESS[1:], f"epochs={stopped // STEPS + 2}")
        self.train(run.folder.name, *words, ranks=ranks)
        self.assertEqual([event["step"] for event in run.events("resume")], [stopped])
        self.equal(run, self.never_stopped("small", *words))

    def saved_in_between(self, run):
        """The step of the only checkpoint, which only a signal can have asked for."""
        self.assertFalse(run.done())
        self.assertEqual(len(run.checkpoints()), 1)
        facts = run.facts()
        self.assertEqual(program.result_of(run.checkpoints()[0]), facts["result_sha256"])
        self.assertGreaterEqual(facts["steps"], 7)
        return facts["steps"]

    def test_usr1_to_mpirun_saves_and_ends_with_75(self):
        started, run = self.signalled("usr1", signal.SIGUSR1, 2, lambda job: [job.process.pid])
        ended = started.wait(30)
        self.assertEqual((ended.code, ended.errors), (75, []), ended)
        self.assertIn("stopped at step", ended.err)
        self.saved_in_between(run)
        self.goes_on_to_the_same(run, 3)

    def test_usr1_that_reaches_one_rank_alone_stops_all(self):
        started, run = self.signalled("usr1_one", signal.SIGUSR1, 3, lambda job: job.ranks()[2:3])
        ended = started.wait(30)
        self.assertEqual(ended.code, 75, ended)
        self.saved_in_between(run)
        self.goes_on_to_the_same(run, None)

    def test_term_and_the_first_interrupt_stop_a_process_without_a_launcher_alike(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            started, run = self.signalled(f"alone_{number}", number, None, lambda job: [job.process.pid])
            self.assertEqual(started.wait(30).code, 75)
            self.saved_in_between(run)

    def test_usr2_saves_and_goes_on(self):
        pictures = shutil.copytree(self.folder / "chips", self.folder / "held_chips")
        # Each rank reads every picture only when it needs it: so both wait in the same step, and both see the signal in
        # the next one.
        started, run = self.begun("usr2", "data.root=held_chips", "data.split={valid: 0, stratify: false}", "data.loader.pipeline=sequential", ranks=2)
        lease = program.Lease()
        try:
            with lease:
                lease.take(next(pictures.rglob("*.png")))
                program.wait_until(lambda: all(map(program.waits_for_lease, started.ranks())), 30, "both ranks at the picture")
                program.signal_through_mpirun(started, signal.SIGUSR2)
            program.wait_until(lambda: run.checkpoints(), 30, "a checkpoint")
            steps = run.steps_logged()
            program.wait_until(lambda: run.steps_logged() > steps + STEPS, 30, "another epoch")
            started.send(signal.SIGUSR1)
        except BaseException:
            started.kill()
            raise
        self.assertEqual(started.wait(30).code, 75)
        steps = [event["step"] for event in run.events("checkpoint")]
        self.assertEqual(len(steps), 2)
        self.assertGreaterEqual(steps[0], 7)
        self.assertGreater(steps[-1], steps[0] + STEPS)

    def test_a_damaged_newest_checkpoint_is_skipped_with_a_warning(self):
        run = self.stopped_once("damaged")
        newest = run.checkpoints()[-1]
        self.assertEqual(len(run.checkpoints()), 3)
        program.flip_byte(newest)
        ended, run = self.train("damaged", ranks=3)
        self.assertIn("damaged", ended.err)
        self.assertIn(newest.name, ended.err)
        self.assertEqual([event["step"] for event in run.events("resume")], [3 * STEPS])
        self.equal(run, self.never_stopped())

    def test_damaged_checkpoints_alone_are_never_a_silent_fresh_start(self):
        run = self.stopped_once("all_damaged")
        for path in run.checkpoints():
            program.flip_byte(path)
        rows = run.result_rows()
        self.fails(self.call("--config", "small.yaml", "--run-dir", "all_damaged"), 65, "checkpoints", "--resume never")
        self.fails(self.call("--config", "small.yaml", "--run-dir", "all_damaged", ranks=2), 65, "checkpoints", rank=0)
        self.assertEqual(run.result_rows(), rows)
        for path in run.checkpoints():
            path.write_bytes(path.read_bytes()[:1000])
        self.fails(self.call("--config", "small.yaml", "--run-dir", "all_damaged"), 65, "checkpoints")

    def test_left_over_temporaries_are_no_checkpoints(self):
        folder = self.folder / "temporaries/checkpoints"
        folder.mkdir(parents=True)
        (folder / "epoch-0001-step-00000006.safetensors.tmp").write_bytes(b"torn")
        (folder.parent / ".lock").write_text("process 4711 on node17\n")  # as a killed job leaves it
        run = self.train("temporaries")[1]
        self.equal(run, self.never_stopped())
        self.assertEqual(list(folder.glob("*.tmp")), [])

    def test_resume_never_moves_the_old_run_aside(self):
        run = self.stopped_once("never")
        old = {path.relative_to(run.folder): path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
        ended = self.train("never", "--resume", "never")[0]
        self.assertIn("never.1", ended.err)
        moved = self.folder / "never.1"
        self.assertEqual({path.relative_to(moved): path.read_bytes() for path in moved.rglob("*") if path.is_file()}, old)
        self.equal(run, self.never_stopped())
        self.assertEqual(run.events("resume"), [])
        self.train("never", "--resume", "never", "--limit-steps", 1)
        self.assertEqual(program.Run(self.folder / "never.2").hash(), self.never_stopped().hash())

    def test_a_checkpoint_named_by_its_path(self):
        run = self.stopped_once("by_path")
        first = run.checkpoints()[0]
        self.assertEqual(len(run.checkpoints()), 3)
        self.train("by_path", "--resume", str(first))
        self.assertEqual([event["step"] for event in run.events("resume")], [2 * STEPS])
        self.equal(run, self.never_stopped())
        best = run.folder / "best.safetensors"
        self.fails(self.call("--config", "small.yaml", "--run-dir", "by_path", "--resume", best), 65, best.name)
        self.fails(self.call("--config", "small.yaml", "--run-dir", "by_path", "--resume", "none.safetensors"), 66, "none.safetensors")

    def test_a_finished_run_says_so_and_more_epochs_go_on(self):
        run = self.train("finished", "epochs=2")[1]
        before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
        for ranks in (None, 2):
            ended = self.train("finished", "epochs=2", ranks=ranks)[0]
            self.assertIn("is finished with this configuration", ended.err)
        ended = self.call("--config", "small.yaml", "--run-dir", "finished", "epochs=2", "seed=6")
        self.fails(ended, 78, "holds a finished run that differs", "name=NEW", "--run-dir DIR", "--resume never")
        self.assertIn("seed was 5 and is now 6", ended.err)
        # All differences are reported at once.
        shutil.copytree(self.folder / "chips", self.folder / "chips_fewer")
        next((self.folder / "chips_fewer/good").iterdir()).unlink()
        for ranks in (None, 2):
            ended = self.call("--config", "small.yaml", "--run-dir", "finished", "epochs=2", "seed=6", "optimizer.name=adamw",
                              "distributed.logical_ranks=3", "data.root=chips_fewer", ranks=ranks)
            self.fails(ended, 78, "holds a finished run that differs", rank=0 if ranks else None)
            for line in ("seed was 5 and is now 6", "optimizer.name was adam and is now adamw",
                         "distributed.logical_ranks was 4 and is now 3", "the data had the manifest "):
                self.assertIn("  " + line, ended.err)
        self.fails(self.call("--config", "small.yaml", "--run-dir", "finished", "epochs=2", "data.root=/does/not/exist"), 66,
                   "/does/not/exist")
        self.assertEqual({path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}, before)
        self.train("finished", "epochs=4", ranks=3)
        self.equal(run, self.never_stopped())
        self.assertEqual([row["ranks"] for row in run.rows()], ["1", "1", "3", "3"])

    def test_a_dry_run_takes_its_step_whatever_the_folder_holds(self):
        finished = self.once("dry", lambda: self.train("dry", "epochs=1")[1])
        before = {path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}
        dry = ("--config", "small.yaml", "--run-dir", "dry", "--dry-run")
        for ranks in (None, 2):
            ended = self.good(*dry, "epochs=1", ranks=ranks)
            self.assertIn("dry run: one step taken", ended.err)
            self.assertIn("a start without --dry-run would train nothing: ", ended.err)
            self.assertIn("is finished with this configuration, after 1 epoch;", ended.err)
        self.assertIn("one step taken", self.good(*dry, "epochs=2").err)  # the next epoch's
        self.fails(self.call(*dry, "epochs=1", "data.root=/does/not/exist"), 66, "/does/not/exist")
        ended = self.call(*dry, "epochs=1", "seed=6")
        self.fails(ended, 78, "holds a finished run that differs")
        self.assertIn("one step taken", ended.err)
        self.assertIn("seed was 5 and is now 6", ended.err)
        self.assertEqual({path: path.read_bytes() for path in finished.folder.rglob("*") if path.is_file()}, before)
        # A run that has stopped: its next step, or the first of another configuration, which a start would refuse.
        run = self.stopped_once("dry_stopped")
        stopped = ("--config", "small.yaml", "--run-dir", "dry_stopped", "--dry-run")
        ended = self.good(*stopped)
        self.assertIn("\nresume ", ended.err)
        self.assertIn("one step taken", ended.err)
        ended = self.call(*stopped, "seed=6")
        self.fails(ended, 78, "belongs to another configuration")
        self.assertIn("one step taken", ended.err)
        self.assertNotIn("\nresume ", ended.err)
        self.assertEqual(run.facts()["steps"], self.origin_steps)

    def test_a_finished_run_of_logical_ranks_auto_is_the_same_on_fewer_processes(self):
        words = ("--config", "small.yaml", "--run-dir", "finished_auto", "epochs=1", "distributed.logical_ranks=auto")
        self.good(*words, ranks=2)
        for ranks in (None, 2):
            self.assertIn("is finished with this configuration", self.good(*words, ranks=ranks).err)
        ended = self.call(*words, ranks=3)
        self.fails(ended, 78, "holds a finished run that differs", rank=0)
        self.assertIn("distributed.logical_ranks was 2 and is now 3, the number of processes", ended.err)

    def test_a_changed_key_is_refused_with_both_values_and_can_be_allowed(self):
        run = self.stopped_once("changed")
        words = ("--config", "small.yaml", "--run-dir", "changed")
        for ranks in (None, 2):
            ended = self.call(*words, "optimizer.learning_rate=0.0025", ranks=ranks)
            self.fails(ended, 78, "--resume-with", rank=0 if ranks else None)
            self.assertIn("optimizer.learning_rate was 0.001 and is now 0.0025", ended.err)
        ended = self.call(*words, "optimizer.learning_rate=0.0025", "data.augment.hflip=0.25", "--resume-with", "optimizer.learning_rate")
        self.fails(ended, 78)
        self.assertIn("data.augment.hflip was 0.5 and is now 0.25", ended.err)
        self.assertNotIn("learning_rate was", ended.err)
        self.assertEqual(run.facts()["steps"], self.origin_steps)
        self.train("changed", "optimizer.learning_rate=0.0025", "--resume-with", "optimizer.learning_rate")
        self.assertTrue(run.done())
        self.assertEqual(float(run.rows()[-1]["learning_rate"]), 0.01)
        self.assertNotEqual(run.hash(), self.never_stopped().hash())

    def grown(self, folder, *ranks):
        """V 4 -> 8 -> 3 over one training; the start with 8 is stopped within an epoch."""
        allowed = ("--resume-with", "distributed.logical_ranks")
        _, run = self.train(folder, "--limit-steps", STEPS, ranks=ranks[0])
        eight = ("distributed.logical_ranks=8", *allowed, "--limit-steps")
        ended, _ = self.train(folder, *eight, 4, ranks=ranks[1])
        self.assertIn("from here on with 8 logical ranks, until here with 4", ended.err)
        self.assertIn("2 per rank x 8 logical ranks = 16 global; 3 steps per epoch, 4 epochs; learning rate 0.001 -> 0.008", ended.err)
        inside = self.call("--config", "small.yaml", "--run-dir", folder, "distributed.logical_ranks=3", *allowed)
        self.fails(inside, 78, "is inside an epoch, after 16 samples; distributed.logical_ranks can change only at the end of one")
        ended, _ = self.train(folder, *eight, 2, ranks=ranks[2])
        self.assertNotIn("from here on", ended.err)
        self.train(folder, "distributed.logical_ranks=3", *allowed, ranks=ranks[3])
        self.assertTrue(run.done())
        return run

    def test_logical_ranks_change_at_the_end_of_an_epoch_with_the_same_bits_each_time(self):
        first, again = self.grown("grown", 2, None, 3, None), self.grown("grown again", None, 3, None, 2)
        self.assertEqual(again.hash(), first.hash())
        self.assertEqual(again.result_rows(), first.result_rows())
        rows = first.rows()
        self.assertEqual([row["logical_ranks"] for row in rows], ["4", "8", "8", "3"])
        self.assertEqual([row["steps"] for row in rows], ["6", "3", "3", "8"])
        self.assertEqual([float(row["learning_rate"]) for row in rows], [0.004, 0.008, 0.008, 0.003])
        self.assertEqual([event.get("logical_ranks") for event in first.events("resume")], ["4 -> 8", None, "8 -> 3"])
        self.good("verify", first.folder)

    def test_another_number_of_logical_ranks_is_refused_unless_asked_for_by_number(self):
        self.stopped("kept ranks", STEPS)
        words = ("--config", "small.yaml", "--run-dir", "kept ranks")
        self.fails(self.call(*words, "distributed.logical_ranks=8"), 78, "--resume-with distributed.logical_ranks")
        self.fails(self.call(*words, "distributed.logical_ranks=auto", "--resume-with", "distributed.logical_ranks"), 64,
                   "needs the number of logical ranks")

    def test_keys_outside_the_fingerprint_may_change(self):
        self.stopped_once("free")
        shutil.move(self.folder / "free", self.folder / "elsewhere")
        shutil.copytree(self.folder / "chips", self.folder / "chips_copy")
        run = self.train("elsewhere", "name=other", "data.root=chips_copy", "data.loader.threads=3", "data.loader.prefetch=5",
                         "distributed.bucket_mb=0.02", "distributed.watchdog.abort=1 hour", "checkpoint.every=4 steps",
                         "checkpoint.keep=1", "distributed.backend=mpi", ranks=3)[1]
        self.equal(run, self.never_stopped())
        self.assertEqual([event["step"] for event in run.events("resume")], [self.origin_steps])
        self.assertEqual(len(run.checkpoints()), 1)
        self.assertEqual(run.facts()["fingerprint"], self.never_stopped().facts()["fingerprint"])

    def test_changed_pictures_are_refused(self):
        shutil.copytree(self.folder / "chips", self.folder / "chips_changed")
        self.stopped("data", 9, words=("data.root=chips_changed",))
        next((self.folder / "chips_changed/good").iterdir()).unlink()
        self.fails(self.call("--config", "small.yaml", "--run-dir", "data", "data.root=chips_changed"), 78, "data set has changed")

    def test_logical_ranks_auto_takes_those_of_the_checkpoint(self):
        words = ("distributed.logical_ranks=auto",)
        straight = self.never_stopped("small", "distributed.logical_ranks=2")
        run = self.stopped("auto", 15, words=words, ranks=2)
        others = [shutil.copytree(run.folder, self.folder / f"auto_{more}") for more in ("three", "set")]
        self.train("auto", *words)
        self.equal(run, straight)
        facts = run.facts()
        self.assertEqual((facts["ranks"], facts["logical_ranks"]), (1, 2))
        three = self.start("--config", "small.yaml", "--run-dir", others[0], *words, ranks=3)
        four = self.start("--config", "small.yaml", "--run-dir", others[1], ranks=2)
        three, four = three.wait(60), four.wait(60)
        self.fails(three, 78, "(3)", "(2)", rank=0)
        self.fails(four, 78, "logical_ranks is 4", "with 2", rank=0)


if __name__ == "__main__":
    program.main(at_once=3)
