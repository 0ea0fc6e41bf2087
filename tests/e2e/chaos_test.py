"""Short campaigns of scripts/chaos against whole jobs: what the long ones of docs/reliability.md run for hours."""

import os
import pathlib
import subprocess
import sys
import unittest

import program

CHAOS = pathlib.Path(__file__).resolve().parents[2] / "scripts/chaos"


class Chaos(unittest.TestCase):
    def campaign(self, *words):
        build = pathlib.Path(os.path.realpath(program.DTRAIN)).parents[1]
        ended = subprocess.run([sys.executable, "-B", CHAOS, *words, "--build", build], capture_output=True, text=True,
                               timeout=600 * program.PATIENCE, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr + ended.stdout)
        return ended.stdout

    def test_jobs_that_are_killed_go_on_to_the_same_bits(self):
        self.assertIn("held  2\n", self.campaign("kill", "--count", "2", "--seed", str(os.getpid())))

    def test_jobs_that_are_signalled_end_with_75_and_go_on(self):
        self.assertIn("held  1\n", self.campaign("signals", "--count", "1", "--seed", str(os.getpid())))

    def test_predictions_that_are_killed_leave_nothing_half_written_and_go_on(self):
        self.assertIn("held  3\n", self.campaign("predict", "--count", "3", "--seed", str(os.getpid())))

    def test_sweeps_that_are_killed_go_on_and_train_no_point_twice(self):
        self.assertIn("held  1\n", self.campaign("sweep", "--kills", "2", "--seed", str(os.getpid())))

    def test_a_stop_after_every_step(self):
        self.assertIn("resumes  8\n", self.campaign("resume", "--count", "8"))  # six are an epoch


if __name__ == "__main__":
    program.main(at_once=3)
