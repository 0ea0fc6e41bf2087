"""Run folders that somebody else has prepared, folders that are not runs, and what the other commands overwrite."""

import fcntl
import json
import os
import shutil
import stat
import time

from kit import Call, case, merged, odd_file
from packed import after_a_while

REFUSED = (65, 66, 74, 77, 78)
FOLDERS = ("checkpoints", "flight", "tensorboard")
NAMES = ("log.txt", "epochs.csv", "ranks.csv", "metrics.jsonl", "run.json", "config.yaml", "DONE", "best.safetensors", ".lock", *FOLDERS)

# --- links and odd files in a run that is resumed

for name in NAMES:
    targets = {"neighbour": f"../../neighbour/run/{name if name in FOLDERS else 'log.txt'}"}
    if name not in FOLDERS:
        targets["home"] = "../../home/.bashrc"
    targets["dangling"] = "../../home/made-by-dtrain"
    for what, target in targets.items():
        def linked(site, name=name, target=target):
            folder = site.trained()
            if name == "flight":
                shutil.copytree(site.neighbour / "run/checkpoints", site.neighbour / "run/flight")
                (site.neighbour / "run/flight/rank-0.json").write_text('{"format": "dtrain-flight-1"}')
            path = folder / name
            shutil.rmtree(path, True)
            path.unlink(missing_ok=True)
            path.symlink_to(target)
            return site.train("epochs=2")
        # A dangling link where only new files are written is not dangerous, but the rule is simple: no links.
        case(f"run/links/{name.strip('.')}-to-{what}", REFUSED, name)(linked)
    for kind in ("fifo", "folder" if name not in FOLDERS else "zero"):
        def odd(site, name=name, kind=kind):
            folder = site.trained()
            odd_file(folder / name, kind)
            return site.train("epochs=2")
        aside = (name, kind) == ("best.safetensors", "folder")
        case(f"run/odd-files/{name.strip('.')}-{kind}", (0, *REFUSED) if aside else REFUSED, name, seconds=8, why="it may be set aside" if aside else "")(odd)

for name in ("epochs.csv", "run.json", "DONE", "metrics.jsonl", "best.safetensors", "checkpoints/epoch-0001-step-00000001.safetensors"):
    for kind in ("fifo", "zero"):
        if (kind == "zero") == (len(name) % 2 == 0):
            continue

        def verified(site, name=name, kind=kind):
            folder = site.trained()
            odd_file(folder / name, kind)
            return "verify", "run"
        case(f"run/odd-files/verify-{name.rpartition('/')[2]}-{kind}", REFUSED, name, seconds=8)(verified)


@case("run/links/of-the-folder-to-a-neighbour", REFUSED, "run")
def folder_link(site):
    site.trained()
    shutil.rmtree(site.work / "run")
    (site.work / "run").symlink_to("../neighbour/run")
    return site.train()


@case("run/links/checkpoint-to-a-neighbour", REFUSED)
def checkpoint_link(site):
    folder = site.trained()
    for path in (folder / "checkpoints").glob("*"):
        path.unlink()
        path.symlink_to("../../../neighbour/run/checkpoints/epoch-0009-step-00000090.safetensors")
    return site.train("epochs=2")


@case("run/links/temporary-of-a-checkpoint", (0, *REFUSED), why="a left-over is removed, and what it points to stays")
def temporary_link(site):
    folder = site.trained()
    for name in ("checkpoints/epoch-0002-step-00000002.safetensors.tmp", "run.json.tmp", "best.safetensors.tmp", "DONE.tmp", "config.yaml.tmp"):
        (folder / name).symlink_to(os.path.relpath(site.home / ".bashrc", (folder / name).parent))
    return site.train("epochs=2")


# --- folders that are not runs of ours


def foreign(site, name="foreign", **files):
    folder = site.work / name
    folder.mkdir()
    for file, text in (files or {"thesis.txt": "years of work\n"}).items():
        (folder / file.replace("__", ".")).write_text(text)
    site.pictures()
    site.config()
    return folder


CONTENTS = {
    "configuration": {"config__yaml": "server: {port: 80}\n", "main__py": "print(1)\n"},
    "table": {"epochs__csv": "epoch,loss\n1,2\n"},
    "log": {"log__txt": "mine\n"},
    "metrics": {"metrics__jsonl": "{}\n"},
    "thesis": {"thesis__txt": "years of work\n"},
    "run-json": {"run__json": '{"name": "a test runner"}\n'},
    "done": {"DONE": "yes\n"},
    "weights": {"best__safetensors": "mine"},
}
for what, files in CONTENTS.items():
    for resume in ("auto", "never"):
        def not_a_run(site, files=files, resume=resume):
            foreign(site, **files)
            return site.train("--resume", resume, run="foreign")
        case(f"foreign/run-dir/{what}-{resume}", 78, "foreign", untouched=("foreign",))(not_a_run)

for what, words in {"checkpoints": "foreign", "dot": ".", "dot-slash": "./", "slashes": "foreign//", "roundabout": "foreign/../foreign/."}.items():
    def spelled(site, what=what, words=words):
        folder = foreign(site, config__yaml="server: {port: 80}\n")
        if what == "checkpoints":
            (folder / "config.yaml").unlink()
            (folder / "checkpoints").mkdir()
            (folder / "checkpoints/game-1.save").write_text("level 9")
        return site.train("--resume", "never", run=words)
    case(f"foreign/run-dir/as-{what}", 78, untouched=("foreign", "c.yaml"))(spelled)

for what, folder in {"parent": "..", "home": "../home", "data": "../data", "neighbour": "../neighbour", "neighbours-run": "../neighbour/run",
                     "through-a-run": "run/../../neighbour/run"}.items():
    def elsewhere(site, folder=folder, what=what):
        site.trained()
        return site.train("--resume", "never" if len(what) % 2 else "auto", run=folder)
    case(f"foreign/run-dir/{what}", 78)(elsewhere)


@case("foreign/run-dir/a-run-with-a-slash", 0, why="the same folder as without the slash: it goes on")
def with_slash(site):
    site.trained()
    return Call(*site.train("epochs=2", run="run/").words, after=lambda watched: None if (site.work / "run/DONE").exists() else "no DONE")


@case("foreign/run-dir/empty", 0, why="an empty folder is nobody's")
def empty(site):
    foreign(site)
    (site.work / "new").mkdir()
    return site.train(run="new")


@case("foreign/run-dir/file", (74, 77, 78), "foreign", untouched=("foreign",))
def a_file(site):
    site.pictures()
    site.config()
    site.write("foreign", "mine")
    return site.train(run="foreign")


@case("foreign/run-dir/fifo", (74, 77, 78), "foreign", seconds=8)
def a_fifo(site):
    site.pictures()
    site.config()
    odd_file(site.work / "foreign", "fifo")
    return site.train(run="foreign")


@case("foreign/run-dir/name-of-a-megabyte", (66, 74, 78))
def long_name(site):
    site.pictures()
    site.config()
    return site.train(run="x" * 100_000)


@case("foreign/run-dir/configuration-of-a-run", 78, "foreign", untouched=("foreign",))
def stray_configuration(site):
    """A folder with a configuration of dtrain and somebody's notes is a project, not a run."""
    folder = foreign(site)
    shutil.copy(site.work / "c.yaml", folder / "config.yaml")
    return site.train("--resume", "never", run="foreign")


# --- outputs of the other commands


def check_into(site, *words):
    site.pictures()
    site.config()
    return "check", "--config", "c.yaml", *words


OUTPUTS = {"output": ("check", "--output"), "preview": ("check", "--preview"), "trace": ("train", "--trace")}
for what, (command, option) in OUTPUTS.items():
    for target, content in {"text": "years of work\n", "json": '{"mine": 1}\n', "picture": "\x89PNG\r\n\x1a\n"}.items():
        if what == "preview" and target == "picture":
            continue  # a picture is replaced by a picture

        def over(site, command=command, option=option, content=content):
            site.write("foreign.out", content)
            if command == "check":
                return check_into(site, option, "foreign.out")
            site.pictures()
            site.config()
            return site.train(option, "foreign.out")
        case(f"outputs/{what}/over-{target}", REFUSED, "foreign.out", untouched=("foreign.out",))(over)

    for where in ("link", "folder", "fifo", "neighbour"):
        def odd_target(site, command=command, option=option, where=where):
            path = site.work / "foreign.out"
            if where == "link":
                path.symlink_to("../home/.bashrc")
            elif where != "neighbour":
                odd_file(path, where)
            name = "../neighbour/thesis.txt" if where == "neighbour" else "foreign.out"
            if command == "check":
                return check_into(site, option, name)
            site.pictures()
            site.config()
            return site.train(option, name)
        case(f"outputs/{what}/{where}", REFUSED, seconds=8)(odd_target)

for what, content in {"text": "mine\n", "json": '{"mine": 1}\n', "list": "[]\n", "deep": "[" * 300_000, "empty-object": "{}\n"}.items():
    def default_name(site, content=content):
        site.write("check.json", content)
        return check_into(site)
    case(f"outputs/check.json/{what}", REFUSED, "check.json", untouched=("check.json",))(default_name)

for kind in ("fifo", "folder", "link", "socket"):
    def odd_default(site, kind=kind):
        if kind == "link":
            (site.work / "check.json").symlink_to("../home/.bashrc")
        else:
            odd_file(site.work / "check.json", kind)
        return check_into(site)
    case(f"outputs/check.json/{kind}", REFUSED, "check.json", seconds=8)(odd_default)


def twice(site, *words):
    """Makes the same call once before: files of its own kind may be replaced."""
    site.fixtures.good(site, *words)
    return words


@case("outputs/own-kind/check.json", 0, why="check replaces what check wrote")
def check_again(site):
    return twice(site, *check_into(site))


@case("outputs/own-kind/preview", 0, why="a contact sheet replaces a contact sheet")
def preview_again(site):
    return twice(site, *check_into(site, "--preview", "sheet.png"))


@case("outputs/own-kind/trace", 0, why="a timeline replaces a timeline")
def trace_again(site):
    site.pictures()
    site.config()
    site.fixtures.good(site, *site.train("--trace", "t.json", run="first").words)
    return site.train("--trace", "t.json", run="second")


for what in ("text", "link", "folder", "fifo"):
    def predictions(site, what=what):
        site.trained()
        folder = site.work / "out"
        folder.mkdir()
        if what == "text":
            (folder / "predictions_valid.csv").write_text("mine\n")
        elif what == "link":
            (folder / "predictions_valid.csv").symlink_to("../../home/.bashrc")
        else:
            odd_file(folder / "predictions_valid.csv", what)
        return "eval", "--config", "c.yaml", "--checkpoint", "run/best.safetensors", "--output", "out"
    case(f"outputs/eval/{what}", REFUSED, "predictions_valid.csv", seconds=8, untouched=("out",))(predictions)


for what in ("text", "link", "folder", "fifo"):
    def network(site, what=what):
        site.trained()
        path = site.work / "net.onnx"
        if what == "text":
            path.write_text("mine\n")
        elif what == "link":
            path.symlink_to("../home/.bashrc")
        else:
            odd_file(path, what)
        return "export", "--checkpoint", "run", "--output", "net.onnx", *([] if what == "text" else ["--force"])
    case(f"outputs/export/{what}", (64,), "net.onnx", seconds=8, untouched=("net.onnx",) if what == "text" else ())(network)


@case("outputs/own-kind/predictions", 0, why="eval replaces what eval wrote")
def predictions_again(site):
    site.trained()
    return twice(site, "eval", "--config", "c.yaml", "--checkpoint", "run/best.safetensors", "--output", "out")


for command in ("pack", "sample"):
    def into_foreign(site, command=command):
        foreign(site, train__txt="mine")
        if command == "pack":
            return "pack", "--config", "c.yaml", "--output", "foreign", "--progress", "none"
        return "sample", "--kind", "chips", "--count", "4", "--output", "foreign"
    case(f"outputs/{command}/foreign-folder", (64, *REFUSED), "foreign", untouched=("foreign",))(into_foreign)


@case("outputs/pack/links-in-a-begun-folder", (0, *REFUSED), why="the shard is written anew and takes the link's place")
def pack_links(site):
    site.pictures()
    site.config()
    folder = site.copy("packed")
    first = sorted(folder.glob("*.dtpack"))[0]
    first.unlink()
    first.symlink_to("../../home/.bashrc")
    return "pack", "--config", "c.yaml", "--output", "packed", "--samples-per-shard", "8", "--progress", "none"


# --- what a run leaves, and what verify reports about it

FINISHED = ("epochs.csv", "metrics.jsonl", "run.json", "config.yaml", "best.safetensors", "checkpoints", "log.txt")
for name in FINISHED:
    def missing(site, name=name):
        path = site.trained() / name
        shutil.rmtree(path, True)
        path.unlink(missing_ok=True)
        return "verify", "run"
    case(f"run/verify/without-{name}", (65, 66), name)(missing)


def epochs(site, change):
    """The fixture's table with other rows: a finished run that claims to have three epochs."""
    path = site.trained() / "epochs.csv"
    header, row = path.read_text().splitlines()
    numbered = [f"{number}{row[row.index(','):]}" for number in range(1, 6)]
    path.write_text("\n".join([header, *change(numbered)]) + "\n")
    return "verify", "run"


for what, change in {"begins-at-5": lambda rows: rows[4:], "has-a-gap": lambda rows: [rows[0], *rows[2:]], "is-empty": lambda rows: [],
                     "goes-beyond-the-run": lambda rows: rows, "twice": lambda rows: [rows[0], rows[0]]}.items():
    case(f"run/verify/epochs-{what}", 65, "epochs.csv")(lambda site, change=change: epochs(site, change))

DAMAGES = {"run.json": b'{"ranks":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "metrics.jsonl": b"[" * 200_000 + b"]" * 200_000 + b"\n",
           "epochs.csv": b"epoch\0\n1\n", "config.yaml": b"a: &a [*a]\n", "DONE": b"result_sha256 \x1b[31m\n", "log.txt": b"\x1b[2J" * 10}
for name, content in DAMAGES.items():
    for command in ("verify", "resume"):
        if name == "log.txt" and command == "verify":
            continue

        def damaged(site, name=name, content=content, command=command):
            (site.trained() / name).write_bytes(content)
            return ("verify", "run") if command == "verify" else site.train("epochs=2")
        codes = 65 if command == "verify" else (0, 65, 78)
        case(f"run/damage/{name}-{command}", codes, why="" if command == "verify" else "what a run writes anew it need not be able to read")(damaged)


@case("run/lock/mode", 0, why="an ordinary run")
def lock_mode(site):
    """Users who may not write must not be able to lock either."""
    site.pictures()
    site.config()

    def look(watched):
        mode = stat.S_IMODE((site.work / "run/.lock").stat().st_mode)
        return "" if mode & 0o077 == 0 else f".lock has the mode {mode:o}"
    return Call(*site.train().words, after=look)


@case("run/lock/held", 78, "another job", untouched=("run/epochs.csv", "run/log.txt"))
def lock_held(site):
    folder = site.trained()
    held = os.open(folder / ".lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    return Call(*site.train("epochs=2").words, after=lambda watched: os.close(held) or "")


@case("run/lock/garbage", 0, why="what a holder wrote is for people")
def lock_garbage(site):
    folder = site.trained()
    (folder / ".lock").write_bytes(b"\x1b[31m\xff" * 5_000)
    return site.train("epochs=2")


# --- folders that go away while a run writes


def while_training(site, act, *words):
    """Calls act(folder) once some steps are reported."""
    site.pictures()
    site.config({"epochs": 4000, "checkpoint": {"every": "50 steps", "keep": 2}})
    folder = site.work / "run"

    def when_there():
        end = time.monotonic() + 8
        while time.monotonic() < end:
            text = (folder / "metrics.jsonl").read_text() if (folder / "metrics.jsonl").exists() else ""
            if text.count('"event":"step"') > 20:
                break
            time.sleep(0.01)
        act(folder)
    return Call(*site.train("--max-time", "4s", *words).words, meanwhile=after_a_while(when_there, 0.0, 0.3, site))


def replace_by_link(folder, target):
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def new_job(folder):
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    (folder / "log.txt").write_text("of another job\n")


# The end by --max-time saves; if it cannot save into the run's folder, the exit code must not be 0.
for what, act in {"moved": lambda folder: folder.rename(folder.with_name("moved")),
                  "removed": shutil.rmtree,
                  "link-to-a-neighbour": lambda folder: replace_by_link(folder, "../neighbour/run"),
                  "entered-by-another": new_job,
                  "becomes-a-file": lambda folder: (folder.rename(folder.with_name("moved")), folder.write_text("mine"))}.items():
    case(f"run/swaps/folder-{what}", 74, "run", long=True)(lambda site, act=act: while_training(site, act))


def link_inside(name, target):
    def act(folder):
        path = folder / name
        if path.is_dir():
            path.rename(folder / "was")
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(target)
    return act


for name in ("log.txt", "epochs.csv", "metrics.jsonl", "best.safetensors", "checkpoints", "run.json"):
    target = "../../neighbour/run/" + (name if name == "checkpoints" else "log.txt")
    case(f"run/swaps/{name}-becomes-a-link", (74, 75, 77, 78), long=True)(
        lambda site, name=name, target=target: while_training(site, link_inside(name, target)))


@case("run/swaps/checkpoints-removed", (74, 75), long=True)
def checkpoints_removed(site):
    call = while_training(site, lambda folder: shutil.rmtree(folder / "checkpoints"))

    def look(watched):
        there = list((site.work / "run/checkpoints").glob("*.safetensors"))
        return "ended with 75 and there is no checkpoint" if watched.code == 75 and not there else ""
    call.after = look
    return call


@case("run/damage/every-json-number", (0, 65), why="a run.json that is ours by its shape is written anew")
def json_numbers(site):
    path = site.trained() / "run.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(merged(whole, {"steps": -1, "ranks": 1 << 70, "logical_ranks": 1e308})))
    return "verify", "run"
