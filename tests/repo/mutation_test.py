"""tests/mutation changes code and nothing else, judges what it changed, puts it back, and goes on where it stopped. CMake, Ninja
and CTest are stood in for by small scripts, so that nothing here needs a build."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import tree

sys.path.insert(0, str(tree.ROOT / "tests/mutation"))
import changes  # noqa: E402

SAMPLE = r'''#include "a/b.hpp"  // 1 + 2
#define TWICE(x) \
  ((x) * 2)
static_assert(sizeof(int) == 4, "1 < 2");
/* a - 1
   if (!a) */
template <class T, int N>
std::vector<int> take(const T& in, std::array<T, N>&& more) {
  // x = 1;
  const char* text = "1 + 1 && true";  // no change
  const auto raw = R"x(2 * 3 ")" -1)x";
  if (!more.empty() && in.size() > 7) throw Error("at " + std::to_string(in.size()) + " of 9");
  for (int i = 0; i < 0x10; ++i) total_ += in[i] * 0.5F;
  check(total_ >= 1'000'000, "large");
  else_here->push_back(
      {in.size() - 1});
  const int declared = 'a' | mask();
  std::lock_guard<std::mutex> lock(mutex_);
  if (none) return {};
  if (nothing) return std::nullopt;
  return made(in,
              false);
}
'''
# (line, kind, what is there, what may replace it)
PLACES = [
    (12, "operator", "!", [""]), (12, "operator", "&&", ["||"]), (12, "operator", ">", [">=", "<="]), (12, "constant", "7", ["8", "6"]),
    (12, "statement", 'throw Error("at " + std::to_string(in.size()) + " of 9");', ["{}"]),
    (13, "constant", "0", ["1"]), (13, "operator", "<", ["<=", ">="]), (13, "constant", "0x10", ["17", "15"]), (13, "operator", "++", ["--"]),
    (13, "statement", "total_ += in[i] * 0.5F;", ["{}"]), (13, "operator", "+=", ["-="]), (13, "operator", "*", ["/"]),
    (13, "constant", "0.5F", ["(2 * 0.5F)"]),
    (14, "operator", ">=", [">", "<"]), (14, "constant", "1'000'000", ["1000001", "999999"]),
    (15, "statement", "else_here->push_back(\n      {in.size() - 1});", ["{}"]), (16, "operator", "-", ["+"]), (16, "constant", "1", ["2", "0"]),
    (21, "result", "return made(in,\n              false);", ["return {};"]), (22, "constant", "false", ["true"]),
]


# Each call by which one waits for another, and nothing that is only named like one.
ORDERED = '''Mark SideStream::mark() const { return made(); }  // side.join();
void SideStream::join() const {
  side_.join();
  thread.join();
  if (after) after->block(*stream_);
  const Mark filled = side.mark();
  side.enter(side.mark(), scope);
  parts_.watchdog.enter(Section::load, step);
  wait_for(side, comm);
  if (arrived.wait_for(lock, limit)) return;
  r.shared.changed.wait(lock, [&] { return ready(1, (2)); });
}
'''
ORDER_PLACES = [
    (3, "side_.join();"), (5, "after->block(*stream_);"), (6, "side.mark()"), (7, "side.enter(side.mark(), scope);"), (7, "side.mark()"),
    (9, "wait_for(side, comm);"), (11, "r.shared.changed.wait(lock, [&] { return ready(1, (2)); });"),
]


def not_code(text):
    """The comments, directives and texts of a source, in their order."""
    return [match[0] for match in changes.TOKEN.finditer(text) if match.lastgroup == "text" or (match.lastgroup == "skipped" and match[0].strip())]


class Changes(tree.RuleTest):
    def test_each_operator_constant_statement_and_result_of_the_code_is_a_place_and_nothing_else(self):
        found = [(place.line, place.kind, place.before, list(place.after)) for place in changes.places(SAMPLE)]
        self.maxDiff = None
        self.assertEqual(sorted(found), sorted(PLACES))

    def test_a_change_is_made_at_its_place_alone(self):
        for place in changes.places(SAMPLE):
            for after in place.after:
                change = {"file": "a.cpp", "line": place.line, "offset": place.offset, "before": place.before, "after": after}
                changed = changes.applied(SAMPLE, change)
                self.assertEqual(changed, SAMPLE[:place.offset] + after + SAMPLE[place.offset + len(place.before):])
                self.assertEqual(changed.splitlines()[:place.line - 1], SAMPLE.splitlines()[:place.line - 1])
                with self.assertRaises(ValueError):
                    changes.applied(SAMPLE[1:], change)

    def test_no_change_of_this_tree_touches_a_comment_a_directive_or_a_text_that_stays(self):
        sources = {str(path): path.read_text(encoding="utf-8") for path in sorted((tree.ROOT / "lib/dtrain/dist").glob("*.cpp"))}
        drawn = changes.draw(sources, 150, random.Random(7))
        self.assertEqual(len({(change["file"], change["offset"], change["kind"]) for change in drawn}), 150)
        for change in drawn:
            before = sources[change["file"]]
            after = changes.applied(before, change)
            self.assertNotEqual(before, after)
            gone = not_code(change["before"])  # within the statement that is dropped
            self.assertEqual(len(not_code(before)) - len(not_code(after)), len(gone), changes.in_words(change))

    def test_each_call_that_orders_streams_or_threads_is_a_place_and_nothing_that_is_only_named_so(self):
        self.assertEqual([(place.line, place.before) for place in changes.synchronisations(ORDERED)], ORDER_PLACES)
        for change in changes.all_synchronisations({"a.cpp": ORDERED}):
            self.assertEqual(changes.applied(ORDERED, change).count("{}"), 1)
        ours = {str(path): path.read_text(encoding="utf-8") for path in sorted((tree.ROOT / "lib/dtrain/device").glob("*.cpp"))}
        self.assertGreater(len(changes.all_synchronisations(ours)), 4)

    def test_a_seed_always_draws_the_same(self):
        def draw(seed):
            return changes.draw({"a.cpp": SAMPLE}, 8, random.Random(seed))
        self.assertEqual(draw(1), draw(1))
        self.assertNotEqual(draw(1), draw(2))
        self.assertEqual(len(changes.draw({"a.cpp": SAMPLE}, 1000, random.Random(1))), len(PLACES))


# The only source of a made-up tree. The stand-in for a test looks at its second line; nothing looks at its third.
SOURCE = "int f(int a) {\n  if (a == 5) return 3;\n  if (a != 9) return 8;\n  return a * a;\n}\n"
PROGRAMS = {
    "cmake": 'mkdir -p build/release; touch build/release/build.ninja',
    # CTest leaves out the command of a program that is not built yet.
    "ctest": r"""[[ ! -e $2/bin/test_optim ]] || words="\"command\": [\"$2/bin/test_optim\"],"
      echo "{\"tests\": [{\"name\": \"unit.optim\", $words \"properties\": [
      {\"name\": \"ENVIRONMENT\", \"value\": [\"LOOKS_AT=$2/../../lib/dtrain/optim/a.cpp\"]}]}]}" """,
    "ninja": r"""mkdir -p "$2/bin"; echo "$3" >>"$2/targets"
      printf '#!/bin/bash\ngrep -q "a == 5. return 3" "$LOOKS_AT" || exit 7\n' >"$2/bin/test_optim"; chmod +x "$2/bin/test_optim"
      grep -q 'a / a' "$2/../../lib/dtrain/optim/a.cpp" && echo 'a.cpp:4: error: no such thing' && exit 1; exit 0""",
}


# The same for a source whose calls are left out: "streams" looks for its first one and "nccl" for its second.
ORDERED_SOURCE = "void f() {\n  side.join();\n  event.record(s);\n  side.mark();\n}\n"
ORDERED_PROGRAMS = PROGRAMS | {
    "ctest": r"""module=${5#*)\\.}; module=${module%%(*}
      echo "{\"tests\": [{\"name\": \"unit.$module\", \"command\": [\"$2/bin/test_$module\"], \"properties\": [
      {\"name\": \"ENVIRONMENT\", \"value\": [\"LOOKS_AT=$2/../../lib/dtrain/device/a.cpp\"]}]}]}" """,
    "ninja": r"""mkdir -p "$2/bin"
      for program in "${@:3}"; do
        case $program in test_streams) words="side.join" ;; test_nccl) words="event.record" ;; *) words= ;; esac
        printf '#!/bin/bash\ngrep -q "%s" "$LOOKS_AT"\n' "$words" >"$2/bin/$program"; chmod +x "$2/bin/$program"
      done""",
}


def outcomes(top):
    known = json.loads((top / "build/mutation/results.json").read_text(encoding="utf-8"))
    return {change["number"]: change.get("outcome") for change in known["changes"]}


class Mutate(tree.RuleTest):
    @contextlib.contextmanager
    def made_up(self, path="lib/dtrain/optim/a.cpp", source=SOURCE, programs=None):
        """A tree of one source with the script in it; yields run(words …), whose `top` is that tree."""
        with tree.made_up_tree({path: source, "tests/unit/optim/a_test.cpp": "\n"}) as root, \
                tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            shutil.copytree(tree.ROOT / "tests/mutation", root / "tests/mutation")
            (root / "scripts").mkdir()
            shutil.copy(tree.ROOT / "scripts/common.py", root / "scripts")
            for name, text in (programs or PROGRAMS).items():
                path = pathlib.Path(folder) / name
                path.write_text("#!/bin/bash\n" + text + "\n", encoding="utf-8")
                path.chmod(0o755)

            def run(*words):
                return subprocess.run([root / "tests/mutation/mutate", *words], capture_output=True, text=True, timeout=50, check=False,
                                      env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"})

            run.top, run.copy = root, root / "build/mutation/tree"
            yield run

    def ends(self, result, code, *words):
        """Ended with this code, and its last line on stderr names the words."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr.splitlines()[-1])

    def test_changes_are_noticed_by_the_build_or_a_test_and_survive_where_no_test_looks(self):
        with self.made_up() as run:
            ended = run("--count", "100")
            self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
            told = {}
            for line in ended.stdout.splitlines():
                told.setdefault(line.split()[1], set()).add(line.split(": ", 1)[1].partition(" (")[0])
            self.assertEqual(told["build"], {"* becomes /"})
            self.assertLessEqual({"== becomes !=", "return 3; becomes return {};"}, told["test"])
            self.assertLessEqual({"!= becomes ==", "return 8; becomes return {};", "return a * a; becomes return {};"}, told["survived"])
            self.assertIn("unit.optim: ended with 7", ended.stdout)
            self.assertIn("a.cpp:4: error: no such thing", ended.stdout)
            self.assertEqual((run.copy / "lib/dtrain/optim/a.cpp").read_text(), SOURCE)
            self.assertEqual((run.top / "lib/dtrain/optim/a.cpp").read_text(), SOURCE)
            self.assertEqual(set((run.copy / "build/release/targets").read_text().split()), {"test_optim"})
            self.assertEqual(run("--count", "100", "--want", "30").returncode, 0)

    def test_calls_that_order_streams_are_judged_by_the_tests_of_streams_then_of_nccl_then_of_their_module(self):
        with self.made_up("lib/dtrain/device/a.cpp", ORDERED_SOURCE, ORDERED_PROGRAMS) as run:
            ended = run("--synchronisations")
            self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
            told = [line.split(maxsplit=2)[1:] for line in ended.stdout.splitlines()]
            self.assertEqual(told, [["test", "lib/dtrain/device/a.cpp:2: without side.join(); (unit.streams: ended with 1)"],
                                    ["test", "lib/dtrain/device/a.cpp:3: without event.record(s); (unit.nccl: ended with 1)"],
                                    ["survived", "lib/dtrain/device/a.cpp:4: without side.mark();"]])
            self.assertIn("2 of 3 changes noticed", ended.stderr)
            self.assertEqual(run("--synchronisations", "--list", "--want", "60").returncode, 0)

    def test_it_goes_on_behind_the_last_change_and_judges_some_again(self):
        with self.made_up() as run:
            ended = run("--count", "4", "--at-most", "3")
            self.assertEqual((ended.returncode, ended.stdout.count("\n")), (75, 3), ended.stderr)
            self.assertEqual(list(outcomes(run.top).values()).count(None), 1)
            first = outcomes(run.top)
            ended = run("--count", "4")
            self.assertEqual(ended.stdout.split()[0], "4", ended.stderr)
            self.assertEqual({number: outcome for number, outcome in outcomes(run.top).items() if number < 4},
                             {number: outcome for number, outcome in first.items() if number < 4})
            (run.copy / "build/release/targets").unlink()
            self.assertEqual(run("--count", "4", "--again", "2").stdout.split()[0], "2")
            self.assertEqual((run.copy / "build/release/targets").read_text().split(), ["test_optim"])  # no other, and no first look
            (run.top / "tests/unit/optim/a_test.cpp").write_text("// more\n", encoding="utf-8")
            self.assertIn("without a change first", run("--count", "4", "--again", "2").stderr)

    def test_what_an_ended_call_left_in_the_copy_is_put_back(self):
        with self.made_up() as run:
            run("--count", "1")
            (run.copy / "lib/dtrain/optim/a.cpp").write_text(SOURCE.replace("a == 5", "a != 5"), encoding="utf-8")
            self.assertEqual(run("--count", "1", "--again", "1").returncode in (0, 1), True)
            self.assertEqual((run.copy / "lib/dtrain/optim/a.cpp").read_text(), SOURCE)

    def test_a_tree_that_fails_without_a_change_is_told_so(self):
        with self.made_up() as run:
            (run.top / "lib/dtrain/optim/a.cpp").write_text(SOURCE.replace("5", "6"), encoding="utf-8")
            self.ends(run("--count", "2"), 69, "unit.optim: ended with 7", "without a change")
            (run.top / "lib/dtrain/optim/a.cpp").write_text(SOURCE.replace("*", "/"), encoding="utf-8")
            self.ends(run("--count", "2"), 69, "does not build without a change")

    def test_results_of_another_seed_or_other_sources_and_this_tree_as_the_copy_are_refused(self):
        with self.made_up() as run:
            self.assertEqual(run("--count", "2").returncode in (0, 1), True)
            self.ends(run("--count", "2", "--seed", "2"), 65, "results.json", "another seed")
            self.ends(run("--count", "2", "--copy", run.top, "--again", "1"), 64, "--copy")
            (run.top / "lib/dtrain/optim/a.cpp").write_text(SOURCE + "// more\n", encoding="utf-8")
            self.ends(run("--count", "2"), 65, "other sources")

    def test_a_bad_command_line_and_help(self):
        for words in ((), ("--count", "0"), ("--count", "2", "--again", "x"), ("--count", "2", "--synchronisations")):
            told = subprocess.run([tree.ROOT / "tests/mutation/mutate", *words], capture_output=True, text=True, timeout=20, check=False)
            self.ends(told, 64, "--help")
        told = subprocess.run([tree.ROOT / "tests/mutation/mutate", "--help"], capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual((told.returncode, told.stdout.split()[:2]), (0, ["usage:", "tests/mutation/mutate"]))


if __name__ == "__main__":
    tree.main()
