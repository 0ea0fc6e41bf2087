"""Nothing waits for ever: a rank that stands still, or is gone, ends the job."""

import os
import signal
import time

import program

LONG = {
    "epochs": 1000000,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "data": {"format": "synthetic", "synthetic": {"samples": 64, "classes": 2}, "image": {"size": [32, 32]}},
    "checkpoint": {"every": "1000000 epochs"},
    "distributed": {"watchdog": {"abort": "8 s"}},  # above what a start takes where the host cannot resolve its own name
}


class Watchdog(program.ProgramTest):
    def job(self, name, act):
        """A job of two ranks that would run for days; `act` gets the ranks' process ids when it has begun to train."""
        self.write_config("long", LONG)
        job = self.start("--config", "long.yaml", "--run-dir", name, "--progress", "none", ranks=2)
        run = self.run_at(name)
        try:
            program.wait_until(lambda: run.steps_logged() >= 3, 60, "the third step")
            ranks = job.ranks()
            self.assertEqual(len(ranks), 2)
            act(ranks)
            ended = job.wait(30)
            program.wait_until(lambda: not any(map(program.alive, ranks)), 10, "every rank is gone")
            return ended
        except BaseException:
            job.kill()
            raise

    def test_a_rank_that_stands_still_ends_the_job_with_76(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                ended = self.job(f"still_{victim}", lambda ranks: os.kill(ranks[victim], signal.SIGSTOP))
                self.assertEqual(ended.code, 76, ended)
                first = ended.errors[0]
                self.assertRegex(first, rf"^dtrain: error 76 \[rank {1 - victim} @ .*\]: stalled \d+ s in [\w -]+ \(step \d+\)")
                self.assertIn("distributed.watchdog.abort", first)

    def test_a_rank_that_is_killed_ends_the_job(self):
        ended = self.job("killed", lambda ranks: os.kill(ranks[1], signal.SIGKILL))
        self.assertNotEqual(ended.code, 0, ended)

    def test_a_second_interrupt_ends_at_once(self):
        self.write_config("slow", LONG, {"batch": {"per_rank": 1000}, "data": {"synthetic": {"samples": 400}, "image": {"size": [512, 512]}},
                                         "distributed": {"watchdog": {"abort": "60 s"}}})
        job = self.start("--config", "slow.yaml", "--run-dir", "twice")
        program.wait_until(lambda: (self.folder / "twice/run.json").exists(), 60, "the run folder")
        job.send(signal.SIGINT)
        time.sleep(0.3)
        self.assertTrue(program.alive(job.process.pid), "the first interrupt waits for the step, which takes seconds")
        job.send(signal.SIGINT)
        ended = job.wait(5)
        self.assertEqual(ended.code, 128 + signal.SIGINT, ended)
        self.assertEqual(list((self.folder / "twice").rglob("*.safetensors*")), [])


if __name__ == "__main__":
    program.main()
