"""Each header compiles alone: it includes what it uses. For the headers of the standard library repo.includes sees to that, so that
they are compiled once for all. Those that see LibTorch take 10 s each and are left to scripts/lint --all."""

import pathlib
import shutil
import subprocess
import tempfile

import compiled
from compiled import tree
import includes_test

COMPILER = shutil.which("g++") or shutil.which("c++")


def words_for(header, commands):
    """The arguments of the sources beside a header, or else of the sources in the nearest folder above it."""
    for folder in header.parents:
        beside = [words for source, words in commands.items() if source.is_relative_to(folder)]
        if beside:
            return compiled.one_of_each(beside)
    return []


def chains(headers, folders):
    """Headers in lists, each of which includes the one before it: one compilation shows of all that they compile alone,
    since before each stands only what it includes anyway. Those that see most come first."""
    sees = {header: compiled.headers(header, folders) for header in headers}
    found = []
    for header in sorted(headers, key=lambda one: len(sees[one])):
        chain = max((chain for chain in found if chain[-1] in sees[header]), key=lambda chain: len(sees[chain[-1]]), default=None)
        if chain is None:
            found.append([header])
        else:
            chain.append(header)
    return sorted(found, key=lambda chain: -len(sees[chain[-1]]))


def standard_headers(folder):
    """Compiles those that repo.includes knows, and returns the arguments to begin with them."""
    header = folder / "standard.hpp"
    header.write_text("".join(f"#include <{name}>\n" for name in sorted(includes_test.HEADER_OF)), encoding="utf-8")
    subprocess.run([COMPILER, "-std=c++20", "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
    return ["-include", str(header)]


def told(chain, commands, root, begin):
    """The compiler's first error of each header that does not compile alone."""
    words = compiled.one_of_each(words_for(header, commands) for header in chain)
    text = "".join(f'#include "{header}"\n' for header in chain)
    done = subprocess.run([COMPILER, *words, *begin, "-fsyntax-only", "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    if len(chain) > 1:
        return [line for header in chain for line in told([header], commands, root, begin)]
    errors = [line for line in done.stderr.splitlines() if "error: " in line] or [done.stderr]
    return [f"{chain[0].relative_to(root)} does not compile alone: {errors[0].removeprefix(f'{root}/')}"]


def violations(root, commands, with_torch=compiled.ALL, begin=()):
    folders = compiled.include_folders(root)
    headers = [path for path in tree.files(root, compiled.FOLDERS, {".hpp"}) if with_torch or not compiled.sees_torch(path, folders)]
    return compiled.side_by_side(lambda chain: told(chain, commands, root, begin), chains(headers, folders))


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
            self.assertEqual(len(chains(headers, compiled.include_folders(root))), 2)
            found = violations(root, {root / "lib/dtrain/a.cpp": ["-std=c++20", f"-I{root}/lib"]})
            self.assertEqual([line.split()[0] for line in sorted(found)], ["lib/dtrain/a.hpp", "lib/dtrain/b.hpp", "lib/dtrain/d.hpp"])

    def test_headers_that_see_libtorch_are_left_out_unless_all_are_wanted(self):
        files = {"lib/dtrain/a.hpp": "#include <ATen/core/none_such.h>\n", "tests/b.hpp": '#include "dtrain/a.hpp"\n'}
        with tree.made_up_tree(files) as root:
            commands = {root / "tests/a.cpp": [f"-I{root}/lib"], root / "lib/dtrain/a.cpp": []}
            self.holds(violations(root, commands, with_torch=False))
            self.assertEqual(len(violations(root, commands, with_torch=True)), 2)


if __name__ == "__main__":
    tree.main()
