"""Each header compiles alone: it includes what it uses. For the headers of the standard library repo.includes sees to that, so that
they are compiled once for all. Those that see LibTorch take 10 s each and are left to scripts/lint --all."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import compiled
from compiled import tree
import includes_test
import names

COMPILER = shutil.which("g++") or shutil.which("c++")


def words_for(header, commands):
    """The arguments of the sources beside a header, or else of the sources in the nearest folder above it."""
    for folder in header.parents:
        beside = [words for source, words in commands.items() if source.is_relative_to(folder)]
        if beside:
            return compiled.one_of_each(beside)
    return []


def groups(headers, folders, most):
    """Headers in lists of at most so many that are compiled as one and show of each that it compiles alone: before it stand only
    headers that it includes anyway, and such as give no name that it mentions."""
    found = []
    for header in sorted(headers, key=lambda one: len(compiled.headers(one, folders))):
        sees = compiled.headers(header, folders) | {header}
        mentions = frozenset(re.findall(r"\w+", header.read_text(encoding="utf-8")))
        fitting = [(group, given) for group, given in found
                   if len(group) < most and all(mentions.isdisjoint(names.public(other)) for other in given - sees)]
        group, given = max(fitting, key=lambda pair: len(pair[1] & sees), default=([], set()))
        if not group:
            found.append((group, given))
        group.append(header)
        given |= sees
    return [group for group, _ in found]


def standard_headers(folder):
    """Compiles those that repo.includes knows, and returns the arguments to begin with them."""
    header = folder / "standard.hpp"
    header.write_text("".join(f"#include <{name}>\n" for name in sorted(includes_test.HEADER_OF)), encoding="utf-8")
    subprocess.run([COMPILER, "-std=c++20", "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    return ["-include", str(header)]


def told(group, commands, root, begin):
    """The compiler's first error of each header that does not compile alone."""
    words = compiled.one_of_each(words_for(header, commands) for header in group)
    text = "".join(f'#include "{header}"\n' for header in group)
    done = subprocess.run([COMPILER, *words, *begin, "-fsyntax-only", "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    if len(group) > 1:
        return [line for header in group for line in told([header], commands, root, begin)]
    errors = [line for line in done.stderr.splitlines() if "error: " in line] or [done.stderr]
    return [f"{group[0].relative_to(root)} does not compile alone: {errors[0].removeprefix(f'{root}/')}"]


def violations(root, commands, with_torch=compiled.ALL, begin=()):
    folders = compiled.include_folders(root)
    headers = [path for path in tree.files(root, compiled.FOLDERS, {".hpp"}) if with_torch or not compiled.sees_torch(path, folders)]
    most = len(headers) // (4 * len(os.sched_getaffinity(0))) + 1
    return compiled.side_by_side(lambda group: told(group, commands, root, begin), groups(headers, folders, most))


class Headers(tree.RuleTest):
    def test_headers_of_this_tree_compile_alone(self):
        commands = compiled.commands(tree.ROOT, compiled.BUILD)
        self.assertGreater(len(commands), 100)
        with tempfile.TemporaryDirectory(prefix="dtrain-lint-") as folder:
            self.holds(violations(tree.ROOT, commands, begin=standard_headers(pathlib.Path(folder))))

    def test_a_header_that_lacks_an_include_is_found(self):
        files = {"lib/dtrain/io/a.hpp": "#pragma once\nstd::string name();\n", "lib/dtrain/io/b.hpp": "#include <string>\nstd::string name();\n"}
        with tree.made_up_tree(files) as root:
            self.only(violations(root, {root / "lib/dtrain/io/a.cpp": ["-std=c++20"]}), "lib/dtrain/io/a.hpp", "std")

    def test_headers_that_include_one_another_are_found_each(self):
        files = {"lib/dtrain/a.hpp": "#pragma once\nstd::string name();\n", "lib/dtrain/b.hpp": '#pragma once\n#include "dtrain/a.hpp"\n',
                 "lib/dtrain/c.hpp": "#pragma once\nint c();\n",
                 "lib/dtrain/d.hpp": '#pragma once\n#include "dtrain/c.hpp"\nstd::string d();\n'}
        with tree.made_up_tree(files) as root:
            headers = [root / name for name in files]
            self.assertEqual([len(group) for group in groups(headers, compiled.include_folders(root), most=9)], [4])
            found = violations(root, {root / "lib/dtrain/a.cpp": ["-std=c++20", f"-I{root}/lib"]})
            self.assertEqual([line.split()[0] for line in sorted(found)], ["lib/dtrain/a.hpp", "lib/dtrain/b.hpp", "lib/dtrain/d.hpp"])

    def test_headers_are_compiled_as_one_unless_one_mentions_what_another_gives(self):
        files = {"lib/dtrain/a.hpp": "#pragma once\nstruct Width {};\n", "lib/dtrain/b.hpp": "#pragma once\nint height(Width width);\n",
                 "lib/dtrain/c.hpp": '#pragma once\n#include "dtrain/a.hpp"\nint depth(Width width);\n', "lib/dtrain/d.hpp": "#pragma once\nint x();\n"}
        with tree.made_up_tree(files) as root:
            headers, folders = [root / name for name in files], compiled.include_folders(root)
            self.assertEqual([[header.stem for header in group] for group in groups(headers, folders, most=9)], [["a", "d", "c"], ["b"]])
            self.assertEqual([len(group) for group in groups(headers, folders, most=2)], [2, 2])
            self.only(violations(root, {root / "lib/dtrain/a.cpp": [f"-I{root}/lib"]}), "lib/dtrain/b.hpp", "Width")

    def test_headers_that_see_libtorch_are_left_out_unless_all_are_wanted(self):
        files = {"lib/dtrain/a.hpp": "#include <ATen/core/none_such.h>\n", "tests/b.hpp": '#include "dtrain/a.hpp"\n'}
        with tree.made_up_tree(files) as root:
            commands = {root / "tests/a.cpp": [f"-I{root}/lib"], root / "lib/dtrain/a.cpp": []}
            self.holds(violations(root, commands, with_torch=False))
            self.assertEqual(len(violations(root, commands, with_torch=True)), 2)


if __name__ == "__main__":
    tree.main()
