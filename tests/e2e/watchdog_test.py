"""Nothing waits for ever: a rank that stalls, or is gone, ends the job; one that is slow does not."""

import json
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
    # More than a start takes on a host that cannot resolve its own name.
    "distributed": {"watchdog": {"warn": "2 s", "abort": "8 s"}},
}
PICTURES = {**LONG, "data": {"format": "image_folder", "root": "pictures", "image": {"size": [32, 32]}}}


class Watchdog(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("long", LONG)

    def job(self, name, act, ranks=2, config="long.yaml"):
        """A job that would run for days; `act` gets the ranks' process ids, by rank, and the job when it has begun to train.
        Returns how it ended, every process of it gone."""
        job = self.start("--config", config, "--run-dir", name, "--progress", "none", ranks=ranks)
        run = self.run_at(name)
        try:
            program.wait_until(lambda: run.steps_logged() >= 3 or job.process.poll() is not None, 60, "the third step")
            pids = job.ranks()
            self.assertEqual(len(pids), ranks, job.said())
            act(pids, job)
            ended = job.wait(60)
            program.wait_until(lambda: not any(map(program.alive, pids)), 10, "every rank is gone")
            return ended
        except BaseException:
            job.kill()
            raise

    def records(self, name):
        return {path.name: json.loads(path.read_text()) for path in (self.folder / name / "flight").glob("*")}

    def stopped_rank_ends_the_job(self, victim):
        name = f"still_{victim}"
        ended = self.job(name, lambda pids, _: os.kill(pids[victim], signal.SIGSTOP), ranks=3)
        self.fails(ended, 76, f"waiting for rank {victim}, last seen in ", "no sign of life", "distributed.watchdog.abort",
                   rank=1 if victim == 0 else 0, last=victim != 0)  # rank 0, woken to be ended, may finish what it was printing
        self.assertRegex(ended.errors[0], r": stalled \d+ s in (all-reduce \d+|[a-z ]+) \(step \d+\); waiting for rank \d, "
                         r"last seen in [\w -]+ at step \d+ on \S+: ")
        warnings = [line for line in ended.err.splitlines() if line.startswith("warning: no rank has made progress") and
                    "in start-up" not in line and "start waits" not in line]  # which takes long where cores are few and slow
        self.assertEqual(len(warnings), 1, ended)
        self.assertIn(f"waiting for rank {victim}, last seen in", warnings[0])
        records = self.records(name)
        # mpirun wakes a stopped process to end it, which may leave it enough time to write.
        woken = records.pop(f"rank-{victim:04}.json", {"reason": "stopped"})
        self.assertEqual(woken["reason"], "stopped")
        self.assertEqual(sorted(records), [f"rank-{rank:04}.json" for rank in range(3) if rank != victim])
        for record in records.values():
            self.assertEqual((record["reason"], record["waited_for"]), ("stall", [victim]))
            self.assertGreater(len(record["events"]), 10)  # three steps at least
            self.assertTrue(record["stack"])

    def test_rank_0_stopped_ends_the_job_with_76_and_rank_1_names_it(self):
        self.stopped_rank_ends_the_job(0)

    def test_rank_1_stopped_ends_the_job_with_76_and_rank_0_names_it(self):
        self.stopped_rank_ends_the_job(1)

    def test_the_last_rank_stopped_ends_the_job_with_76_and_rank_0_names_it(self):
        self.stopped_rank_ends_the_job(2)

    def test_a_rank_whose_disk_hangs_is_named_although_it_lives(self):
        pictures = self.sample("chips", 24, "pictures")
        self.write_config("disk", PICTURES)
        readers = []
        lease = program.Lease()

        def hang(pids, _):
            lease.take(next(path for path in pictures.rglob("*") if path.suffix == ".png"))

            def look():  # one look finds it and remembers it: a thread that stirs for a moment would escape a second one
                readers[:] = [rank for rank, pid in enumerate(pids) if program.waits_for_lease(pid)]
                return readers
            program.wait_until(look, 30, "a rank opens the picture")

        with lease:
            ended = self.job("disk", hang, config="disk.yaml")
        self.assertEqual(ended.code, 76, ended)
        self.assertEqual(len(ended.errors), 1, ended)
        self.assertRegex(ended.errors[0], named(*readers))
        self.assertRegex(ended.errors[0], "in (data loading|evaluation) ")

    def test_a_slow_rank_is_warned_of_and_the_job_goes_on(self):
        self.write_config("patient", LONG, {"distributed": {"watchdog": {"warn": "1 s", "abort": "60 s"}}})

        def slow(pids, job):
            run = self.run_at("slow")
            for times in (1, 2):
                os.kill(pids[1], signal.SIGSTOP)
                program.wait_until(lambda: job.said().count("waiting for rank 1, last seen in") >= times, 30, f"{times} warnings")
                os.kill(pids[1], signal.SIGCONT)
                reached = run.steps_logged()
                program.wait_until(lambda: run.steps_logged() > reached + 3, 30, "more steps")
            for pid in pids:
                os.kill(pid, signal.SIGUSR1)

        ended = self.job("slow", slow, config="patient.yaml")
        self.assertEqual(ended.code, 75, ended)
        warnings = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
        self.assertEqual(len([line for line in warnings if "waiting for rank 1, last seen in" in line]), 2, ended)
        self.assertEqual(self.records("slow"), {})

    def test_a_machine_that_sleeps_is_no_stall(self):
        def sleep(pids, _):
            for number, seconds in ((signal.SIGSTOP, 9.5), (signal.SIGCONT, 1), (signal.SIGUSR1, 0)):
                for pid in pids:
                    os.kill(pid, number)
                time.sleep(seconds)  # longer than the limit, by several checks of a watchdog that would find a stall

        ended = self.job("asleep", sleep)
        self.assertEqual(ended.code, 75, ended)

    def test_a_rank_that_is_killed_ends_the_job(self):
        ended = self.job("killed", lambda pids, _: os.kill(pids[1], signal.SIGKILL))
        self.assertNotEqual(ended.code, 0, ended)

    def test_a_rank_that_never_starts_is_waited_for_in_start_up(self):
        line = program.commands_of_ranks([("--config", "long.yaml", "--run-dir", "absent")] * 3)
        last = len(line) - 1 - line[::-1].index(program.DTRAIN)
        line[last:] = ["sleep", "600"]
        ended = program.Started((), cwd=self.folder, line=line).wait(60)
        self.fails(ended, 76, "in start-up; MPI's start waits for the other 2 ranks, which have not all come", rank=0, last=False)
        self.assertFalse((self.folder / "absent").exists())

    def test_a_failure_leaves_records_and_the_next_start_removes_them(self):
        pictures = self.sample("chips", 24, "pictures_gone")
        self.write_config("gone", PICTURES, {"data": {"root": "pictures_gone"}})
        kept = {path: path.read_bytes() for path in pictures.rglob("*") if path.suffix == ".png"}
        ended = self.job("gone", lambda *_: [path.unlink() for path in kept], config="gone.yaml")
        self.assertEqual((ended.code, len(ended.errors)), (66, 1), ended)
        told = [record for record in self.records("gone").values() if record["reason"] == "failure"]
        self.assertTrue(told)
        for record in told:
            self.assertIn(".png", record["sentence"])
            self.assertTrue(record["events"])
        for path, data in kept.items():
            path.write_bytes(data)
        self.good("--config", "gone.yaml", "--run-dir", "gone", "--limit-steps", "2", ranks=2)
        self.assertEqual(self.records("gone"), {})

    def test_a_second_interrupt_ends_at_once(self):
        pictures = self.sample("chips", 8, "pictures_held")
        self.write_config("held", PICTURES, {"data": {"root": "pictures_held", "split": {"valid": 0}},
                                             "distributed": {"watchdog": {"abort": "60 s"}}})
        # The first step cannot end: a picture of it cannot be read.
        with program.Lease(next(path for path in pictures.rglob("*") if path.suffix == ".png")):
            job = self.start("--config", "held.yaml", "--run-dir", "twice", "batch.per_rank=8")
            try:
                program.wait_until(lambda: program.waits_for_lease(job.process.pid), 60, "the first step")
                program.signal_and_wait(job.process.pid, signal.SIGINT)
                self.assertTrue(program.alive(job.process.pid), "the first interrupt waits for the step")
                job.send(signal.SIGINT)
                ended = job.wait(30)
            finally:
                job.kill()
        self.assertEqual(ended.code, 128 + signal.SIGINT, ended)
        self.assertEqual(list((self.folder / "twice").rglob("*.safetensors*")), [])


def named(rank):
    """The words of an error's line that blame this rank for a stall."""
    return rf"waiting for rank {rank}, last seen in |\[rank {rank} @ .*the other ranks wait for this one"


if __name__ == "__main__":
    program.main(at_once=4)
