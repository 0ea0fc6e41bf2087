"""PNG and JPEG: bombs, cuts, overflows and structures that no encoder writes, each given to another command."""

import random
import struct
import zlib

from kit import Call, case, picture, png, png_chunk

COMMANDS = ("check", "train", "pack", "bench")


def on_pictures(site, name, content, command):
    """A data set in which one picture is hostile, and the call that has to decode it."""
    site.pictures()
    (site.data / "good" / name).write_bytes(content)
    site.config()
    rest = ["--config", "c.yaml", "data.split={valid: 0, by: sample}"]
    if command == "check":
        return Call("check", "--config", "c.yaml")
    if command == "pack":
        return Call("pack", *rest, "--output", "packed", "--progress", "none")
    if command == "bench":
        return Call("bench", "input", *rest, "--limit-steps", "1")
    return Call(*rest, "--run-dir", "run", "--progress", "none")


def bad_picture(ground, attack, ending, make, codes=65, **limits):
    """A case for each of the pictures; `make` takes a random generator and returns the file's bytes."""
    name = f"{ground}/{attack}"
    command = COMMANDS[sum(map(ord, name)) % len(COMMANDS)]
    says = () if codes == 0 or not isinstance(codes, int) else (f"hostile{ending}",)
    case(name, codes, *says, **limits)(lambda site: on_pictures(site, f"hostile{ending}", make(site.random), command))


GREY = 0
WHOLE = picture(77)
IDAT = WHOLE.index(b"IDAT") - 4
ROWS = [bytes(range(96))] * 32
BOUND = "its pixels are whole and within the limits; what is beyond them is bounded"


def bomb(size):
    """Zeros, deflated."""
    packer = zlib.compressobj(9)
    piece, packed = bytes(1 << 20), []
    for _ in range(size >> 20):
        packed.append(packer.compress(piece))
    return b"".join(packed) + packer.flush()


def text_bomb(kind, head):
    return png(32, 32, ROWS, extra=png_chunk(kind, head + bomb(400 << 20)))


def with_chunk_length(length):
    return WHOLE[:IDAT] + struct.pack(">I", length) + WHOLE[IDAT + 4:]


def with_flips(dice, data, begin, count=3):
    damaged = bytearray(data)
    for _ in range(count):
        damaged[dice.randrange(begin, len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def many_chunks(count, kind=b"IDAT"):
    packed = zlib.compress(b"".join(b"\0" + row for row in ROWS))
    head, tail = png(32, 32, ROWS).split(png_chunk(b"IDAT", packed))
    return head + png_chunk(kind, b"") * count + png_chunk(b"IDAT", packed) + tail


for side in (30_000, 65_535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
    bad_picture("png", f"bomb/header-{side}", ".png", lambda dice, side=side: png(side, side, packed=b""))
bad_picture("png", "bomb/wide", ".png", lambda dice: png((1 << 31) - 1, 1, packed=bomb(8 << 20)))
bad_picture("png", "bomb/valid-67-megapixels", ".png", lambda dice: png(8192, 8192, packed=bomb(8193 * 8192 + (1 << 20)), colour=GREY),
            (0, 65), why=BOUND, memory_mb=400)
bad_picture("png", "bomb/more-data-than-rows", ".png", lambda dice: png(32, 32, packed=bomb(600 << 20)), (0, 65), why=BOUND)
bad_picture("png", "bomb/text", ".png", lambda dice: text_bomb(b"zTXt", b"a\0\0"), (0, 65), why=BOUND)
bad_picture("png", "bomb/profile", ".png", lambda dice: text_bomb(b"iCCP", b"a\0\0"), (0, 65), why=BOUND)
bad_picture("png", "bomb/international-text", ".png", lambda dice: text_bomb(b"iTXt", b"a\0\1\0\0\0"), (0, 65), why=BOUND)
bad_picture("png", "bomb/empty-chunks", ".png", lambda dice: many_chunks(100_000), (0, 65), why=BOUND)
bad_picture("png", "bomb/private-chunks", ".png", lambda dice: many_chunks(100_000, b"prVt"), (0, 65), why=BOUND)
for cut in (0, 1, 8, 20, 33, 40, 300, len(WHOLE) - 13):
    bad_picture("png", f"truncation/{cut}", ".png", lambda dice, cut=cut: WHOLE[:cut])
bad_picture("png", "truncation/anywhere", ".png", lambda dice: WHOLE[:dice.randrange(9, len(WHOLE) - 16)])
bad_picture("png", "truncation/interlaced", ".png", lambda dice: png(32, 32, ROWS[:16], interlace=1))
for length in (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
    bad_picture("png", f"overflow/chunk-{length:x}", ".png", lambda dice, length=length: with_chunk_length(length))
for what, made in (("width-0", lambda: png(0, 32, ROWS)), ("height-0", lambda: png(32, 0, ROWS)), ("depth-3", lambda: png(32, 32, ROWS, depth=3)),
                   ("colour-5", lambda: png(32, 32, ROWS, colour=5)), ("interlace-7", lambda: png(32, 32, ROWS, interlace=7)),
                   ("no-palette", lambda: png(32, 32, ROWS, colour=3)),
                   ("palette-of-257", lambda: png(32, 32, ROWS, colour=3, extra=png_chunk(b"PLTE", bytes(257 * 3)))),
                   ("no-header", lambda: WHOLE[:8] + WHOLE[IDAT:]), ("wrong-checksum", lambda: WHOLE[:29] + b"abcd" + WHOLE[33:])):
    bad_picture("png", f"structure/{what}", ".png", lambda dice, made=made: made())
bad_picture("png", "structure/flips", ".png", lambda dice: with_flips(dice, WHOLE[:-12], IDAT))
bad_picture("png", "structure/deflate-noise", ".png", lambda dice: png(32, 32, packed=b"\x78\x9c" + dice.randbytes(3000)))
bad_picture("png", "structure/far-distance", ".png", lambda dice: png(32, 32, packed=b"\x78\x9c" + bytes.fromhex("4bfc3f00") * 9))


# --- JPEG, from the parts of a whole one


def segments(data):
    """[(marker, content)], the last one SOS with everything after it."""
    at, found = 2, []
    while data[at + 1] != 0xDA:
        size = struct.unpack_from(">H", data, at + 2)[0]
        found.append((data[at + 1], data[at + 4:at + 2 + size]))
        at += 2 + size
    return found + [(0xDA, data[at + 2:])]


def joined(parts):
    out = b"\xff\xd8"
    for marker, content in parts:
        out += bytes([0xFF, marker]) + (content if marker == 0xDA else struct.pack(">H", len(content) + 2) + content)
    return out


def bad_jpeg(attack, change, codes=65, **limits):
    name = f"jpeg/{attack}"
    command = COMMANDS[sum(map(ord, name)) % len(COMMANDS)]

    def make(site):
        whole = sorted(site.fixtures.get("chips").rglob("*.jpg"))[0].read_bytes()
        return on_pictures(site, "hostile.jpg", change(whole, segments(whole), site.random), command)
    says = ("hostile.jpg",) if isinstance(codes, int) and codes else ()
    case(name, codes, *says, **limits)(make)


def replaced(parts, marker, change):
    return joined([(known, change(content) if known == marker else content) for known, content in parts])


def sized(parts, height, width):
    return replaced(parts, 0xC0, lambda sof: sof[:1] + struct.pack(">HH", height, width) + sof[5:])


def progressive(parts, scans, side=2048):
    """A progressive file of many scans of nothing, each over the whole picture."""
    tables = [part for part in parts if part[0] in (0xDB, 0xC4)]
    frame = (0xC2, b"\x08" + struct.pack(">HH", side, side) + b"\x01\x01\x11\x00")
    scan = b"\xff\xda" + struct.pack(">H", 8) + b"\x01\x01\x00\x01\x3f\x00" + b"\x7f" * 64
    first = b"\xff\xda" + struct.pack(">H", 8) + b"\x01\x01\x00\x00\x00\x00" + bytes(64)
    return joined([*tables, frame]) + first + scan * scans + b"\xff\xd9"


for height, width in ((65_500, 65_500), (65_535, 1), (0, 128), (128, 0), (1, 65_535), (1_000, 65_535)):
    bad_jpeg(f"bomb/{height}x{width}", lambda whole, parts, dice, size=(height, width): sized(parts, *size))
bad_jpeg("bomb/20000x13000", lambda whole, parts, dice: sized(parts, 20_000, 13_000), memory_mb=900)  # within the limit of pixels
bad_jpeg("bomb/scans", lambda whole, parts, dice: progressive(parts, 3000))
bad_jpeg("bomb/segments", lambda whole, parts, dice: b"\xff\xd8" + (b"\xff\xe1\xff\xff" + bytes(65_533)) * 300 + whole[2:], (0, 65), why=BOUND)
bad_jpeg("bomb/padding", lambda whole, parts, dice: b"\xff\xd8" + b"\xff" * (4 << 20) + whole[3:], (0, 65), why=BOUND)
for share in (0.05, 0.3, 0.9):
    bad_jpeg(f"truncation/{share}", lambda whole, parts, dice, share=share: whole[:int(len(whole) * share)])
bad_jpeg("truncation/no-end-mark", lambda whole, parts, dice: whole[:-2])
bad_jpeg("truncation/marker-alone", lambda whole, parts, dice: b"\xff\xd8\xff")
bad_jpeg("overflow/huffman-counts", lambda whole, parts, dice: replaced(parts, 0xC4, lambda dht: dht[:1] + b"\xff" * 16 + dht[17:]))
bad_jpeg("overflow/segment-length", lambda whole, parts, dice: whole[:4] + b"\xff\xff" + whole[6:])
bad_jpeg("overflow/segment-length-0", lambda whole, parts, dice: whole[:4] + b"\0\0" + whole[6:], (0, 65), why="a note without length holds no pixel")
bad_jpeg("overflow/components", lambda whole, parts, dice: replaced(parts, 0xC0, lambda sof: sof[:5] + b"\xff" + sof[6:] * 85))
bad_jpeg("overflow/sampling", lambda whole, parts, dice: replaced(parts, 0xC0, lambda sof: sof[:7] + b"\xff" + sof[8:]))
bad_jpeg("structure/no-tables", lambda whole, parts, dice: joined([part for part in parts if part[0] not in (0xC4, 0xDB)]))
bad_jpeg("structure/no-frame", lambda whole, parts, dice: joined([part for part in parts if part[0] != 0xC0]))
bad_jpeg("structure/arithmetic", lambda whole, parts, dice: joined([(0xC9 if kind == 0xC0 else kind, rest) for kind, rest in parts]))
bad_jpeg("structure/12-bits", lambda whole, parts, dice: replaced(parts, 0xC0, lambda sof: b"\x0c" + sof[1:]))
bad_jpeg("structure/unknown-component", lambda whole, parts, dice: replaced(parts, 0xDA, lambda sos: sos[:3] + b"\x63" + sos[4:]))
bad_jpeg("structure/two-frames", lambda whole, parts, dice: joined([part for part in parts for _ in range(2 if part[0] == 0xC0 else 1)]))
bad_jpeg("structure/noise", lambda whole, parts, dice: joined(parts[:-1]) + b"\xff\xda" + parts[-1][1][:10] + dice.randbytes(4000))
bad_jpeg("structure/png-inside", lambda whole, parts, dice: picture(5), (0, 65), why="kinds are told by their first bytes, and it is a whole PNG")


@case("png/structure/half-of-a-class", 65, "hostile")
def half_of_a_class(site):
    """Every second picture is damaged: check lists them and keeps its sentence short."""
    site.pictures(40)
    dice = random.Random(3)
    for number in range(40):
        (site.data / "good" / f"hostile{number}.png").write_bytes(with_flips(dice, WHOLE[:-12], IDAT))
    site.config()
    return "check", "--config", "c.yaml"


@case("png/structure/replaced-without-end", 65, "max_bad")
def replaced_without_end(site):
    site.pictures(40)
    for number in range(30):
        (site.data / "good" / f"hostile{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    site.config({"data": {"split": {"valid": 0, "by": "sample"}, "loader": {"on_bad_sample": "replace", "max_bad": 3}}})
    return site.train()
