"""The configurations that ship: what their first lines say, and what they leave to the user."""

import re

import tree

SHIPPED = ["chexnet", "chexnet_paper", "chexpert", "chips_cnn", "quickstart", "resnet50", "unet_microscopy"]
WITH_OUTPUTS = ["chexnet", "chexnet_paper"]  # all others take the number of classes from the data


def first_comment(text):
    """The comment lines a file begins with, as one text."""
    return "\n".join(re.match(r"(?:#.*\n)*", text).group(0).splitlines())


def keys(text):
    """Names of all keys, in block or flow style, comments left out."""
    code = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines())
    return re.findall(r"([A-Za-z_][A-Za-z_0-9]*)\s*:(?=\s|$)", code)


def judge(name, text):
    said = first_comment(text).lower()
    for topic in ("data", "device", "time"):
        if topic not in said:
            yield f"its first comment lines do not say the {topic}"
    names = keys(text)
    if "weights" in names:
        yield "names a weights file, which no user has at the start; show it in a comment"
    if "outputs" in names and name not in WITH_OUTPUTS:
        yield "sets model.outputs, which comes from the data"
    if "per_rank" not in names:
        yield "does not set batch.per_rank"


def violations(root):
    found = [f"configs/{name}.yaml is missing" for name in SHIPPED if not (root / f"configs/{name}.yaml").is_file()]
    for path in tree.files(root, ["configs"], {".yaml", ".yml"}):
        if path.parent.name == "clusters":  # descriptions of machines
            continue
        found += [f"configs/{path.name}: {reason}" for reason in judge(path.stem, path.read_text(encoding="utf-8"))]
    return found


GOOD = """# Data: pictures in a folder.
# Devices: CPU. Expected time: a minute.
model: {name: small_cnn}  # weights: file.safetensors
batch: {per_rank: 4}
"""


class Configs(tree.RuleTest):
    def judge(self, name, text):
        with tree.made_up_tree({f"configs/{other}.yaml": GOOD for other in SHIPPED} | {f"configs/{name}.yaml": text}) as root:
            return violations(root)

    def test_the_shipped_configurations_keep_the_rules(self):
        self.holds(violations(tree.ROOT))

    def test_a_good_configuration_passes(self):
        self.holds(self.judge("resnet50", GOOD))

    def test_a_missing_configuration_is_found(self):
        with tree.made_up_tree({f"configs/{name}.yaml": GOOD for name in SHIPPED if name != "resnet50"}) as root:
            self.only(violations(root), "resnet50.yaml is missing")

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
