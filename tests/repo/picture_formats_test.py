"""A picture format is one row in its own file: no other code knows its endings, and users are told of each."""

import re

import tree

ROW = re.compile(r"extern const PictureFormat k\w+ = \{(.*?)\n\};", re.DOTALL)
NAME = re.compile(r'\.name = "(\w+)"')
ENDINGS = re.compile(r"\.endings = \{(.*?)\}")
# What may hold endings nevertheless, and why.
ALLOWED = {
    "lib/dtrain/io/pictures/picture_pages.cpp": "which names have pages",
    "lib/dtrain/data/formats/picture_input.hpp": "what predicted masks are written as",
    "lib/dtrain/data/generated/sample_set.cpp": "what dtrain sample writes",
    "lib/dtrain/data/pack/exchange_record.cpp": "what dtrain pack writes for other programs",
}
TOLD_IN = ("README.md", "docs/data.md", "docs/security.md", "docs/reliability.md")


def rows(root):
    """(path of its file, name, endings) of every row."""
    for path in tree.files(root, ["lib"], {".cpp"}):
        for body in ROW.findall(path.read_text(encoding="utf-8")):
            yield path.relative_to(root).as_posix(), NAME.search(body)[1], re.findall(r'"(.*?)"', ENDINGS.search(body)[1])


def strangers(root):
    """Code that knows an ending of a format that is not its own."""
    owners = {ending: (path, name) for path, name, endings in rows(root) for ending in endings}
    found = [] if owners else ["lib/dtrain/io/pictures has no row of a picture format"]
    for path in tree.files(root, ["apps", "lib"], {".cpp", ".hpp", ".cu"}):
        here = path.relative_to(root).as_posix()
        for number, line in tree.lines(path):
            for text in re.findall(r'"(.*?)"', line.split("//")[0]):
                if text in owners and owners[text][0] != here and here not in ALLOWED:
                    found.append(f"{tree.place(root, path, number)}: knows {text}; what is known of {owners[text][1]} belongs in {owners[text][0]}")
    return found


def untold(root):
    """Formats missing from the table of a document that should list them, and endings missing from docs/data.md."""
    found = []
    for page in TOLD_IN:
        tables = tree.markdown_tables((root / page).read_text(encoding="utf-8"))
        cells = [cell for table in tables for row in table for cell in row]
        for _, name, endings in rows(root):
            if not any(re.search(rf"\b{name}\b", cell) for cell in cells):
                found.append(f"{page}: no table names {name}")
            elif page == "docs/data.md" and [name, " ".join(endings)] not in [row[:2] for table in tables for row in table]:
                found.append(f"{page}: the row of {name} does not have its endings, {' '.join(endings)}")
    return found


FORMAT = 'extern const PictureFormat kOdd = {\n    .name = "ODD",\n    .endings = {".odd", ".od"},\n};\n'


class PictureFormats(tree.RuleTest):
    def judge(self, path, line):
        with tree.made_up_tree({"lib/dtrain/io/pictures/odd.cpp": FORMAT, path: line + "\n"}) as root:
            return strangers(root)

    def test_no_ending_is_known_outside_of_its_row(self):
        self.holds(strangers(tree.ROOT))

    def test_every_format_is_told(self):
        self.holds(untold(tree.ROOT))

    def test_an_ending_elsewhere_is_found(self):
        self.only(self.judge("apps/dtrain/a.cpp", 'if (name.ends_with(".od"))'), "a.cpp:1", "ODD", "odd.cpp")
        self.holds(self.judge("apps/dtrain/a.cpp", 'if (name.ends_with(".other"))  // as ".od" does'))

    def test_a_format_and_an_ending_that_are_not_told_are_found(self):
        table = "| kind | names |\n|---|---|\n| {} | {} |\n"
        pages = {page: table.format("ODD", ".odd .od") for page in TOLD_IN}
        for page, text, word in (("README.md", "| kind |\n|---|\n| oddly |\n", "README.md"), ("docs/data.md", table.format("ODD", ".odd"), ".od")):
            with tree.made_up_tree({"lib/dtrain/io/pictures/odd.cpp": FORMAT, **pages, page: text}) as root:
                self.only(untold(root), page, word)
        with tree.made_up_tree({"lib/dtrain/io/pictures/odd.cpp": FORMAT, **pages}) as root:
            self.holds(untold(root))

    def test_a_tree_without_rows_is_found(self):
        with tree.made_up_tree({"lib/dtrain/io/a.cpp": "\n"}) as root:
            self.only(strangers(root), "no row")


if __name__ == "__main__":
    tree.main()
