"""How cmake/bundle/wheel.py packs a bundle, and what the commands of the wheel do, on a made-up bundle whose programs are small
scripts. e2e.bundle makes a wheel of a real one."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time
import zipfile

import tree

PACK = tree.ROOT / "cmake/bundle/wheel.py"
sys.path.insert(0, str(PACK.parent))
import wheel as packer  # noqa: E402

SHARE = "bundle/share/dtrain/"
BUNDLE = {
    SHARE + "bundle": "dtrain 1.2.3\nlibtorch 2.11.0+cpu\nglibc 2.36\n", SHARE + "LICENSE": "ours\n", SHARE + "licences/zlib1g": "theirs\n",
    SHARE + "README.md": "# dtrain\n\nTrains, as [measured](docs/a.md#b).\n\n## Two commands\n\nscripts/quickstart\n",
    SHARE + "run_tests": "#!/bin/sh\n", SHARE + "tests/test_io": "a test\n", SHARE + "configs/a.yaml": "name: a\n",
    "bundle/bin/dtrain": '#!/bin/sh\necho "torch $DTRAIN_TORCH"\nfor word in "$@"; do echo "word $word"; done\nexit 79\n',
    "bundle/bin/mpirun": '#!/bin/sh\necho "path $PATH"\n',
}


class Wheel(tree.RuleTest):
    @contextlib.contextmanager
    def made(self, **variables):
        """A folder with the made-up bundle and the wheel of it, and the wheel itself."""
        with tree.made_up_tree(BUNDLE) as folder:
            for path in (folder / "bundle/bin").iterdir():
                path.chmod(0o755)
            yield folder, self.pack(folder, **variables)

    def pack(self, folder, **variables):
        kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"} | variables
        ended = subprocess.run([sys.executable, "-B", PACK, folder / "bundle", folder], env=kept, capture_output=True, text=True, check=True)
        return pathlib.Path(ended.stdout.rstrip("\n"))

    def test_name_metadata_and_licences_come_from_the_bundle_and_tests_stay_out(self):
        with self.made() as (_, wheel), zipfile.ZipFile(wheel) as archive:
            self.assertRegex(wheel.name, r"^dtrain-1\.2\.3-py3-none-manylinux_2_36_\w+\.whl$")
            self.assertEqual([name.removeprefix("dtrain-1.2.3.dist-info/") for name in archive.namelist()], [
                "dtrain/bin/dtrain", "dtrain/bin/mpirun", "dtrain/share/dtrain/README.md", "dtrain/share/dtrain/bundle",
                "dtrain/share/dtrain/configs/a.yaml", "dtrain/__init__.py", "dtrain/__main__.py", "licenses/LICENSE", "licenses/zlib1g", "METADATA",
                "entry_points.txt", "WHEEL", "RECORD"])
            told = archive.read("dtrain-1.2.3.dist-info/METADATA").decode()
            for line in ("Version: 1.2.3", "Requires-Dist: torch==2.11.0", "License-File: LICENSE", "License-File: zlib1g", "Trains, as measured."):
                self.assertIn(line, told.splitlines())
            self.assertNotIn("scripts/quickstart", told)
            programs = [entry.filename for entry in archive.infolist() if entry.external_attr >> 16 & 0o111]
            self.assertEqual(programs, ["dtrain/bin/dtrain", "dtrain/bin/mpirun"])

    def test_one_bundle_gives_one_wheel_and_its_date_can_be_set(self):
        with self.made() as (folder, wheel):
            first = wheel.read_bytes()
            for path in folder.rglob("*"):
                os.utime(path, (1, 1))
            self.assertEqual(self.pack(folder, TZ="Asia/Tokyo").read_bytes(), first)
            with zipfile.ZipFile(self.pack(folder, SOURCE_DATE_EPOCH="1700000000")) as archive:
                self.assertEqual({entry.date_time for entry in archive.infolist()}, {time.gmtime(1700000000)[:6]})
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["bundle", wheel.name])

    def start(self, folder, *words, python=(), cwd=None, **variables):
        """The installed dtrain as Python starts it, with a torch that must not be loaded in the same environment."""
        kept = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{folder}/site", "HOME": str(folder)} | variables
        python = python or ["-c", "import dtrain, sys; sys.argv.pop(0); dtrain.program()", "-c"]
        return subprocess.run([sys.executable, "-B", *python, *words], env=kept, cwd=cwd or folder, capture_output=True, text=True, check=False)

    @contextlib.contextmanager
    def installed(self):
        with self.made() as (folder, wheel):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder / "site")
            for path in (folder / "site/dtrain/bin").iterdir():
                path.chmod(0o755)
            for place in ("site", "work"):
                (folder / place / "torch").mkdir(parents=True)
                (folder / place / "torch/__init__.py").write_text("raise SystemExit('torch was loaded')\n")
            yield folder

    def test_the_program_gets_the_environment_s_torch_unless_another_is_named_and_its_words_and_code(self):
        with self.installed() as folder:
            ended = self.start(folder, "a b", "")
            self.assertEqual((ended.returncode, ended.stderr), (79, ""))
            self.assertEqual(ended.stdout.splitlines(), [f"torch {folder}/site/torch", "word a b", "word "])
            self.assertIn("torch /mine\n", self.start(folder, DTRAIN_TORCH="/mine").stdout)

    def test_as_a_module_it_takes_no_torch_from_the_working_directory(self):
        with self.installed() as folder:
            self.assertEqual(self.start(folder, "x", python=["-m", "dtrain"], cwd=folder / "work").stdout, f"torch {folder}/site/torch\nword x\n")

    def test_without_torch_the_program_itself_has_to_say_so(self):
        with self.installed() as folder:
            (folder / "site/torch/__init__.py").unlink()
            (folder / "site/torch").rmdir()
            self.assertEqual(self.start(folder, python=["-S", "-m", "dtrain"]).stdout, "torch \n")

    def test_mpirun_finds_dtrain_after_all_that_is_on_path(self):
        with self.installed() as folder:
            ended = self.start(folder, python=["-c", "import dtrain; dtrain.mpirun()"])
            self.assertEqual(ended.stdout, f"path /usr/bin:/bin:{folder}/site/dtrain/bin\n", ended.stderr)

    def test_what_pip_makes_commands_of_is_there(self):
        source = (PACK.parent / "python/__init__.py").read_text(encoding="utf-8")
        commands = re.findall(r"^([\w-]+) = dtrain:(\w+)$", packer.COMMANDS, re.MULTILINE)
        self.assertEqual([name for name, _ in commands], ["dtrain", "dtrain-mpirun"])
        self.holds([f"{function}() is not defined" for _, function in commands if f"\ndef {function}():" not in source])


if __name__ == "__main__":
    tree.main()
