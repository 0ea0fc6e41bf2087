"""A header includes the standard header of each common name that it uses, instead of relying on what others include."""

import re

import tree

HEADER_OF = {
    "string": ["string", "to_string"], "string_view": ["string_view"], "vector": ["vector"], "map": ["map"], "set": ["set"],
    "optional": ["optional", "nullopt"], "memory": ["unique_ptr", "shared_ptr", "make_unique", "make_shared", "weak_ptr"],
    "functional": ["function"], "span": ["span", "as_bytes"], "array": ["array", "to_array"], "utility": ["pair", "move", "exchange"],
    "atomic": ["atomic"], "mutex": ["mutex", "lock_guard", "unique_lock"], "thread": ["thread", "jthread"], "variant": ["variant"],
    "chrono": ["chrono"], "cstddef": ["byte"], "stdexcept": ["runtime_error"], "exception": ["exception_ptr"], "cmath": ["sqrt", "isinf"],
    "source_location": ["source_location"], "deque": ["deque"], "tuple": ["tuple"], "limits": ["numeric_limits"],
    "condition_variable": ["condition_variable"],
}
# Including the one also gives the other: the standard says so, or no library can do otherwise.
BROUGHT_BY = {"utility": {"map", "vector", "string", "optional", "memory", "functional", "array", "variant", "tuple", "set"},
              "cstddef": {"span", "array"}, "string_view": {"string"}, "chrono": {"thread"},
              "array": {"dtrain/base/words.hpp"}}  # for the lists of words
NAMES = {name: header for header, names in HEADER_OF.items() for name in names}
USED = re.compile(r"\bstd::(\w+)")
FIXED = re.compile(r"(?<![\w:])u?int(?:8|16|32|64)_t\b")


def missing_includes(text):
    """Standard headers that this text needs and does not include."""
    code = re.sub(r"//.*", "", text)
    included = set(re.findall(r'#\s*include ["<]([^">]+)[">]', code))
    wanted = {NAMES[name] for name in USED.findall(code) if name in NAMES}
    if FIXED.search(code):
        wanted.add("cstdint")
    return sorted(header for header in wanted - included if not included & BROUGHT_BY.get(header, set()))


def violations(root):
    found = []
    for path in tree.files(root, ["lib/dtrain", "apps"], {".hpp"}):
        for header in missing_includes(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(root)}: it uses names of <{header}>; include that")
    return found


class Includes(tree.RuleTest):
    def test_this_tree_keeps_the_rule(self):
        self.holds(violations(tree.ROOT))

    def test_a_name_without_its_header_is_found(self):
        self.assertEqual(missing_includes("#include <vector>\nstd::vector<std::string> f(int64_t n);\n"), ["cstdint", "string"])

    def test_comments_and_own_names_are_no_use(self):
        self.assertEqual(missing_includes("// std::vector\nstruct vector {};\n"), [])

    def test_what_a_header_brings_along_is_enough(self):
        self.assertEqual(missing_includes("#include <map>\n#include <string>\nstd::pair<int, std::string_view> f();\n"), [])


if __name__ == "__main__":
    tree.main()
