"""What the repository tests share: the tree under test, made-up trees, and how a test program ends."""

import contextlib
import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 4  # CTest's SKIP_RETURN_CODE of these tests


def files(root, folders, suffixes=None):
    """Files in the named folders and below (or the files named), sorted; only those with one of the suffixes if
    given."""
    found = []
    for folder in folders:
        start = root / folder
        candidates = [start] if start.is_file() else start.rglob("*")
        found += [path for path in candidates if path.is_file() and "__pycache__" not in path.parts]
    return sorted(path for path in found if suffixes is None or path.suffix in suffixes)


def lines(path):
    """(number, text) of each line."""
    return enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)


def place(root, path, number):
    return f"{path.relative_to(root)}:{number}"


@contextlib.contextmanager
def made_up_tree(contents):
    """A temporary folder with the given {path: text}."""
    with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
        root = pathlib.Path(folder)
        for name, text in contents.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield root


def markdown_tables(text):
    """Each table as a list of rows, each row a list of cells with backticks removed; the first row is the header."""
    tables, rows = [], []
    for line in text.splitlines() + [""]:
        if line.startswith("|"):
            cells = [cell.strip().replace("`", "") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
            if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                rows.append(cells)
        elif rows:
            tables.append(rows)
            rows = []
    return tables


class RuleTest(unittest.TestCase):
    longMessage = False  # show only the violations, one per line

    def holds(self, violations):
        """Fails, with one violation per line, unless there is none."""
        self.assertFalse(violations, "\n" + "\n".join(violations))

    def only(self, violations, *words):
        """Checks that there is exactly one violation, and that it contains all these words."""
        self.assertEqual(len(violations), 1, violations)
        for word in words:
            self.assertIn(word, violations[0])


def main():
    result = unittest.main(exit=False, verbosity=2).result
    forbidden = os.environ.get("DTRAIN_REQUIRE_ALL") == "1"
    if not result.wasSuccessful() or (result.skipped and forbidden):
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped and result.testsRun <= len(result.skipped) else 0)
