"""Shell scripts are clean for shellcheck, where it is installed."""

import shutil
import subprocess
import unittest

import tree


def violations(root):
    scripts = [path for path in tree.files(root, ["scripts", ".ci", "cmake/bundle"]) if is_shell(path)]
    checked = subprocess.run(["shellcheck", "--format=gcc", *scripts], cwd=root, capture_output=True, text=True, check=False)
    return (checked.stdout + checked.stderr).splitlines()


def is_shell(path):
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return "bash" in first or first == "#!/bin/sh" or path.suffix in (".sh", ".sbatch")


@unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
class Shellcheck(tree.RuleTest):
    def test_scripts_of_this_tree_are_clean(self):
        self.holds(violations(tree.ROOT))

    def test_an_unquoted_variable_is_found(self):
        with tree.made_up_tree({"scripts/a": '#!/usr/bin/env bash\nrm $1\n'}) as root:
            self.only(violations(root), "SC2086")


if __name__ == "__main__":
    tree.main()
