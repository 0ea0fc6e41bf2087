"""Runs that older programs began go on. tests/support/reference/runs/COMMIT/run was left by the program of that commit,
stopped in the middle of an epoch; ended.json beside it says what that program came to when it went on to the end.

Other processors round other last bits, so what a run comes to is compared to 1 part in 100,000; where this machine
comes from the run's beginning to the very bits of its checkpoint, it must come to the same end as well, bit for bit.
"""

import functools
import json
import re
import shutil
import unittest

import program

OLD_RUNS = sorted((program.ROOT / "tests/support/reference/runs").iterdir())


def of_each_old_run(test):
    """Calls test(self, old, run, checkpoint) with the folder of each old run, a copy of it and its one checkpoint there. Where it is
    skipped for any of them, the whole counts as skipped."""
    @functools.wraps(test)
    def of_each(self):
        self.assertGreater(len(OLD_RUNS), 0)
        skipped = []
        for old in OLD_RUNS:
            with self.subTest(old.name):
                name = f"{old.name}-{test.__name__}"
                shutil.copytree(old / "run", self.folder / name)
                run = self.run_at(name)
                (checkpoint,) = run.checkpoints()
                try:
                    test(self, old, run, checkpoint)
                except unittest.SkipTest as reason:
                    skipped.append(f"{old.name}: {reason}")
        if skipped:
            self.skipTest("; ".join(skipped))
    return of_each


class OldRuns(program.ProgramTest):
    def train(self, run, *words):
        return self.good("--config", run.folder / "config.yaml", "--run-dir", run.folder, *words)

    def near(self, got, wanted):
        self.assertAlmostEqual(float(got), float(wanted), delta=1e-5 * abs(float(wanted)))

    def begun_here(self, run, steps):
        """The checkpoint that this program reaches on this machine, after the same steps from the same start."""
        fresh = self.run_at(run.folder.name + "-fresh")
        self.good("--config", run.folder / "config.yaml", "--run-dir", fresh.folder, "--limit-steps", steps)
        return fresh.checkpoints()[-1]

    @of_each_old_run
    def test_it_goes_on_to_what_its_own_program_came_to(self, old, run, checkpoint):
        ended = json.loads((old / "ended.json").read_text(encoding="utf-8"))
        begun = [event["step"] for event in run.events("step")]
        self.good("verify", run.folder)
        self.train(run)
        self.assertTrue(run.done())
        self.assertEqual([event["step"] for event in run.events("resume")], [begun[-1]])
        losses = [event["train_loss"] for event in run.events("step")]
        self.assertEqual(len(losses), len(ended["train_loss"]))
        self.assertGreater(len(losses), len(begun))
        self.assertEqual([event["step"] for event in run.events("step")], list(range(1, len(losses) + 1)))
        for got, wanted in zip(losses, ended["train_loss"]):
            self.near(got, wanted)
        self.assertEqual(len(run.rows()), len(ended["epochs"]))
        for row, wanted in zip(run.rows(), ended["epochs"]):
            for column in wanted:
                self.near(row[column], wanted[column])
        self.assertEqual(list(run.folder.glob("*.aside")), [], "the best weights so far were taken for another run's")
        self.good("verify", run.folder)

    @of_each_old_run
    def test_a_key_whose_default_has_changed_stays_what_it_was_for_this_run_alone(self, old, run, checkpoint):
        own = self.folder / f"{run.folder.name}.yaml"  # as somebody wrote it, who never heard of the key
        stored = self.good("--config", run.folder / "config.yaml", "--print-config=minimal").out
        own.write_text(re.sub(r"(?m)^ *(fused|fast_convolutions|stratify): .*\n", "", stored), encoding="utf-8")
        self.good("--config", own, "--run-dir", run.folder, "--limit-steps", 1)
        kept = (run.folder / "config.yaml").read_text(encoding="utf-8")
        for key in ("fused", "fast_convolutions"):
            self.assertRegex(kept, rf" {key}: false +# as the run began\n")
        self.assertRegex(self.good("--config", run.folder / "config.yaml", "--print-config").out, r"fused: false ")
        self.assertRegex(self.good("--config", own, "--print-config").out, r"fused: true +# default\n")
        ended = self.call("--config", own, "--run-dir", run.folder, "model.fused=true")
        self.fails(ended, 78)
        self.assertIn("model.fused was false", ended.err)

    @of_each_old_run
    def test_where_the_machine_rounds_alike_it_comes_to_the_bits_of_its_own_program(self, old, run, checkpoint):
        steps = run.events("step")[-1]["step"]
        if program.tensor_checksums(self.begun_here(run, steps)) != program.tensor_checksums(checkpoint):
            self.skipTest("this machine rounds otherwise than the one of the old run; its result_sha256 is not compared")
        self.train(run)
        self.assertEqual(run.hash(), json.loads((old / "ended.json").read_text(encoding="utf-8"))["result_sha256"])

    @of_each_old_run
    def test_it_grows_at_the_end_of_its_epoch(self, old, run, checkpoint):
        state = json.loads(program.checkpoint_header(checkpoint)["__metadata__"]["state"])
        before, epochs = state["logical_ranks"], len(json.loads((old / "ended.json").read_text(encoding="utf-8"))["epochs"])
        self.train(run, f"epochs={state['epoch'] + 1}")
        self.train(run, f"epochs={epochs}", f"distributed.logical_ranks={2 * before}", "--resume-with", "distributed.logical_ranks")
        rows = run.rows()[state["epoch"]:]
        self.assertGreater(len(rows), 1)
        self.assertEqual([int(row["logical_ranks"]) for row in rows], [before] + [2 * before] * (len(rows) - 1))
        self.assertEqual({2 * int(row["steps"]) for row in rows[1:]}, {int(rows[0]["steps"])})
        self.good("verify", run.folder)

    @of_each_old_run
    def test_finished_it_is_known_as_such(self, old, run, checkpoint):
        epochs = json.loads(program.checkpoint_header(checkpoint)["__metadata__"]["state"])["epoch"]
        self.assertGreater(epochs, 0)
        (run.folder / "DONE").write_text("result_sha256 of an older program\n", encoding="utf-8")
        words = (f"epochs={epochs}",)
        self.assertIn("is finished with this configuration", self.train(run, *words).err)
        ended = self.call("--config", run.folder / "config.yaml", "--run-dir", run.folder, *words, "seed=123456")
        self.fails(ended, 78, "holds a finished run that differs")
        self.assertIn("seed was ", ended.err)

    @of_each_old_run
    def test_it_goes_on_with_the_very_weights_of_the_file(self, old, run, checkpoint):
        before = program.tensor_checksums(checkpoint, "model.")
        # A step so small that no weight changes; BatchNorm's statistics still do.
        self.train(run, "optimizer.learning_rate=1e-30", "--resume-with", "optimizer.learning_rate", "--limit-steps", 1)
        (after,) = run.checkpoints()
        self.assertNotEqual(after.name, checkpoint.name)
        after = program.tensor_checksums(after, "model.")
        moved = {name for name in before if before[name] != after[name]}
        self.assertEqual(moved, {name for name in before if name.endswith((".running_mean", ".running_var", ".num_batches_tracked"))})

    @of_each_old_run
    def test_its_weights_are_judged(self, old, run, checkpoint):
        best = json.loads(program.checkpoint_header(checkpoint)["__metadata__"]["state"])["best"]["epoch"]
        figures = {}
        for file in (checkpoint, run.folder / "best.safetensors"):
            figures[file] = self.good("eval", "--config", run.folder / "config.yaml", "--checkpoint", file, "--json").json()
        self.near(figures[file]["loss"], run.rows()[best - 1]["valid_loss"])
        self.assertLess(figures[checkpoint]["loss"], figures[file]["loss"])

    def resume_of(self, run, checkpoint, change):
        """How a resume ends after change(state) was applied to the checkpoint's state."""
        state = json.loads(program.checkpoint_header(checkpoint)["__metadata__"]["state"])
        change(state)
        program.change_metadata(checkpoint, lambda metadata: metadata.update(state=json.dumps(state, separators=(",", ":"), sort_keys=True)))
        return self.call("--config", run.folder / "config.yaml", "--run-dir", run.folder)

    @of_each_old_run
    def test_a_key_of_the_first_release_must_be_there(self, old, run, checkpoint):
        ended = self.resume_of(run, checkpoint, lambda state: state["config"].pop("optimizer.momentum"))
        self.fails(ended, 78)
        self.assertIn("optimizer.momentum was not set and is now 0.9", ended.err)

    @of_each_old_run
    def test_a_field_of_the_first_release_must_be_there(self, old, run, checkpoint):
        self.fails(self.resume_of(run, checkpoint, lambda state: state.pop("cursor")), 65)

    @of_each_old_run
    def test_what_a_newer_program_saved_is_said_to_be_newer(self, old, run, checkpoint):
        self.fails(self.resume_of(run, checkpoint, lambda state: state["config"].update({"optimizer.colour": "red"})), 78)
        ended = self.call("--config", run.folder / "config.yaml", "--run-dir", run.folder, "--resume-with", "optimizer.momentum")
        self.assertEqual(ended.code, 78, ended)
        self.assertIn("was saved by a newer dtrain than this one", ended.err)
        self.assertIn("  optimizer.colour\n", ended.err)
        ended = self.resume_of(run, checkpoint, lambda state: state.update(colour="red"))
        self.fails(ended, 78, "was saved by a newer dtrain than this one", "'colour'")


if __name__ == "__main__":
    program.main(at_once=3)
