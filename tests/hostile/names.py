"""Names that act: escapes, line breaks, writing that turns round, cells that spreadsheets run, letters that are none."""

import csv
import json
import os
import tarfile

from kit import CONTROL, Call, case, picture
from records import GOOD, MEMBERS, archive, example, record, tfrecord, webdataset
from tables import LABELS

ODD = {
    "escape": "a\x1b[31m\x1b]0;owned\x07b",
    "newline": "x\ndtrain: error 0: all good",
    "return": "good\rbad",
    "bidi": "abc\u202egnp-exe",
    "isolate": "a\u2066b\u2069c",
    "c1": "a\u009b31mb",
    "delete": "a\x7f\x08b",
}
FORMULAS = {"equals": "=cmd|' -C calc'!A0", "plus": "+1+cmd|'x'!A0", "at": "@SUM(1)", "minus": "-2+3+cmd|'x'!A0", "tab": "\t=1"}
LONG = "n" * 251


def text_files_are_printable(site):
    for path in site.work.rglob("*"):
        if path.name in ("log.txt", "config.yaml") and path.is_file():
            if found := CONTROL.search(path.read_bytes().decode("utf-8", "replace")):
                return f"{path.name} holds {found.group()!r}"
    return ""


def one_json(watched):
    try:
        json.loads(watched.out.splitlines()[-1])
    except (ValueError, IndexError) as error:
        return f"the last line of --json is none: {error}"
    return ""


for what, name in ODD.items():
    def bad_file(site, name=name):
        site.pictures()
        (site.data / "good" / (name.replace("/", "") + ".png")).write_bytes(picture(50)[:200])
        site.config({"data": {"split": {"valid": 0, "by": "sample"}}})
        return Call(*site.train().words, after=lambda watched: text_files_are_printable(site))
    case(f"names/bad-picture/{what}", 65, ".png")(bad_file)

    def good_file(site, name=name):
        site.pictures()
        for number in range(3):
            (site.data / "good" / f"{name}{number}.png").write_bytes(picture(50 + number))
        (site.data / "good" / f"{name}.webp").write_bytes(b"left out")
        (site.data / "good" / f"{name}.txt").write_bytes(b"left out")
        site.config()
        return "check", "--config", "c.yaml"
    case(f"names/other-kinds/{what}", 65)(good_file)

    def class_folder(site, name=name):
        site.pictures()
        (site.data / name).mkdir()
        (site.data / name / "p.png").write_bytes(picture(50))
        site.config()
        return site.train()
    case(f"names/class-folder/{what}", (65, 78))(class_folder)

    def class_cell(site, name=name):
        site.pictures()
        site.write("labels.csv", f'path,finding\ngood/p01.png,good\ngood/p03.png,"{name}"\nbad/p02.png,bad\n')
        site.config({"data": LABELS})
        return "check", "--config", "c.yaml"
    case(f"names/class-in-a-table/{what}", (65, 78))(class_cell)

    def duplicates(site, name=name):
        """Reported on stdout, in check.json and with --json."""
        site.pictures()
        for number in range(2):
            (site.data / "good" / f"{name}{number}.png").write_bytes(picture(60))
        site.config()
        return Call("check", "--config", "c.yaml", "--json", after=one_json)
    case(f"names/duplicates/{what}", (0, 65), why="equal pictures in one part are a note")(duplicates)

for what, name in list(ODD.items())[:4]:
    def column(site, name=name):
        site.pictures()
        site.write("labels.csv", f'path,"{name}"\ngood/p01.png,1\ngood/p03.png,7\nbad/p02.png,0\n')
        site.config({"data": {**LABELS, "csv": {"labels": ["missing"]}}})
        return "check", "--config", "c.yaml"
    case(f"names/column/{what}", 65, "labels.csv")(column)

    def row(site, name=name):
        site.pictures()
        site.write("labels.csv", f'path,finding\ngood/p01.png,good\n"{name}.png",bad\n')
        site.config({"data": LABELS})
        return "check", "--config", "c.yaml"
    case(f"names/row/{what}", 66)(row)

    def member(site, name=name):
        return webdataset(site, archive(MEMBERS + [(f"{name}.png", picture(30)[:100]), (f"{name}.cls", b"1")]))
    case(f"names/member/{what}", 65, "hostile.tar")(member)

    def member_class(site, name=name):
        return webdataset(site, archive(MEMBERS + [("100.png", picture(30)), ("100.cls", name.replace("\n", "\\n\u2028").encode())]))
    case(f"names/member-class/{what}", (65, 78))(member_class)

    def record_class(site, name=name):
        return tfrecord(site, GOOD + record(example([("image/encoded", picture(30)), ("image/class/label", name.encode())])))
    case(f"names/record-class/{what}", (65, 78))(record_class)

    def record_file(site, name=name):
        return tfrecord(site, GOOD[:-99], f"{name}.tfrecord")
    case(f"names/record-file/{what}", 65)(record_file)

    def feature(site, name=name):
        return tfrecord(site, record(example([(name, picture(30)), (name + "2", 1)])))
    case(f"names/feature/{what}", 65, "hostile")(feature)

    def words(site, name=name):
        site.pictures()
        site.config()
        return "check", "--config", name + ".yaml"
    case(f"names/option/{what}", (64, 66))(words)

    def key(site, name=name):
        site.pictures()
        return "check", "--config", site.config(), f"{name}=1", f"data.split.by={name}"
    case(f"names/key/{what}", (64, 78))(key)

    def unknown_command(site, name=name):
        return (name,)
    case(f"names/command/{what}", (64, 78))(unknown_command)

    def run_dir(site, name=name):
        site.pictures()
        site.config()
        return Call(*site.train(run=name).words, after=lambda watched: text_files_are_printable(site))
    case(f"names/run-dir/{what}", (0, 64, 78), why="a folder may be called anything; what is printed is escaped")(run_dir)

    def root(site, name=name):
        site.pictures(into=site.work / name)
        site.config({"data": {"root": name}})
        return Call(*site.train().words, after=lambda watched: text_files_are_printable(site))
    case(f"names/root/{what}", (0, 65, 78), why="a folder may be called anything; what is printed is escaped")(root)

    def patient(site, name=name):
        """Patients in two parts are a warning, which names none of them."""
        site.pictures()
        rows = "".join(f'{"good" if number % 2 else "bad"}/p{number:02}.png,{"good" if number % 2 else "bad"},"{name}"\n' for number in range(12))
        site.write("labels.csv", "path,finding,who\n" + rows)
        site.config({"data": {**LABELS, "csv": {"label": "finding", "group": "who"}}})
        return "check", "--config", "c.yaml"
    case(f"names/patient/{what}", (0, 65), why="patients are never printed")(patient)


# --- cells


# The training part: the other may have pictures of only one class.
JUDGE_ALL = ("eval", "--config", "c.yaml", "--checkpoint", "run/best.safetensors", "--split", "train", "--output", "out")


def cells_are_text(site, path):
    """Whether no cell of a table begins with what a spreadsheet runs. A table without such a name would test
    nothing."""
    tried = path.name == "epochs.csv"
    with open(path, newline="", encoding="utf-8") as file:
        for cells in csv.reader(file):
            for cell in cells:
                tried = tried or cell[:2] in ("'=", "'+", "'-", "'@")
                try:
                    float(cell)
                except ValueError:
                    if cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
                        return f"{path.name} has the cell {cell!r}"
    return "" if tried else f"{path.name} has no cell that had to be escaped"


for what, name in FORMULAS.items():
    def formula(site, name=name):
        folders = (name.replace("/", ""), "other")
        for number in range(12):
            folder = site.data / folders[number % 2]
            folder.mkdir(exist_ok=True)
            (folder / f"p{number:02}.png").write_bytes(picture(number))
        site.config()
        site.fixtures.good(site, *site.train().words)
        look = lambda watched: cells_are_text(site, site.work / "out/predictions_train.csv") or cells_are_text(site, site.work / "run/epochs.csv")  # noqa: E731
        return Call(*JUDGE_ALL, after=look)
    if what != "tab":
        case(f"names/cells/{what}", 0, why="a class may be called so; its cells are escaped")(formula)


@case("names/cells/of-a-file", 0, why="a picture may be called so; its cell is escaped")
def formula_file(site):
    site.pictures(into=site.data)
    for path in sorted((site.data / "good").iterdir()):
        path.rename(path.with_name("=" + path.name))
    os.rename(site.data / "good", site.data / "=good")
    site.config()
    site.fixtures.good(site, *site.train().words)
    return Call(*JUDGE_ALL, after=lambda watched: cells_are_text(site, site.work / "out/predictions_train.csv"))


@case("names/cells/quotes-and-commas", 0, why="a class may be called so; its cells are quoted")
def quotes(site):
    site.pictures()
    os.rename(site.data / "good", site.data / 'go"o,d')
    site.config()
    site.fixtures.good(site, *site.train().words)

    def look(watched):
        with open(site.work / "out/predictions_valid.csv", newline="", encoding="utf-8") as file:
            return "" if len({len(cells) for cells in csv.reader(file)}) == 1 else "rows of predictions_valid.csv differ in length"
    return Call("eval", "--config", "c.yaml", "--checkpoint", "run/best.safetensors", "--output", "out", after=look)


# --- lengths and letters


@case("names/length/picture", 65, ".png")
def long_picture(site):
    site.pictures()
    (site.data / "good" / (LONG + ".png")).write_bytes(b"\x89PNG\r\n\x1a\n")
    site.config()
    return "check", "--config", "c.yaml"


@case("names/length/class", (0, 65, 78), why="a folder's name is short enough for any table")
def long_class(site):
    site.pictures()
    os.rename(site.data / "good", site.data / LONG)
    site.config()
    return site.train()


@case("names/length/class-in-a-table", (0, 65, 78), why="a class may be long")
def megabyte_class(site):
    site.pictures()
    site.write("labels.csv", "path,finding\ngood/p01.png,good\nbad/p00.png,bad\ngood/p03.png," + "x" * 1_000_000 + "\n")
    site.config({"data": LABELS})
    return "check", "--config", "c.yaml"


@case("names/length/member", 65, "hostile.tar")
def long_member(site):
    content = archive(MEMBERS + [("d/" * 20_000 + "1.png", picture(30)), ("d/" * 20_000 + "1.cls", b"1")], format=tarfile.GNU_FORMAT)
    return webdataset(site, content + b"damage")


for what, name in {"latin-1": b"caf\xe9", "overlong": b"\xc0\xaf\xc0\xaf", "surrogate": b"\xed\xa0\x80", "cut": b"a\xe2\x82", "c1-byte": b"a\x9b31mb"}.items():
    def letters(site, name=name):
        site.pictures()
        with open(os.fsencode(site.data) + b"/good/" + name + b".png", "wb") as file:
            file.write(picture(50)[:200])
        site.config()
        return "check", "--config", "c.yaml"
    case(f"names/letters/picture-{what}", 65)(letters)

    def class_letters(site, name=name):
        site.pictures()
        os.rename(os.fsencode(site.data) + b"/good", os.fsencode(site.data) + b"/" + name)
        site.config()
        return "check", "--config", "c.yaml"
    case(f"names/letters/class-{what}", 65)(class_letters)
