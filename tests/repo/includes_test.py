"""A header includes the standard header of each name that it uses, instead of relying on what others include. A file includes each
of LibTorch's operators that it calls, and no other: all of them, as ATen/ATen.h has them, take seconds a file."""

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
NO_OPERATORS = {"parallel_for", "init_num_threads", "get_num_threads", "set_num_threads", "globalContext", "manual_seed",
                "get_cpu_capability", "isFloatingType", "toString"}
CALLED = re.compile(r"\bat::([a-z_]\w*)\(")
OPERATOR = re.compile(r"#\s*include <ATen/ops/(\w+)\.h>")
ALL_OPERATORS = re.compile(r"#\s*include <ATen/(?:ATen|Functions)\.h>")


def wrong_operators(text):
    """What is wrong with this text's includes of LibTorch's operators, a sentence each."""
    code = re.sub(r"//.*", "", text)
    called = {re.sub(r"(_symint|(?<!_)_)$", "", name) for name in CALLED.findall(code)} - NO_OPERATORS
    included = set(OPERATOR.findall(code))
    # A kernel's own header is NAME_native.h; record_stream and view are called as methods or by other names.
    idle = {name for name in included - called if not re.search(rf"\b{name.removesuffix('_native')}\b", OPERATOR.sub("", code))}
    return ([f"it calls at::{name}; include <ATen/ops/{name}.h>" for name in sorted(called - included)] +
            [f"it does not use <ATen/ops/{name}.h>" for name in sorted(idle)] +
            ["include <ATen/core/Tensor.h> and the operators that are called, not all of them"] * bool(ALL_OPERATORS.search(code)))


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
    for path in tree.files(root, ["lib/dtrain", "apps", "tests"], {".hpp", ".cpp"}):
        found += [f"{path.relative_to(root)}: {wrong}" for wrong in wrong_operators(path.read_text(encoding="utf-8"))]
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
        text = "#include <ATen/ops/ones.h>\nat::Tensor f() { return at::zeros({2}); }\n"
        self.assertEqual(wrong_operators(text), ["it calls at::zeros; include <ATen/ops/zeros.h>", "it does not use <ATen/ops/ones.h>"])

    def test_all_operators_at_once_are_found(self):
        self.assertEqual(len(wrong_operators("#include <ATen/ATen.h>\n")), 1)

    def test_operators_in_place_and_by_symbolic_sizes_come_with_their_operator(self):
        text = "#include <ATen/ops/convolution.h>\n#include <ATen/ops/relu.h>\nat::relu_(at::convolution_symint(x)); at::get_num_threads();\n"
        self.assertEqual(wrong_operators(text), [])


if __name__ == "__main__":
    tree.main()
