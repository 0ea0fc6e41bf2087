"""Launchers that do not do what was meant are found at the start, and the sentence says how to correct it. Slurm is
imitated by the variables that it sets; tests/slurm has the real one."""

import os
import pathlib
import re
import subprocess
import unittest

import program

SMALL = {"task": "multiclass", "model": {"name": "small_cnn"}, "batch": {"per_rank": 4}, "epochs": 1,
         "data": {"format": "synthetic", "synthetic": {"samples": 16, "classes": 2}, "image": {"size": [32, 32]}}}


class Launch(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)

    def test_tasks_of_srun_without_pmi_are_refused_before_they_touch_the_run_folder(self):
        env = {"SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}
        ended = self.call("--config", "small.yaml", "--run-dir", "lone", env=env)
        self.fails(ended, 78, "srun started 4 tasks without the PMIx", "srun --mpi=pmix", "mpirun", rank=0)
        ended = self.call("--config", "small.yaml", "--run-dir", "lone", env={**env, "SLURM_PROCID": "3"})
        self.fails(ended, 78, "srun started 4 tasks without the PMIx", rank=3)
        self.assertFalse((self.folder / "lone").exists())

    def test_one_process_in_a_job_of_several_tasks_is_told_of_them(self):
        ended = self.good("--config", "small.yaml", "--dry-run", env={"SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
        self.assertIn("runs alone inside a Slurm job of 4 tasks; start it with srun --mpi=pmix or mpirun", ended.err)
        for env in ({}, {"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}):
            self.assertNotIn("alone", self.good("--config", "small.yaml", "--dry-run", env=env).err)

    def test_processes_of_another_mpi_are_refused(self):
        env = {"PMI_RANK": "0", "PMI_SIZE": "4"}  # what MPICH's mpiexec sets, and Open MPI does not understand
        ended = self.call("--config", "small.yaml", "--run-dir", "foreign", env=env)
        self.assertEqual(ended.code, 78, ended)
        self.assertRegex(ended.errors[0], "the launcher started 4 processes, but MPI connects none of them: .* Open MPI")
        self.assertFalse((self.folder / "foreign").exists())

    def test_a_rank_that_is_bound_to_one_core_is_told_once(self):
        one_core = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
        ended = self.good("--config", "small.yaml", "--dry-run", ranks=2, through=one_core, env={"SLURM_CPUS_PER_TASK": "8"})
        self.assertEqual(ended.err.count("is bound to"), 1, ended)
        self.assertRegex(ended.err, r"rank 0 on \S+ is bound to 1 core, although Slurm was asked for 8 per task: .*mpirun --bind-to none")
        if len(os.sched_getaffinity(0)) > 1:
            self.assertNotIn("is bound to", self.good("--config", "small.yaml", "--dry-run", ranks=2).err)


class LastWord(program.ProgramTest):
    """Under mpirun dtrain's last line is the last one: Open MPI adds nothing about a rank that ends or is stopped."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)
        cls.write_config("long", SMALL, {"epochs": 100_000})

    def last_line(self, ended, code):
        self.assertEqual(ended.code, code, ended)
        for of_open_mpi in ("------", "MPI_ABORT", "Primary job", "mpirun detected", "help message"):
            self.assertNotIn(of_open_mpi, ended.out + ended.err, ended)
        # On a crowded machine mpirun's libevent may find a pipe closed that it still watched, and says so.
        return [line for line in ended.err.splitlines() if line and not line.startswith("[warn] Epoll")][-1]

    def test_a_mistake_that_is_found_before_mpi_starts(self):
        for ranks, words, code, told in ((2, ("--config", "small.yaml", "typo=3"), 78, "unknown key 'typo'"),
                                         (1, ("--config", "small.yaml", "typo=3"), 78, "unknown key 'typo'"),
                                         (2, ("--cofnig", "small.yaml"), 64, "--cofnig"), (2, ("--config", "absent.yaml"), 66, "absent.yaml"),
                                         (2, ("--config", "small.yaml", "distributed.backend=serial"), 78, "serial")):
            with self.subTest(words=words, ranks=ranks):
                place = r" \[rank 0 @ .*\]" if ranks > 1 else ""
                self.assertRegex(self.last_line(self.call(*words, ranks=ranks), code), rf"^dtrain: error {code}{place}: .*{told}")

    def test_a_mistake_that_is_found_later_and_one_of_a_single_rank(self):
        ended = self.call("--config", "small.yaml", "model.weights=absent.safetensors", ranks=2)
        self.assertRegex(self.last_line(ended, 66), r"^dtrain: error 66 \[rank \d @ .*absent")
        ended = self.call_ranks(("--config", "small.yaml"), ("--config", "small.yaml", "typo=3"))
        self.assertRegex(self.last_line(ended, 78), r"^dtrain: error 78 \[rank 1 @ .*unknown key 'typo'")

    def test_a_command_that_rank_0_does_alone(self):
        for words, code, told in ((("verify", "absent"), 66, "absent does not exist"), (("check", "--config", "small.yaml", "typo=3"), 78, "typo"),
                                  (("check", "--config", "small.yaml", "model.outputs=7", "--output", "small.json"), 78, "model.outputs is 7"),
                                  (("report", "absent"), 66, "absent"), (("info",), 0, "")):
            with self.subTest(words=words):
                ended = self.call(*words, ranks=2)
                if code == 0:
                    self.assertEqual((ended.code, ended.err), (0, ""), ended)
                    self.assertEqual(ended.out.count("LibTorch"), 1, ended)
                else:
                    self.assertRegex(self.last_line(ended, code), rf"^dtrain: error {code} \[rank 0 @ .*\]: .*{told}")

    def test_a_stop_is_no_failure(self):
        ended = self.call("--config", "long.yaml", "--run-dir", "stopped", "--max-time", "1 s", "--progress", "none", ranks=2)
        self.assertRegex(self.last_line(ended, 75), "^stopped at step .*continues from there")
        self.assertIn(self.run_at("stopped").checkpoints()[-1].name, self.last_line(ended, 75))
        self.assertIn("stopped at step", (self.folder / "stopped/log.txt").read_text().splitlines()[-1])

    def test_a_rank_that_never_comes_is_not_waited_for(self):
        line = program.commands_of_ranks([("--config", "small.yaml", "typo=3")] * 2)
        last = len(line) - 1 - line[::-1].index(program.DTRAIN)
        line[last:] = ["sleep", "600"]
        ended = program.Started((), cwd=self.folder, line=line).wait(60)
        self.fails(ended, 78, "unknown key 'typo'", rank=0, last=False)


@unittest.skipIf(program.SANITIZED, "a sanitizer has a heap of its own")
@unittest.skipUnless(os.path.exists("/sys/kernel/mm/transparent_hugepage"), "this kernel has no large pages")
class Heap(program.ProgramTest):
    def test_what_libraries_register_lies_in_large_pages(self):
        self.write_config("long", SMALL, {"epochs": 100_000})
        started = self.start("--config", "long.yaml", "--run-dir", "long")
        try:
            program.wait_until(lambda: self.run_at("long").steps_logged() > 0, 60, started.said)
            maps = pathlib.Path(f"/proc/{started.process.pid}/smaps").read_text()
        finally:
            started.kill()
        heap = re.findall(r"^(\w+)-(\w+) .*\[heap\]\n(?:[A-Z].*\n)*?VmFlags:(.*)$", maps, re.MULTILINE)
        large = sum(int(end, 16) - int(begin, 16) for begin, end, flags in heap if "hg" in flags.split())
        self.assertGreater(large, 56 << 20, heap)


class Strangers(program.ProgramTest):
    """Files of other users beside, above and below the program are not taken for its own."""

    def test_libraries_in_the_working_directory_are_not_loaded(self):
        lib = self.folder / "libraries"
        lib.mkdir()
        needed = re.findall(r"^\s+(\S+) => /", subprocess.run(["ldd", program.DTRAIN], capture_output=True, text=True, check=True).stdout, re.M)
        self.assertIn("libisal.so.2", needed)
        for name in needed:
            (lib / name).write_text("no library")
        ended = program.Started(["--version"], cwd=lib).wait(20)
        self.assertEqual((ended.code, ended.err), (0, ""), ended)

    def test_a_module_above_the_program_s_folder_is_not_loaded(self):
        own = self.folder / "near/bundle/bin/dtrain"
        own.parent.mkdir(parents=True)
        subprocess.run(["cp", program.DTRAIN, own], check=True)  # shutil's copy would be open in a process that another thread forks
        stray = self.folder / "near/libdtrain_dicom.so"
        stray.write_text("no library")
        for part in ("a", "b"):
            (self.folder / "scans" / part).mkdir(parents=True)
            (self.folder / "scans" / part / "1.dcm").write_bytes(bytes(128) + b"DICM")
        self.write_config("scans", {"data": {"format": "image_folder", "root": "scans", "image": {"size": [32, 32]}}})
        check = lambda: program.Started([], cwd=self.folder, line=[str(own), "check", "--config", "scans.yaml"]).wait(20)  # noqa: E731
        self.assertIn("libdtrain_dicom.so, which reads such, is not in lib/", self.fails_in(check(), 65))
        inside = own.parent.parent / "lib/libdtrain_dicom.so"
        inside.parent.mkdir()
        stray.rename(inside)
        self.assertIn(f"{inside} belongs to another build", self.fails_in(check(), 66))
        inside.parent.chmod(0o777)
        self.assertIn(f"{inside.parent} may be written by everybody", self.fails_in(check(), 77))

    def fails_in(self, ended, code):
        self.assertEqual(ended.code, code, ended)
        return ended.err


if __name__ == "__main__":
    program.main(at_once=3)
