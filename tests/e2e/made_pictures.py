"""Pictures whose pixels a test knows: rows of numbers, or of (red, green, blue), and their PNG files."""

import struct
import zlib


def drawn(random, height, width, colour, white=255):
    def pixel():
        return random.randrange(white + 1)
    return [[tuple(pixel() for _ in range(3)) if colour else pixel() for _ in range(width)] for _ in range(height)]


def png(rows, bits=8):
    grey = isinstance(rows[0][0], int)
    kind = "B" if bits == 8 else "H"
    raw = b"".join(b"\0" + struct.pack(f">{len(values)}{kind}", *values)
                   for values in ([value for pixel in row for value in ([pixel] if grey else pixel)] for row in rows))

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), bits, 0 if grey else 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def planes(rows):
    """[C][H][W]"""
    if isinstance(rows[0][0], int):
        return [rows]
    return [[[pixel[c] for pixel in row] for row in rows] for c in range(3)]
