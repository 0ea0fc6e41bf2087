"""No run is lost: one job per run folder, saves that fail, and stops at an awkward moment."""

import json
import os
import signal

import program

SMALL = {
    "seed": 3,
    "epochs": 4,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "distributed": {"logical_ranks": 4},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 3}, "image": {"size": [32, 32]}, "split": {"valid": 20 / 60}},
}
FOR_EVER = ("epochs=1000000", "checkpoint.every=1000000 epochs", "--progress", "none")


def handles_usr1(pid):
    """True once the process handles USR1, which from then on no longer kills it."""
    return program.in_status(pid, "SigCgt", signal.SIGUSR1)


class Stop(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)

    def straight(self, config, *words):
        name = "-".join(("straight", config, *words))

        def train():
            self.good("--config", f"{config}.yaml", "--run-dir", name, *words, ranks=2)
            return self.run_at(name)
        return self.once(name, train)

    def begun(self, name, *words, config="small", ranks=None, steps=3):
        """A job that has taken some steps."""
        job = self.start("--config", f"{config}.yaml", "--run-dir", name, *words, ranks=ranks)
        run = self.run_at(name)
        try:
            program.wait_until(lambda: run.steps_logged() >= steps or job.process.poll() is not None, 60, f"step {steps}")
        except BaseException:
            job.kill()
            raise
        return job, run

    def goes_on(self, run, config, *words, ranks=None):
        self.good("--config", f"{config}.yaml", "--run-dir", run.folder.name, *words, ranks=ranks)
        straight = self.straight(config, *words)
        self.assertTrue(run.done())
        self.assertEqual(run.hash(), straight.hash())
        self.assertEqual(run.result_rows(), straight.result_rows())
        self.assertEqual([event["step"] for event in run.events("step")], list(range(1, straight.facts()["steps"] + 1)))

    # One job to a folder.

    def test_a_second_job_in_the_same_folder_is_refused_and_named(self):
        job, run = self.begun("shared", *FOR_EVER)
        job.send(signal.SIGSTOP)  # it still exists, but uses no processor time
        try:
            common = ("--config", "small.yaml", "--run-dir", "shared")
            refused = [self.start(*common, *words) for words in ((), ("--resume", "never"))]  # each waits 5 s for the first one
            self.good(*common, "--dry-run")
            for second in refused:
                self.fails(second.wait(60), 78, "another job is training in", f"process {job.process.pid} on ", "--run-dir")
        finally:
            job.send(signal.SIGCONT)
            job.send(signal.SIGUSR1)
            ended = job.wait(30)
        self.assertEqual(ended.code, 75, ended)
        self.assertNotIn("taking over", self.good("--config", "small.yaml", "--run-dir", "shared", *FOR_EVER, "--limit-steps", 1).err)

    def test_a_folder_left_by_a_killed_job_is_taken_over_with_one_line(self):
        job, run = self.begun("left", *FOR_EVER, "checkpoint.every=1 step")
        program.wait_until(run.checkpoints, 30, "a checkpoint")
        job.process.kill()
        job.wait(10)
        ended = self.good("--config", "small.yaml", "--run-dir", "left", *FOR_EVER, "--limit-steps", 1)
        self.assertEqual(ended.err.count("taking over"), 1)
        self.assertIn(f"process {job.process.pid} on ", ended.err)
        self.assertEqual(len(run.events("resume")), 1)

    # Saves.

    def test_time_between_checkpoints(self):
        job, run = self.begun("timed", "epochs=1000000", "checkpoint.every=0.3 s", "checkpoint.keep=2", ranks=2)

        def saved():
            return (run.folder / "metrics.jsonl").read_text().count('"event":"checkpoint"')
        try:
            program.wait_until(lambda: saved() >= 3, 60, "three checkpoints")
            program.wait_until(lambda: run.steps_logged() > saved() + 3, 60, "steps without a checkpoint")
        finally:
            job.send(signal.SIGUSR1)
            ended = job.wait(60)
        self.assertEqual(ended.code, 75, ended)
        steps = [event["step"] for event in run.events("checkpoint")]
        self.assertLess(len(steps), run.facts()["steps"], "not after every step")
        self.assertLessEqual(len(run.checkpoints()), 2)

    def no_room(self, name, *words):
        """A job whose files cannot grow beyond what a checkpoint needs."""
        return self.call("--config", "small.yaml", "--run-dir", name, *words, through=program.limited("fsize", 200_000))

    def test_saves_that_fail_are_told_and_do_not_end_training_before_max_failed(self):
        ended = self.no_room("no_room", "checkpoint.max_failed=100", "checkpoint.every=2 steps", "data.split.valid=0")
        self.fails(ended, 74, "no_room/checkpoints/epoch-0004-step-00000032")
        self.assertIn("is NOT SAVED (step 2)", ended.err)
        run = self.run_at("no_room")
        self.assertEqual(run.steps_logged(), 32)
        self.assertEqual((run.done(), run.checkpoints(), list(run.folder.rglob("*.tmp"))), (False, [], []))
        ended = self.no_room("no_room_3", "checkpoint.every=2 steps", "data.split.valid=0")
        self.fails(ended, 74, "3 checkpoints in a row could not be saved", "no checkpoint is saved yet")
        self.assertLess(self.run_at("no_room_3").steps_logged(), 32)
        self.goes_on(run, "small", "data.split.valid=0")

    def test_the_best_weights_are_those_that_the_run_tells_of(self):
        def best_epoch():
            return program.checkpoint_header(self.folder / "best/best.safetensors")["__metadata__"]["epoch"]
        words = ("--config", "small.yaml", "--run-dir", "best", "checkpoint.keep=100")
        self.good(*words)
        (self.folder / "best/best.safetensors").unlink()
        ended = self.good(*words, "epochs=5", ranks=2)
        self.assertIn("best.safetensors (epoch ", ended.err)
        self.assertEqual(best_epoch(), "5", "the best epoch that was trained since")
        first = self.run_at("best").checkpoints()[0]
        ended = self.good(*words, "--resume", first, "optimizer.learning_rate=0.002", "--resume-with", "optimizer.learning_rate",
                          "epochs=2")
        self.assertIn("was set aside as ", ended.err)
        self.assertTrue((self.folder / "best/best.safetensors.aside").exists())
        self.assertEqual(best_epoch(), "2")
        self.good("verify", "best")

    def test_a_run_that_begins_with_another_runs_checkpoint_has_its_own_at_once(self):
        self.good("--config", "small.yaml", "--run-dir", "there", "epochs=2")
        other = self.run_at("there").checkpoints()[-1]
        job = self.start("--config", "small.yaml", "--run-dir", "here", "--resume", other)
        program.wait_until(lambda: handles_usr1(job.process.pid) or job.process.poll() is not None, 30, "a handler of USR1")
        job.send(signal.SIGUSR1)
        ended = job.wait(30)
        self.assertEqual(ended.code, 75, ended)
        self.assertIn("with --resume auto continues from there", ended.err)
        self.good("--config", "small.yaml", "--run-dir", "here")
        self.assertEqual(self.run_at("here").hash(), self.straight("small").hash())
        self.good("verify", "here")
        ended = self.call("--config", "small.yaml", "--run-dir", "ended", "--resume", other, "epochs=2")
        self.fails(ended, 78, "has finished 2 epochs, and epochs is 2", "nothing is left to train in ", "set epochs")
        self.assertFalse((self.folder / "ended").exists())
        # After the last step, but before its validation, there is still something to do.
        self.good("--config", "small.yaml", "--run-dir", "steps", "epochs=1", "checkpoint.every=1 steps", "checkpoint.keep=99")
        last = max(path for path in self.run_at("steps").checkpoints() if path.name.startswith("epoch-0000-"))
        self.good("--config", "small.yaml", "--run-dir", "judged", "epochs=1", "checkpoint.every=1 steps", "--resume", last)
        self.assertEqual(self.run_at("judged").hash(), self.run_at("steps").hash())

    # Stops.

    def test_a_run_ends_where_its_monitor_has_not_improved(self):
        # min_delta: no epoch after the first counts as better, so the second and third end it.
        early = ("epochs=20", "early_stop={monitor: train.loss, patience: 2, min_delta: 100}")
        straight = self.straight("small", *early)
        self.assertTrue(straight.done())
        self.assertEqual([row["epoch"] for row in straight.rows()], ["1", "2", "3"])
        plain = self.straight("small", "epochs=3")  # what it learned is the same
        self.assertEqual(straight.hash(), plain.hash())
        again = self.good("--config", "small.yaml", "--run-dir", straight.folder.name, *early)
        self.assertIn("train.loss has not improved in 2 epochs (early_stop); nothing to do. More epochs: early_stop.patience=N "
                      "--resume-with early_stop.patience", again.err)
        # Interrupted in the second epoch on two processes, it ends in the third on one.
        self.good("--config", "small.yaml", "--run-dir", "watched", *early, "--limit-steps", "7", ranks=2)
        self.goes_on(self.run_at("watched"), "small", *early)
        more = early[0], "early_stop={monitor: train.loss, patience: 4, min_delta: 100}"
        ended = self.call("--config", "small.yaml", "--run-dir", "watched", *more)
        self.fails(ended, 78, "belongs to another configuration")
        self.assertIn("early_stop.patience was 2 and is now 4", ended.err)
        self.good("--config", "small.yaml", "--run-dir", "watched", *more, "--resume-with", "early_stop.patience")
        self.assertEqual(len(self.run_at("watched").rows()), 5)
        # Without a word of it a run goes on to its last epoch.
        off = self.call("--config", "small.yaml", *more, "early_stop=none", "--print-config")
        self.assertIn("patience: none", off.out)
        self.fails(self.call("--config", "small.yaml", "--run-dir", "unwatched", "early_stop.patience=2", "data.split.valid=0"), 78,
                   "early_stop watches valid.")

    def test_max_time_stops_and_the_same_command_goes_on(self):
        words = ("--config", "small.yaml", "--run-dir", "hours", *FOR_EVER)
        ended = self.call(*words, "--max-time", "1.5 s", ranks=2)
        run = self.run_at("hours")
        self.assertEqual(ended.code, 75, ended)
        self.assertIn("stopped at step", ended.err)
        self.assertEqual(len(run.checkpoints()), 1)
        state = json.loads(program.checkpoint_header(run.checkpoints()[0])["__metadata__"]["state"])
        self.assertLess(state["elapsed_s"], 3)  # of training; twice as long, for a machine that pauses meanwhile
        step = run.events("step")[-1]["step"]
        self.good(*words, "--limit-steps", 2)
        self.assertEqual([event["step"] for event in run.events("resume")], [step])
        self.assertEqual([event["step"] for event in run.events("step")], list(range(1, step + 3)))
        self.good("--config", "small.yaml", "--run-dir", "hours_straight", *FOR_EVER, "--limit-steps", step + 2)
        self.assertEqual(program.result_of(run.checkpoints()[-1]), program.result_of(self.run_at("hours_straight").checkpoints()[-1]))
        for wrong in ("2 epochs", "0 s"):  # tests/unit/base has texts that are not times
            self.fails(self.call("--config", "small.yaml", "--max-time", wrong), 64, "--max-time")

    def test_a_stop_during_evaluation_keeps_the_epochs_steps(self):
        pictures = self.sample("chips", 24, "chips")
        names = sorted(str(path.relative_to(pictures)) for path in pictures.rglob("*.*"))
        for part, listed in (("train", names[::3]), ("valid", names[1::3] + names[2::3])):
            (self.folder / f"{part}.txt").write_text("\n".join(listed))
        self.write_config("judging", {key: SMALL[key] for key in SMALL if key != "data"}, {
            "epochs": 2, "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]},
                                  "split": {"files": {part: str(self.folder / f"{part}.txt") for part in ("train", "valid")}}}})
        with program.Lease(pictures / names[1]):  # the evaluation cannot end before the lease does
            job, run = self.begun("judging", config="judging", ranks=2, steps=1)
            try:
                ranks = job.ranks()
                program.wait_until(lambda: any(map(program.waits_for_lease, ranks)), 30, "an evaluation")
                for pid in ranks:
                    program.signal_and_wait(pid, signal.SIGUSR1)
            except BaseException:
                job.kill()
                raise
        ended = job.wait(30)
        self.assertEqual(ended.code, 75, ended)
        self.assertEqual(run.rows(), [], "the evaluation was left")
        self.assertEqual([path.name for path in run.checkpoints()], ["epoch-0000-step-00000001.safetensors"])
        self.goes_on(run, "judging")

    def test_a_stop_during_start_up_ends_with_75_and_a_checkpoint(self):
        job = self.start("--config", "small.yaml", "--run-dir", "early")
        program.wait_until(lambda: handles_usr1(job.process.pid) or job.process.poll() is not None, 30, "a handler of USR1")
        job.send(signal.SIGUSR1)
        self.assertEqual(job.wait(30).code, 75)
        run = self.run_at("early")
        self.assertEqual(len(run.checkpoints()), 1)
        self.goes_on(run, "small", ranks=3)

    def test_a_terminal_that_goes_away_saves_and_ends_with_75_unless_nohup_is_there(self):
        job, run = self.begun("hung_up", *FOR_EVER)
        job.send(signal.SIGHUP)
        ended = job.wait(30)
        self.assertEqual(ended.code, 75, ended)
        self.assertEqual(program.result_of(run.checkpoints()[-1]), run.hash())
        job = self.start("--config", "small.yaml", "--run-dir", "nohup", *FOR_EVER, through=["nohup"])
        run = self.run_at("nohup")
        try:
            program.wait_until(lambda: run.steps_logged() >= 3, 60, "step 3")
            job.send(signal.SIGHUP)
            reached = run.steps_logged()
            program.wait_until(lambda: run.steps_logged() > reached + 3, 30, "more steps")
        finally:
            job.send(signal.SIGUSR1)
            self.assertEqual(job.wait(30).code, 75)

    def test_a_storm_of_signals_is_harmless(self):
        job, run = self.begun("storm", "epochs=1000000", "checkpoint.every=1000000 epochs", ranks=2)
        ranks = job.ranks()
        for _ in range(300):
            for pid in ranks:
                os.kill(pid, signal.SIGUSR2)
        for _ in range(300):
            for pid in ranks:
                if program.alive(pid):
                    os.kill(pid, signal.SIGUSR1)
        ended = job.wait(30)
        self.assertEqual(ended.code, 75, ended)
        self.assertEqual(program.result_of(run.checkpoints()[-1]), run.hash())


if __name__ == "__main__":
    program.main(at_once=3)
