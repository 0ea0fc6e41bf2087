"""Rules of docs/contributing.md that a program can check by reading lines."""

import re

import names
import tree

CODE = {".cpp", ".hpp", ".cu", ".cuh"}
TEXT = CODE | {".cmake", ".txt", ".json", ".md", ".py", ".sh", ".sbatch", ".yaml", ""}
EVERYWHERE = ["apps", "lib", "configs", "scripts", "tests", "cmake", "docs", ".ci", "README.md", "CHANGELOG.md", "CMakeLists.txt"]
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
# Spelled so that this file does not contain them.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
# Nothing from an input is ever run; GPU code is loaded by dlopen(), from the program's own folder. One line starts a
# program: the jobs of dtrain sweep, which are mpirun and dtrain itself, and what gives them to Slurm, sbatch and squeue.
STARTS_JOBS = ("lib/dtrain/study/child_job.cpp", "::execve(it.words[0], it.words.data(), it.environment.data());")
EXECUTES = re.compile(r"\b(system|popen|posix_spawnp?|execv\w*|execl\w*)\s*\(|torch::(load|jit|pickle)|torch/script\.h")
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b")


def judge_line(line, is_ours, starts_jobs=False):
    """Reasons against one line; `is_ours`: a source of lib or apps; `starts_jobs`: of the file in STARTS_JOBS."""
    if UNFINISHED.search(line):
        yield "a mark of unfinished work; finish it or open an issue"
    if "\t" in line:
        yield "a tab; indent with spaces"
    if is_ours and CONDITIONAL.match(line):
        yield "conditional compilation; let CMake choose another file instead"
    if is_ours and EXECUTES.search(line) and not (starts_jobs and line.strip() == STARTS_JOBS[1]):
        yield "a program is started or a file is run; dtrain executes nothing that an input holds"


def twins(root):
    """Names that two files of one module, or of its tests, both define: a release build compiles them as one file,
    where they would clash."""
    owners = {}
    for path in sorted(tree.files(root, ["apps", "lib", "tests/unit", "tests/gpu", "tests/support"], {".cpp"})):
        below = path.relative_to(root).parts[:-1]
        owner = owners.setdefault(below[:2] if below[0] == "apps" else below[:3], {})
        for name in sorted(names.own(path)):
            if owner.setdefault(name, path) != path:
                yield f"{path.relative_to(root)}: {name} is a name in {owner[name].relative_to(root)} too; give it another"


def blocks(path):
    """(first line, last line) of each block that ends in a line of its own, as functions do; the formatter has set every line's indentation."""
    begun = {}
    for number, line in tree.lines(path):
        indentation = len(line) - len(line.lstrip())
        if line.strip() == "}":
            yield begun.get(indentation, number), number
        elif line.strip():
            begun[indentation] = number


def violations(root):
    found = list(twins(root))
    for path in tree.files(root, EVERYWHERE, TEXT):
        is_ours = path.suffix in CODE and path.relative_to(root).parts[0] in ("lib", "apps")
        starts_jobs = str(path.relative_to(root)) == STARTS_JOBS[0]
        number = 0
        for number, line in tree.lines(path):
            found += [f"{tree.place(root, path, number)}: {reason}" for reason in judge_line(line, is_ours, starts_jobs)]
        if is_ours and number > LONGEST_FILE:
            found.append(f"{path.relative_to(root)}: {number} lines; {LONGEST_FILE} is the limit, does it hold one idea?")
        for begin, end in blocks(path) if is_ours else []:
            if end - begin >= LONGEST_FUNCTION:
                found.append(f"{tree.place(root, path, begin)}: a function of {end - begin + 1} lines; {LONGEST_FUNCTION} is the limit")
    return found


class Style(tree.RuleTest):
    def judge(self, path, text):
        with tree.made_up_tree({path: text}) as root:
            return violations(root)

    def test_this_tree_keeps_the_rules(self):
        self.holds(violations(tree.ROOT))

    def test_clean_text_passes(self):
        self.holds(self.judge("lib/dtrain/io/a.cpp", "#pragma once\n// mktemp a." + "X" * 6 + "\n" + "// ok\n" * 390))

    def test_a_mark_of_unfinished_work_is_found_in_code_scripts_and_docs(self):
        for path in ("lib/dtrain/io/a.cpp", "scripts/setup", "docs/data.md", "configs/a.yaml"):
            self.only(self.judge(path, "fine\n# TO" + "DO later\n"), f"{path}:2", "unfinished")

    def test_a_tab_is_found(self):
        self.only(self.judge("apps/dtrain/a.cpp", "int x;\n\tint y;\n"), "a.cpp:2", "tab")

    def test_code_that_runs_other_programs_or_files_is_found_in_lib_and_apps(self):
        for line in ('std::system("ls");', 'execvp(name, words);', "auto tensors = torch::pickle_load(bytes);", "torch::load(x, path);"):
            self.only(self.judge("lib/dtrain/io/a.cpp", line + "\n"), "executes nothing")
        self.holds(self.judge("lib/dtrain/io/a.cpp", "FileSystem& system = real_file_system();\n"))
        self.holds(self.judge("tests/support/a.cpp", "execvp(name, words);\n"))
        path, line = STARTS_JOBS
        self.holds(self.judge(path, f"    {line}\n"))
        self.only(self.judge("lib/dtrain/io/a.cpp", f"    {line}\n"), "executes nothing")
        self.only(self.judge(path, '    std::system("ls");\n'), "executes nothing")

    def test_one_name_for_things_of_two_files_is_found(self):
        own = "namespace {{\n\n{}\n\n}}  // namespace\n"
        for text in (own.format("int count(int x) {"), own.format("constexpr int kMost = 3;"), own.format("struct Row {"),
                     "static std::vector<int> rows_of(const Table& table) {\n"):
            for second in ("b.cpp", "files/b.cpp"):
                files = {"io/a.cpp": text, f"io/{second}": text, "data/c.cpp": text}
                for top in ("lib/dtrain", "tests/unit"):
                    with tree.made_up_tree({f"{top}/{name}": text for name, text in files.items()}) as root:
                        self.only(violations(root), f"io/{second}", f"in {top}/io/a.cpp too")
        with tree.made_up_tree({"lib/dtrain/io/a.cpp": "void take() {\n", "lib/dtrain/io/b.cpp": "void take(int x) {\n"}) as root:
            self.holds(violations(root))

    def test_a_long_file_is_found(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", "int x;\n" * 401), "401 lines")

    def test_a_long_function_is_found_and_one_at_the_limit_is_not(self):
        for head in ("int f() {", "struct A {\n  int f(int a,\n        int b) {"):
            inside = head.startswith("struct")
            end = "  }\n};\n" if inside else "}\n"
            lines = 57 if inside else 58
            self.holds(self.judge("lib/dtrain/io/a.cpp", head + "\n" + "    g();\n" * lines + end))
            self.only(self.judge("lib/dtrain/io/a.cpp", head + "\n" + "    g();\n" * (lines + 1) + end), f"a.cpp:{2 if inside else 1}", "61 lines")
        self.holds(self.judge("lib/dtrain/io/a.cpp", "constexpr int kTable[] = {\n" + "    1,\n" * 100 + "};\n"))

    def test_conditional_compilation_is_found_in_lib_and_apps_but_allowed_in_tests(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", "#ifdef HAVE_MPI\n#endif\n"), "conditional")
        self.only(self.judge("apps/dtrain/a.cpp", "  # if FOO\n#endif\n"), "conditional")
        self.holds(self.judge("tests/support/a.hpp", "#if __has_include(<catch2/catch_all.hpp>)\n#endif\n"))


if __name__ == "__main__":
    tree.main()
