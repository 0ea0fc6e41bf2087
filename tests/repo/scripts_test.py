"""Scripts can be run, speak when asked, and scripts/setup refuses what it must. Nothing here uses the network:
programs that would are stood in for by small scripts put first on PATH."""

import contextlib
import os
import pathlib
import stat
import subprocess
import tempfile

import tree

SCRIPT_FOLDERS = ["scripts", ".ci", "cmake/bundle", "tests/mutation"]
COMMANDS = ["setup", "quickstart", "test", "lint", "bench_peers", "chaos", "hosts", "plot_curves", "bundle", "read_packed", "slurm/cluster"]  # usage: scripts/NAME …


def first_line(path):
    return path.read_text(encoding="utf-8").partition("\n")[0]


def judge(path):
    """Reasons against one script. A file without a #! line is sourced, and says so by its suffix."""
    shebang, executable = first_line(path), bool(path.stat().st_mode & stat.S_IXUSR)
    if not shebang.startswith("#!"):
        if executable:
            yield "is executable and has no #! line"
        if path.suffix == "":
            yield "has no #! line"
    elif not executable:
        yield "is not executable"
    if "bash" in shebang or shebang == "#!/bin/sh":
        parsed = subprocess.run(["bash" if "bash" in shebang else "sh", "-n", path], capture_output=True, text=True, check=False)
        if parsed.returncode != 0:
            yield "does not parse: " + parsed.stderr.strip()
    if "python" in shebang or path.suffix == ".py":
        try:
            compile(path.read_text(encoding="utf-8"), str(path), "exec")
        except SyntaxError as error:
            yield f"does not parse: {error}"


def violations(root):
    return [f"{path.relative_to(root)} {reason}" for path in tree.files(root, SCRIPT_FOLDERS) for reason in judge(path)]


@contextlib.contextmanager
def machine(programs=None, torch_header=None):
    """A home folder and a PATH on which the given {name: bash text} come first; yields run(arguments, **variables)."""
    with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
        home = pathlib.Path(folder)
        (home / "bin").mkdir()
        for name, text in (programs or {}).items():
            (home / "bin" / name).write_text("#!/bin/bash\n" + text + "\n", encoding="utf-8")
            (home / "bin" / name).chmod(0o755)

        def run(*arguments, **variables):
            kept = {key: value for key, value in os.environ.items() if not key.startswith("DTRAIN_")}
            kept |= {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"} | variables
            return subprocess.run([tree.ROOT / "scripts/setup", *arguments], env=kept, capture_output=True, text=True,
                                  timeout=50, check=False)

        run.home = home
        yield run


def given_torch(home, version):
    """A folder that looks like LibTorch of that version."""
    torch = home / "libtorch"
    header = torch / "include/torch/csrc/api/include/torch/version.h"
    for path in (header, torch / "lib/libtorch_cpu.so", torch / "include/ATen/ATen.h"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    header.write_text("".join(f"#define TORCH_VERSION_{name} {number}\n" for name, number in parts), encoding="utf-8")
    return str(torch)


NOTHING_INSTALLED = {"dpkg-query": "exit 1", "apt-get": "echo apt-get was run >&2; exit 1"}
# Makes the machine look as if it could hold LibTorch, whatever it is.
FIT = {"uname": "echo x86_64", "df": "echo 99999"}
# Replaces PyPI: files with the right names and other bytes.
WRONG_WHEELS = FIT | {"python3": r"""
while (($# > 0)); do [[ $1 == --dest ]] && to=$2; [[ $1 == *==* ]] && names+=("$1"); shift; done
for name in "${names[@]}"; do name=${name//-/_}; echo other >"$to/${name/==/-}-py3-none-any.whl"; done"""}


class Scripts(tree.RuleTest):
    def judge(self, text, mode):
        with tree.made_up_tree({"scripts/a": text}) as root:
            (root / "scripts/a").chmod(mode)
            return violations(root)

    def test_scripts_of_this_tree_parse_and_are_executable(self):
        self.holds(violations(tree.ROOT))

    def test_a_script_that_is_not_executable_is_found(self):
        self.holds(self.judge("#!/usr/bin/env bash\necho\n", 0o755))
        self.only(self.judge("#!/usr/bin/env bash\necho\n", 0o644), "scripts/a", "not executable")

    def test_a_script_that_does_not_parse_is_found(self):
        self.only(self.judge("#!/usr/bin/env bash\nif true\n", 0o755), "does not parse")
        self.only(self.judge("#!/usr/bin/env python3\ndef :\n", 0o755), "does not parse")

    def test_a_script_without_an_interpreter_is_found(self):
        self.only(self.judge("echo\n", 0o644), "no #! line")

    def test_continuous_integration_runs_the_test_command(self):
        self.assertIn("scripts/test", (tree.ROOT / ".ci/run").read_text(encoding="utf-8"))

    def test_commands_tell_their_usage(self):
        for name in COMMANDS:
            told = subprocess.run([tree.ROOT / "scripts" / name, "--help"], capture_output=True, text=True, timeout=20,
                                  check=False)
            self.assertEqual((told.returncode, told.stdout.split()[:2]), (0, ["usage:", f"scripts/{name}"]), told.stderr)

    def test_weights_are_converted_without_a_network_s_name(self):
        told = subprocess.run([tree.ROOT / "scripts/convert_weights", "resnet50", "a.pth", "b.safetensors"], capture_output=True,
                              text=True, timeout=20, check=False)
        self.assertEqual(told.returncode, 2)
        self.assertIn("FILE.pth and OUT.safetensors alone, no network's name", told.stderr)


class Bundle(tree.RuleTest):
    def test_a_build_whose_tests_are_not_built_is_refused_before_anything_is_installed(self):
        with tempfile.TemporaryDirectory() as made:
            build = pathlib.Path(made, "build")
            for name in ("cmake_install.cmake", "bin/dtrain", "bin/test_io", "bundle/list"):
                (build / name).parent.mkdir(parents=True, exist_ok=True)
                (build / name).touch(0o755)
            (build / "bundle/list").write_text("unit.io 120 1 test_io \nunit.base 60 1 test_base \nmpi.dist 60 2 test_mpi --slow\nunit.more 9 1 test_base \n")
            told = subprocess.run([tree.ROOT / "scripts/bundle", pathlib.Path(made, "bundle"), "--build", build], capture_output=True,
                                  text=True, timeout=20, check=False)
            self.assertEqual(told.returncode, 66)
            self.assertIn("are not built: bin/test_base is missing (2 in all)", told.stderr)
            self.assertIn(f"cmake --build {build}", told.stderr)
            self.assertFalse(pathlib.Path(made, "bundle").exists())


class Setup(tree.RuleTest):
    def ends(self, result, code, *words):
        """Ended with this code, and its last line on stderr names the words."""
        self.assertEqual(result.returncode, code, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr.splitlines()[-1])

    def test_an_unknown_option_is_refused(self):
        with machine() as run:
            self.ends(run("--nonsense"), 64, "--nonsense")

    def test_a_user_without_root_is_told_one_line_to_run(self):
        with machine(NOTHING_INSTALLED | {"id": "echo 1000"}) as run:
            result = run()
            self.ends(result, 77, "system packages are missing")
            self.assertEqual(len(result.stdout.splitlines()), 1)
            self.assertRegex(result.stdout, r"^sudo apt-get update && sudo apt-get install .* cmake .* python3-pip")
            self.assertNotIn("apt-get was run", result.stderr)

    def test_only_packages_that_are_missing_are_named(self):
        have = {"dpkg-query": 'for name in "${@:4}"; do [[ $name == mold ]] || printf "installed=%s " "$name"; done'}
        with machine(NOTHING_INSTALLED | have | {"id": "echo 1000"}) as run:
            self.assertEqual(run().stdout, "sudo apt-get update && sudo apt-get install -y --no-install-recommends mold\n")

    def test_a_failing_package_manager_ends_with_69(self):
        with machine(NOTHING_INSTALLED | {"id": "echo 0"}) as run:
            self.ends(run(), 69, "apt-get update failed")

    def test_packages_for_tests_are_tried_as_root_and_never_make_it_fail(self):
        have = 'for name in "${@:4}"; do [[ $name == slurm* || $name == munge || $name == clang* ]] || printf "installed=%s " "$name"; done'
        for user, tried in (("0", True), ("1000", False)):
            with machine({"dpkg-query": have, "apt-get": "echo apt-get was run >&2; exit 1", "id": f"echo {user}"}) as run:
                for name in ("torch-2.11.0", "clang-tidy-23.1.4"):
                    (run.home / ".cache/dtrain" / name).mkdir(parents=True)
                result = run("--test-packages")
                self.ends(result, 0, "ready")
                self.assertEqual("apt-get was run" in result.stderr, tried)
                self.assertIn("tests labelled slurm will be skipped: they need slurmctld", result.stderr)
                self.assertIn("tests labelled lint will be skipped: they need clang-format-14\n", result.stderr)
                self.assertNotIn("labelled", run().stderr)

    def test_clang_tidy_is_fetched_for_tests_alone_and_never_makes_it_fail(self):
        for python, why in (("exit 1", "could not be fetched"), (WRONG_WHEELS["python3"], "not the file")):
            with machine(FIT | {"python3": python, "dpkg-query": 'printf "installed=%s " "${@:4}"'}) as run:
                (run.home / ".cache/dtrain/torch-2.11.0").mkdir(parents=True)
                result = run("--test-packages")
                self.ends(result, 0, "ready")
                self.assertIn(why, result.stderr)
                self.assertIn("lint.tidy will be skipped: it needs clang-tidy", result.stderr)
                self.assertEqual(sorted(os.listdir(run.home / ".cache/dtrain")), ["lock", "torch-2.11.0"])
                self.assertNotIn("clang-tidy", run().stderr)

    def test_a_given_libtorch_is_used_and_nothing_is_fetched(self):
        with machine({"python3": "exit 9"}) as run:
            self.ends(run("--no-packages", DTRAIN_TORCH=given_torch(run.home, "2.6.0")), 0, "libtorch")
            self.assertFalse((run.home / ".cache").exists())

    def test_a_given_libtorch_that_is_too_old_is_refused(self):
        with machine() as run:
            self.ends(run("--no-packages", DTRAIN_TORCH=given_torch(run.home, "1.13.1")), 78, "1.13.1", "too old")

    def test_a_given_folder_without_libtorch_is_refused(self):
        with machine() as run:
            self.ends(run("--no-packages", DTRAIN_TORCH=str(run.home)), 66, "no LibTorch")

    def test_a_download_with_other_bytes_is_refused_and_leaves_nothing(self):
        with machine(WRONG_WHEELS) as run:
            self.ends(run("--no-packages"), 65, "torch-2.11.0-py3-none-any.whl", "SHA-256", "nothing was installed")
            self.assertEqual(os.listdir(run.home / ".cache/dtrain"), ["lock"])

    def test_a_failing_download_ends_with_69_after_three_tries(self):
        with machine(FIT | {"python3": "exit 1"}) as run:
            result = run("--no-packages")
            self.ends(result, 69, "could not be fetched")
            self.assertEqual(result.stderr.count("download failed"), 3)
            self.assertEqual(os.listdir(run.home / ".cache/dtrain"), ["lock"])

    def test_leftovers_of_a_killed_set_up_are_removed(self):
        with machine(FIT | {"python3": "exit 1"}) as run:
            (run.home / ".cache/dtrain/incoming.a1").mkdir(parents=True)
            run("--no-packages")
            self.assertEqual(os.listdir(run.home / ".cache/dtrain"), ["lock"])

    def test_a_machine_without_wheels_is_told_what_to_do(self):
        with machine({"uname": "echo riscv64"}) as run:
            self.ends(run("--no-packages"), 78, "riscv64", "DTRAIN_TORCH")

    def test_a_full_disk_is_noticed_before_the_download(self):
        with machine(FIT | {"df": "echo 12", "python3": "exit 9"}) as run:
            self.ends(run("--no-packages"), 74, "free")

    def test_a_machine_that_is_set_up_runs_nothing(self):
        with machine({"python3": "exit 9", "apt-get": "exit 9", "dpkg-query": 'printf "installed=%s " "${@:4}"'}) as run:
            (run.home / ".cache/dtrain/torch-2.11.0").mkdir(parents=True)
            self.ends(run(), 0, "ready")


if __name__ == "__main__":
    tree.main()
