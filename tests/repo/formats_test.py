"""A format of files is one row beside its reader: no other code knows it by its name."""

import re

import tree

ROW = re.compile(r'\.name = "(\w+)"')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
SHARED_KEY = "data.image_mask.mask_values"  # used by every format with masks
# What may name formats nevertheless, and why.
ALLOWED = {
    "lib/dtrain/data/formats/formats.cpp": "the list of the rows",
    "lib/dtrain/config/schema_formats.cpp": "the keys of single formats, data.NAME.*: only config knows YAML",
    "lib/dtrain/config/habits.cpp": "how people and other programs spell them",
    "lib/dtrain/data/pack": "what dtrain pack writes, for other programs too",
    "lib/dtrain/data/store/packed_manifest.cpp": "the manifest says which of these it is of",
    "lib/dtrain/data/store/packed_manifest.hpp": "likewise",
    "lib/dtrain/data/store/packed_set.cpp": "likewise",
    "apps/dtrain/commands/pack_command.cpp": "the lines that train from what was packed",
    "apps/dtrain/commands/verify_packed.cpp": "likewise of the manifest",
    "apps/dtrain/job/plan.cpp": "what to do about masks without any class",
    "lib/dtrain/data/formats/nnunet.cpp": "a case of image_mask",
    "lib/dtrain/data/formats/csv_readings.cpp": "the readings of csv",
    "lib/dtrain/data/formats/image_mask_readings.cpp": "the readings of image_mask",
    "lib/dtrain/data/formats/image_mask_cures.cpp": "where its masks seem to be, for its messages",
    "apps/dtrain/line": "dtrain pack --to, and what is typed in the examples of the help",
}


def code(path):
    """Lines with their numbers, without includes and comments."""
    for number, line in tree.lines(path):
        if not line.lstrip().startswith(("#include", "//")):
            yield number, line.split(" // ")[0].split(" ///")[0]


def names_in(line, names):
    for text in STRING.findall(line.replace(SHARED_KEY, "")):
        for name in names:
            exact = text == name or re.search(rf"\bdata\.{name}\b", text) or re.search(rf"\bformat:? {name}\b", text)
            if exact or ("_" in name and re.search(rf"\b{name}\b", text)):
                yield name


def violations(root):
    files = tree.files(root, ["lib", "apps"], {".cpp", ".hpp", ".cu"})
    owners = {}
    for path in files:
        if "/data/" in str(path) and "DataFormat" in path.read_text(encoding="utf-8"):
            for name in ROW.findall(path.read_text(encoding="utf-8")):
                owners.setdefault(name, path)
    found = [] if owners else ["lib/dtrain/data has no row of a format"]
    for path in files:
        if any(str(path.relative_to(root)).startswith(allowed) for allowed in ALLOWED):
            continue
        for number, line in code(path):
            for name in names_in(line, owners):
                if owners[name] != path:
                    found.append(f"{tree.place(root, path, number)}: names the format {name}; put what it must know "
                                 "into the format's row")
    return found


ROWS = 'const DataFormat& a() {\n  static const DataFormat kFormat = {\n      .name = "odd_one",\n'


class Formats(tree.RuleTest):
    def judge(self, line, path="lib/dtrain/config/a.cpp"):
        with tree.made_up_tree({"lib/dtrain/data/formats/odd_one.cpp": ROWS, path: line + "\n"}) as root:
            return violations(root)

    def test_no_format_is_named_outside_of_its_row(self):
        self.holds(violations(tree.ROOT))

    def test_a_branch_a_key_and_a_sentence_are_found(self):
        self.only(self.judge('if (format == format_named("odd_one")) return;'), "a.cpp:1", "odd_one")
        self.only(self.judge('needs({"data.odd_one.group"});'), "odd_one")
        self.only(self.judge('add("with format odd_one or two");', "apps/dtrain/a.cpp"), "odd_one")

    def test_comments_includes_and_allowed_files_are_not(self):
        self.holds(self.judge('// as "odd_one" does'))
        self.holds(self.judge('#include "odd_one"'))
        self.holds(self.judge('add("odd_one");', "lib/dtrain/config/schema_formats.cpp"))

    def test_a_tree_without_rows_is_found(self):
        with tree.made_up_tree({"lib/dtrain/data/a.cpp": "\n"}) as root:
            self.only(violations(root), "no row")


if __name__ == "__main__":
    tree.main()
