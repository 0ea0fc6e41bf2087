"""The names that C++ sources give, read line by line: the formatter has set every line's indentation."""

import functools
import re

import tree

# What a line that begins with its text gives a name to.
NAMED = [re.compile(r"(?:class|struct|enum class|enum|union) (\w+)(?: [:{]|;| final)"),
         re.compile(r"using (?!Json = nlohmann::json;|OrderedJson = nlohmann::ordered_json;)(\w+) = "),  # these may be said twice
         re.compile(r"(?!using )[\w:<>&*,\s\[\]]*?[\s&*>](\w+)(?:\(|\[| =(?: |$)|\{|;)")]
LOCAL = ("static ", "constexpr ", "using ")  # outside of a file's own namespace too


def name_in(line):
    return next((match[1] for match in [pattern.match(line) for pattern in NAMED] if match), None)


@functools.cache
def own(path):
    """The names that are local to a source: in its own namespace, or said to be."""
    found, inside = set(), False
    for _, line in tree.lines(path):
        inside = line == "namespace {" or (inside and line != "}  // namespace")
        if re.match(r"\w", line) and (inside or line.startswith(LOCAL)) and not line.startswith("namespace"):
            found.add(name_in(line))
    return frozenset(found - {None})


@functools.cache
def public(header):
    """The names that a header gives outside of classes."""
    lines = [line for _, line in tree.lines(header) if re.match(r"\w", line) and not line.startswith(("namespace", "template"))]
    return frozenset({name_in(line) for line in lines} - {None})
