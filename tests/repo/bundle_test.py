"""What a bundle's launchers do, on a made-up bundle whose dtrain is a small script: which LibTorch they take, what they
refuse, what reaches the program. And the rules by which cmake/bundle/libraries.py judges a bundle. e2e.bundle makes a
real one."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import tree

FOLDER = tree.ROOT / "cmake/bundle"
sys.path.insert(0, str(FOLDER))
import libraries  # noqa: E402

# Replaces the program and prints what reached it. The launcher tries an unknown LibTorch with "--version".
DTRAIN = r"""#!/bin/sh
if [ "$1" = --version ] && [ -n "$LD_BIND_NOW" ]; then
  echo tried >>"${0%/*}/tried"
  [ ! -e "${0%/*}/unfit" ] || { echo "$0: $(cat "${0%/*}/unfit")" >&2; exit 127; }
  exit 0
fi
echo "libraries $LD_LIBRARY_PATH"
echo "mpi $OPAL_PREFIX"
echo "found $DTRAIN_TORCH_FOUND"
for word in "$@"; do echo "word $word"; done
[ "$1" != wait ] || exec sleep 30
exit "${DTRAIN_STUB_CODE:-0}"
"""


class Bundle:
    """A folder laid out as a bundle, with a home folder beside it."""

    def __init__(self, folder):
        self.home = pathlib.Path(folder) / "home"
        self.top = pathlib.Path(folder) / "a bundle"
        for name in ("bin", "libexec/dtrain", "share/dtrain/tests", "lib/openmpi/bin", "lib/openmpi/libexec"):
            (self.top / name).mkdir(parents=True)
        for name in ("dtrain", "mpirun"):
            shutil.copy(FOLDER / name, self.top / "bin" / name)
        shutil.copy(FOLDER / "orted", self.top / "lib/openmpi/bin")
        shutil.copy(FOLDER / "environment.sh", self.top / "libexec/dtrain")
        shutil.copy(FOLDER / "run_tests", self.top / "share/dtrain")
        (self.top / "share/dtrain/bundle").write_text("dtrain 0.1.0\nlibtorch 2.11.0\nglibc 2.36\n")
        self.script("libexec/dtrain/dtrain", DTRAIN)
        self.home.mkdir()

    def script(self, name, text):
        (self.top / name).write_text(text)
        (self.top / name).chmod(0o755)

    def torch(self, place, version="2.11.0+cpu"):
        """Something that looks like a LibTorch, with its version as in a wheel."""
        folder = self.home.parent / place
        (folder / "lib").mkdir(parents=True)
        (folder / "lib/libtorch_cpu.so").touch()
        if version:
            (folder / "version.py").write_text(f"from typing import Optional\n\n__version__ = '{version}'\ndebug = False\n")
        return folder

    def run(self, *words, program="bin/dtrain", **variables):
        # No python3 unless a test puts one into bin: the machine's might have a torch.
        kept = {"PATH": f"{self.home}/bin:/usr/bin:/bin", "HOME": str(self.home)} | variables
        return subprocess.run([self.top / program, *words], env=kept, cwd=self.home, capture_output=True, text=True, timeout=50,
                              check=False)


class WithBundle(tree.RuleTest):
    @contextlib.contextmanager
    def bundle(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            made = Bundle(os.path.realpath(folder))
            (made.home / "bin").mkdir()
            (made.home / "bin/python3").write_text("#!/bin/sh\nexit 1\n")
            (made.home / "bin/python3").chmod(0o755)
            yield made


class Launcher(WithBundle):
    def takes(self, result, torch):
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        first = result.stdout.splitlines()[0].removeprefix("libraries ").split(":")[0]
        self.assertEqual(os.path.realpath(first), str(torch / "lib"))

    def refuses(self, result, code, *words):
        """One line in dtrain's form, and nothing else."""
        self.assertEqual((result.returncode, result.stdout, len(result.stderr.splitlines())), (code, "", 1), result.stderr)
        self.assertTrue(result.stderr.startswith(f"dtrain: error {code}"), result.stderr)
        for word in words:
            self.assertIn(str(word), result.stderr)

    def test_the_named_libtorch_comes_before_those_beside_the_bundle_in_the_cache_and_in_python(self):
        with self.bundle() as made:
            python = made.torch("site-packages/torch")
            (made.home / "bin/python3").write_text(f"#!/bin/sh\necho '{python}'\n")
            self.takes(made.run(), python)
            for better in ("home/.cache/dtrain/torch-2.11.0/torch", "torch-2.11.0/torch", "torch", "a bundle/torch"):
                torch = made.torch(better)
                self.takes(made.run(), torch)
                if ".cache" in better:
                    self.takes(made.run(DTRAIN_CACHE=str(made.home / "cache")), python)
            named = made.torch("named")
            self.takes(made.run(DTRAIN_TORCH=str(named)), named)
            self.takes(made.run(DTRAIN_TORCH="../named/"), named)

    def test_the_libraries_of_nvidia_s_wheels_are_found_beside_torch_and_the_user_s_own_stay(self):
        with self.bundle() as made:
            torch = made.torch("site/torch", "2.11.0+cu130")
            for name in ("cu13", "nccl"):
                (torch / "../nvidia" / name / "lib").mkdir(parents=True)
            (torch / "../nvidia/cu13/lib/libcudart.so.13").touch()
            told = made.run(DTRAIN_TORCH=str(torch), LD_LIBRARY_PATH="/opt/mine").stdout.splitlines()[0].split(":")
            self.assertIn(f"{torch}/../nvidia/cu13/lib", told)
            self.assertIn(f"{torch}/../nvidia/nccl/lib", told)
            self.assertEqual(told[-1], "/opt/mine")
            self.assertFalse((made.top / "libexec/dtrain/tried").exists())

    def test_the_working_directory_gets_into_no_search_path_by_an_empty_entry(self):
        with self.bundle() as made:
            made.torch("torch")
            for name in ("libexec/dtrain/dtrain", "lib/openmpi/bin/mpirun", "lib/openmpi/libexec/orted"):
                made.script(name, '#!/bin/sh\necho "$PATH"\necho "$LD_LIBRARY_PATH"\n')
            for start in ("bin/dtrain", "bin/mpirun", "lib/openmpi/bin/orted"):
                for given, kept in (("/a::/b", "/a:/b"), (":/a", "/a"), ("/a:", "/a"), ("/a;", "/a"), (";/a;;/b:", "/a:/b"), (":", "")):
                    path, libraries_path = made.run(program=start, PATH=":/usr/bin::/bin:", LD_LIBRARY_PATH=given).stdout.splitlines()
                    self.assertEqual(path, "/usr/bin:/bin")
                    self.assertNotIn("", libraries_path.split(":") if libraries_path else [])
                    self.assertTrue(libraries_path.endswith(kept), libraries_path)
                    self.assertEqual("/torch/lib" in libraries_path, start == "bin/dtrain")

    def test_a_libtorch_whose_path_cannot_stand_in_a_list_is_refused(self):
        with self.bundle() as made:
            self.refuses(made.run(DTRAIN_TORCH=str(made.torch("a:b/torch"))), 66, "a:b/torch")

    def test_no_libtorch_ends_with_66_and_says_what_to_set(self):
        with self.bundle() as made:
            self.refuses(made.run("info"), 66, "LibTorch not found", "DTRAIN_TORCH", "torch==2.11.0")
            self.refuses(made.run(DTRAIN_TORCH="/nowhere"), 66, "DTRAIN_TORCH=/nowhere", "lib/libtorch_cpu.so")

    def test_a_libtorch_that_is_too_old_is_refused_whatever_tells_its_version(self):
        with self.bundle() as made:
            self.refuses(made.run(DTRAIN_TORCH=str(made.torch("old", "2.5.1+cu121"))), 78, "2.5.1", "too old", "2.11.0")
            archive = made.torch("archive", None)
            (archive / "build-version").write_text("1.13.1+cpu\n")
            self.refuses(made.run(DTRAIN_TORCH=str(archive)), 78, "1.13.1", "too old")
            headers = made.torch("headers", None)
            (headers / "include/torch/csrc/api/include/torch").mkdir(parents=True)
            (headers / "include/torch/csrc/api/include/torch/version.h").write_text(
                "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 4\n#define TORCH_VERSION_PATCH 1\n")
            self.refuses(made.run(DTRAIN_TORCH=str(headers)), 78, "2.4.1", "too old")

    def test_another_libtorch_is_tried_and_refused_where_it_lacks_a_name(self):
        with self.bundle() as made:
            tried, unfit = made.top / "libexec/dtrain/tried", made.top / "libexec/dtrain/unfit"
            torch = made.torch("newer", "2.12.0+cpu")
            self.takes(made.run(DTRAIN_TORCH=str(torch)), torch)
            self.assertTrue(tried.exists())
            self.assertIn("found 2.12.0+cpu\n", made.run(DTRAIN_TORCH=str(torch)).stdout)
            known = made.run(DTRAIN_TORCH=str(made.torch("known")), DTRAIN_TORCH_FOUND="2.12.0").stdout
            self.assertIn("found \n", known)
            unfit.write_text("symbol lookup error: undefined symbol: _ZN2at3addE")
            self.refuses(made.run(DTRAIN_TORCH=str(torch)), 78, "2.12.0", "does not fit", "_ZN2at3addE")
            unfit.write_text("error while loading shared libraries: libcupti.so.13: cannot open shared object file: No such file")
            self.refuses(made.run(DTRAIN_TORCH=str(made.torch("alone", None))), 66, "unknown version", "libcupti.so.13")

    def test_of_the_ranks_of_a_host_one_tells_with_its_number(self):
        with self.bundle() as made:
            one = made.run(OMPI_COMM_WORLD_RANK="4", OMPI_COMM_WORLD_LOCAL_RANK="0")
            self.refuses(one, 66, f"[rank 4 @ {os.uname().nodename}]:")
            other = made.run(OMPI_COMM_WORLD_RANK="5", OMPI_COMM_WORLD_LOCAL_RANK="1")
            self.assertEqual((other.returncode, other.stderr), (66, ""))

    def test_words_exit_code_and_signals_pass(self):
        with self.bundle() as made:
            made.torch("torch")
            result = made.run("a b", "", "c=$x", DTRAIN_STUB_CODE="79")
            self.assertEqual((result.returncode, result.stdout.splitlines()[-3:]), (79, ["word a b", "word ", "word c=$x"]))
            with subprocess.Popen([made.top / "bin/dtrain", "wait"], stdout=subprocess.PIPE) as process:
                process.stdout.readline()  # the program itself, under the number of the launcher
                process.send_signal(signal.SIGUSR1)
                self.assertEqual(process.wait(20), -signal.SIGUSR1)

    def test_it_may_be_called_by_a_link_and_by_its_name_alone(self):
        with self.bundle() as made:
            made.torch("torch")
            (made.home / "bin/train").symlink_to(made.top / "bin/dtrain")
            for words in (["train"], ["sh", "-c", f"PATH='{made.top}/bin':$PATH; dtrain"]):
                told = subprocess.run(words, env={"PATH": f"{made.home}/bin:/usr/bin:/bin", "CDPATH": "/tmp"}, cwd="/",
                                      capture_output=True, text=True, check=True).stdout
                self.assertIn(f"mpi {made.top}/lib/openmpi\n", told)

    def test_the_user_s_variables_reach_the_program_unchanged(self):
        with self.bundle() as made:
            made.torch("torch")
            made.script("libexec/dtrain/dtrain", "#!/bin/sh\nenv\n")
            plain = {"top": "1", "torch": "2", "version": "3", "path": "4", "name": "5", "line": "6"}
            told = made.run(**plain).stdout.splitlines()
            for name, value in plain.items():
                self.assertIn(f"{name}={value}", told)

    def test_mpirun_starts_by_its_full_path_as_open_mpi_wants_it_and_needs_no_libtorch(self):
        with self.bundle() as made:
            made.script("lib/openmpi/bin/mpirun", '#!/bin/sh\necho "$0 $OPAL_PREFIX libraries $LD_LIBRARY_PATH $*"\n')
            told = made.run("-np", "2", program="bin/mpirun").stdout
            self.assertEqual(told, f"{made.top}/lib/openmpi/bin/mpirun {made.top}/lib/openmpi libraries  -np 2\n")

    def test_orted_names_the_bundle_s_parts_on_other_hosts(self):
        with self.bundle() as made:
            made.script("lib/openmpi/libexec/orted", '#!/bin/sh\necho "$OPAL_PREFIX $PMIX_PKGLIBDIR $*"\n')
            home = f"{made.top}/lib/openmpi"
            self.assertEqual(made.run("-mca", "a", "b", program="lib/openmpi/bin/orted").stdout, f"{home} {home}/lib/pmix -mca a b\n")

    def test_mpirun_asks_for_ssh_only_where_there_is_one(self):
        with self.bundle() as made:
            made.script("lib/openmpi/bin/mpirun", '#!/bin/sh\necho "plm $OMPI_MCA_plm"\n')
            path = str(made.home / "bin")  # holds no ssh; the launcher needs no other program
            self.assertEqual(made.run("-np", "2", program="bin/mpirun", PATH=path).stdout, "plm ^rsh\n")
            self.assertEqual(made.run("--mca", "plm_rsh_agent", "x", program="bin/mpirun", PATH=path).stdout, "plm \n")
            self.assertEqual(made.run(program="bin/mpirun", PATH=path, OMPI_MCA_plm_rsh_agent="x").stdout, "plm \n")
            (made.home / "bin/ssh").symlink_to("/bin/true")
            self.assertEqual(made.run("-np", "2", program="bin/mpirun", PATH=path).stdout, "plm \n")


class RunTests(WithBundle):
    """share/dtrain/run_tests on programs that end as the test wants."""

    @contextlib.contextmanager
    def programs(self, **codes):
        with self.bundle() as made:
            made.torch("torch")
            made.script("lib/openmpi/bin/mpirun", '#!/bin/sh\necho "mpirun $*"\nwhile [ "${1#/}" = "$1" ]; do shift; done\nexec "$@"\n')
            lines = []
            for name, code in codes.items():
                made.script(f"share/dtrain/tests/{name}", f'#!/bin/sh\necho "{name} says $* $DTRAIN_REQUIRE_GPU"\nexit {code}\n')
                lines.append(f"{name.replace('_', '.')} 20 {2 if name.startswith('mpi') else 0} {name} an argument\n")
            (made.top / "share/dtrain/tests/list").write_text("".join(lines))
            made.call = lambda *words, **variables: made.run(*words, program="share/dtrain/run_tests", **variables)
            yield made

    def last(self, result):
        return result.returncode, result.stdout.splitlines()[-1]

    def test_passed_failed_and_skipped_are_counted_and_a_failure_shows_its_output(self):
        with self.programs(unit_a=0, unit_b=4, mpi_c=0, unit_d=1) as made:
            result = made.call()
            self.assertEqual(self.last(result), (1, "2 passed, 1 failed, 1 skipped"))
            self.assertIn("unit_d says an argument", result.stdout)
            self.assertNotIn("unit_a says", result.stdout)
            self.assertEqual(self.last(made.call("unit.a", "mpi")), (0, "2 passed, 0 failed, 0 skipped"))
            self.assertEqual(made.call("--list").stdout.split(), ["unit.a", "unit.b", "mpi.c", "unit.d"])

    def test_required_gpu_tests_must_not_be_skipped_and_others_do_not_hear_of_it(self):
        with self.programs(unit_a=0, unit_b=4, gpu_c=4) as made:
            self.assertEqual(self.last(made.call()), (0, "1 passed, 0 failed, 2 skipped"))
            result = made.call(DTRAIN_REQUIRE_GPU="1")
            self.assertEqual(self.last(result), (1, "1 passed, 1 failed, 1 skipped"))
            self.assertIn("gpu_c says an argument 1", result.stdout)
            self.assertEqual(self.last(made.call(DTRAIN_REQUIRE_ALL="1")), (1, "1 passed, 2 failed, 0 skipped"))

    def test_a_program_that_crashes_or_hangs_has_failed(self):
        with self.programs(unit_a=0) as made:
            made.script("share/dtrain/tests/unit_a", "#!/bin/sh\nkill -SEGV $$\n")
            self.assertEqual(self.last(made.call())[1], "0 passed, 1 failed, 0 skipped")
            made.script("share/dtrain/tests/unit_a", "#!/bin/sh\nexec sleep 30\n")
            (made.top / "share/dtrain/tests/list").write_text("unit.a 1 0 unit_a\n")
            started = time.monotonic()
            result = made.call()
            self.assertLess(time.monotonic() - started, 15)
            self.assertIn("no end within 1 s", result.stdout)

    def test_bad_words_are_refused(self):
        with self.programs(unit_a=0) as made:
            for words, said in ((["--nonsense"], "--nonsense"), (["unit.z"], "unit.z")):
                result = made.call(*words)
                self.assertEqual(result.returncode, 64)
                self.assertIn(said, result.stderr.splitlines()[-1])


class Rules(tree.RuleTest):
    """Which libraries may be left to the node."""

    def test_libtorch_cuda_driver_and_c_libraries_are_the_node_s(self):
        for name in ("libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libcudart.so.13",
                     "libnccl.so.2", "libcuda.so.1", "libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6", "libgcc_s.so.1"):
            self.assertTrue(libraries.ALLOWED.fullmatch(name), name)

    def test_everything_else_is_the_bundle_s(self):
        for name in ("libmpi.so.40", "libpng16.so.16", "libz.so.1", "libcrypto.so.3", "libcap.so.2", "libcudadevrt.so", "libtorch.so.1.13",
                     "libdtrain_cuda.so", "libcom_err.so.2", "libudev.so.1", "libgomp.so.1"):
            self.assertFalse(libraries.ALLOWED.fullmatch(name), name)

    def test_plugins_for_network_hardware_stay_out(self):
        for name in ("libucp.so.0", "libfabric.so.1", "libibverbs.so.1", "libpsm2.so.2", "liboshmem.so.40", "libmca_common_ucx.so.40"):
            self.assertTrue(libraries.NOT_CARRIED.match(name), name)
        for name in ("libmpi.so.40", "libmca_common_sm.so.40", "libevent_core-2.1.so.7"):
            self.assertFalse(libraries.NOT_CARRIED.match(name), name)

    def test_a_program_of_this_system_is_no_part_of_a_bundle(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            prefix = pathlib.Path(folder)
            self.holds(list(libraries.violations(prefix)))
            shutil.copy(os.path.realpath(shutil.which("env")), prefix / "env")
            (prefix / "away").symlink_to("/etc")
            found = list(libraries.violations(prefix, largest=1000))
            self.assertIn("env looks for libraries in no folder instead of the bundle's lib", found)
            self.assertIn("away is a link that leads out of the bundle", found)
            self.assertTrue(any("the limit" in reason for reason in found), found)
            self.holds([reason for reason in found if "needs" in reason])

    @unittest.skipUnless(shutil.which("gcc"), "no compiler")
    def test_no_file_of_a_bundle_looks_into_the_working_directory_or_out_of_the_bundle(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            prefix = pathlib.Path(folder)
            for path in (":", "lib", "$ORIGIN/../..", "/usr/lib"):
                subprocess.run(["gcc", "-shared", f"-Wl,-rpath,{path}", "-o", prefix / "liba.so", "-xc", "/dev/null"], check=True)
                self.only(list(libraries.violations(prefix)), "liba.so looks for libraries in")

    @unittest.skipUnless(shutil.which("gcc"), "no compiler")
    def test_a_search_path_is_replaced_but_for_its_last_word_which_may_end_another_name_too(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            copy = pathlib.Path(folder) / "made"
            subprocess.run(["gcc", "-shared", "-Wl,-rpath,/some/long/folder/of/the/build:/other/end", "-o", copy, "-xc", "/dev/null"], check=True)
            libraries.Elf(copy).set_search_path("$ORIGIN/../lib")
            self.assertEqual(libraries.Elf(copy).search_path(), ["$ORIGIN/../lib"])
            self.assertIn(b"\0end\0", copy.read_bytes())
            self.assertNotIn(b"/folder", copy.read_bytes())
            libraries.Elf(copy).set_search_path("$ORIGIN/../lib")
            with self.assertRaises(libraries.Wrong):
                libraries.Elf(copy).set_search_path("$ORIGIN/../another/folder")


class Command(tree.RuleTest):
    """scripts/bundle refuses before it builds anything."""

    def bundle(self, home, *words):
        return subprocess.run([tree.ROOT / "scripts/bundle", *words], cwd=home, capture_output=True, text=True, timeout=50, check=False)

    def ends(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr.splitlines()[-1])

    def test_bad_words_are_refused(self):
        with tree.made_up_tree({"full/a": "", "file": ""}) as home:
            self.ends(self.bundle(home), 64, "which folder")
            self.ends(self.bundle(home, "a", "b"), 64, "one folder")
            self.ends(self.bundle(home, "--nonsense", "a"), 64, "--nonsense")
            self.ends(self.bundle(home, "a", "--build"), 64, "--build")
            self.ends(self.bundle(home, "file"), 64, "is a file")
            self.ends(self.bundle(home, "full"), 64, "is no bundle")
            self.ends(self.bundle(home, "new", "--build", "full"), 66, "is no build folder")
            self.assertEqual(sorted(os.listdir(home)), ["file", "full"])


if __name__ == "__main__":
    tree.main()
