"""A module includes only the modules and libraries that its row in docs/architecture.md names, a folder only the folders."""

import re

import tree

# Include prefix → the name by which the table's library column calls it.
LIBRARIES = {
    "ATen/": "LibTorch", "c10/": "LibTorch", "torch/": "LibTorch", "mpi.h": "MPI", "nccl.h": "NCCL", "cuda": "CUDA",
    "yaml-cpp/": "yaml-cpp", "CLI/": "CLI11", "nlohmann/": "nlohmann-json", "spdlog/": "spdlog", "fmt/": "fmt", "openssl/": "OpenSSL",
    "isa-l": "ISA-L", "png.h": "libpng", "jpeglib.h": "libjpeg-turbo", "tiffio.h": "libtiff", "dcmtk/": "DCMTK",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


class Module:
    def __init__(self, layer, libraries):
        self.layer = layer
        self.libraries = libraries
        self.uses = set()  # modules of which it may include every header
        self.options_of = set()  # modules of which it may include options.hpp


def read_table(text):
    """The table with the columns layer, module, may use and libraries as {module: Module}, and what is wrong in it."""
    for rows in tree.markdown_tables(text):
        header = [cell.lower() for cell in rows[0]]
        if header[:2] == ["layer", "module"] and "may use" in header:
            break
    else:
        return {}, ["docs/architecture.md: no table with the columns layer, module, may use"]
    libraries = next((i for i, cell in enumerate(header) if cell.startswith("libraries")), None)
    if libraries is None:
        return {}, ["docs/architecture.md: the table of modules has no column for libraries"]
    modules = {row[1]: Module(int(row[0]), row[libraries]) for row in rows[1:]}
    wrong = []
    for row in rows[1:]:
        wrong += fill_edges(modules, row[1], row[header.index("may use")])
    return modules, wrong


def fill_edges(modules, name, cell):
    module, wrong = modules[name], []
    below = {other for other, its in modules.items() if its.layer < module.layer}
    for phrase in filter(None, (part.strip() for part in cell.split(","))):
        if phrase in ("all", "all above"):
            module.uses |= below
        elif phrase == "option structs of all above":  # errors and texts come with them
            module.options_of |= below
            module.uses.add("base")
        elif phrase in below:
            module.uses.add(phrase)
        elif phrase not in ("–", "-"):
            wrong.append(f"docs/architecture.md: {name} may not use '{phrase}', which is in no lower layer")
    return wrong


def read_folders(text):
    """The table with the columns folder, may include as {module: {folder: folders}}, and what is wrong in it."""
    folders, wrong = {}, []
    for rows in tree.markdown_tables(text):
        header = [cell.lower() for cell in rows[0]]
        if header[0] != "folder":
            continue
        for row in rows[1:]:
            module, folder = row[0].rsplit("/", 1)
            phrases = [part.strip() for part in row[header.index("may include")].split(",")]
            folders.setdefault(module, {})[folder] = {part for part in phrases if part not in ("", "–", "-")}
    for module, its in folders.items():
        for folder, seen in its.items():
            for other in sorted(seen - set(its)):
                wrong.append(f"docs/architecture.md: {module}/{folder} may not include '{other}', which has no row")
            if folder in reach(its, seen):
                wrong.append(f"docs/architecture.md: {module}/{folder} would include itself in a circle")
    return folders, wrong


def reach(folders, start):
    """All folders that can be reached from those of `start`."""
    seen, ahead = set(), list(start)
    while ahead:
        folder = ahead.pop()
        if folder not in seen:
            seen.add(folder)
            ahead += folders.get(folder, ())
    return seen


def header_of_module(name, quote, header):
    """The header's path within the module, "" if it is another module's."""
    if name.startswith("apps/"):
        return header if quote == '"' and not header.startswith("dtrain/") else ""
    return header.removeprefix(f"dtrain/{name}/") if header.startswith(f"dtrain/{name}/") else ""


def judge_folder(folders, parts, header):
    """Why a file at these parts of a path beneath its module may not include this header of the same module, or None."""
    there = header.split("/")
    if len(there) < 2 or len(parts) < 2 or there[0] == parts[0] or there[0] in folders.get(parts[0], ()):
        return None
    return f"the folder {parts[0]} may not include {header}"


def judge_include(modules, name, quote, header):
    """Why module `name` may not include this, or None."""
    module = modules[name]
    if header.startswith("dtrain/"):
        other = header.split("/")[1]
        if other == name or other in module.uses or (other in module.options_of and header.endswith("/options.hpp")):
            return None
        return f"{name} may not include {header}"
    if quote == '"' and not name.startswith("apps/"):
        return f"write the path from lib/ on, as \"dtrain/{name}/{header}\""
    for prefix, library in LIBRARIES.items():
        if header.startswith(prefix) and library.lower() not in module.libraries.lower():
            return f"{name} may not include <{header}>: its row does not name {library}"
    return None


def violations(root):
    page = root / "docs/architecture.md"
    if not page.exists():
        return ["docs/architecture.md is missing: it holds the table of modules"]
    text = page.read_text(encoding="utf-8")
    modules, found = read_table(text)
    if not modules:
        return found
    folders, wrong = read_folders(text)
    found += wrong
    for path in tree.files(root, ["lib/dtrain", "apps"], {".cpp", ".hpp", ".cu", ".cuh"}):
        parts = path.relative_to(root).parts
        name = "/".join(parts[:2]) if parts[0] == "apps" else parts[2]
        if name not in modules:
            found.append(f"{path.relative_to(root)}: module {name} has no row in docs/architecture.md")
            continue
        beneath = parts[2:] if parts[0] == "apps" else parts[3:]
        if len(beneath) > 1 and beneath[0] not in folders.get(name, ()):
            found.append(f"{path.relative_to(root)}: folder {name}/{beneath[0]} has no row in docs/architecture.md")
            continue
        for number, line in tree.lines(path):
            match = INCLUDE.match(line)
            reason = match and judge_include(modules, name, *match.groups())
            if match and not reason:
                reason = judge_folder(folders.get(name, {}), beneath, header_of_module(name, *match.groups()))
            if reason:
                found.append(f"{tree.place(root, path, number)}: {reason}")
    return found


PAGE = """
| layer | module | in one line | may use | libraries |
|---|---|---|---|---|
| 0 | `base` | words | – | spdlog |
| 1 | `io` | bytes | base | libpng |
| 2 | `data` | batches | base, io | LibTorch |
| 3 | `train` | steps | all above | LibTorch |
| 4 | `config` | YAML | option structs of all above | yaml-cpp |
| 5 | `apps/dtrain` | commands | all | CLI11 |

| folder | in one line | may include |
|---|---|---|
| `data/formats` | what exists | – |
| `data/batches` | what is fed | formats |
| `apps/dtrain/job` | a rank | – |
"""


class Layering(tree.RuleTest):
    def judge(self, path, include, page=PAGE):
        with tree.made_up_tree({"docs/architecture.md": page, path: f"#pragma once\n#include {include}\n"}) as root:
            return violations(root)

    def test_this_tree_keeps_to_the_table(self):
        self.holds(violations(tree.ROOT))

    def test_this_tree_has_modules_to_judge(self):
        self.assertGreater(len(tree.files(tree.ROOT, ["lib/dtrain"], {".cpp", ".hpp"})), 20)

    def test_allowed_includes_pass(self):
        self.holds(self.judge("lib/dtrain/data/a.cpp", '"dtrain/io/png.hpp"'))
        self.holds(self.judge("lib/dtrain/data/a.cpp", "<ATen/ATen.h>"))
        self.holds(self.judge("lib/dtrain/train/a.hpp", '"dtrain/data/loader.hpp"'))
        self.holds(self.judge("lib/dtrain/config/a.hpp", '"dtrain/data/options.hpp"'))
        self.holds(self.judge("apps/dtrain/a.cpp", '"dtrain/config/config.hpp"'))
        self.holds(self.judge("apps/dtrain/a.cpp", '"commands.hpp"'))

    def test_an_include_of_a_higher_layer_is_found(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", '"dtrain/data/loader.hpp"'), "lib/dtrain/io/a.cpp:2", "io may not")

    def test_an_include_of_a_lower_module_that_the_row_does_not_name_is_found(self):
        page = PAGE.replace("| base, io |", "| base |")
        self.only(self.judge("lib/dtrain/data/a.hpp", '"dtrain/io/png.hpp"', page), "data may not include dtrain/io/png")

    def test_more_than_options_is_found_where_only_options_are_allowed(self):
        self.only(self.judge("lib/dtrain/config/a.cpp", '"dtrain/data/loader.hpp"'), "config may not")

    def test_a_library_that_the_row_does_not_name_is_found(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", "<ATen/ATen.h>"), "LibTorch")
        self.only(self.judge("lib/dtrain/train/a.cpp", "<yaml-cpp/yaml.h>"), "yaml-cpp")

    def test_a_relative_include_is_found(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", '"png.hpp"'), "dtrain/io/png.hpp")

    def test_a_module_without_a_row_is_found(self):
        self.only(self.judge("lib/dtrain/extra/a.cpp", "<vector>"), "module extra has no row")

    def test_a_row_that_names_a_module_of_its_own_layer_is_found(self):
        page = PAGE.replace("| 1 | `io` |", "| 2 | `io` |")
        self.only(self.judge("lib/dtrain/base/a.cpp", "<vector>", page), "data may not use 'io'")

    def test_folders_of_a_module_keep_to_their_rows(self):
        self.holds(self.judge("lib/dtrain/data/batches/a.cpp", '"dtrain/data/formats/b.hpp"'))
        self.holds(self.judge("lib/dtrain/data/batches/a.cpp", '"dtrain/data/options.hpp"'))
        self.holds(self.judge("lib/dtrain/data/a.cpp", '"dtrain/data/batches/b.hpp"'))
        self.holds(self.judge("apps/dtrain/main.cpp", '"job/b.hpp"'))
        self.only(self.judge("lib/dtrain/data/formats/a.cpp", '"dtrain/data/batches/b.hpp"'), "formats may not include batches")
        self.only(self.judge("apps/dtrain/job/a.cpp", '"train/b.hpp"'), "the folder job may not include train/b.hpp")

    def test_a_folder_without_a_row_is_found(self):
        self.only(self.judge("lib/dtrain/data/extra/a.cpp", "<vector>"), "folder data/extra has no row")

    def test_folders_in_a_circle_are_found(self):
        page = PAGE.replace("| what exists | – |", "| what exists | batches |")
        found = self.judge("lib/dtrain/data/a.cpp", "<vector>", page)
        self.assertEqual(len([line for line in found if "in a circle" in line]), 2)

    def test_a_missing_table_is_found(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", "<vector>", "no table"), "no table")


if __name__ == "__main__":
    tree.main()
