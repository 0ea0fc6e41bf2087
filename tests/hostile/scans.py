"""TIFF and its stacks, BMP, PNM, NumPy arrays and DICOM."""

import struct
import zlib

from kit import case
from pictures import BOUND, bad_picture, bomb, on_pictures

# --- TIFF


def entry(tag, kind, count, value):
    return struct.pack("<HHI", tag, kind, count) + (value if isinstance(value, bytes) else struct.pack("<I", value & 0xFFFFFFFF))


def tiff(changes=None, data=None, after=0, without=(), more=b"", number=None):
    """A grey picture of 32 × 32 in one strip. changes: {tag: (type, count, value)}."""
    data = bytes(range(256)) * 4 if data is None else data
    tags = {256: (4, 1, 32), 257: (4, 1, 32), 258: (3, 1, 8), 259: (3, 1, 1), 262: (3, 1, 1), 273: (4, 1, 8), 277: (3, 1, 1),
            278: (4, 1, 32), 279: (4, 1, len(data))}
    tags.update(changes or {})
    kept = [entry(tag, *tags[tag]) for tag in sorted(tags) if tag not in without]
    padded = data + b"\0" * (len(data) % 2)
    directory = struct.pack("<H", len(kept) if number is None else number) + b"".join(kept) + struct.pack("<I", after)
    return b"II*\0" + struct.pack("<I", 8 + len(padded)) + padded + directory + more


def chain(pages, close=None):
    """Many pages of one pixel; the last one points at the page `close`."""
    size = 2 + 12 * 9 + 4
    out = b"II*\0" + struct.pack("<I", 16) + bytes(8)
    for page in range(pages):
        after = 16 + size * (page + 1) if page + 1 < pages else 0 if close is None else 16 + size * close
        tags = [(256, 4, 1, 1), (257, 4, 1, 1), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, 1, 1)]
        out += struct.pack("<H", 9) + b"".join(entry(*tag) for tag in tags) + struct.pack("<I", after)
    return out


DEFLATED = {259: (3, 1, 8)}
for what, made in {
        "bomb/size": lambda: tiff({256: (4, 1, 100_000), 257: (4, 1, 100_000)}),
        "bomb/size-2-32": lambda: tiff({256: (4, 1, 0xFFFFFFFF), 257: (4, 1, 0xFFFFFFFF)}),
        "bomb/rows": lambda: tiff({257: (4, 1, 0xFFFFFFFF), 278: (4, 1, 0xFFFFFFFF)}),
        "bomb/samples-65535": lambda: tiff({277: (3, 1, 65_535)}),
        "bomb/cycle-of-pages": lambda: chain(3, 0),
        "bomb/page-of-itself": lambda: chain(1, 0),
        "bomb/pages-70000": lambda: chain(70_000),
        "truncation/header": lambda: b"II*\0",
        "truncation/directory": lambda: tiff()[:-20],
        "truncation/data": lambda: tiff({279: (4, 1, 1_024)}, bytes(500), number=8),
        "truncation/no-directory": lambda: b"II*\0" + struct.pack("<I", 5_000_000) + bytes(100),
        "truncation/deflate": lambda: tiff(DEFLATED, zlib.compress(bytes(range(256)) * 4)[:40]),
        "overflow/strip-offset": lambda: tiff({273: (4, 1, 0xFFFFFFF0)}),
        "overflow/strip-list": lambda: tiff({273: (4, 0x40000001, 8), 279: (4, 0x40000001, 8)}),
        "overflow/bits-65": lambda: tiff({258: (3, 1, 65)}),
        "overflow/bits-0": lambda: tiff({258: (3, 1, 0)}),
        "overflow/tiles-of-0": lambda: tiff({322: (4, 1, 0), 323: (4, 1, 0), 324: (4, 1, 8), 325: (4, 1, 64)}, without=(273, 278, 279)),
        "overflow/tile-size": lambda: tiff({322: (4, 1, 0xFFFFFFF0), 323: (4, 1, 0xFFFFFFF0), 324: (4, 1, 8), 325: (4, 1, 64)}, without=(273, 278, 279)),
        "overflow/big-offset": lambda: b"II+\0\x08\0\0\0" + struct.pack("<Q", (1 << 63) + 16) + bytes(64),
        "overflow/big-count": lambda: b"II+\0\x08\0\0\0" + struct.pack("<QQ", 16, (1 << 62) + 1) + bytes(200),
        "structure/width-0": lambda: tiff({256: (4, 1, 0)}),
        "structure/no-size": lambda: tiff(without=(256, 257)),
        "structure/no-strips": lambda: tiff(without=(273, 279)),
        "structure/tags-65535": lambda: tiff(number=65_535),
        "structure/compression-9999": lambda: tiff({259: (3, 1, 9999)}),
        "structure/lzw-noise": lambda: tiff({259: (3, 1, 5)}, bytes([0x80, 0x3F]) + b"\xff" * 500),
        "structure/packbits-overrun": lambda: tiff({259: (3, 1, 32_773)}, b"\x81\x41" * 3 + b"\x7f"),
        "structure/jpeg-noise": lambda: tiff({259: (3, 1, 7)}, b"\xff\xd8" + bytes(300)),
        "structure/fax-noise": lambda: tiff({259: (3, 1, 4), 258: (3, 1, 1)}, b"\xaa\x55\x01" * 100),
        "structure/floats": lambda: tiff({258: (3, 1, 32), 339: (3, 1, 3)}),
}.items():
    bad_picture("tiff", what, ".tif", lambda dice, made=made: made())
bad_picture("tiff", "bomb/deflate", ".tif", lambda dice: tiff(DEFLATED, bomb(500 << 20)), (0, 65), why=BOUND)
bad_picture("tiff", "overflow/strip-bytes", ".tif", lambda dice: tiff({279: (4, 1, 0xFFFFFFFF)}), (0, 65), why="all of its rows are in the file")
bad_picture("tiff", "overflow/text-of-4-GB", ".tif", lambda dice: tiff({270: (2, 0xFFFFFFFF, 8)}), (0, 65), why="a comment is not read")
bad_picture("tiff", "structure/rows-per-strip-0", ".tif", lambda dice: tiff({278: (4, 1, 0)}), (0, 65), why="one strip may hold all rows")
bad_picture("tiff", "structure/noise", ".tif", lambda dice: tiff()[:8] + dice.randbytes(2_000))

# --- BMP


def bmp(width=32, height=32, bits=24, compression=0, colours=0, offset=54, data=bytes(32 * 32 * 4), header=40, masks=b""):
    info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, 0, 0, 0, colours, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(data), 0, 0, offset) + info + masks + data


for what, made in {
        "bomb/size": lambda: bmp(100_000, 100_000),
        "bomb/size-2-31": lambda: bmp(0x7FFFFFFF, 0x7FFFFFFF),
        "bomb/rle": lambda: bmp(60_000, 60_000, 8, 1, 256, data=bytes(1024) + b"\0\1"),
        "overflow/height": lambda: bmp(32, -0x80000000),
        "overflow/width-negative": lambda: bmp(-32, 32),
        "overflow/offset": lambda: bmp(offset=0xFFFFFFF0),
        "overflow/header": lambda: bmp(header=0xFFFFFFFF),
        "overflow/product": lambda: bmp(0x10001, 0x10001, 32),
        "truncation/header": lambda: bmp()[:30],
        "truncation/rows": lambda: bmp(data=bytes(100)),
        "truncation/palette": lambda: bmp(bits=8, data=bytes(10)),
        "structure/bits-0": lambda: bmp(bits=0),
        "structure/bits-64": lambda: bmp(bits=64),
        "structure/compression-77": lambda: bmp(compression=77),
        "structure/rle-jump": lambda: bmp(bits=8, compression=1, colours=256, data=bytes(1024) + b"\0\2\xff\xff" * 50 + b"\5\1", offset=1078),
        "structure/rle-overrun": lambda: bmp(bits=8, compression=1, colours=256, data=bytes(1024) + b"\xff\1" * 900, offset=1078),
}.items():
    bad_picture("bmp", what, ".bmp", lambda dice, made=made: made())

bad_picture("bmp", "overflow/colours", ".bmp", lambda dice: bmp(bits=8, colours=0xFFFFFFFF), (0, 65), why="8 bits know 256 colours, whatever is promised")
bad_picture("bmp", "structure/masks-of-0", ".bmp", lambda dice: bmp(bits=32, compression=3, data=bytes(12) + bytes(32 * 32 * 4), offset=66), (0, 65),
            why="channels without bits are black")

# --- PNM

for what, content in {
        "bomb/size": b"P5 100000 100000 255\n" + bytes(100),
        "bomb/plain": b"P2 20000 20000 255\n" + b"1 " * 100,
        "bomb/depth": b"P7\nWIDTH 32\nHEIGHT 32\nDEPTH 4000000000\nMAXVAL 255\nENDHDR\n" + bytes(100),
        "overflow/width": b"P6 99999999999999999999 1 255\n" + bytes(100),
        "overflow/product": b"P6 4294967296 4294967296 255\n" + bytes(100),
        "overflow/maxval": b"P5 32 32 4294967297\n" + bytes(2048),
        "overflow/sample": b"P2 2 2 255\n1 2 3 99999999999999999999\n",
        "structure/maxval-0": b"P5 32 32 0\n" + bytes(1024),
        "structure/negative": b"P5 -32 32 255\n" + bytes(1024),
        "structure/size-0": b"P5 0 0 255\n",
        "structure/letters": b"P2 2 2 255\na b c d\n",
        "structure/type": b"P9 32 32 255\n" + bytes(1024),
        "structure/no-end-of-header": b"P7\nWIDTH 32\nHEIGHT 32\n",
        "truncation/header": b"P5 32",
        "truncation/rows": b"P6 32 32 255\n" + bytes(1000),
        "truncation/plain": b"P3 32 32 255\n" + b"1 " * 99,
}.items():
    bad_picture("pnm", what, ".pnm" if not content.startswith(b"P7") else ".pam", lambda dice, content=content: content)
bad_picture("pnm", "bomb/comment", ".pgm", lambda dice: b"P5\n#" + b"x" * (8 << 20))
bad_picture("pnm", "bomb/spaces", ".pgm", lambda dice: b"P5" + b" " * (8 << 20))

# --- NumPy arrays


def npy(kind="|u1", shape="(32, 32)", order="False", data=bytes(1024), version=b"\1\0", length=None, header=None):
    header = (f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n" if header is None else header).encode("latin-1")
    length = len(header) if length is None else length
    return b"\x93NUMPY" + version + struct.pack("<H" if version == b"\1\0" else "<I", length) + header + data


PICKLED = b"\x80\x04\x95\x1b\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R."  # numpy.load would run it if allowed to
for what, content in {
        "bomb/size": npy(shape="(100000, 100000)"),
        "bomb/size-within-limits": npy("<u2", "(8000, 8000, 4)"),
        "bomb/zero-by-huge": npy(shape="(0, 999999999999999999)"),
        "bomb/dimensions": npy(header="{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1, " * 3_000 + "), }"),
        "overflow/product": npy(shape="(4294967296, 4294967296, 4)"),
        "overflow/side": npy(shape="(18446744073709551617, 1)"),
        "overflow/side-2-63": npy(shape="(9223372036854775808, 1)"),
        "overflow/header-length": npy(version=b"\2\0", length=0xFFFFFFFF),
        "overflow/header-into-data": npy(length=1_100),
        "overflow/negative": npy(shape="(-32, -32)"),
        "depth/parentheses": npy(header="(" * 9_000),
        "depth/lists": npy(header="{'descr': " + "[" * 9_000),
        "truncation/magic": b"\x93NUMPY",
        "truncation/length": b"\x93NUMPY\2\0\x10\0",
        "truncation/header": npy()[:40],
        "truncation/values": npy(data=bytes(1_023)),
        "truncation/no-values": npy(data=b""),
        "structure/objects": npy("|O", data=PICKLED),
        "structure/stack": npy(shape="(30, 32, 32)", data=bytes(30 * 1024)),
        "structure/fields": npy(header="{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (32, 32), }"),
        "structure/expression": npy(header="__import__('os').system('true')"),
        "structure/sum": npy(header="{'descr': '|u1', 'fortran_order': False, 'shape': (16 + 16, 32), }"),
        "structure/two-shapes": npy(header="{'descr': '|u1', 'shape': (9, 9), 'fortran_order': False, 'shape': (32, 32), }"),
        "structure/two-arrays": npy() + npy(),
        "structure/version-9": npy(version=b"\x09\0"),
        "structure/kind-escapes": npy("\x1b[2J\n"),
        "structure/bool-2": npy("|b1", data=b"\2" * 1024),
}.items():
    bad_picture("npy", what, ".npy", lambda dice, content=content: content)
bad_picture("npy", "structure/noise", ".npy", lambda dice: npy()[:10] + dice.randbytes(1_100))

# --- DICOM, explicit VR, little endian

LONG = (b"OB", b"OW", b"SQ", b"UN", b"UT")


def element(group, number, kind, value, length=None):
    length = len(value) if length is None else length
    head = struct.pack("<HH", group, number) + kind
    return head + (b"\0\0" + struct.pack("<I", length) if kind in LONG else struct.pack("<H", length & 0xFFFF)) + value


def text(value):
    return value + b" " * (len(value) % 2)


PLAIN, DEFLATED_SYNTAX, RLE = b"1.2.840.10008.1.2.1", b"1.2.840.10008.1.2.1.99", b"1.2.840.10008.1.2.5"


def dicom(changes=None, pixels=None, syntax=PLAIN, tail=b"", length=None, middle=b"", more_mb=0):
    """Grey, 32 × 32, 16 bits stored as 12. changes: {(group, element): (VR, value)}."""
    def short(value):
        return struct.pack("<H", value)
    elements = {(0x28, 2): (b"US", short(1)), (0x28, 4): (b"CS", b"MONOCHROME2 "), (0x28, 0x10): (b"US", short(32)), (0x28, 0x11): (b"US", short(32)),
                (0x28, 0x100): (b"US", short(16)), (0x28, 0x101): (b"US", short(12)), (0x28, 0x102): (b"US", short(11)), (0x28, 0x103): (b"US", short(0))}
    elements.update(changes or {})
    body = b"".join(element(*key, *value) for key, value in sorted(elements.items())) + middle
    body += element(0x7FE0, 0x10, b"OW", bytes(range(256)) * 8 if pixels is None else pixels, length) + tail
    if syntax == DEFLATED_SYNTAX:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        body = b"".join([packer.compress(body), *(packer.compress(bytes(1 << 20)) for _ in range(more_mb)), packer.flush()])
    uid = syntax + b"\0" * (len(syntax) % 2)
    meta = element(2, 1, b"OB", b"\0\1") + element(2, 2, b"UI", b"1.2.840.10008.5.1.4.1.1.7\0")
    meta += element(2, 3, b"UI", b"1.2.3.4\0") + element(2, 0x10, b"UI", uid)
    return bytes(128) + b"DICM" + element(2, 0, b"UL", struct.pack("<I", len(meta))) + meta + body


def short_of(value):
    return b"US", struct.pack("<H", value)


def nested(depth):
    """Nested sequences, none with a stated length."""
    head = struct.pack("<HH", 8, 0x1140) + b"SQ\0\0" + b"\xff" * 4 + b"\xfe\xff\x00\xe0" + b"\xff" * 4
    return head * depth


def rle(offsets):
    header = struct.pack("<16I", *offsets) + bytes(20)
    return b"\xfe\xff\x00\xe0" + bytes(4) + b"\xfe\xff\x00\xe0" + struct.pack("<I", len(header)) + header + b"\xfe\xff\xdd\xe0" + bytes(4)


for what, made in {
        "bomb/size": lambda: dicom({(0x28, 0x10): short_of(65_535), (0x28, 0x11): short_of(65_535)}),
        "bomb/frames": lambda: dicom({(0x28, 8): (b"IS", b"2147483647")[0:2]}),
        "bomb/samples": lambda: dicom({(0x28, 2): short_of(65_535)}),
        "depth/sequences-2000": lambda: dicom(middle=nested(2_000)),
        "depth/sequences-100000": lambda: dicom(middle=nested(100_000)),
        "overflow/pixel-length": lambda: dicom(length=0xFFFFFFFE),
        "overflow/bits-0": lambda: dicom({(0x28, 0x100): short_of(0)}),
        "overflow/bits-63": lambda: dicom({(0x28, 0x100): short_of(63), (0x28, 0x101): short_of(63), (0x28, 0x102): short_of(62)}),
        "overflow/high-bit": lambda: dicom({(0x28, 0x102): short_of(65_535)}),
        "overflow/rle-offsets": lambda: dicom(pixels=rle([15, *[0xFFFFFFF0] * 15]), syntax=RLE, length=0xFFFFFFFF),
        "truncation/preamble": lambda: bytes(128) + b"DICM",
        "truncation/pixels": lambda: dicom(pixels=bytes(100)),
        "truncation/file": lambda: dicom()[:-600],
        "structure/size-0": lambda: dicom({(0x28, 0x10): short_of(0)}),
        "structure/syntax": lambda: dicom(syntax=b"1.2.3.4.5.6.7.8"),
        "structure/noise": lambda: dicom()[:300] + bytes(range(256)) * 20,
}.items():
    bad_picture("dicom", what, ".dcm", lambda dice, made=made: made())
bad_picture("dicom", "bomb/deflate", ".dcm", lambda dice: dicom(syntax=DEFLATED_SYNTAX, more_mb=600), (0, 65), why=BOUND)
for what, value in (("nan", b"nan "), ("1e308", text(b"1e308")), ("words", text(b"wide"))):
    bad_picture("dicom", f"structure/window-{what}", ".dcm", lambda dice, value=value: dicom({(0x28, 0x1050): (b"DS", value), (0x28, 0x1051): (b"DS", value)}),
                (0, 65), why="a window that says nothing may be passed over")


# --- stacks: their pages are counted before anything is decoded


@case("stack/bomb/many-files", (0, 65), why="each page is a sample of one pixel", long=True)
def many_stacks(site):
    site.pictures()
    for number in range(20):
        (site.data / "good" / f"stack{number}.tif").write_bytes(chain(1_000))
    site.config()
    return "check", "--quick", "--config", "c.yaml"


@case("stack/bomb/pages-60000", (0, 65), why="each page is a sample of one pixel", long=True)
def one_tall_stack(site):
    site.pictures()
    (site.data / "good/hostile.tif").write_bytes(chain(60_000))
    site.config()
    return "check", "--quick", "--config", "c.yaml"


@case("stack/overflow/page-number", (65, 66), "hostile.tif")
def page_number(site):
    site.pictures()
    (site.data / "good/hostile.tif").write_bytes(chain(3))
    site.listed("good/hostile.tif#18446744073709551617\n")
    return "check", "--config", "c.yaml"


@case("stack/links/cycle-across-bytes", 65, "hostile.tif")
def overlapping_pages(site):
    """Each directory begins one byte after the one before it."""
    return on_pictures(site, "hostile.tif", b"II*\0\x08\0\0\0" + b"\x01\0" * 4_000, "check")
