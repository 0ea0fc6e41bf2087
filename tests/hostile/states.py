"""Checkpoints with correct checksums and a state that no run can have left."""

import json

from kit import case, odd_file
from weights import resealed


def broken_state(site, change):
    folder = site.trained()
    path = sorted((folder / "checkpoints").glob("*.safetensors"))[0]

    def change_state(metadata):
        state = json.loads(metadata["state"])
        told = change(state)
        metadata["state"] = told if isinstance(told, str) else json.dumps(state)
    resealed(path, change_state)
    return path


def put(key, value):
    def change(state):
        target = state
        *path, last = key.split(".")
        for part in path:
            target = target[part]
        if value is REMOVED:
            del target[last]
        else:
            target[last] = value
    return change


REMOVED = object()
BIG = (1 << 63) - 1
STATES = {
    "counts/step": put("step", BIG),
    "counts/step-minus": put("step", -1),
    "counts/step-2-64": put("step", 1 << 64),
    "counts/epoch": put("epoch", BIG),
    "counts/epoch-minus": put("epoch", -1),
    "counts/cursor": put("cursor", BIG),
    "counts/cursor-in-a-whole-epoch": put("cursor", 1 << 40),
    "counts/logical-ranks-0": put("logical_ranks", 0),
    "counts/logical-ranks": put("logical_ranks", 1 << 40),
    "counts/optimizer-updates": put("optimizer_updates", -5),
    "counts/optimizer-updates-above-steps": put("optimizer_updates", BIG),
    "counts/reductions": put("schedule.reductions", -5),
    "counts/reductions-above": put("schedule.reductions", BIG),
    "counts/bad-epochs": put("schedule.bad_epochs", -5),
    "counts/best-epoch": put("best.epoch", -5),
    "counts/best-epoch-to-come": put("best.epoch", 1 << 40),
    "counts/good-steps": put("loss_scale.good_steps", -5),
    "counts/skipped": put("skipped_steps", -5),
    "counts/replaced": put("replaced_samples", -5),
    "counts/correct": put("correct", -5),
    "counts/without-loss": put("without_loss", -5),
    "counts/bytes-read": put("bytes_read", -5),
    "figures/loss-scale-0": put("loss_scale.scale", 0.0),
    "figures/loss-scale": put("loss_scale.scale", 1e300),
    "figures/elapsed": put("elapsed_s", -1e300),
    "figures/compute": put("compute_s", -5.0),
    "types/epoch-fraction": put("epoch", 1.5),
    "types/epoch-text": put("epoch", "1"),
    "types/epoch-truth": put("epoch", True),
    "types/schedule-list": put("schedule", [1, 2]),
    "types/classes-numbers": put("classes", [1, 2]),
    "types/config-list": put("config", [["a", "b"]]),
    "types/missing-step": put("step", REMOVED),
    "types/missing-config": put("config", REMOVED),
    "types/not-an-object": lambda state: "[]",
    "types/not-json": lambda state: "{",
    "types/empty": lambda state: "",
    "depth/state": lambda state: "[" * 200_000 + "]" * 200_000,
    "lists/trained-on": put("trained_on", "z" * 120),
    "lists/trained-on-odd": put("trained_on", "0123456789a"),
    "lists/split": put("split_sha256", "x"),
    "lists/manifest": put("manifest_sha256", "\x1b[31m"),
    "lists/config-escape": lambda state: state["config"].update({"seed": "0\x1b[2J\ndtrain: error 0: all good"}),
}
# What does not fit this run is 78, as it is for a whole checkpoint of another run.
for number, (what, change) in enumerate(STATES.items()):
    case(f"state/{what}", (65, 78), why="")(
        lambda site, change=change: (broken_state(site, change), site.train("epochs=2"))[1])
    if not what.startswith("lists/") and number % 3 == 0:
        # verify makes the checks of a resume
        case(f"state/verified-{what.replace('/', '-')}/verify", 65, "epoch-0001")(
            lambda site, change=change: (broken_state(site, change), ("verify", "run"))[1])


@case("state/depth/unknown-key", (0, 65), why="nobody asks for that key")
def unknown_key(site):
    broken_state(site, lambda state: json.dumps(state)[:-1] + ', "more": ' + "[" * 200_000 + "]" * 200_000 + "}")
    return site.train("epochs=2")


@case("state/newer/field", 78, "newer dtrain")
def newer_field(site):
    broken_state(site, put("schedule.\x1b[2Jcolour\ndtrain: error 0: all good", 1))
    return site.train("epochs=2")


@case("state/newer/key", 78, "newer dtrain")
def newer_key(site):
    broken_state(site, lambda state: state["config"].update({"\x1b[2Jcolour\ndtrain: error 0: all good": "red"}))
    return site.train("epochs=2")


@case("state/lists/classes-escape", (0, 65, 78), why="the classes of the data count")
def classes_escape(site):
    broken_state(site, put("classes", ["bad\x1b[31m", "good\n"]))
    return site.train("epochs=2")


@case("state/resume/by-name", 65, "epoch-0001")
def by_name(site):
    path = broken_state(site, put("step", BIG))
    return site.train("--resume", str(path), "epochs=2", run="other")


@case("state/resume/best-as-checkpoint", 65, "best.safetensors")
def best_as_checkpoint(site):
    folder = site.trained()
    return site.train("--resume", str(folder / "best.safetensors"), "epochs=2", run="other")


@case("state/resume/name-of-9-epochs", (0, 65), why="a file is known by its state; its name only orders")
def name_of_nines(site):
    folder = site.trained()
    path = sorted((folder / "checkpoints").glob("*.safetensors"))[0]
    path.rename(path.with_name("epoch-99999999999999999999-step-99999999999999999999.safetensors"))
    return site.train("epochs=2")


@case("state/resume/many-names", 65, "checkpoints")
def many_names(site):
    folder = site.trained()
    for path in (folder / "checkpoints").glob("*.safetensors"):
        path.unlink()
    for number in range(3_000):
        (folder / f"checkpoints/epoch-0001-step-{number:08}.safetensors").write_bytes(b"x")
    return site.train("epochs=2")


for kind in ("fifo", "zero", "folder", "loop"):
    def odd(site, kind=kind):
        site.trained()
        odd_file(site.work / "hostile.safetensors", kind)
        return site.train("--resume", "hostile.safetensors", "epochs=2", run="other")
    case(f"state/odd-files/{kind}-by-name", (65, 66, 74, 78), "hostile.safetensors", seconds=8)(odd)

    def odd_newest(site, kind=kind):
        """The newest checkpoint by its name is not one: an older one is used, or the start is refused; it never
        waits."""
        folder = site.trained()
        odd_file(folder / "checkpoints/epoch-0005-step-00000005.safetensors", kind)
        return site.train("epochs=2")
    case(f"state/odd-files/{kind}-as-newest", (0, 65, 74, 77, 78), why="an older one is whole", seconds=8)(odd_newest)
