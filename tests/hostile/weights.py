"""safetensors: weights to start from or to evaluate, and files given to `dtrain verify`."""

import json
import os
import struct

from kit import Call, case, crc32c, odd_file
from tables import swapped, vanish

DEEP = 200_000
# The small CNN of these cases: name, shape.
SHAPES = {"0.weight": [16, 3, 3, 3], "0.bias": [16]}
COMMANDS = ("verify", "start", "eval")


def file_of(header, data=b"", length=None, pad=True):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def command_on(site, name, command):
    site.pictures()
    site.config()
    if command == "verify":
        return "verify", name
    if command == "start":
        return "--config", "c.yaml", f"model.weights={name}", "--run-dir", "run", "--progress", "none"
    return "eval", "--config", "c.yaml", "--checkpoint", name, "--output", "out"


MAX = (1 << 64) - 1
HEADERS = {
    "overflow/length": file_of({}, length=MAX),
    "overflow/length-2-63": file_of({}, length=1 << 63),
    "overflow/length-beyond-file": file_of({}, length=100_000),
    "overflow/length-of-100-MB": struct.pack("<Q", 100_000_000) + b"{" * 1000,
    "overflow/length-0": struct.pack("<Q", 0),
    "overflow/shape-product": file_of({"a": tensor([1 << 32, 1 << 32], 0, 0)}),
    "overflow/shape-2-64": file_of({"a": tensor([1 << 64], 0, 4)}, bytes(4)),
    "overflow/shape-minus": file_of({"a": tensor([-1], 0, 4)}, bytes(4)),
    "overflow/shape-0-times": file_of({"a": tensor([0, MAX, MAX], 0, 4)}, bytes(4)),
    "overflow/offsets": file_of({"a": tensor([1], MAX - 3, MAX)}, bytes(4)),
    "overflow/offsets-beyond": file_of({"a": tensor([1 << 20], 0, 4 << 20)}, bytes(4)),
    "overflow/offsets-exponent": file_of(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4e0]}}', bytes(4)),
    "overflow/offsets-400-digits": file_of(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,' + b"4" * 400 + b"]}}", bytes(4)),
    "overflow/dimensions": file_of({"a": tensor([1] * 200, 0, 4)}, bytes(4)),
    "bomb/huge-shape-of-nothing": file_of({"a": tensor([1 << 40], 0, 0)}),
    "bomb/tensors": file_of({f"t{number}": tensor([0], 0, 0) for number in range(60_000)}),
    "bomb/metadata": file_of({"__metadata__": {f"k{number}": "v" for number in range(100_000)}}),
    "structure/overlap": file_of({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "structure/hole": file_of({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
    "structure/tail": file_of({"a": tensor([1], 0, 4)}, bytes(12)),
    "structure/end-before-begin": file_of({"a": tensor([1], 4, 0)}, bytes(4)),
    "structure/name-twice": file_of(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', bytes(8)),
    "structure/field-twice": file_of(b'{"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "structure/unknown-field": file_of({"a": {**tensor([1], 0, 4), "code": "import os"}}, bytes(4)),
    "structure/not-json": file_of(b"\x80\x04\x95pickle", bytes(4)),
    "structure/list": file_of(b"[]"),
    "structure/metadata-of-numbers": file_of({"__metadata__": {"a": 1}}),
    "structure/some-checksums": file_of({"__metadata__": {"crc32c.a": "00000000"}, "a": tensor([1], 0, 4)}, bytes(4)),
    "types/dtype": file_of({"a": tensor([4], 0, 4, "F4")}, bytes(4)),
    "types/dtype-number": file_of({"a": tensor([1], 0, 4, 7)}, bytes(4)),
    "types/shape-text": file_of({"a": tensor("1", 0, 4)}, bytes(4)),
    "types/shape-fraction": file_of({"a": tensor([1.5], 0, 4)}, bytes(4)),
    "types/offsets-of-three": file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, bytes(4)),
    "depth/lists": file_of(b"[" * DEEP + b"]" * DEEP),
    "depth/objects": file_of(b'{"a":' * DEEP),
    "depth/shape": file_of(b'{"a":{"dtype":"F32","shape":' + b"[" * DEEP + b"]" * DEEP + b"}}"),
    "truncation/empty": b"",
    "truncation/length": b"\x10\0\0",
    "truncation/header": file_of({"a": tensor([1], 0, 4)}, bytes(4))[:30],
    "truncation/data": file_of({"a": tensor([100], 0, 400)}, bytes(200)),
    "names/escape": file_of({"\x1b[2J\u202eb\nc": tensor([1], 0, 9)}, bytes(4)),
    "names/nul": file_of({"a\0b": tensor([1], 0, 9)}, bytes(4)),
    "names/not-utf-8": file_of(b'{"\xff\xfe":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "names/a-megabyte": file_of({"x" * 1_000_000: tensor([1], 0, 9)}, bytes(4)),
}
# A file of many or large tensors may be valid: it does not fit this network, but verify accepts it.
WHOLE = {"bomb/tensors", "bomb/metadata"}
for number, (what, content) in enumerate(HEADERS.items()):
    command = COMMANDS[number % 2 if what not in WHOLE else 1]
    case(f"safetensors/{what}", 65, "hostile.safetensors")(
        lambda site, content=content, command=command: (site.write("hostile.safetensors", content), command_on(site, "hostile.safetensors", command))[1])


@case("safetensors/types/other-dtype", 65, "hostile.safetensors")
def other_dtype(site):
    """The right names with integers in them."""
    offset, header = 0, {}
    for name, shape in SHAPES.items():
        count = 1
        for side in shape:
            count *= side
        header[name] = tensor(shape, offset, offset + 8 * count, "I64")
        offset += 8 * count
    site.write("hostile.safetensors", file_of(header, bytes(offset)))
    return command_on(site, "hostile.safetensors", "start")


for kind in ("fifo", "zero", "full", "folder", "socket", "loop", "dangling"):
    for number, command in enumerate(COMMANDS):
        if kind not in ("fifo", "zero") and number != sum(map(ord, kind)) % 3:
            continue

        def odd(site, kind=kind, command=command):
            odd_file(site.work / "hostile.safetensors", kind)
            return command_on(site, "hostile.safetensors", command)
        case(f"safetensors/odd-files/{kind}-{command}", (65, 66, 74, 78), "hostile.safetensors", seconds=8)(odd)


# --- best.safetensors with right checksums and wrong metadata


def resealed(path, change):
    """`change` alters metadata; the header's checksum is corrected."""
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + size])
    change(header["__metadata__"])
    header["__metadata__"]["crc32c.header"] = "00000000"
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")
    text += b" " * (-len(text) % 8)
    start = struct.pack("<Q", len(text)) + text
    place = start.index(b'"crc32c.header":"') + 17
    start = start[:place] + f"{crc32c(start):08x}".encode() + start[place + 8:]
    path.write_bytes(start + raw[8 + size:])


def metadata(key, value):
    def change(found):
        if value is None:
            found.pop(key)
        else:
            found[key] = value
    return change


for what, change, codes in (
        ("trained_on-letters", metadata("trained_on", "z" * 120), 65),
        ("trained_on-upper-case", metadata("trained_on", "ABCDEF012345" * 10), 65),
        ("trained_on-odd-length", metadata("trained_on", "0123456789a"), 65),
        ("trained_on-shifted", lambda found: found.update(trained_on="0" + found["trained_on"][:-1] + "0"), 65),
        ("trained_on-not-sorted", lambda found: found.update(trained_on=found["trained_on"][12:] + found["trained_on"][:12]), 65),
        ("trained_on-spaces", metadata("trained_on", " " * 120), 65),
        ("trained_on-huge", metadata("trained_on", "0" * (12 * 200_000)), 65),
        ("split-letters", metadata("split_sha256", "x" * 64), 65),
        ("classes-not-json", metadata("classes", "bad, good"), (65, 78)),
        ("classes-numbers", metadata("classes", "[1, 2]"), (65, 78)),
        ("classes-deep", metadata("classes", "[" * 100_000 + "]" * 100_000), (65, 78)),
        ("classes-others", metadata("classes", '["a", "b"]'), (65, 78)),
        ("classes-escape", metadata("classes", '["bad\\u001b[31m", "good\\u202e"]'), (65, 78)),
        ("logical_ranks", metadata("logical_ranks", "99999999999999999999"), (0, 65, 78)),
        ("image_size", metadata("image_size", "-1,99999999999999999999"), (0, 65)),
        ("config-of-a-bomb", metadata("config", "a: &a [*a]\n" * 10_000), (0, 65)),
):
    def judged(site, change=change):
        folder = site.trained()
        resealed(folder / "best.safetensors", change)
        # Another split than the run's, so that the list of what was trained on is used.
        return "eval", "--config", "c.yaml", "data.split={by: sample, seed: 7, valid: 0.5}", "--checkpoint", "run/best.safetensors", "--output", "out"
    # Others among these files are refused because of what they were trained on: with 65, as they should.
    why = "what it says is not asked for" if isinstance(codes, tuple) and 0 in codes else ""
    case(f"best/metadata/{what}", codes, *(() if why else ("best.safetensors",)), why=why)(judged)


@case("best/metadata/trained-on-is-heeded", 65, "was trained on")
def trained_on_is_heeded(site):
    """The check that a damaged list would disable."""
    site.trained()
    return "eval", "--config", "c.yaml", "data.split={by: sample, seed: 7, valid: 0.5}", "--checkpoint", "run/best.safetensors", "--output", "out"


# --- the configuration that best.safetensors holds, if no other is given


for what, stored, codes in (
        ("bomb", "a: &a [*a]\n" * 10_000, 78),
        ("laughs", "a0: &a0 [x, x, x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}, *a{level - 1}]\n" for level in range(1, 40)), 78),
        ("escape-in-a-key", '"\\e[2Jx": 1\n', 78),
        ("no-text", "\x00\x01", (65, 78)),
        ("other-keys", "colour: red\n", 78),
        ("root-of-nowhere", "data: {format: image_folder, root: /does/not/exist}\nmodel: {name: small_cnn}\n", 66),
        ("empty", "", 64),
        ("none", None, 64),
):
    def alone(site, stored=stored):
        path = (site.trained() / "best.safetensors").rename(site.work / "alone.safetensors")
        resealed(path, metadata("config", stored))
        return "eval", "--checkpoint", "alone.safetensors", "--output", "out"
    case(f"best/own-configuration/{what}", codes, *(("/does/not/exist",) if codes == 66 else ("alone.safetensors",)))(alone)


@case("best/swaps/vanishes", (0, 65, 66, 74), why="it may have been whole when it was read")
def vanishes(site):
    folder = site.trained()
    whole = (folder / "best.safetensors").read_bytes()

    def change(path, turn):
        vanish(path, 1) if turn % 2 else path.write_bytes(whole)
    words = ("eval", "--config", "c.yaml", "--checkpoint", "run/best.safetensors", "--output", "out")
    return Call(*words, meanwhile=swapped(folder / "best.safetensors", change))


@case("best/swaps/is-cut", (0, 65, 74), why="it may have been whole when it was read")
def is_cut(site):
    folder = site.trained()
    whole = (folder / "best.safetensors").read_bytes()

    def change(path, turn):
        if turn % 2:
            os.truncate(path, 3_000)
        else:
            path.write_bytes(whole)
    return Call("verify", "run/best.safetensors", meanwhile=swapped(folder / "best.safetensors", change))
