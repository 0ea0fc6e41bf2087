"""clang-tidy has nothing to say, by the checks of .clang-tidy. Where headers are what costs time, the sources of a folder are
read as one (no two of them give one name to two things, repo.style), and those of several folders where that holds for
them too. Those that see LibTorch are left to scripts/lint --all. clang-tidy 23, which scripts/setup fetches: older ones look for
everything in the headers of libraries too."""

import collections
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import compiled
from compiled import tree
import names

CACHE = pathlib.Path(os.environ.get("DTRAIN_CACHE") or pathlib.Path.home() / ".cache/dtrain")  # as scripts/setup has it
PROGRAM = CACHE / "clang-tidy-23.1.4/clang_tidy/data/bin/clang-tidy"
WARNING = re.compile(r"^(?P<text>\S+:\d+:\d+: (?:warning|error): .*\[[\w.,-]+\])$", re.MULTILINE)


def told(sources, commands, root, work):
    """What clang-tidy reports for these sources, read as one."""
    together = work / str(sources[0].relative_to(root)).replace("/", "_")
    lines = [f'#include "{source}"  // NOLINT(bugprone-suspicious-include)\n' for source in sources]
    together.write_text("".join(lines), encoding="utf-8")
    words = compiled.one_of_each(commands[source] for source in sources)
    line = [str(PROGRAM), "--quiet", f"--config-file={tree.ROOT}/.clang-tidy", f"--header-filter=^{re.escape(str(root))}/(lib|apps|tests)/",
            str(together), "--", *words]
    done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
    found = [match["text"].removeprefix(f"{root}/") for match in WARNING.finditer(done.stdout)]
    return found if found or done.returncode == 0 else [done.stdout + done.stderr]


def fit(folders, root, most):
    """Folders, as lists of sources, in groups that can be read as one: what is local to a source is no name that another
    gives, or sees in a header. Large folders first, and at most so many sources in a group of several."""
    def seen(sources):
        included = frozenset().union(*(compiled.headers(source, compiled.include_folders(root)) for source in sources))
        return frozenset().union(*map(names.public, included))

    groups = []
    for sources in sorted(folders, key=len, reverse=True):
        own = frozenset().union(*map(names.own, sources))
        given = own | seen(sources)
        fitting = [group for group in groups if sum(len(others) for others, _, _ in group) + len(sources) <= most
                   and not any(own & others_given or others_own & given for _, others_own, others_given in group)]
        if not fitting:
            groups.append([])
        (fitting or groups[-1:])[0].append((sources, own, given))
    return [[sources for sources, _, _ in group] for group in groups]


def told_of_group(group, commands, root, work):
    """As told(), for several folders; those that do not compile as one, or are too much for the tool, are read one by one."""
    found = told(sum(group, []), commands, root, work)
    if len(group) > 1 and any("clang-diagnostic-error" in line or not WARNING.match(line) for line in found):
        return [line for sources in group for line in told(sources, commands, root, work)]
    return found


def violations(root, commands, with_torch=compiled.ALL, folders=("lib", "apps")):
    kinds = collections.defaultdict(lambda: collections.defaultdict(list))
    for source in sorted(commands):
        torch = compiled.sees_torch(source, compiled.include_folders(root))
        if source.relative_to(root).parts[0] in folders and (with_torch or not torch):
            kinds[torch][source.parent].append(source)
    cores = len(os.sched_getaffinity(0))
    groups = [group for kind in kinds.values() for group in fit(kind.values(), root, sum(map(len, kind.values())) // cores + 1)]
    with tempfile.TemporaryDirectory(prefix="dtrain-lint-") as work:
        groups.sort(key=lambda group: sum(map(len, group)), reverse=True)
        found = compiled.side_by_side(lambda group: told_of_group(group, commands, root, pathlib.Path(work)), groups)
    return sorted(set(found))


@unittest.skipUnless(PROGRAM.exists(), f"{PROGRAM} is not there: scripts/setup --test-packages")
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

    def test_folders_are_read_as_one_unless_they_give_one_name_to_two_things(self):
        files = {"lib/dtrain/io/a.hpp": "struct Place {\n  int x;\n};\n", "lib/dtrain/io/a.cpp": '#include "dtrain/io/a.hpp"\n',
                 "lib/dtrain/data/b.cpp": "namespace {\nint place() { return 0; }\n}  // namespace\n",
                 "lib/dtrain/study/c.cpp": "static int place() { return 0; }\n", "lib/dtrain/watch/d.cpp": "constexpr int Place = 0;\n"}
        with tree.made_up_tree(files) as root:
            groups = fit([[path] for path in tree.files(root, ["lib"], {".cpp"})], root, most=3)
            self.assertEqual([[sources[0].name for sources in group] for group in groups], [["b.cpp", "a.cpp"], ["c.cpp", "d.cpp"]])

    def test_folders_that_do_not_compile_as_one_are_read_one_by_one(self):
        texts = {"io": "namespace {\n  int hidden() { return 0; }\n}\ndouble f(int x) {\n  return x / 2;\n}\n",
                 "data": "namespace {\n  int hidden() { return 1; }\n}\n"}
        with tree.made_up_tree({f"lib/dtrain/{name}/a.cpp": text for name, text in texts.items()}) as root:
            found = violations(root, {root / f"lib/dtrain/{name}/a.cpp": ["-std=c++20"] for name in texts})
            self.only(found, "lib/dtrain/io/a.cpp:5", "[bugprone-integer-division")

    def test_a_suppression_with_its_name_is_heeded(self):
        self.holds(self.judge("double half(int x) {\n  return x / 2;  // NOLINT(bugprone-integer-division): whole pairs\n}\n"))


if __name__ == "__main__":
    tree.main()
