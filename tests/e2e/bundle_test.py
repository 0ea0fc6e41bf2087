"""A bundle of this build, moved after it was made, works in an environment that names nothing of this machine but LibTorch,
and takes everything else from its own folder. So does its wheel, in a Python that has torch."""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

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
        made = subprocess.run([program.ROOT / "scripts/bundle", cls.folder / "made here", "--build", BUILD, "--archive", "--wheel"],
                              capture_output=True, text=True, timeout=100, check=False)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        cls.said = made.stdout
        cls.top = cls.folder / "and moved" / "dtrain"
        cls.top.parent.mkdir()
        (cls.folder / "made here").rename(cls.top)
        (cls.folder / "empty.yaml").write_text("name: bundled\n")
        cls.wheel, = cls.folder.glob("dtrain-*.whl")
        cls.site = cls.folder / "site packages"
        cls.install()

    @classmethod
    def install(cls):
        """What pip does with a wheel. Beside it lies a torch that must not be loaded to be found."""
        with zipfile.ZipFile(cls.wheel) as archive:
            for entry in archive.infolist():
                path = pathlib.Path(archive.extract(entry, cls.site))
                path.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)
        entries, = cls.site.glob("*.dist-info/entry_points.txt")
        (cls.site / "bin").mkdir()
        for name, module, function in re.findall(r"^(\S+) = (\w+):(\w+)$", entries.read_text(), re.M):
            (cls.site / "bin" / name).write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
            (cls.site / "bin" / name).chmod(0o755)
        loaded = cls.folder / "other packages/torch"
        loaded.mkdir(parents=True)
        (loaded / "__init__.py").write_text("raise SystemExit('torch was loaded')\n")
        (loaded / "lib").symlink_to(pathlib.Path(TORCH, "lib"))
        (loaded / "version.py").symlink_to(pathlib.Path(TORCH, "version.py"))
        (loaded / "../nvidia").symlink_to(pathlib.Path(TORCH).parent / "nvidia")

    def call_wheel(self, name, *words, packages=("site packages", "other packages"), **how):
        return self.call(self.site / "bin" / name, *words, torch=None, PYTHONPATH=":".join(str(self.folder / folder) for folder in packages), **how)

    def start(self, name, *words, torch=TORCH, **variables):
        """A program of the bundle, in an environment that holds nothing else."""
        bare = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "DTRAIN_TORCH": torch, **variables}
        return subprocess.Popen([self.top / name, *map(str, words)], env={k: v for k, v in bare.items() if v is not None},
                                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, name, *words, code=0, **how):
        process = self.start(name, *words, **how)
        try:
            out, err = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def job(self, run, steps, started=None):
        return ["-np", 2, "--oversubscribe", "--bind-to", "none", started or self.top / "bin/dtrain", "--config", "empty.yaml", *JOB,
                "--run-dir", run, "--limit-steps", steps, "epochs=1000"]

    def test_it_is_small_and_says_so(self):
        size, packed, wheel = map(float, re.findall(r"  (\d+\.\d) MB$", self.said, re.M))
        self.assertLess(size, 60)
        self.assertLess(wheel, packed)
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

    def test_the_wheel_is_the_bundle_without_its_tests_and_its_record_names_every_byte(self):
        glibc = re.search(r"^glibc 2\.(\d+)$", (self.top / "share/dtrain/bundle").read_text(), re.M)[1]
        self.assertRegex(self.wheel.name, rf"dtrain-[\d.]+-py3-none-manylinux_2_{glibc}_\w+\.whl")
        with zipfile.ZipFile(self.wheel) as archive:
            data = {name: archive.read(name) for name in archive.namelist()}
        record = next(name for name in data if name.endswith("/RECORD"))
        hashes = [base64.urlsafe_b64encode(hashlib.sha256(value).digest()).decode().rstrip("=") for value in data.values()]
        lines = [f"{name},sha256={code},{len(value)}" for (name, value), code in zip(data.items(), hashes) if name != record]
        self.assertEqual(data[record].decode().splitlines(), lines + [f"{record},,"])
        info = record.removesuffix("RECORD")
        for path in self.top.rglob("*"):
            place = path.relative_to(self.top).as_posix()
            if path.is_file() and not place.startswith(("share/dtrain/tests/", "share/dtrain/run_tests")):
                licence = place == "share/dtrain/LICENSE" or "share/dtrain/licences/" in place
                self.assertEqual(data[f"{info}licenses/{path.name}" if licence else f"dtrain/{place}"], path.read_bytes(), place)
        self.assertFalse([name for name in data if "/tests/" in name or "__pycache__" in name])
        asked = data[info + "METADATA"].decode()
        self.assertRegex(asked, r"(?m)^Requires-Dist: torch==\d+\.\d+\.\d+$")
        self.assertEqual(set(re.findall(r"^License-File: (.*)$", asked, re.M)),
                         {name.removeprefix(info + "licenses/") for name in data if name.startswith(info + "licenses/")})

    def test_a_bundle_gives_the_same_wheel_wherever_it_is(self):
        again = self.folder / "again"
        again.mkdir()
        made = subprocess.run([sys.executable, "-B", program.ROOT / "cmake/bundle/wheel.py", self.top, again], check=True, capture_output=True, text=True)
        self.assertEqual(pathlib.Path(made.stdout.strip()).read_bytes(), self.wheel.read_bytes())

    def test_from_the_wheel_two_ranks_train_as_from_the_bundle_and_torch_is_found_without_being_loaded(self):
        self.call_wheel("dtrain-mpirun", *self.job("wheel", 5, "dtrain"))
        self.call("bin/mpirun", *self.job("bundle", 5))
        self.assertEqual(program.Run(self.folder / "wheel").hash(), program.Run(self.folder / "bundle").hash())
        self.assertEqual(program.Run(self.folder / "wheel").facts()["ranks"], 2)

    def test_the_wheel_without_torch_ends_with_one_sentence_and_66(self):
        out, err = self.call_wheel("dtrain", "info", packages=["site packages"], code=66, PATH="/nowhere")
        self.assertEqual((out, len(err.splitlines())), ("", 1), err)
        self.assertIn("pip install torch==", err)

    def test_auditwheel_finds_the_glibc_of_the_wheel_s_name(self):
        told = subprocess.run([os.environ.get("DTRAIN_PYTHON", "python3"), "-m", "auditwheel", "show", self.wheel], capture_output=True, text=True, check=False)
        if "No module named" in told.stderr:
            self.skipTest("auditwheel is not installed")
        # What it calls the whole wheel's tag is linux: for LibTorch is in another wheel, and libraries find each other by the program's search path.
        tag = self.wheel.stem.rpartition("-")[2]
        self.assertIn(f'constrains the platform tag to "{tag}"', " ".join(told.stdout.split()), told.stderr)


if __name__ == "__main__":
    program.main()
