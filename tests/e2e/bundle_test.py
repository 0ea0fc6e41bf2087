"""A bundle of this build, moved after it was made, works in an environment that names nothing of this machine but LibTorch,
and takes everything else from its own folder."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import program

BUILD = pathlib.Path(program.DTRAIN).resolve().parent.parent
TORCH = os.environ.get("DTRAIN_TEST_TORCH")  # this build's LibTorch
# What a process of the bundle may have mapped from outside of it, apart from LibTorch and the libraries beside that.
OF_THE_SYSTEM = re.compile(r"(ld-linux[\w-]*|lib(c|m|pthread|dl|rt|util|stdc\+\+|gcc_s|nss_\w+|resolv))[-.\d]*\.so(\.\d+)*")
JOB = ["device=cpu", "data.format=synthetic", "data.synthetic.samples=64", "data.synthetic.classes=2", "data.image.size=[16, 16]", "task=multiclass",
       "model.name=small_cnn", "batch.per_rank=2", "--progress", "none"]


@unittest.skipUnless(TORCH, "no LibTorch was named")
class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(os.path.realpath(tempfile.mkdtemp(prefix="dtrain-e2e-")))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        made = subprocess.run([program.ROOT / "scripts/bundle", cls.folder / "made here", "--build", BUILD, "--archive"],
                              capture_output=True, text=True, timeout=100, check=False)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        cls.said = made.stdout
        cls.top = cls.folder / "and moved" / "dtrain"
        cls.top.parent.mkdir()
        (cls.folder / "made here").rename(cls.top)
        (cls.folder / "empty.yaml").write_text("name: bundled\n")

    def start(self, name, *words, torch=TORCH, **variables):
        """A program of the bundle, in an environment that holds nothing else."""
        bare = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DTRAIN_TORCH": torch, **variables}
        return subprocess.Popen([self.top / name, *map(str, words)], env={k: v for k, v in bare.items() if v is not None},
                                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, name, *words, code=0, **how):
        process = self.start(name, *words, **how)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def job(self, run, steps):
        return ["-np", 2, "--oversubscribe", "--bind-to", "none", self.top / "bin/dtrain", "--config", "empty.yaml", *JOB,
                "--run-dir", run, "--limit-steps", steps, "epochs=1000"]

    def test_it_is_small_and_says_so(self):
        size, packed = map(float, re.findall(r"  (\d+\.\d) MB$", self.said, re.M))
        self.assertLess(size, 60)
        self.assertLess(packed, size)
        self.assertTrue((self.folder / "made here.tar.gz").exists())

    def test_no_path_of_the_build_or_of_libtorch_is_in_a_search_path_or_a_script(self):
        for path in self.top.rglob("*"):
            if path.is_file() and path.stat().st_size < 1_000_000 and path.suffix != ".md":
                data = path.read_bytes()
                if data[:4] != b"\x7fELF":
                    for word in (str(BUILD), str(program.ROOT), TORCH):
                        self.assertNotIn(word.encode(), data, path)

    def test_alone_it_tells_of_itself(self):
        self.assertIn("LibTorch", self.call("bin/dtrain", "--version")[0])
        self.assertIn("cores may be used", self.call("bin/dtrain", "info")[0])

    def test_without_libtorch_one_sentence_and_66(self):
        out, err = self.call("bin/dtrain", "info", torch=None, code=66, PATH="/nowhere")
        self.assertEqual((out, len(err.splitlines())), ("", 1), err)
        self.assertTrue(err.startswith("dtrain: error 66: LibTorch not found"), err)

    def test_a_libtorch_whose_names_do_not_fit_ends_with_one_sentence_and_78(self):
        torch = self.folder / "other"
        (torch / "lib").mkdir(parents=True)
        libz = next(path for path in (self.top / "lib").glob("libz.so*"))
        for name in ("libtorch_cpu.so", "libc10.so"):
            shutil.copy(libz, torch / "lib" / name)
        (torch / "version.py").write_text("__version__ = '2.99.0'\n")
        err = self.call("bin/dtrain", "info", torch=str(torch), code=78)[1]
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("LibTorch 2.99.0", err)

    def test_another_libtorch_that_fits_is_taken_and_told_and_ranks_must_not_differ_in_it(self):
        torch = self.folder / "site/torch"  # the same one under another version
        torch.mkdir(parents=True)
        (torch / "lib").symlink_to(pathlib.Path(TORCH, "lib"))
        (torch / "../nvidia").symlink_to(pathlib.Path(TORCH).parent / "nvidia")
        (torch / "version.py").write_text("__version__ = '2.99.0'\n")
        self.assertIn("LibTorch 2.99.0", self.call("bin/dtrain", "--version", torch=str(torch))[0])
        words = self.job("differ", 2)[2:]
        program_at = words.index(self.top / "bin/dtrain")
        options, program_words = words[:program_at], words[program_at:]
        err = self.call("bin/mpirun", *options, "-np", 1, *program_words, ":", "-np", 1, "-x", f"DTRAIN_TORCH={torch}", *program_words,
                        code=78)[1]
        self.assertIn("libtorch", err)
        self.assertIn("2.99.0", err)

    def test_two_ranks_train_with_the_bundle_s_mpirun_and_nothing_of_the_system_s_open_mpi(self):
        process = self.start("bin/mpirun", *self.job("long", 100_000))
        try:
            mapped = self.mapped_by_ranks(process)
            process.send_signal(signal.SIGUSR1)
            err = process.communicate(timeout=30)[1]
            self.assertEqual(process.returncode, 75, err)
        finally:
            process.kill()
            process.communicate()
        of_bundle = [path for path in mapped if path.startswith(str(self.top))]
        for name in ("lib/libmpi.so", "lib/libpmix.so", "lib/libcrypto.so", "mca_pml_ob1.so"):
            self.assertTrue(any(name in path for path in of_bundle), (name, sorted(mapped)))
        beside = str(pathlib.Path(TORCH).resolve().parent)
        strange = [path for path in mapped if path not in of_bundle and not path.startswith((beside, "/usr/local/cuda"))
                   and not OF_THE_SYSTEM.fullmatch(os.path.basename(path))]
        self.assertEqual(strange, [])

    def mapped_by_ranks(self, launcher):
        """The libraries in the memory of mpirun and of its ranks, once these train."""
        log = self.folder / "long/metrics.jsonl"
        end = time.monotonic() + 30
        while not (log.exists() and '"event":"step"' in log.read_text()):
            self.assertIsNone(launcher.poll(), "ended early")
            self.assertLess(time.monotonic(), end, "no step in 30 s")
            time.sleep(0.05)
        mapped, ranks = set(), 0
        for pid in [launcher.pid, *program.children(launcher.pid)]:
            ranks += os.readlink(f"/proc/{pid}/exe") == str(self.top / "libexec/dtrain/dtrain")
            mapped |= set(re.findall(r"(/\S.*\.so\S*)$", pathlib.Path(f"/proc/{pid}/maps").read_text(), re.M))
        self.assertEqual(ranks, 2)
        return mapped

    def test_under_the_system_s_mpirun_it_gives_the_bits_of_its_own(self):
        self.call("bin/mpirun", *self.job("own", 5))
        foreign = subprocess.run([program.MPIEXEC, *map(str, self.job("foreign", 5))], cwd=self.folder, capture_output=True, text=True,
                                 timeout=60, env=program.environment({"DTRAIN_TORCH": TORCH}), check=False)
        self.assertEqual(foreign.returncode, 0, foreign.stderr)
        self.assertEqual(program.Run(self.folder / "own").hash(), program.Run(self.folder / "foreign").hash())
        self.assertEqual(program.Run(self.folder / "foreign").facts()["ranks"], 2)

    def test_its_tests_run_from_it(self):
        out, _ = self.call("share/dtrain/run_tests", "unit.optim", "unit.io", "mpi.dist.2")
        self.assertEqual(out.splitlines()[-1], "3 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    program.main()
