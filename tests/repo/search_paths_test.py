"""No program, module or library that is built looks for libraries in the working directory. CMake names the build folder in
DTRAIN_BUILD_DIR; a test started by hand takes the release build. cmake/bundle/libraries.py judges those of a bundle."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import tree

sys.path.insert(0, str(tree.ROOT / "cmake/bundle"))
import libraries  # noqa: E402

BUILD = pathlib.Path(os.environ.get("DTRAIN_BUILD_DIR", tree.ROOT / "build/release"))


def judge(folder):
    """(files that were read, reasons against them)"""
    found = libraries.elves(folder, (".o",))
    return found, [f"{elf.path.relative_to(folder)} looks for libraries in '{entry}', which depends on the working directory"
                   for elf in found for entry in elf.strange_folders()]


class SearchPaths(tree.RuleTest):
    @unittest.skipUnless((BUILD / "bin/dtrain").exists(), "nothing is built")
    def test_nothing_that_is_built_looks_into_the_working_directory(self):
        read, reasons = judge(BUILD)
        self.assertIn(BUILD / "bin/dtrain", [elf.path for elf in read])
        self.holds(reasons)

    @unittest.skipUnless(shutil.which("gcc"), "no compiler")
    def test_empty_and_relative_entries_are_found(self):
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as made:
            folder = pathlib.Path(made)
            for name, path in {"good": "/usr/lib:$ORIGIN/../lib:$ORIGIN", "first": ":/usr/lib", "middle": "/usr/lib::/opt", "last": "/usr/lib:",
                               "relative": "lib", "origin": "$ORIGINAL/lib"}.items():
                subprocess.run(["gcc", "-shared", f"-Wl,-rpath,{path}", "-o", folder / name, "-xc", "/dev/null"], check=True)
            read, reasons = judge(folder)
            self.assertEqual(len(read), 6)
            self.assertEqual([reason.split()[0] for reason in reasons], ["first", "last", "middle", "origin", "relative"])


if __name__ == "__main__":
    tree.main()
