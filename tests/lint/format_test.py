"""C++ and CUDA sources are as clang-format 14 writes them by .clang-format; another version would write some otherwise."""

import shutil
import subprocess
import unittest

from compiled import FOLDERS, tree

PROGRAM = "clang-format-14"


def violations(root):
    sources = tree.files(root, FOLDERS + ["cmake"], {".cpp", ".hpp", ".cu", ".cuh"})
    checked = subprocess.run([PROGRAM, f"--style=file:{tree.ROOT}/.clang-format", "--dry-run", *sources], capture_output=True,
                             text=True, check=False)
    told = [line.removeprefix(f"{root}/") for line in checked.stderr.splitlines() if "[-Wclang-format-violations]" in line]
    return told if told or checked.returncode == 0 else [checked.stderr]


@unittest.skipUnless(shutil.which(PROGRAM), f"{PROGRAM} is not installed")
class Format(tree.RuleTest):
    def test_sources_of_this_tree_are_formatted(self):
        self.holds(violations(tree.ROOT))

    def test_a_line_of_another_format_is_found(self):
        for name in ("lib/a.cpp", "apps/a.hpp", "lib/a.cu", "tests/unit/a.cpp"):
            with tree.made_up_tree({name: "int one = 1;\nint  two{ 2 };\n"}) as root:
                found = violations(root)
                self.assertTrue(found and all(line.startswith(f"{name}:2:") for line in found), found)
        with tree.made_up_tree({"lib/a.cpp": "int one = 1;\n"}) as root:
            self.holds(violations(root))


if __name__ == "__main__":
    tree.main()
