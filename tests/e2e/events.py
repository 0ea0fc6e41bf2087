"""Reads TensorBoard's event files: TFRecords of Event messages, by nothing but what their formats say."""

import collections
import struct

Event = collections.namedtuple("Event", "time step version scalars pictures")


def fields(message):
    """(number, value) of each field of a protobuf message: an int, or the bytes of what is longer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[at:at + size]
        at += size


def event(message):
    values, scalars, pictures = dict(fields(message)), {}, {}
    for _, value in fields(values.get(5, b"")):
        value = dict(fields(value))
        if 2 in value:
            scalars[value[1].decode()], = struct.unpack("<f", value[2])
        else:  # height, width, colours, a PNG file
            pictures[value[1].decode()] = dict(fields(value[4]))
    return Event(struct.unpack("<d", values[1])[0], values.get(2, 0), values.get(3, b"").decode(), scalars, pictures)


def of_run(run):
    """The events of a run, which has one file of them."""
    [path] = (run.folder / "tensorboard").glob("events.out.tfevents.*")
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        found.append(event(data[at + 12:at + 12 + size]))
        at += size + 16
    return found
