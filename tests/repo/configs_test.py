"""The configurations that ship: what their first lines say, and what they leave to the user."""

import re

import tree

SHIPPED = ["chexnet", "chexnet_finetuned", "chexnet_paper", "chexpert", "chips_cnn", "dsb2018", "isbi2012", "nnunet_2d", "quickstart",
           "resnet50", "resnet50_modern", "unet_microscopy"]
STUDIES = ["chexnet_series", "chips", "input_pipeline", "radiology", "reduction", "unet_scaling"]
WITH_OUTPUTS = ["chexnet", "chexnet_finetuned", "chexnet_paper"]  # all others take the number of classes from the data


def first_comment(text):
    """The comment lines a file begins with, as one text."""
    return "\n".join(re.match(r"(?:#.*\n)*", text).group(0).splitlines())


def keys(text):
    """Names of all keys, in block or flow style, comments left out."""
    code = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines())
    return re.findall(r"([A-Za-z_][A-Za-z_0-9]*)\s*:(?=\s|$)", code)


def judge_words(text):
    said = first_comment(text).lower()
    for topic in ("data", "device", "time"):
        if topic not in said:
            yield f"its first comment lines do not say the {topic}"


def judge_study(text):
    yield from judge_words(text)
    for key in ("title", "sample", "expected", "source", "tiny"):
        if key not in keys(text):
            yield f"has no {key}"


def judge(name, text):
    yield from judge_words(text)
    names = keys(text)
    if "weights" in names:
        yield "names a weights file, which no user has at the start; show it in a comment"
    if "outputs" in names and name not in WITH_OUTPUTS:
        yield "sets model.outputs, which comes from the data"
    if "per_rank" not in names:
        yield "does not set batch.per_rank"


def violations(root):
    wanted = SHIPPED + [f"studies/{name}" for name in STUDIES]
    found = [f"configs/{name}.yaml is missing" for name in wanted if not (root / f"configs/{name}.yaml").is_file()]
    for path in tree.files(root, ["configs"], {".yaml", ".yml"}):
        if path.parent.name == "clusters":  # descriptions of machines
            continue
        text = path.read_text(encoding="utf-8")
        reasons = judge_study(text) if path.parent.name == "studies" else judge(path.stem, text)
        found += [f"configs/{path.name}: {reason}" for reason in reasons]
    return found


GOOD = """# Data: pictures in a folder.
# Devices: CPU. Expected time: a minute.
model: {name: small_cnn}  # weights: file.safetensors
batch: {per_rank: 4}
"""
GOOD_STUDY = """# Data: pictures in a folder.
# Devices: CPU. Expected time: a minute.
title: Ranks
config: ../resnet50.yaml
sample: {kind: chips}
expected: {source: a paper, figures: [more]}
tiny: {ranks: 1}
"""


class Configs(tree.RuleTest):
    def judge(self, name, text):
        good = {f"configs/{other}.yaml": GOOD for other in SHIPPED} | {f"configs/studies/{other}.yaml": GOOD_STUDY for other in STUDIES}
        with tree.made_up_tree(good | {f"configs/{name}.yaml": text}) as root:
            return violations(root)

    def test_the_shipped_configurations_keep_the_rules(self):
        self.holds(violations(tree.ROOT))

    def test_a_good_configuration_passes(self):
        self.holds(self.judge("resnet50", GOOD))

    def test_a_missing_configuration_is_found(self):
        good = {f"configs/{name}.yaml": GOOD for name in SHIPPED} | {f"configs/studies/{name}.yaml": GOOD_STUDY for name in STUDIES}
        for name in ("resnet50", "studies/chips"):
            with tree.made_up_tree({path: text for path, text in good.items() if path != f"configs/{name}.yaml"}) as root:
                self.only(violations(root), f"{name}.yaml is missing")

    def test_a_study_without_figures_or_a_tiny_form_is_found(self):
        self.only(self.judge("studies/chips", GOOD_STUDY.replace("tiny:", "small:")), "chips.yaml", "no tiny")
        self.only(self.judge("studies/chips", GOOD_STUDY.replace("source: a paper, ", "")), "chips.yaml", "no source")
        self.only(self.judge("studies/chips", GOOD_STUDY.replace("Devices: CPU. ", "")), "chips.yaml", "device")

    def test_first_lines_that_say_no_devices_are_found(self):
        self.only(self.judge("resnet50", GOOD.replace("Devices: CPU. ", "")), "resnet50.yaml", "device")

    def test_a_comment_further_down_does_not_count_as_first_lines(self):
        self.only(self.judge("resnet50", "# Data, devices.\nname: x\n# Expected time: none\n" + GOOD), "time")

    def test_a_weights_file_is_found_in_block_and_flow_style(self):
        self.only(self.judge("resnet50", GOOD + "x:\n  weights: a.safetensors\n"), "weights file")
        self.only(self.judge("resnet50", GOOD + "x: {y: 1, weights: a.safetensors}\n"), "weights file")

    def test_model_outputs_is_found_outside_chexnet(self):
        self.only(self.judge("resnet50", GOOD + "x: {outputs: 14}\n"), "model.outputs")
        self.holds(self.judge("chexnet", GOOD + "x: {outputs: 14}\n"))

    def test_a_batch_without_per_rank_is_found(self):
        self.only(self.judge("resnet50", GOOD.replace("per_rank", "global")), "batch.per_rank")


if __name__ == "__main__":
    tree.main()
