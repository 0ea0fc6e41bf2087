"""A header includes the standard header of each name that it uses, instead of relying on what others include. A file includes each
of LibTorch's operators that it calls, and no other: all of them, as ATen/ATen.h has them, take seconds a file."""

import pathlib
import re

import tree

HEADER_OF = {
    "string": ["string", "to_string"], "string_view": ["string_view"], "vector": ["vector", "erase"], "map": ["map", "multimap"], "set": ["set"],
    "optional": ["optional", "nullopt"], "functional": ["function"], "span": ["span", "as_bytes"], "array": ["array", "to_array"],
    "memory": ["unique_ptr", "shared_ptr", "make_unique", "make_shared", "weak_ptr", "enable_shared_from_this"],
    "utility": ["pair", "move", "exchange"], "atomic": ["atomic", "atomic_ref"], "mutex": ["mutex", "lock_guard", "unique_lock"],
    "thread": ["thread", "jthread"], "variant": ["variant"], "chrono": ["chrono"], "cstddef": ["byte", "ptrdiff_t"],
    "stdexcept": ["runtime_error"], "exception": ["exception_ptr"], "source_location": ["source_location"], "deque": ["deque"],
    "cmath": ["sqrt", "isinf", "signbit", "nearbyint", "ldexp", "isnan", "abs", "nanf", "erfc", "exp", "sin"], "tuple": ["tuple"],
    "limits": ["numeric_limits"], "condition_variable": ["condition_variable"], "filesystem": ["filesystem"],
    "fstream": ["ofstream", "ifstream"], "ios": ["ios", "streamsize"], "ostream": ["flush"], "random": ["mt19937"], "ranges": ["ranges"],
    "unordered_map": ["unordered_map"], "bit": ["bit_cast", "endian"], "cstring": ["memcpy", "memset"], "numeric": ["iota"],
    "system_error": ["error_code", "system_error"], "type_traits": ["is_same_v"], "cstdlib": ["getenv"], "cctype": ["toupper"],
    "algorithm": ["min", "max", "find", "find_if", "max_element", "reverse", "sort", "all_of", "copy_n"],
}
# Including the one also gives the other: the standard says so, or no library can do otherwise.
BROUGHT_BY = {"utility": {"map", "vector", "string", "optional", "memory", "functional", "array", "variant", "tuple", "set"},
              "cstddef": {"span", "array"}, "ios": {"fstream", "iostream", "ostream", "sstream", "iomanip"}, "ranges": {"algorithm"},
              "system_error": {"filesystem"}, "ostream": {"iostream", "sstream", "fstream"}, "string_view": {"string"}, "chrono": {"thread"},
              "array": {"dtrain/base/words.hpp"}}  # for the lists of words
NAMES = {name: header for header, names in HEADER_OF.items() for name in names}
USED = re.compile(r"\bstd::(\w+)")
FIXED = re.compile(r"(?<![\w:])u?int(?:8|16|32|64)_t\b")
# Functions in LibTorch's namespace that are no operators, which have a header each.
NO_OPERATORS = {"parallel_for", "init_num_threads", "get_num_threads", "set_num_threads", "get_thread_num", "globalContext", "manual_seed",
                "get_cpu_capability", "isFloatingType", "toString", "numel"}
# Their overloads with an int for the dimension are in ATen/Functions.h alone: with ops/NAME.h an int becomes a bool, in silence.
AS_METHODS = {"std", "var", "std_mean", "var_mean"}
METHODS = {"record_stream"}  # operators of which the header is for a method of Tensor
CALLED = re.compile(r"\bat::(?!k[A-Z])([a-z_]\w*)\b(?!::| \{)")
OPERATOR = re.compile(r"#\s*include <ATen/ops/(\w+)\.h>")
ALL_OPERATORS = re.compile(r'#\s*include [<"](ATen/(?:ATen|Functions|NativeFunctions|Operators|autocast_mode)|torch/(?:torch|all))\.h[>"]')
MAY_HAVE_ALL = pathlib.PurePath("tests/support/host_gpu/autocast.cpp")  # autocast's lists of operators are in no other header


def all_operators(text):
    return [f"<{name}.h> brings all operators; include those that are called" for name in ALL_OPERATORS.findall(text)]


def wrong_operators(text):
    """What is wrong with this text's includes of LibTorch's operators, a sentence each."""
    code = re.sub(r"//.*", "", text)
    names = {re.sub(r"(_symint|_outf?|(?<!_)_)$", "", name) for name in CALLED.findall(code)} - NO_OPERATORS
    included = set(OPERATOR.findall(code))
    idle = {name for name in included - names - METHODS if f"at::native::{name.removesuffix('_native')}" not in code}
    return ([f"it calls at::{name}; include <ATen/ops/{name}.h>, or add it to NO_OPERATORS" for name in sorted(names - included - AS_METHODS)] +
            [f"at::{name} takes an int for a bool; call the tensor's method" for name in sorted(names & AS_METHODS)] +
            [f"it does not use <ATen/ops/{name}.h>" for name in sorted(idle)])


def missing_includes(text):
    """Standard headers that this text needs and does not include, and names of which it is not known where they come from."""
    code = re.sub(r"//.*", "", text)
    included = set(re.findall(r'#\s*include ["<]([^">]+)[">]', code))
    wanted = {NAMES.get(name, f"? of std::{name}") for name in USED.findall(code)}
    if FIXED.search(code):
        wanted.add("cstdint")
    return sorted(header for header in wanted - included if not included & BROUGHT_BY.get(header, set()))


def violations(root):
    found = []
    for path in tree.files(root, ["lib/dtrain", "apps", "tests"], {".hpp"}):
        for header in missing_includes(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(root)}: it uses names of <{header}>; include that" + (" and add it to HEADER_OF" if header[0] == "?" else ""))
    for path in tree.files(root, ["lib/dtrain", "apps", "tests", "cmake/precompiled"], {".hpp", ".cpp"}):
        name, text = path.relative_to(root), path.read_text(encoding="utf-8")
        wrong = all_operators(text) if name != MAY_HAVE_ALL else []
        if name.parts[0] != "cmake":
            wrong += wrong_operators(text)
        found += [f"{name}: {sentence}" for sentence in wrong]
    return found


class Includes(tree.RuleTest):
    def test_this_tree_keeps_the_rule(self):
        self.holds(violations(tree.ROOT))

    def test_a_name_without_its_header_is_found(self):
        self.assertEqual(missing_includes("#include <vector>\nstd::vector<std::string> f(int64_t n);\n"), ["cstdint", "string"])

    def test_a_name_that_is_not_in_the_table_is_found(self):
        self.assertEqual(missing_includes("std::flat_map<int, int> f();\n"), ["? of std::flat_map"])

    def test_comments_and_own_names_are_no_use(self):
        self.assertEqual(missing_includes("// std::vector\nstruct vector {};\n"), [])

    def test_what_a_header_brings_along_is_enough(self):
        self.assertEqual(missing_includes("#include <map>\n#include <string>\nstd::pair<int, std::string_view> f();\n"), [])

    def test_an_operator_without_its_header_and_one_that_is_not_used_are_found(self):
        text = "#include <ATen/ops/empty.h>\nat::Tensor f() { return v.empty() ? at::zeros({2}) : g(&at::relu); }\n"
        self.assertEqual([wrong.partition(";")[0] for wrong in wrong_operators(text)],
                         ["it calls at::relu", "it calls at::zeros", "it does not use <ATen/ops/empty.h>"])

    def test_all_operators_at_once_are_found(self):
        for name in ("<ATen/ATen.h>", '"ATen/Functions.h"', "<ATen/autocast_mode.h>"):
            self.assertEqual(len(all_operators(f"#include {name}\n")), 1, name)
        self.assertEqual(all_operators("#include <ATen/core/Tensor.h>\n"), [])

    def test_other_forms_come_with_their_operator(self):
        text = ("#include <ATen/ops/convolution.h>\n#include <ATen/ops/mm.h>\n#include <ATen/ops/relu.h>\n#include <ATen/ops/view_native.h>\n"
                "at::relu_(at::convolution_symint(x)); at::mm_out(y, a, b); at::native::view(x, s); at::get_num_threads(); at::kFloat;\n")
        self.assertEqual(wrong_operators(text), [])

    def test_a_function_that_takes_an_int_for_a_bool_is_refused(self):
        self.assertEqual(len(wrong_operators("#include <ATen/ops/std.h>\nat::std(x, 0);\n")), 1)


if __name__ == "__main__":
    tree.main()
