"""Label files (CSV, ChestX-ray14, CheXpert) and the lists of a split."""

import os
import threading
import time

from kit import Call, case, odd_file

BOTH = "path,finding\n" + "".join(f"{'good' if number % 2 else 'bad'}/p{number:02}.png,{'good' if number % 2 else 'bad'}\n" for number in range(12))
LABELS = {"format": "csv", "labels": "../cwd/labels.csv", "csv": {"label": "finding"}}
NIH = {"format": "nih_cxr14", "labels": "../cwd/labels.csv"}


def labelled(site, content, over=None, name="labels.csv"):
    site.pictures()
    if content is not None:
        site.write(name, content)
    site.config({"data": {**LABELS, **(over or {})}})
    return "check", "--config", "c.yaml"


def lines(begin, line, count):
    return begin + line * count


TABLES = {
    "bomb/columns": "path,finding" + ",x" * 200_000 + "\n",
    "bomb/quote-never-closed": BOTH + '"' + "a,\n" * 3_000_000,
    "bomb/one-row": BOTH + "x" * (70 << 20) + "\n",
    "bomb/rows-of-nothing": lines("path,finding\n", "a/b.png,x\n", 1_000_000),
    "bomb/classes": "path,finding\n" + "".join(f"good/p{number}.png,c{number}\n" for number in range(200_000)),
    "structure/nul": BOTH.replace("p03", "p\0"),
    "structure/no-header": "\n\n\n",
    "structure/empty": "",
    "structure/utf-16": BOTH.encode("utf-16"),
    "structure/gzip": b"\x1f\x8b\x08" + bytes(100),
    "structure/semicolons": BOTH.replace(",", ";"),
    "structure/twice": BOTH + "good/p01.png,good\n",
    "structure/text-after-quote": BOTH.replace("good/p01.png", '"good"/p01.png'),
    "structure/too-many-fields": BOTH + "good/p01.png,good,,x\n",
    "structure/no-such-column": BOTH.replace("finding", "label"),
    "structure/column-twice": BOTH.replace("path,finding", "path,path"),
    "structure/class-no-utf-8": BOTH.encode().replace(b",good", b",go\xff\xfed"),
    "truncation/row": BOTH[:-6],
    "truncation/quote": BOTH + '"good/p01.png,good\n',
    "traversal/parent": BOTH + "../home/.bashrc,good\n",
    "traversal/absolute": BOTH + "/etc/passwd,good\n",
    "traversal/through-a-picture": BOTH + "good/p01.png/../../../home/.bashrc,good\n",
    "traversal/nul-in-quotes": BOTH + '"good/p01.png\0",good\n',
}
for what, content in TABLES.items():
    case(f"csv/{what}", (65, 66), "labels.csv", memory_mb=700 if what.startswith("bomb") else 300)(
        lambda site, content=content: labelled(site, content))


@case("csv/overflow/cells", 65, "labels.csv")
def cells(site):
    return labelled(site, BOTH.replace(",good", ",1e400").replace(",bad", ",-0x10"), {"csv": {"labels": ["finding"]}})


@case("csv/bomb/nih-findings", 65, "labels.csv")
def nih_findings(site):
    return labelled(site, "Image Index,Finding Labels\np00.png," + "Hernia|" * 100_000 + "Flu\n", {**NIH, "csv": {}})


@case("csv/structure/nih-unknown", 65, "labels.csv", "Herniä")
def nih_unknown(site):
    return labelled(site, "Image Index,Finding Labels\np00.png,Herniä\n", {**NIH, "csv": {}})


@case("csv/structure/chexpert-cell", 65, "labels.csv")
def chexpert_cell(site):
    names = "No Finding,Enlarged Cardiomediastinum,Cardiomegaly,Lung Opacity,Lung Lesion,Edema,Consolidation,Pneumonia,Atelectasis,Pneumothorax," \
            "Pleural Effusion,Pleural Other,Fracture,Support Devices"
    return labelled(site, f"Path,Sex,Age,Frontal/Lateral,AP/PA,{names}\ngood/p01.png,,,,," + ",".join(["99999999999999999999"] * 14) + "\n",
                    {"format": "chexpert", "csv": {}})


# --- labels, lists and a root that are not regular files or folders

for kind in ("fifo", "zero", "full", "folder", "socket", "loop", "dangling"):
    def odd_labels(site, kind=kind):
        odd_file(site.work / "labels.csv", kind)
        return labelled(site, None)
    case(f"csv/odd-files/{kind}", (65, 66, 74), "labels.csv", seconds=8)(odd_labels)

    def odd_list(site, kind=kind):
        site.pictures()
        site.listed("")
        odd_file(site.work / "train.txt", kind)
        return "check", "--config", "c.yaml"
    case(f"list/odd-files/{kind}", (65, 66, 74, 78), "train.txt", seconds=8)(odd_list)

    def odd_picture(site, kind=kind):
        site.pictures()
        odd_file(site.data / "good/hostile.png", kind)
        site.config()
        return "check", "--config", "c.yaml"
    case(f"picture/odd-files/{kind}", (0, 65, 66, 74), why="what is not a regular file may be left out, with a note", seconds=8)(odd_picture)

    def odd_root(site, kind=kind):
        odd_file(site.work / "hostile", kind)
        site.config({"data": {"root": "hostile"}})
        return "check", "--config", "c.yaml"
    case(f"picture/odd-roots/{kind}", (65, 66, 74), "hostile", seconds=8)(odd_root)


@case("csv/links/leads-out", (65, 66), "labels.csv")
def labels_lead_out(site):
    """data.allow_links is false, and a link inside the root leads out of it."""
    site.pictures()
    site.write("elsewhere.csv", BOTH)
    os.symlink("../cwd/elsewhere.csv", site.data / "labels.csv")
    site.config({"data": {**LABELS, "labels": "labels.csv"}})
    return "check", "--config", "c.yaml"


@case("csv/links/allowed", 0, why="data.allow_links is true")
def labels_may_lead_out(site):
    site.pictures()
    site.write("elsewhere.csv", BOTH)
    os.symlink("../cwd/elsewhere.csv", site.data / "labels.csv")
    site.config({"data": {**LABELS, "labels": "labels.csv", "allow_links": True}})
    return "check", "--config", "c.yaml"


@case("picture/links/leads-out", 65, "good")
def picture_leads_out(site):
    site.pictures()
    site.write("secret.png", (site.data / "good/p01.png").read_bytes())
    os.symlink("../../cwd/secret.png", site.data / "good/zzz.png")
    site.config()
    return "check", "--config", "c.yaml"


@case("picture/links/cycle-of-folders", (0, 65), why="a link to a folder above may be passed over, told or followed once")
def cycle_of_folders(site):
    site.pictures()
    os.symlink("..", site.data / "good/again")
    os.symlink(".", site.data / "good/here")
    site.config()
    return "check", "--config", "c.yaml"


@case("picture/links/chain-of-30", (0, 65), why="links beneath the root are followed")
def chain_of_links(site):
    site.pictures()
    before = "p01.png"
    for number in range(30):
        os.symlink(before, site.data / f"good/link{number}.txt")
        before = f"link{number}.txt"
    site.config()
    return "check", "--config", "c.yaml"


@case("picture/depth/folders-300", (0, 65, 66), why="folders may be as deep as names reach")
def deep_folders(site):
    site.pictures()
    (site.data / "good" / "/".join(["d"] * 300)).mkdir(parents=True)
    site.config()
    return "check", "--config", "c.yaml"


@case("picture/depth/path-beyond-4096", (0, 65, 66, 74), why="what no path reaches may be left out")
def path_beyond(site):
    site.pictures()
    here = os.open(site.data / "good", os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        there = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(os.open("deep.png", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    site.config()
    return "check", "--config", "c.yaml"


# --- lists

NAMES = "".join(f"{'good' if number % 2 else 'bad'}/p{number:02}.png\n" for number in range(12))
for what, content in {
        "bomb/names": "good/ghost.png\n" * 500_000,
        "bomb/one-line": "x" * (80 << 20),
        "structure/twice": NAMES * 2,
        "structure/nul": NAMES + "good/p01\0.png\n",
        "structure/utf-16": NAMES.encode("utf-16"),
        "structure/empty": "",
        "structure/binary": bytes(range(256)) * 1_000,
        "traversal/parent": NAMES + "../home/.bashrc\n",
        "traversal/absolute": NAMES + "/etc/passwd\n",
        "names/escape": NAMES + "good/\x1b]0;owned\x07\u202egnp.png\n",
}.items():
    def listed(site, content=content):
        site.pictures()
        site.listed(content)
        return "check", "--config", "c.yaml"
    case(f"list/{what}", (65, 66, 78), "train", memory_mb=500)(listed)


# --- files that change while they are read


def swapped(path, change, pause=0.001):
    """A helper that changes a file again and again until the call has ended."""
    def begin(started):
        def work():
            turn = 0
            while started.process.returncode is None and turn < 20_000:
                try:
                    change(path, turn)
                except OSError:
                    pass
                turn += 1
                time.sleep(pause)
        thread = threading.Thread(target=work)
        thread.start()
        return thread
    return begin


def grow(path, turn):
    with open(path, "ab") as file:
        file.write(b"x" * (1 << 16))
    if turn > 200:
        os.truncate(path, 100)


def flip_to_link(path, turn):
    other = path.with_name("swap.tmp")
    other.unlink(missing_ok=True)
    if turn % 2:
        other.symlink_to("/etc/passwd")
    else:
        other.write_text(BOTH)
    os.rename(other, path)


def vanish(path, turn):
    if turn % 2:
        path.unlink(missing_ok=True)
    else:
        path.write_text(BOTH)


def cut(path, turn):
    if turn % 2:
        os.truncate(path, 10)
    else:
        path.write_text(BOTH * 2_000)


for what, change in (("grows", grow), ("becomes-a-link", flip_to_link), ("vanishes", vanish), ("is-cut", cut)):
    def changing(site, change=change):
        words = labelled(site, BOTH)
        return Call(*words, meanwhile=swapped(site.work / "labels.csv", change))
    case(f"csv/swaps/{what}", (0, 65, 66, 74), why="the file may have been whole when it was read", memory_mb=500)(changing)


def picture_swaps(change):
    def make(site):
        site.pictures(300)
        site.config({"data": {"split": {"valid": 0, "by": "sample"}}})
        whole = (site.data / "good/p01.png").read_bytes()
        # Pictures that change while they are decoded are in cwd/, since data/ is compared afterwards.
        os.rename(site.data, site.work / "pictures")
        site.data.mkdir()
        target = site.work / "pictures/good/p01.png"
        return Call("check", "--config", "c.yaml", "data.root=pictures", meanwhile=swapped(target, lambda path, turn: change(path, turn, whole)))
    return make


def picture_cut(path, turn, whole):
    path.write_bytes(whole[:len(whole) // 2] if turn % 2 else whole)


def picture_link(path, turn, whole):
    other = path.with_name("swap.tmp")
    other.unlink(missing_ok=True)
    if turn % 2:
        other.symlink_to("/etc/passwd")
    else:
        other.write_bytes(whole)
    os.rename(other, path)


def picture_odd(path, turn, whole):
    if turn % 2:
        odd_file(path, "fifo")
    else:
        path.unlink(missing_ok=True)
        path.write_bytes(whole)


for what, change in (("is-cut", picture_cut), ("becomes-a-link", picture_link), ("becomes-a-fifo", picture_odd)):
    case(f"picture/swaps/{what}", (0, 65, 66, 74), why="it may have been whole when it was read", seconds=10)(picture_swaps(change))
