"""clang-tidy has nothing to say, by the checks of .clang-tidy. Where headers are what costs time, the sources of a folder are
read as one (no two of them give one name to two things, repo.style). Those that see LibTorch are left to scripts/lint --all.
clang 16, because older ones have no std::source_location."""

import collections
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import compiled
from compiled import tree

PROGRAM = "clang-tidy-16"
WARNING = re.compile(r"^(?P<text>\S+:\d+:\d+: (?:warning|error): .*\[[\w.,-]+\])$", re.MULTILINE)


def told(sources, commands, root, work):
    """What clang-tidy reports for these sources, read as one."""
    together = work / str(sources[0].relative_to(root)).replace("/", "_")
    lines = [f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n' for source in sources]
    together.write_text("".join(lines), encoding="utf-8")
    words = compiled.one_of_each(commands[source] for source in sources)
    line = [PROGRAM, "--quiet", f"--config-file={tree.ROOT}/.clang-tidy", f"--header-filter=^{re.escape(str(root))}/(lib|apps|tests)/",
            str(together), "--", *words]
    done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
    found = [match["text"].removeprefix(f"{root}/") for match in WARNING.finditer(done.stdout)]
    return found if found or done.returncode == 0 else [done.stdout + done.stderr]


def violations(root, commands, with_torch=compiled.ALL, folders=("lib", "apps")):
    groups = collections.defaultdict(list)
    for source in sorted(commands):
        torch = compiled.sees_torch(source, compiled.include_folders(root))
        if source.relative_to(root).parts[0] in folders and (with_torch or not torch):
            groups[source.parent, torch].append(source)
    with tempfile.TemporaryDirectory(prefix="dtrain-lint-") as work:
        longest_first = sorted(groups.values(), key=len, reverse=True)
        found = compiled.side_by_side(lambda sources: told(sources, commands, root, pathlib.Path(work)), longest_first)
    return sorted(set(found))


@unittest.skipUnless(shutil.which(PROGRAM), f"{PROGRAM} is not installed")
class Tidy(tree.RuleTest):
    def judge(self, text):
        with tree.made_up_tree({"lib/dtrain/io/a.cpp": text, "lib/dtrain/io/b.cpp": "int b() { return 0; }\n"}) as root:
            return violations(root, {root / f"lib/dtrain/io/{name}.cpp": ["-std=c++20"] for name in "ab"})

    def test_sources_of_this_tree_are_clean(self):
        commands = compiled.commands(tree.ROOT, compiled.BUILD)
        self.assertGreater(len(commands), 100)
        self.holds(violations(tree.ROOT, commands))

    def test_a_pattern_that_is_often_a_bug_is_found(self):
        self.only(self.judge("double half(int x) {\n  return x / 2;\n}\n"), "lib/dtrain/io/a.cpp:2", "[bugprone-integer-division")
        self.only(self.judge("#include <string>\nvoid f(std::string);\nvoid g(const std::string x);\nvoid g(const std::string x) { f(x); }\n"),
                  "a.cpp:4", "[performance-unnecessary-value-param")

    def test_a_file_that_does_not_compile_is_found(self):
        self.only(self.judge("int f() { return not_declared(); }\n"), "a.cpp:1", "'not_declared'")

    def test_a_suppression_with_its_name_is_heeded(self):
        self.holds(self.judge("double half(int x) {\n  return x / 2;  // NOLINT(bugprone-integer-division): whole pairs\n}\n"))


if __name__ == "__main__":
    tree.main()
