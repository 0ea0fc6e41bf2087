"""What goes wrong in NCCL ends the job with the right code, names the right rank, and leaves nobody. NCCL is the tests' own
(tests/support/nccl), under the program's calls of it; the program is test_mpi_nccl, by DTRAIN_PROGRAM."""

import contextlib
import os
import pathlib
import sys

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


class NcclFaults(program.ProgramTest):
    def ended(self, *words, plan, ranks=3):
        """How a job ended whose NCCL behaves by `plan`, every process of it gone."""
        # What killed processes leave behind goes with the folder: Open MPI's shared memory, and the file behind the NCCL.
        env = {"DTRAIN_STAND_IN_NCCL": plan, "TMPDIR": str(self.folder), "OMPI_MCA_btl_vader_backing_directory": str(self.folder)}
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
        ended = self.ended("measuring", 2, plan="fault=stop,rank=0,at=21", ranks=2)
        self.assertEqual(ended.code, 76, ended)
        self.assertRegex(ended.err, r"(?m)^rank 1 ends with 76: a sum over ranks was not carried out for 2\.0 s: a peer is gone")

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
