"""What the program knows of a metric stands in its own files: no other line of lib or apps has its name."""

import re

import tree

FOLDER = "lib/dtrain/metrics"
LIST = f"{FOLDER}/all_metrics.cpp"  # has a line for each metric
ROW = re.compile(r'^\s*\.name = "(\w+)",$', re.MULTILINE)
COMMENT = re.compile(r"//.*")
LOSS_KEY = re.compile(r"\bloss\.\w+|\bbatch_dice\b|\breads\(\w+, \"\w+\"\)|\bwhen\(\"\w+\"\)")  # a key may have a metric's name
LOSSES = "lib/dtrain/model"  # and a loss


def rows(root):
    """{name: the file with its row}, without `loss` and `precision`, words that are used for other things too."""
    found = {}
    for path in tree.files(root, [FOLDER], {".cpp"}):
        found |= {name: path for name in ROW.findall(path.read_text(encoding="utf-8")) if name not in ("loss", "precision")}
    return found


def violations(root):
    code = tree.files(root, ["lib", "apps"], {".cpp", ".hpp", ".cu", ".cuh"})
    found = []
    for name, row in rows(root).items():
        word = re.compile(rf"(?<![a-zA-Z]){name}(?![a-zA-Z])")  # valid_auroc is one of auroc's columns
        own = {row, root / LIST} | {path for path in code if path.parent in (row.parent, root / LOSSES) and path.stem.split("_")[0] == name}
        for path in code:
            if path in own or name not in path.read_text(encoding="utf-8"):
                continue
            found += [f"{tree.place(root, path, number)}: names the metric {name}, which {row.relative_to(root)} should do"
                      for number, line in tree.lines(path) if word.search(LOSS_KEY.sub("", COMMENT.sub("", line)))]
    return found


class MetricRows(tree.RuleTest):
    ROWS = {f"{FOLDER}/dice.cpp": 'extern const Metric kDice = {\n    .name = "dice",\n};\n', LIST: "names.push_back(dice);\n",
            f"{FOLDER}/dice_share.hpp": "double dice(int x);\n"}

    def judge(self, path, line):
        with tree.made_up_tree(self.ROWS | {path: line + "\n"}) as root:
            return violations(root)

    def test_this_tree_names_no_metric_outside_of_its_files(self):
        self.holds(violations(tree.ROOT))

    def test_this_tree_has_metrics_to_judge(self):
        self.assertGreaterEqual(set(rows(tree.ROOT)), {"accuracy", "auroc", "iou", "iou_image", "dice", "sensitivity", "f1", "ece"})

    def test_a_name_elsewhere_is_found(self):
        for line in ('columns.push_back("valid_dice");', 'if (monitor == "valid.dice") best = true;', "row.dice = 1;"):
            self.only(self.judge("apps/dtrain/train/report.cpp", line), "report.cpp:1", "the metric dice")
        self.only(self.judge(f"{FOLDER}/measure.cpp", "dice_share(counts);"), "measure.cpp:1")

    def test_comments_and_other_words_pass(self):
        self.holds(self.judge("lib/dtrain/io/a.cpp", "int dices;  // as dice is"))
        self.holds(self.judge("lib/dtrain/model/dice.cpp", '.name = "dice",'))
        self.holds(self.judge("lib/dtrain/config/a.cpp", 'add("loss.dice", l.over).only(reads(in_use, "dice"), when("dice"));'))


if __name__ == "__main__":
    tree.main()
