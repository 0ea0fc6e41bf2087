"""nnU-Net's dataset.json, and what dtrain pack writes: manifests and shards, with correct checksums unless these are
tested."""

import json
import os
import struct
import threading
import time

from kit import Call, case, crc32c, odd_file, picture

DEEP = 200_000
PACKED = {"task": "multiclass", "data": {"format": "packed", "root": "packed", "split": None}}
# --- dataset.json

DESCRIPTION = {"channel_names": {"0": "grey"}, "labels": {"background": 0, "cell": 255}, "numTraining": 4, "file_ending": ".png"}


def nnunet(site, text):
    (site.data / "imagesTr").mkdir()
    (site.data / "labelsTr").mkdir()
    for number in range(4):
        (site.data / f"imagesTr/case{number}_0000.png").write_bytes(picture(number, grey=True))
        (site.data / f"labelsTr/case{number}.png").write_bytes(picture(7, grey=True))
    (site.data / "dataset.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    site.config({"model": {"name": "unet"}, "data": {"format": "image_mask", "split": {"valid": 0.25}}})
    return "check", "--quick", "--config", "c.yaml"


def changed(**values):
    return json.dumps({**DESCRIPTION, **values})


NESTED = "[" * DEEP + "]" * DEEP
OBJECTS = '{"a":' * DEEP + "1" + "}" * DEEP
for what, text in {
        "depth/lists": NESTED,
        "depth/lists-not-closed": "[" * DEEP,
        "depth/label": json.dumps(DESCRIPTION).replace("255", NESTED),
        "depth/label-object": json.dumps(DESCRIPTION).replace("255", OBJECTS),
        "depth/ending": json.dumps(DESCRIPTION).replace('".png"', NESTED),
        "depth/numTraining": json.dumps(DESCRIPTION).replace("4", OBJECTS, 1),
        "depth/unknown-key": json.dumps(DESCRIPTION)[:-1] + ', "more": ' + OBJECTS + "}",
        "overflow/label-of-400-digits": json.dumps(DESCRIPTION).replace("255", "9" * 400),
        "overflow/label-2-64": changed(labels={"background": 0, "cell": 1 << 64}),
        "overflow/label-minus": changed(labels={"background": 0, "cell": -1}),
        "overflow/numTraining": changed(numTraining=1 << 63),
        "overflow/exponent": json.dumps(DESCRIPTION).replace("255", "1e999"),
        "types/labels-list": changed(labels=[0, 1]),
        "types/label-null": changed(labels={"background": 0, "cell": None}),
        "types/ending-object": changed(file_ending={"a": "b"}),
        "types/ending-long": changed(file_ending="." + "x" * 1_000_000),
        "types/number-text": changed(numTraining="many"),
        "bomb/labels": changed(labels={"background": 0, **{f"c{number}": number for number in range(1, 60_000)}}),
        "structure/label-twice": changed(labels={"background": 0, "cell": 255, "other": 255}),
        "structure/not-utf-8": json.dumps(DESCRIPTION).encode().replace(b"cell", b"ce\xff\xfel"),
        "structure/tail": json.dumps(DESCRIPTION) + "{}",
        "structure/cut": json.dumps(DESCRIPTION)[:-9],
        "structure/empty": "",
        "names/escape": changed(labels={"background": 0, "\x1b[31mcell\n\u202e": 255}),
}.items():
    case(f"dataset-json/{what}", 65, "dataset.json")(lambda site, text=text: nnunet(site, text))

for kind in ("zero", "loop", "dangling"):
    def odd_description(site, kind=kind):
        words = nnunet(site, "{}")
        odd_file(site.data / "dataset.json", kind)
        return words
    case(f"dataset-json/odd-files/{kind}", (65, 66, 74), seconds=8)(odd_description)


# --- the manifest


def with_sum(text):
    """Corrects the manifest's own checksum; its first field is as dtrain writes it."""
    at = text.index('"crc32c": "') + 11
    blank = text[:at] + "00000000" + text[at + 8:]
    return blank[:at] + f"{crc32c(blank.encode()):08x}" + blank[at + 8:]


def manifest(site, change, command="check"):
    folder = site.copy("packed")
    path = folder / "manifest.json"
    text = change(path.read_text())
    path.write_bytes(text if isinstance(text, bytes) else with_sum(text).encode())
    site.config(PACKED)
    return ("verify", "packed") if command == "verify" else ("check", "--config", "c.yaml")


def key(name, value):
    """The manifest with another value of one of its keys."""
    def change(text):
        whole = json.loads(text)
        target = whole
        *path, last = name.split(".")
        for part in path:
            target = target[int(part) if part.isdigit() else part]
        target[last] = value
        return json.dumps(whole, indent=1) + "\n"
    return change


def deep_value(name, value):
    def change(text):
        return key(name, "HERE")(text).replace('"HERE"', value)
    return change


for command in ("check", "verify"):
    for what, change in {
            "depth/version": deep_value("version", NESTED),
            "depth/classes": deep_value("classes", NESTED),
            "depth/unknown-key": deep_value("more", "[" * 20_000 + "]" * 20_000),
    }.items():
        case(f"manifest/{what}-{command}", 65, "manifest.json")(lambda site, change=change, command=command: manifest(site, change, command))
for what, change in {
        "overflow/version": deep_value("version", "1" + "0" * 400),
        "overflow/size": key("image.size", [1 << 62, 1 << 62]),
        "overflow/size-minus": key("image.size", [-32, 32]),
        "overflow/size-0": key("image.size", [0, 0]),
        "overflow/channels": key("image.channels", 1 << 40),
        "overflow/shard-bytes": key("shards.0.bytes", (1 << 63) - 1),
        "overflow/shard-bytes-minus": key("shards.0.bytes", -1),
        "overflow/shard-records": key("shards.0.records", 1 << 60),
        "overflow/mask-values": key("mask_values", [[1, 9]]),
        "types/classes-object": key("classes", {"a": 1}),
        "types/shards-text": key("shards", "all"),
        "types/complete-text": key("complete", "yes"),
        "types/checksum-letters": key("shards.0.crc32c", "zzzzzzzz"),
        "traversal/shard-parent": key("shards.0.file", "../../neighbour/thesis.txt"),
        "traversal/shard-absolute": key("shards.0.file", "/etc/passwd"),
        "traversal/shard-dots": key("shards.0.file", ".."),
        "traversal/shard-of-itself": key("shards.0.file", "manifest.json"),
        "structure/incomplete": key("complete", False),
        "structure/unknown-task": key("task", "poetry"),
        "structure/unknown-format": key("format", "dtrain-\x1b[31mx"),
        "structure/wrong-checksum": lambda text: text.replace("multiclass", "multilabel").encode(),
        "structure/empty": lambda text: b"",
        "structure/cut": lambda text: text[:200].encode(),
}.items():
    def changed_manifest(site, change=change, what=what):
        return manifest(site, change, "verify" if sum(map(ord, what)) % 2 else "check")
    case(f"manifest/{what}", (65, 66), "packed")(changed_manifest)


@case("manifest/bomb/classes", (0, 65, 78), why="names cost a line each")
def many_classes(site):
    return manifest(site, key("classes", ["bad", "good", *(f"class{number}" for number in range(20_000))]))


# --- shards


def sealed(data):
    """Corrects the index's and the header's checksums."""
    index = struct.unpack_from("<q", data, 32)[0]
    if 0 <= index <= len(data) - 128:
        struct.pack_into("<I", data, 80, crc32c(bytes(data[128:128 + index])))
    struct.pack_into("<I", data, 124, crc32c(bytes(data[:124])))


def shard(site, change, command, in_manifest=True):
    folder = site.copy("packed")
    path = sorted(folder.glob("*.dtpack"))[0]
    data = bytearray(path.read_bytes())
    kept = change(data)
    data = bytearray(kept) if kept is not None else data
    if kept is None:
        sealed(data)
    path.write_bytes(data)
    if in_manifest and len(data) >= 128:
        text = json.loads((folder / "manifest.json").read_text())
        for told in text["shards"]:
            if told["file"] == path.name:
                told["bytes"], told["crc32c"] = len(data), f"{struct.unpack_from('<I', data, 124)[0]:08x}"
        (folder / "manifest.json").write_text(with_sum(json.dumps(text, indent=1) + "\n"))
    site.config(PACKED)
    if command == "verify":
        return "verify", "packed"
    return ("check", "--config", "c.yaml") if command == "check" else ("--config", "c.yaml", "--run-dir", "run", "--progress", "none")


def at(place, form, *values):
    return lambda data: struct.pack_into(form, data, place, *values)


ROW = 128
for number, (what, change) in enumerate({
        "overflow/records": at(16, "<I", 0xFFFFFFFF),
        "overflow/records-0": at(16, "<I", 0),
        "overflow/labels": at(20, "<I", 0xFFFFFFFF),
        "overflow/index": at(32, "<Q", 1 << 62),
        "overflow/index-odd": at(32, "<Q", 65),
        "overflow/file-bytes": at(40, "<Q", 1 << 62),
        "overflow/row-offset": at(ROW, "<Q", (1 << 64) - 64),
        "overflow/picture-bytes": at(ROW + 8, "<I", 0xFFFFFFFF),
        "overflow/mask-bytes": at(ROW + 12, "<I", 0xFFFFFFFF),
        "overflow/height": at(ROW + 20, "<II", 0xFFFFFFFF, 0xFFFFFFFF),
        "overflow/height-0": at(ROW + 20, "<II", 0, 0),
        "overflow/class": at(ROW + 32, "<i", 0x7FFFFFFF),
        "overflow/class-minus": at(ROW + 32, "<i", -5),
        "overflow/name-place": at(ROW + 36, "<I", 0xFFFFFFF0),
        "overflow/name-bytes": at(ROW + 40, "<H", 0xFFFF),
        "structure/channels-9": at(ROW + 28, "<B", 9),
        "structure/bits-3": at(ROW + 29, "<B", 3),
        "structure/part-9": at(ROW + 30, "<B", 9),
        "structure/codec-9": at(12, "<I", 9),
        "structure/codec-jpeg": at(12, "<I", 1),
        "structure/codec-deflate": at(12, "<I", 2),
        "structure/version-2": at(8, "<I", 2),
        "structure/wrong-magic": lambda data: b"dtpack\n\n" + bytes(data[8:]),
        "structure/record-flipped": lambda data: bytes(data[:-40]) + b"x" + bytes(data[-39:]),
        "structure/zeros": lambda data: bytes(len(data)),
        "truncation/header": lambda data: bytes(data[:100]),
        "truncation/index": lambda data: bytes(data[:300]),
        "truncation/records": lambda data: bytes(data[:-64]),
        "truncation/empty": lambda data: b"",
}.items()):
    case(f"shard/{what}", 65, "packed")(
        lambda site, change=change, command=("verify", "check", "train")[number % 3]: shard(site, change, command))


@case("shard/structure/name-of-nul", (0, 65), why="a name is bytes; what is printed of it is escaped")
def name_of_nul(site):
    return shard(site, lambda data: struct.pack_into("<B", data, 128 + 48 * 8, 0), "verify")


for kind in ("fifo", "zero", "folder", "loop", "dangling"):
    for name in ("shard", "manifest"):
        def odd(site, kind=kind, name=name):
            folder = site.copy("packed")
            odd_file(sorted(folder.glob("*.dtpack"))[0] if name == "shard" else folder / "manifest.json", kind)
            site.config(PACKED)
            return ("verify", "packed") if kind in ("fifo", "loop") else ("check", "--config", "c.yaml")
        case(f"{name}/odd-files/{kind}", (65, 66, 74), "packed", seconds=8)(odd)


@case("shard/links/leads-out", (0, 65), why="a link to a whole shard holds the same bytes")
def shard_elsewhere(site):
    folder = site.copy("packed")
    path = sorted(folder.glob("*.dtpack"))[0]
    os.rename(path, site.work / "elsewhere.dtpack")
    path.symlink_to("../elsewhere.dtpack")
    site.config(PACKED)
    return "check", "--config", "c.yaml"


def after_a_while(act, least, most, site):
    def begin(started):
        def work():
            time.sleep(site.random.uniform(least, most))
            act()
        thread = threading.Thread(target=work)
        thread.start()
        return thread
    return begin


for what, act in {
        "shrinks-to-nothing": lambda path: os.truncate(path, 0),
        "shrinks-by-a-record": lambda path: os.truncate(path, 400),
        "is-rewritten": lambda path: path.write_bytes(bytes(path.stat().st_size)),
        "is-removed": lambda path: path.unlink(),
        "becomes-a-fifo": lambda path: odd_file(path, "fifo"),
}.items():
    def swapping(site, act=act, what=what):
        """Changes shards while they are mapped and trained on."""
        folder = site.copy("packed")
        site.config({**PACKED, "epochs": 400, "checkpoint": {"every": "1000 epochs"}})

        def change():
            for path in sorted(folder.glob("*.dtpack")):
                act(path)
        return Call("--config", "c.yaml", "--run-dir", "run", "--max-time", "3s", "--progress", "none", meanwhile=after_a_while(change, 0.4, 0.9, site))
    harmless = what in ("is-removed", "becomes-a-fifo")
    case(f"shard/swaps/{what}", (0, 75, 65) if harmless else (65,), *(() if harmless else ("dtpack",)),
         why="what is mapped stays, whatever becomes of its name" if harmless else "")(swapping)
