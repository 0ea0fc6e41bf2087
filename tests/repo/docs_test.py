"""Links between pages lead somewhere, and docs/errors.md tells every exit code of the program."""

import re
import urllib.parse

import tree

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
CODE_CONSTANT = re.compile(r"constexpr int k\w+ = (\d+);")


def prose(text):
    """The text without fenced blocks and inline code, whose brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(text):
    """Names of the headings, as code hosts make them."""
    headings = re.findall(r"^#+\s+(.+?)\s*#*$", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def judge_link(page, target):
    """Why the link leads nowhere, or None. Addresses on the network are not tried."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
        return None
    name, _, anchor = target.partition("#")
    path = page if not name else page.parent / urllib.parse.unquote(name)
    if not path.exists():
        return f"links to {target}, which does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
        return f"links to {target}, and {path.name} has no heading of that name"
    return None


def broken_links(root):
    found = []
    for page in tree.files(root, ["README.md", "CHANGELOG.md", "docs"], {".md"}):
        reasons = (judge_link(page, target) for target in LINK.findall(prose(page.read_text(encoding="utf-8"))))
        found += [f"{page.relative_to(root)}: {reason}" for reason in reasons if reason]
    return found


def code_differences(header, page):
    """Exit codes that only one of base/error.hpp and docs/errors.md has."""
    defined = set(CODE_CONSTANT.findall(header))
    tables = [rows for rows in tree.markdown_tables(page) if rows[0][0] == "code"]
    told = {row[0].strip("*") for row in tables[0][1:]} if tables else set()
    return [f"docs/errors.md does not tell exit code {code}" for code in sorted(defined - told)] + [
        f"docs/errors.md tells exit code {code}, which base/error.hpp does not have" for code in sorted(told - defined)]


class Docs(tree.RuleTest):
    def judge(self, text):
        with tree.made_up_tree({"README.md": text, "docs/a.md": "# One\n## Two words, really\n"}) as root:
            return broken_links(root)

    def test_links_of_this_tree_lead_somewhere(self):
        self.holds(broken_links(tree.ROOT))

    def test_the_errors_page_tells_the_codes_of_the_program(self):
        header = (tree.ROOT / "lib/dtrain/base/error.hpp").read_text(encoding="utf-8")
        self.holds(code_differences(header, (tree.ROOT / "docs/errors.md").read_text(encoding="utf-8")))

    def test_good_links_pass(self):
        self.holds(self.judge("[a](docs/a.md) [b](docs/a.md#two-words-really) [c](https://example.org/x) ![d](docs/)"))
        self.holds(self.judge("`[a](gone.md)`\n```\n[b](gone.md)\n```\n"))

    def test_a_link_to_a_missing_file_is_found(self):
        self.only(self.judge("[a](docs/a.md), [b](docs/gone.md)"), "README.md", "docs/gone.md")

    def test_a_link_to_a_missing_heading_is_found(self):
        self.only(self.judge("[a](docs/a.md#three)"), "no heading")

    def test_an_exit_code_that_only_one_side_has_is_found(self):
        header = "inline constexpr int kDone = 0;\ninline constexpr int kUsage = 64;\n"
        table = "| code | meaning |\n|---|---|\n| 0 | done |\n| **64** | bad |\n"
        self.holds(code_differences(header, table))
        self.only(code_differences(header, table + "| 65 | x |\n"), "65")
        self.only(code_differences(header + "inline constexpr int kX = 80;", table), "80")


if __name__ == "__main__":
    tree.main()
