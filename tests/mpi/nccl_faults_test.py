"""What goes wrong in NCCL ends the job with the right code, names the right rank, and leaves nobody. NCCL is the tests' own
(tests/support/nccl), under the program's calls of it; the program is test_mpi_nccl, by DTRAIN_PROGRAM.

A campaign of many faults, from the top folder:

  DTRAIN_PROGRAM=build/release/bin/test_mpi_nccl DTRAIN_COUNT=100 DTRAIN_SEED=1 \\
    python3 -B tests/mpi/nccl_faults_test.py NcclFaults.test_faults_drawn_at_random
"""

import contextlib
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import program  # noqa: E402


def ranks_of(folder, plan):
    """Process ids of the ranks whose NCCL behaves by `plan`; other tests have other plans, other runs another folder."""
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            ours = (os.path.realpath(program.DTRAIN), os.path.realpath(folder)) == (os.readlink(process / "exe"), os.readlink(process / "cwd"))
            if ours and f"DTRAIN_STAND_IN_NCCL={plan}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.add(int(process.name))
    return found


class Drawn:
    """A fault of one rank at one moment of a job, and how the job has to end."""

    def __init__(self, draw):
        self.ranks, at = draw.choice((2, 3, 4)), draw.randrange(1, 31)
        self.victim = draw.randrange(self.ranks)
        self.fault = draw.choice(("stop", "stop", "kill", "kill", "error", "start"))
        self.job = draw.choice(("limited", "watched")) if self.fault == "stop" else "limited"
        shows = self.fault == "kill" and draw.random() < 0.5
        self.limit_s = 60 if shows or self.fault == "error" else 2
        self.code = {"stop": 76, "start": 76, "kill": 137, "error": 69}[self.fault]  # 137: the launcher's, for a rank that died
        self.plan = f"fault={self.fault},rank={self.victim}" + ("" if self.fault == "start" else f",at={at}") + (",deaths=show" if shows else "")

    def __str__(self):
        return f"{self.job} job of {self.ranks} ranks, {self.plan}"

    def told(self):
        """What somebody has to have said; nothing where the launcher may end all before they can."""
        if self.job == "watched":
            return rf"(?m)^rank \d: stalled .*rank {self.victim}, last seen in .*no sign of life"
        if self.fault == "error":
            return rf"(?m)^rank {self.victim} ends with 69: "
        return rf"(?m)^rank (?!{self.victim})\d ends with 76: .* was not carried out for 2\.0 s" if self.code == 76 else ""


class NcclFaults(program.ProgramTest):
    def ended(self, *words, plan, ranks=3, seed=None):
        """How a job ended whose NCCL behaves by `plan`, every process of it gone. `seed`: of its pauses."""
        # What killed processes leave behind goes with the folder: Open MPI's shared memory, and the file behind the NCCL.
        env = {"DTRAIN_STAND_IN_NCCL": plan, **({"DTRAIN_SEED": str(seed)} if seed else {}), "TMPDIR": str(self.folder), "OMPI_MCA_btl_vader_backing_directory": str(self.folder)}
        job = self.start(*words, ranks=ranks, env=env)
        try:
            program.wait_until(lambda: job.process.poll() is not None, 60, "the job to end")
            program.wait_until(lambda: not ranks_of(self.folder, plan), 10, "every rank is gone")
        except BaseException:
            job.kill()
            raise
        return job.wait(1)

    def said(self, ended, rank):
        return [line for line in ended.err.splitlines() if line.startswith(f"rank {rank}")]

    def survivors_say(self, ended, told):
        """Of rank 0 and 2 one at least; the launcher may end the other before it can."""
        lines = self.said(ended, 0) + self.said(ended, 2)
        self.assertTrue(lines, ended)
        for line in lines:
            self.assertRegex(line, told, ended)

    def test_a_rank_that_stops_inside_a_group_ends_the_job_with_76_at_the_others_limit(self):
        ended = self.ended("limited", 2, plan="fault=stop,rank=1,at=5")
        self.assertEqual(ended.code, 76, ended)
        self.assertRegex(ended.err, r"(?m)^rank 0 ends with 76: \w.* was not carried out for 2\.0 s: a peer is gone")

    def test_a_rank_killed_inside_a_group_ends_the_job_and_the_others_meet_their_limit(self):
        ended = self.ended("limited", 2, plan="fault=kill,rank=1,at=5")
        self.assertEqual(ended.code, 137, ended)  # the launcher's, for a rank that died
        self.survivors_say(ended, "ends with 76: .* was not carried out for 2.0 s")
        self.assertEqual(self.said(ended, 1), [])

    def test_a_rank_killed_where_its_network_shows_it_ends_the_others_with_69_at_once(self):
        ended = self.ended("limited", 60, plan="fault=kill,rank=1,at=5,deaths=show")
        self.assertEqual(ended.code, 137, ended)
        self.survivors_say(ended, "ends with 69: .*a peer or its network failed")

    def test_a_start_that_one_rank_never_makes_ends_with_76(self):
        ended = self.ended("limited", 2, plan="fault=start,rank=1")
        self.assertEqual(ended.code, 76, ended)
        self.assertIn("rank 0 ends with 76: ncclCommInitRankConfig was not carried out for 2.0 s", ended.err)

    def test_an_error_that_nccl_tells_later_ends_with_69_on_the_rank_that_it_tells(self):
        ended = self.ended("limited", 60, plan="fault=error,rank=0,at=5")
        self.assertEqual(ended.code, 69, ended)
        self.assertRegex(ended.err, r"(?m)^rank 0 ends with 69: .* failed: a peer or its network failed")
        self.assertEqual(self.said(ended, 1) + self.said(ended, 2), [])

    def test_a_rank_that_stops_while_the_device_is_waited_for_ends_the_job_with_76(self):
        ended = self.ended("waiting", 2, plan="fault=stop,rank=1,at=9", ranks=2)
        self.assertEqual(ended.code, 76, ended)
        self.assertRegex(ended.err, r"(?m)^rank 0 ends with 76: a sum over ranks was not carried out for 2\.0 s: a peer is gone")

    def test_an_error_while_the_device_is_waited_for_ends_with_69(self):
        ended = self.ended("waiting", 60, plan="fault=error,rank=0,at=9", ranks=2)
        self.assertEqual(ended.code, 69, ended)
        self.assertRegex(ended.err, r"(?m)^rank 0 ends with 69: .* failed: a peer or its network failed")

    def test_a_rank_that_stops_while_the_cost_of_sums_is_measured_ends_the_job_with_76(self):
        # In the last of these sums.
        ended = self.ended("measuring", 2, plan="fault=stop,rank=0,at=20", ranks=2)
        self.assertEqual(ended.code, 76, ended)
        self.assertRegex(ended.err, r"(?m)^rank 1 ends with 76: a sum over ranks was not carried out for 2\.0 s: a peer is gone")

    def test_faults_drawn_at_random(self):
        count, seed = program.campaign(2)
        draw, seconds = random.Random(seed), []
        for number in range(count):
            fault = Drawn(draw)
            with self.subTest(seed=seed, number=number, fault=str(fault)):
                started = time.monotonic()
                ended = self.ended(fault.job, fault.limit_s, plan=fault.plan, ranks=fault.ranks, seed=draw.randrange(1, 1000000))
                seconds.append(time.monotonic() - started)
                self.assertEqual(ended.code, fault.code, ended)
                if fault.told():
                    self.assertRegex(ended.err, fault.told())
                if fault.fault == "kill":  # a stopped one is woken to be ended, and meets its limit
                    self.assertEqual(self.said(ended, fault.victim), [], ended)
        if not seconds:
            return
        print(f"DTRAIN_SEED={seed}: {len(seconds)} of {count} faults ended their jobs, in {statistics.median(seconds):.1f} s (median), "
              f"{max(seconds):.1f} s (most)", file=sys.stderr)

    def watchdog_names(self, victim, speaker):
        ended = self.ended("watched", 2.5, plan=f"fault=stop,rank={victim},at=12", ranks=2)
        self.assertEqual(ended.code, 76, ended)
        self.assertRegex(ended.err, rf"(?m)^rank {speaker}: stalled .*; waiting for rank {victim}, last seen in .*no sign of life")

    def test_in_a_training_the_watchdog_of_rank_0_names_rank_1_that_stopped_inside_a_group(self):
        self.watchdog_names(1, 0)

    def test_in_a_training_the_watchdog_of_rank_1_names_rank_0_that_stopped_inside_a_group(self):
        self.watchdog_names(0, 1)


if __name__ == "__main__":
    program.main(at_once=3)
