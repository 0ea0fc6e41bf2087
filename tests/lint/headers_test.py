"""Each header compiles alone: it includes what it uses. Those that see LibTorch take 10 s each and are left to scripts/lint --all."""

import shutil
import subprocess

import compiled
from compiled import tree

COMPILER = shutil.which("g++") or shutil.which("c++")


def words_for(header, commands):
    """The arguments of the sources beside a header, or else of the sources in the nearest folder above it."""
    for folder in header.parents:
        beside = [words for source, words in commands.items() if source.is_relative_to(folder)]
        if beside:
            return compiled.one_of_each(beside)
    return []


def told(header, commands, root):
    """The compiler's first error, if any."""
    line = [COMPILER, *words_for(header, commands), "-fsyntax-only", "-x", "c++", "-"]
    done = subprocess.run(line, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    errors = [text for text in done.stderr.splitlines() if "error: " in text] or [done.stderr]
    return [f"{header.relative_to(root)} does not compile alone: {errors[0].removeprefix(f'{root}/')}"]


def violations(root, commands, with_torch=compiled.ALL):
    folders = compiled.include_folders(root)
    headers = [path for path in tree.files(root, compiled.FOLDERS, {".hpp"}) if with_torch or not compiled.sees_torch(path, folders)]
    return compiled.side_by_side(lambda header: told(header, commands, root), headers)


class Headers(tree.RuleTest):
    def test_headers_of_this_tree_compile_alone(self):
        commands = compiled.commands(tree.ROOT, compiled.BUILD)
        self.assertGreater(len(commands), 100)
        self.holds(violations(tree.ROOT, commands))

    def test_a_header_that_lacks_an_include_is_found(self):
        files = {"lib/dtrain/io/a.hpp": "#pragma once\nstd::string name();\n", "lib/dtrain/io/b.hpp": "#include <string>\nstd::string name();\n"}
        with tree.made_up_tree(files) as root:
            self.only(violations(root, {root / "lib/dtrain/io/a.cpp": ["-std=c++20"]}), "lib/dtrain/io/a.hpp", "std")

    def test_headers_that_see_libtorch_are_left_out_unless_all_are_wanted(self):
        files = {"lib/dtrain/a.hpp": "#include <ATen/core/none_such.h>\n", "tests/b.hpp": '#include "dtrain/a.hpp"\n'}
        with tree.made_up_tree(files) as root:
            commands = {root / "tests/a.cpp": [f"-I{root}/lib"], root / "lib/dtrain/a.cpp": []}
            self.holds(violations(root, commands, with_torch=False))
            self.assertEqual(len(violations(root, commands, with_torch=True)), 2)


if __name__ == "__main__":
    tree.main()
