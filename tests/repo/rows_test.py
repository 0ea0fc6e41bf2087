"""What there are several of is known in its own file alone: the name of a network, an optimizer or a loss stands nowhere else."""

import functools
import re

import metric_rows_test
import tree

CODE = {".cpp", ".hpp", ".cu", ".cuh"}
ROW = re.compile(r"extern const (\w+)Kind (k\w+) = \{(.*?)\n\};", re.DOTALL)
NAME = re.compile(r'\.name = "(\w+)"')
ALSO = re.compile(r"\.also_called = \{(.*?)\}")
WORD = re.compile(r"[A-Za-z_]\w*")
# What a reader is told to type, as `model.name=x`, `{name: x}` or a shipped configuration, is an example and not knowledge;
# functions of LibTorch, and other people's repositories, have names of their own.
NOT_OURS = re.compile(r"\bname(=|: )\w+|\w+\.yaml|\bat::\w+|<ATen/ops/\w+|\b\w+/\w+_scaling")
# Besides the row's own file: the lists, and the arithmetic that CPU and GPU share.
LISTS = {
    "Network": ["lib/dtrain/model/networks.cpp"],
    "Optimizer": ["lib/dtrain/optim/optimizers.cpp", "lib/dtrain/device/update_rules.hpp"],
    "Loss": ["lib/dtrain/model/losses.cpp"],
}


@functools.cache
def snake(word):
    """Words as names write them: kSmallCnn and make_small_cnn hold small_cnn, SGD and nnunet hold nothing of ours."""
    if word.isupper():
        return ""
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word)
    return word.lower()


def pattern_of(name):
    """Whether the name is in a word in snake case, wherever capitals have split it: densenet121 is in
    k_dense_net121."""
    return re.compile(r"(?:^|_)" + "_?".join(name.replace("_", "")) + r"(?:_|$)")


def rows(root):
    """(kind, name, path of its file) of every row."""
    for path in tree.files(root, ["lib"], {".cpp"}):
        for kind, constant, body in ROW.findall(path.read_text(encoding="utf-8")):
            name = NAME.search(body)
            yield kind, name[1] if name else constant, path.relative_to(root).as_posix()


def aliases(path):
    """What else the rows of a file are called."""
    text = path.read_text(encoding="utf-8")
    return [name for _, _, body in ROW.findall(text) for words in ALSO.findall(body) for name in WORD.findall(words)]


def without(patterns, word):
    """The word less the names that may stand here: bce_dice is no bce."""
    for pattern in patterns:
        word = re.sub(pattern, "_", word)
    return word


def violations(root):
    # metric_rows looks for a name that is a metric's too.
    metrics = metric_rows_test.rows(root)
    known = [(kind, name, path, pattern_of(name)) for kind, name, path in rows(root) if name not in metrics]
    anyone = re.compile("|".join(pattern.pattern for *_, pattern in known))
    found = [f"{path}: a row of {kind}Kind, of which this test knows no list" for kind, _, path, _ in known if kind not in LISTS]
    for path in tree.files(root, ["apps", "lib"], CODE):
        here = path.relative_to(root).as_posix()
        foreign = [row for row in known if here != row[2] and here not in LISTS.get(row[0], ())]
        own = [row[3] for row in known if here == row[2] or here in LISTS.get(row[0], ())]
        own = sorted([*own, *map(pattern_of, aliases(path))], key=lambda pattern: -len(pattern.pattern))
        for number, line in tree.lines(path):
            words = {word for word in map(snake, WORD.findall(NOT_OURS.sub("", line))) if anyone.search(word)}
            words = {without(own, word) for word in words}
            for _, name, home, pattern in foreign:
                if any(pattern.search(word) for word in words):
                    found.append(f"{tree.place(root, path, number)}: names {name}; what is known of it belongs in {home}")
    return found


NETWORK = 'extern const NetworkKind kSmallCnn = {\n    .name = "small_cnn",\n    .keys = {"dropout"},\n};\n'


class OneRow(tree.RuleTest):
    def judge(self, path, line):
        with tree.made_up_tree({"lib/dtrain/model/small.cpp": NETWORK, path: line + "\n"}) as root:
            return violations(root)

    def test_this_tree_names_each_in_its_own_file(self):
        self.holds(violations(tree.ROOT))

    def test_this_tree_has_rows_of_each_kind(self):
        kinds = [kind for kind, _, _ in rows(tree.ROOT)]
        for kind in LISTS:
            self.assertGreaterEqual(kinds.count(kind), 2, kind)

    def test_a_name_elsewhere_is_found_as_a_text_an_identifier_or_a_class(self):
        for line in ('if (name == "small_cnn") {', "auto small_cnn_size = 3;", "make_small_cnn(shape);", "const SmallCnn network;",
                     "return kSmallCnn.name;", "// the small_cnn needs it"):
            self.only(self.judge("lib/dtrain/config/a.cpp", line), "lib/dtrain/config/a.cpp:1", "small_cnn", "model/small.cpp")
            self.only(self.judge("lib/dtrain/config/a.cpp", f"int x;\n{line}"), "lib/dtrain/config/a.cpp:2", "small_cnn", "model/small.cpp")

    def test_its_own_file_the_list_and_an_example_may_name_it(self):
        self.holds(self.judge("lib/dtrain/model/networks.cpp", "  static const RowList<NetworkKind> all = {&kSmallCnn};"))
        self.holds(self.judge("apps/dtrain/line/a.cpp", '{"dtrain -c small_cnn.yaml model.name=small_cnn", "model: {name: small_cnn}"}'))

    def test_a_name_within_what_a_row_is_also_called_passes(self):
        row = 'extern const NetworkKind kOther = {\n    .name = "other",\n    .also_called = {"other_small_cnn"},\n};'
        self.holds(self.judge("lib/dtrain/model/other.cpp", row))
        self.only(self.judge("lib/dtrain/model/other.cpp", f"{row}\n// small_cnn"), "other.cpp:5", "small_cnn")

    def test_other_words_pass(self):
        self.holds(self.judge("lib/dtrain/io/a.cpp", "small cnn, smaller_cnn, SMALL_CNN"))
        self.holds(self.judge("lib/dtrain/io/a.cpp", "#include <ATen/ops/small_cnn.h>"))

    def test_a_row_of_an_unknown_kind_is_found(self):
        self.only(self.judge("lib/dtrain/io/a.cpp", 'extern const ShapeKind kRound = {\n    .name = "round",\n};'), "ShapeKind")


if __name__ == "__main__":
    tree.main()
