"""TFRecord files, tar archives, and either of them compressed as a whole."""

import gzip
import io
import json
import os
import struct
import tarfile
import threading
import time
import zlib

from kit import Call, case, crc32c, odd_file, picture, program
from pictures import bomb
from tables import cut, flip_to_link, swapped, vanish

# --- TFRecord


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, data, length=None):
    return bytes([number << 3 | 2]) + varint(len(data) if length is None else length) + data


def feature(name, value):
    if isinstance(value, bytes):
        kind = field(1, field(1, value))
    else:
        kind = field(3, field(1, varint(value)))
    return field(1, field(1, name.encode("utf-8", "surrogateescape")) + field(2, kind))


def example(features):
    return field(1, b"".join(feature(name, value) for name, value in features))


def good_records(count=12):
    return b"".join(record(example([("image/encoded", picture(number)), ("image/class/label", number % 2)])) for number in range(count))


GOOD = good_records()
ONE = example([("image/encoded", picture(30)), ("image/class/label", 1)])


def deep(levels):
    data = b"\x08\x01"
    for _ in range(levels):
        data = field(1, data)
    return data


def tfrecord(site, content, name="hostile.tfrecord", **data):
    (site.data / name).write_bytes(content)
    site.config({"data": {"format": "tfrecord", "split": {"valid": 0.2}, **data}})
    return "check", "--config", "c.yaml"


LENGTH = struct.pack("<Q", (1 << 63) + 5)
MANY_LABELS = field(1, field(1, b"image/class/label") + field(2, field(3, field(1, b"\1" * 2_000_000))))
for what, content in {
        "overflow/length-of-2-63": GOOD + LENGTH + masked(LENGTH) + bytes(100),
        "overflow/length-of-1-GiB": GOOD + struct.pack("<Q", 1 << 30) + masked(struct.pack("<Q", 1 << 30)) + bytes(100),
        "overflow/field-length": record(b"\x0a" + varint((1 << 63) - 1) + b"abc"),
        "overflow/varint": record(b"\x0a" + b"\xff" * 12 + b"abc"),
        "overflow/picture-length": GOOD + record(field(1, field(1, field(1, b"image/encoded") + field(2, field(1, field(1, b"abc", 1 << 40)))))),
        "depth/messages": GOOD + record(deep(2_000)),
        "bomb/features": GOOD + record(field(1, feature("x", 1) * 20_000)),
        "bomb/empty-records": record(b"") * 100_000,
        "bomb/values": GOOD + record(field(1, feature("image/encoded", picture(30)) + MANY_LABELS)),
        "structure/no-picture": GOOD + record(example([("image/class/label", 1)])),
        "structure/no-label": GOOD + record(example([("image/encoded", picture(30))])),
        "structure/wrong-checksum": GOOD[:-2] + b"xx",
        "structure/wrong-length-checksum": GOOD[:9] + b"x" + GOOD[10:],
        "structure/group-wire-type": GOOD + record(b"\x0b\x0b\x0b\x0c"),
        "structure/text-as-label": GOOD + record(example([("image/encoded", picture(30)), ("image/class/label", b"\xff\xfe")])),
        "structure/nested-picture": GOOD + record(example([("image/encoded", b"\x89PNG\r\n\x1a\n"), ("image/class/label", 1)])),
        "truncation/length": GOOD + b"\x05\0\0",
        "truncation/data": GOOD[:-500],
        "truncation/empty": b"",
}.items():
    case(f"tfrecord/{what}", (65, 66), "hostile" if content else "")(lambda site, content=content: tfrecord(site, content))


@case("tfrecord/truncation/anywhere", 65, "hostile")
def cut_record(site):
    starts, at = set(), 0
    while at < len(GOOD):
        starts.add(at)
        at += 16 + struct.unpack_from("<Q", GOOD, at)[0]
    return tfrecord(site, GOOD[:site.random.choice([place for place in range(1, len(GOOD)) if place not in starts])])


@case("tfrecord/overflow/label", (0, 65), why="without data.tfrecord.names a number is the name of a class")
def label(site):
    return tfrecord(site, GOOD + record(example([("image/encoded", picture(30)), ("image/class/label", (1 << 63) - 1)])))


@case("tfrecord/overflow/class-names", 65, "hostile")
def class_of_names(site):
    return tfrecord(site, GOOD + record(example([("image/encoded", picture(30)), ("image/class/label", 7)])), tfrecord={"names": ["a", "b"]})


# --- gzip and zlib


def gzipped(*pieces):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as file:
        for piece in pieces:
            file.write(piece)
    return out.getvalue()


def zeros(megabytes):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(megabytes)), packer.flush()])


@case("gzip/bomb/3-GB-of-zeros", (65, 71), "hostile", memory_mb=1500, seconds=30, long=True)
def three_gigabytes(site):
    return tfrecord(site, zeros(1 << 10) * 3, "hostile.tfrecord.gz")


@case("gzip/bomb/whole-300-MB", 65, "hostile", memory_mb=1.2 * 300 + 60)
def three_hundred(site):
    """A record of 300 MB that is complete but not an example: it may take at most 1.2 times its size in memory."""
    size = 300 << 20
    length = struct.pack("<Q", size)
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    pieces = [packer.compress(length + masked(length))] + [packer.compress(bytes(1 << 20)) for _ in range(300)]
    return tfrecord(site, b"".join(pieces) + packer.compress(b"abcd") + packer.flush(), "hostile.tfrecord.gz")


@case("gzip/bomb/tar-of-300-MB", 0, why="it is a whole archive, with a member that is not a picture", memory_mb=1.2 * 300 + 60)
def three_hundred_of_tar(site):
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    info = tarfile.TarInfo("notes.txt")
    info.size = 300 << 20
    pieces = [packer.compress(BODY), packer.compress(info.tobuf(tarfile.USTAR_FORMAT))]
    pieces += [packer.compress(bytes(1 << 20)) for _ in range(300)]
    return webdataset(site, b"".join([*pieces, packer.compress(bytes(1024)), packer.flush()]), "hostile.tar.gz")


@case("gzip/bomb/many-small-files", (65, 71), "hostile", memory_mb=1500, seconds=30, long=True)
def many_bombs(site):
    one = zeros(200)
    for number in range(15):
        (site.data / f"hostile{number}.tfrecord.gz").write_bytes(one)
    return tfrecord(site, one, "hostile.tfrecord.gz")


@case("gzip/bomb/zlib", (65, 71), "hostile", memory_mb=1500)
def zlib_bomb(site):
    return tfrecord(site, bomb(1000 << 20), "hostile.tfrecord.gz")


@case("gzip/bomb/members", (0, 65), why="members of nothing add nothing", memory_mb=300)
def empty_members(site):
    return tfrecord(site, gzipped(GOOD) + gzipped() * 100_000, "hostile.tfrecord.gz")


@case("gzip/bomb/within-a-limit", (65, 71), memory_mb=2000)
def within_a_limit(site):
    """If there is less memory than the file promises to need, the exit code is 71 or that for a bad file; never a
    crash."""
    return Call(*tfrecord(site, zeros(1 << 10), "hostile.tfrecord.gz"), through=program.limited("data", 500 << 20))


for what, content in {
        "truncation/half": gzipped(GOOD)[:-2000],
        "truncation/header": b"\x1f\x8b\x08",
        "structure/noise": b"\x1f\x8b\x08\0" + bytes(range(256)) * 4,
        "structure/tail": gzipped(GOOD) + b"and more",
        "structure/twice-compressed": gzipped(gzipped(GOOD)),
        "structure/wrong-sum": gzipped(GOOD)[:-6] + b"\0" * 6,
}.items():
    case(f"gzip/{what}", 65, "hostile")(lambda site, content=content: tfrecord(site, content, "hostile.tfrecord.gz"))

# --- tar

MEMBERS = [(f"{number:03}.{ending}", content) for number in range(12) for ending, content in (("png", picture(number)), ("cls", b"%d" % (number % 2)))]


def archive(members, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=options.get("format", tarfile.USTAR_FORMAT)) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            if isinstance(name, str):
                info.size = len(content)
            info.pax_headers = options.get("pax", {}).get(info.name, {})
            tar.addfile(info, io.BytesIO(content) if content else None)
    return out.getvalue()


def header(name=b"099.png", size=b"00000000010\0", kind=b"0", link=b"", fix=None):
    """One block with any numbers, and a correct checksum."""
    block = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size.ljust(12, b"\0") + b"00000000000\0" + b" " * 8 + kind
    block = (block + link.ljust(100, b"\0") + b"ustar\x0000").ljust(512, b"\0")
    return block[:148] + (b"%06o\0 " % sum(block) if fix is None else fix) + block[156:]


def webdataset(site, content, name="hostile.tar"):
    (site.data / name).write_bytes(content)
    site.config({"data": {"format": "webdataset", "split": {"valid": 0.2}}})
    return "check", "--config", "c.yaml"


def entry(name, kind=tarfile.REGTYPE, link="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


BODY = archive(MEMBERS)[:24 * 512 + sum((len(content) + 511) // 512 * 512 for _, content in MEMBERS)]
for what, content in {
        "overflow/size-octal": BODY + header(size=b"77777777777\0") + bytes(1024),
        "overflow/size-binary": BODY + header(size=b"\x80" + b"\xff" * 11) + bytes(1024),
        "overflow/size-negative": BODY + header(size=b"\xff" * 12) + bytes(1024),
        "overflow/size-letters": BODY + header(size=b"12x45678901\0") + bytes(1024),
        "overflow/pax-size": archive(MEMBERS + [("100.png", b"abc")], format=tarfile.PAX_FORMAT, pax={"100.png": {"size": "9" * 30}}),
        "overflow/pax-size-negative": archive(MEMBERS + [("100.png", b"abc")], format=tarfile.PAX_FORMAT, pax={"100.png": {"size": "-5"}}),
        "overflow/pax-record-length": BODY + header(b"x", b"00000000020\0", b"x") + b"99999999999999999 path=a\n".ljust(512, b"\0") + bytes(1024),
        "overflow/long-name": BODY + header(b"././@LongLink", b"00077777777\0", b"L") + bytes(1024),
        "bomb/names-in-a-row": BODY + (header(b"././@LongLink", b"00000000005\0", b"L") + b"abcd\0".ljust(512, b"\0")) * 20_000,
        "bomb/one-key": archive([(f"000.e{number}", b"1") for number in range(3_000)]),
        "bomb/label-of-2-MB": archive(MEMBERS + [("100.png", picture(30)), ("100.cls", b"1" * (2 << 20))]),
        "sparse/gnu": BODY + header(kind=b"S") + bytes(1024),
        "sparse/pax": archive(MEMBERS + [("100.png", b"abc")], format=tarfile.PAX_FORMAT, pax={"100.png": {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}}),
        "structure/volume": BODY + header(kind=b"M") + bytes(1024),
        "structure/wrong-checksum": BODY + header(fix=b"000000\0 ") + bytes(1024),
        "structure/twice": archive(MEMBERS + MEMBERS[:1]),
        "structure/no-label": archive(MEMBERS + [("100.png", picture(30))]),
        "structure/no-sample": archive([("a.txt", b"1"), ("b.txt", b"2")]),
        "structure/joined-by-cat": archive(MEMBERS) + archive([("100.png", picture(30)), ("100.cls", b"1")]),
        "structure/label-no-utf-8": archive(MEMBERS + [("100.png", picture(30)), ("100.cls", b"\xff\xfe")]),
        "structure/damaged-picture": archive(MEMBERS + [("100.png", picture(30)[:200]), ("100.cls", b"1")]),
        "truncation/member": BODY[:-700],
        "truncation/no-end-mark": BODY,
        "truncation/empty": b"",
        "truncation/text": b"<html>404</html>\n" * 100,
}.items():
    case(f"tar/{what}", (65, 66), "hostile" if content else "")(lambda site, content=content: webdataset(site, content))

# Members are read from the archive's bytes: a name is never used as a path, and links are skipped.
HARMLESS = "a member's name is the name of a sample and never a path; links are passed over"
for what, members in {
        "traversal/parent": [("../../home/.bashrc.png", picture(30)), ("../../home/.bashrc.cls", b"1")],
        "traversal/absolute": [("/etc/cron.d/x.png", picture(30)), ("/etc/cron.d/x.cls", b"1")],
        "links/symbolic": [(entry("100.png", tarfile.SYMTYPE, "../../home/.bashrc"), b""), ("100.cls", b"1")],
        "links/hard": [(entry("100.png", tarfile.LNKTYPE, "../../home/.bashrc"), b""), ("100.cls", b"1")],
        "links/device": [(entry("100.png", tarfile.CHRTYPE), b""), ("100.cls", b"1")],
        "links/fifo": [(entry("100.png", tarfile.FIFOTYPE), b""), ("100.cls", b"1")],
        "links/folder-named-png": [(entry("100.png", tarfile.DIRTYPE), b""), ("100.cls", b"1")],
}.items():
    def crossing(site, members=members):
        words = webdataset(site, archive(MEMBERS + members))
        return ("pack", *words[1:], "--output", "packed", "--to", "webdataset", "--progress", "none")
    case(f"tar/{what}", (0, 65), why=HARMLESS)(crossing)


@case("tar/depth/json-label", 65, "hostile")
def deep_json(site):
    content = archive([(name.replace(".cls", ".json"), data) for name, data in MEMBERS] + [("100.png", picture(30)), ("100.json", b"[" * 200_000)])
    (site.data / "hostile.tar").write_bytes(content)
    site.config({"data": {"format": "webdataset", "webdataset": {"label": "json:label"}}})
    return "check", "--config", "c.yaml"


@case("tar/depth/json-field", 65, "hostile")
def deep_json_field(site):
    text = b'{"label": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    (site.data / "hostile.tar").write_bytes(archive([("100.png", picture(30)), ("100.json", text)]))
    site.config({"data": {"format": "webdataset", "webdataset": {"label": "json:label"}}})
    return "check", "--config", "c.yaml"


@case("tar/overflow/json-number", 65, "hostile")
def json_number(site):
    members = [(f"{number:03}.{ending}", content) for number in range(4) for ending, content in
               (("png", picture(number)), ("json", json.dumps({"label": 10 ** (100 * number)}).encode()))]
    (site.data / "hostile.tar").write_bytes(archive(members))
    site.config({"data": {"format": "webdataset", "webdataset": {"label": "json:label", "names": ["a", "b"]}}})
    return "check", "--config", "c.yaml"


# --- odd files, links and swaps

for ground, maker, ending, content in (("tfrecord", tfrecord, ".tfrecord", GOOD), ("tar", webdataset, ".tar", archive(MEMBERS))):
    for kind in ("fifo", "zero", "folder", "socket", "dangling"):
        def odd(site, kind=kind, maker=maker, ending=ending, content=content):
            words = maker(site, content, "good" + ending)
            odd_file(site.data / ("hostile" + ending), kind)
            return words
        case(f"{ground}/odd-files/{kind}", (0, 65, 66, 74), why="what is not a regular file may be left out, with a note", seconds=8)(odd)

    def odd_root(site, ending=ending, maker=maker, content=content):
        maker(site, content, "good" + ending)
        odd_file(site.work / ("hostile" + ending), "fifo")
        return "check", "--config", "c.yaml", f"data.root={site.work}/hostile{ending}"
    case(f"{ground}/odd-files/fifo-as-root", (65, 66, 74), "hostile", seconds=8)(odd_root)

    def leads_out(site, ending=ending, maker=maker, content=content):
        words = maker(site, content, "good" + ending)
        site.write("secret" + ending, content)
        os.symlink("../cwd/secret" + ending, site.data / ("zzz" + ending))
        return words
    case(f"{ground}/links/leads-out", 65, "zzz")(leads_out)

    def shrinks(site, maker=maker, content=content, ending=ending):
        """Truncates the file while its records are read."""
        maker(site, content, "other" + ending)
        os.rename(site.data / ("other" + ending), site.work / ("hostile" + ending))

        def begin(started):
            def cut_it():
                time.sleep(site.random.uniform(0.1, 0.5))
                os.truncate(site.work / ("hostile" + ending), 3_000)
            thread = threading.Thread(target=cut_it)
            thread.start()
            return thread
        return Call("--config", "c.yaml", f"data.root={site.work}/hostile{ending}", "--run-dir", "run", "epochs=40", "--progress", "none", meanwhile=begin)
    case(f"{ground}/swaps/shrinks", (0, 65, 74), why="it may have ended before")(shrinks)

    for what, change in (("becomes-a-link", flip_to_link), ("vanishes", vanish), ("is-cut", cut)):
        def changing(site, change=change, maker=maker, ending=ending, content=content):
            words = maker(site, content, "good" + ending)
            os.rename(site.data / ("good" + ending), site.work / ("hostile" + ending))
            return Call(*words, f"data.root={site.work}/hostile{ending}", meanwhile=swapped(site.work / ("hostile" + ending), change))
        case(f"{ground}/swaps/{what}", (0, 65, 66, 74), why="it may have been whole when it was read")(changing)
