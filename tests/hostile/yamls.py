"""YAML: configurations that expand without bounds, refer to themselves, have other encodings, or are not files at
all."""

import os
import threading
import time

from kit import Call, case, odd_file

HEAD = "data: {format: image_folder, root: ../data, image: {size: [32, 32]}}\nmodel: {name: small_cnn}\n"
DEEP = 200_000


def laughs(levels, lists=True):
    """Aliases of aliases."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]" if lists else "a0: &a0 {a: x, b: x, c: x}"]
    for level in range(1, levels):
        if lists:
            lines.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 9) + "]")
        else:
            lines.append(f"a{level}: &a{level} {{" + ", ".join(f"{key}: *a{level - 1}" for key in "abc") + "}")
    return "\n".join(lines) + "\n"


TEXTS = {
    "bomb/laughs-in-lists": laughs(40),
    "bomb/laughs-in-groups": laughs(60, False),
    "bomb/laughs-in-a-known-key": laughs(30) + HEAD.replace("size: [32, 32]", "mean: *a29"),
    "bomb/keys": "".join(f"k{number}: 1\n" for number in range(80_000)),
    "bomb/anchors": "".join(f"k{number}: &n{number} 1\n" for number in range(40_000)),
    "bomb/list": HEAD + "loss: {pos_weight: [" + "1," * 400_000 + "1]}\n",
    "bomb/larger-than-the-limit": HEAD + "#" + "x" * 3_000_000,
    "bomb/documents": "---\na: 1\n" * 60_000,
    "depth/lists": "data: " + "[" * DEEP,
    "depth/groups": "data: " + "{a: " * DEEP,
    "depth/blocks": "".join(" " * level + "a:\n" for level in range(1_000)),
    "depth/dashes": "data: \n  " + "- " * DEEP,
    "depth/questions": "? " * DEEP,
    "depth/flow-pairs": "[a: " * DEEP,
    "cycles/itself": "data: &a [*a]\n",
    "cycles/group": "data: &a {root: *a}\n",
    "cycles/two": "data: &a {x: &b [*a, *b]}\n",
    "keys/twice": HEAD + "epochs: 1\nepochs: 2\n",
    "keys/merge": "base: &b {epochs: 3}\n<<: *b\n" + HEAD,
    "keys/group-as-key": "{a: 1}: 2\n" + HEAD,
    "keys/list-as-key": "[a, b]: 2\n" + HEAD,
    "keys/empty": ": 1\n" + HEAD,
    "keys/tag": HEAD + "epochs: !!python/object/apply:os.system [ls]\n",
    "numbers/huge": HEAD + "epochs: " + "9" * 100_000 + "\n",
    "numbers/exponent": HEAD + "optimizer: {learning_rate: 1e999999999}\n",
    "numbers/negative": HEAD + "seed: -18446744073709551616\n",
    "numbers/beyond": HEAD + "data.image.size: 1\nbatch: {per_rank: 18446744073709551617}\n",
    "encoding/nul": HEAD + "name: a\0b\n",
    "encoding/utf-16": (HEAD + "nonsense: 1\n").encode("utf-16"),
    "encoding/utf-32": (HEAD + "nonsense: 1\n").encode("utf-32"),
    "encoding/latin-1": (HEAD + "name: caf\xe9\n").encode("latin-1"),
    "encoding/binary": bytes(range(256)) * 100,
    "encoding/surrogates": HEAD.encode() + b"name: \xed\xa0\x80\n",
    "truncation/quote": HEAD + 'name: "abc',
    "truncation/group": HEAD + "batch: {per_rank: 4",
    "truncation/escape": HEAD + 'name: "\\x',
    "truncation/empty": "",
}
for what, content in TEXTS.items():
    def broken(site, content=content):
        site.pictures()
        site.write("hostile.yaml", content)
        return "check", "--config", "hostile.yaml"
    case(f"yaml/{what}", 78, *(() if what == "truncation/empty" else ("hostile.yaml",)))(broken)


@case("yaml/encoding/one-mark", 0, why="a byte order mark before UTF-8 is what editors write")
def one_mark(site):
    site.pictures()
    site.write("hostile.yaml", b"\xef\xbb\xbf" + HEAD.encode())
    return "check", "--config", "hostile.yaml"


@case("yaml/bomb/scalar", (74, 78))
def scalar(site):
    """A name of a million letters would be a folder that no file system can make."""
    site.pictures()
    site.write("hostile.yaml", HEAD + "name: " + "x" * 1_000_000 + "\n")
    return "--config", "hostile.yaml", "--progress", "none"


@case("yaml/bomb/variables", 78, "hostile.yaml")
def variables(site):
    """A variable whose value contains its own name is not expanded again."""
    site.pictures()
    site.write("hostile.yaml", HEAD + 'data.x: "${A}"\nseed: "${A}"\n')
    return Call("check", "--config", "hostile.yaml", env={"A": "${A}${A}"})


@case("yaml/bomb/environment", 78, "DTRAIN_CONFIG__")
def environment(site):
    site.pictures()
    return Call("check", "--config", site.config(), env={"DTRAIN_CONFIG__DATA__ROOT": "[" * 100_000})


@case("yaml/bomb/override", 78, "command line")
def override(site):
    site.pictures()
    return Call("check", "--config", site.config(), "data=" + "{a: " * 20_000)


@case("yaml/names/escape-in-a-key", 78, "hostile.yaml")
def escape_in_a_key(site):
    site.write("hostile.yaml", HEAD + '"\\e]0;owned\\a\\e[2J": 1\n"a\\ndtrain: error 0: all good": 2\n')
    return "check", "--config", "hostile.yaml"


@case("yaml/names/escape-in-a-value", 78, "hostile.yaml")
def escape_in_a_value(site):
    site.write("hostile.yaml", HEAD + 'task: "multi\\e[31m\\u202eclass\\n"\n')
    return "check", "--config", "hostile.yaml"


@case("yaml/names/run-name", 78, "name")
def run_name(site):
    site.pictures()
    site.write("hostile.yaml", HEAD + 'name: "x\\e[31m\\ny"\n')
    return "--config", "hostile.yaml", "--limit-steps", "1"


@case("yaml/names/run-name-climbs", 78, "name")
def run_name_climbs(site):
    site.pictures()
    site.write("hostile.yaml", HEAD + "name: ../../neighbour/run\n")
    return "--config", "hostile.yaml", "--limit-steps", "1"


for kind in ("zero", "full", "folder", "socket", "loop", "dangling"):
    def odd(site, kind=kind):
        odd_file(site.work / "hostile.yaml", kind)
        return "check", "--config", "hostile.yaml"
    case(f"yaml/odd-files/{kind}", (65, 66, 74, 78), "hostile.yaml")(odd)


@case("yaml/odd-files/print-of-zero", (65, 74, 78), "/dev/zero")
def print_of_zero(site):
    return "--config", "/dev/zero", "--print-config"


# --- a pipe is right for a configuration, if somebody writes to it and stops


def piped(site, pieces):
    """A FIFO into which `pieces` are written as soon as somebody reads."""
    site.pictures()
    path = odd_file(site.work / "hostile.yaml", "fifo")

    def begin(started):
        def write():
            file = -1
            while file < 0 and started.process.returncode is None:
                try:
                    file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:
                    time.sleep(0.01)
            try:
                os.set_blocking(file, True)
                for piece in pieces:
                    os.write(file, piece)
            except OSError:
                pass
            finally:
                if file >= 0:
                    os.close(file)
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        return thread
    return Call("check", "--config", "hostile.yaml", meanwhile=begin)


case("yaml/pipes/whole", 0, why="a configuration may come through a pipe")(lambda site: piped(site, [HEAD.encode()]))
case("yaml/pipes/in-pieces", 0, why="a configuration may come through a pipe")(lambda site: piped(site, [letter.encode() for letter in HEAD]))
case("yaml/pipes/endless", 78, "hostile.yaml")(lambda site: piped(site, (b"# more\n" * 1_000 for _ in range(2_000))))
case("yaml/pipes/broken", 78, "hostile.yaml")(lambda site: piped(site, [b"data: {"]))


@case("yaml/pipes/nobody-writes", (66, 74, 78), "hostile.yaml", long=True)
def nobody_writes(site):
    odd_file(site.work / "hostile.yaml", "fifo")
    return "check", "--config", "hostile.yaml"
