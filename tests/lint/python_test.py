"""Python sources are clean for flake8, with the settings of .flake8."""

import shutil
import subprocess
import unittest

from compiled import tree


def violations(root):
    sources = [path for path in tree.files(root, ["scripts", "tests", "cmake", ".ci"]) if is_python(path)]
    checked = subprocess.run(["flake8", f"--config={tree.ROOT}/.flake8", *sources], capture_output=True, text=True, check=False)
    return [line.removeprefix(f"{root}/") for line in (checked.stdout + checked.stderr).splitlines()]


def is_python(path):
    with path.open("rb") as file:
        return path.suffix == ".py" or (path.suffix == "" and b"python" in file.readline())


@unittest.skipUnless(shutil.which("flake8"), "flake8 is not installed")
class Python(tree.RuleTest):
    def test_sources_of_this_tree_are_clean(self):
        self.holds(violations(tree.ROOT))

    def test_an_import_that_nothing_uses_and_a_name_that_nothing_defines_are_found(self):
        for name, first in (("tests/a.py", ""), ("scripts/a", "#!/usr/bin/env python3\n")):
            with tree.made_up_tree({name: first + "import os\n"}) as root:
                self.only(violations(root), name, "F401", "'os'")
            with tree.made_up_tree({name: first + "print(loader)\n"}) as root:
                self.only(violations(root), name, "F821", "'loader'")


if __name__ == "__main__":
    tree.main()
