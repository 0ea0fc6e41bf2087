"""How each source is compiled, as the build folder's compile_commands.json has it, without the precompiled headers, the unity
files and the flags that only GCC knows; and which files see LibTorch's headers, which take 10 s to parse."""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "repo"))
import tree  # noqa: E402

ALL = os.environ.get("DTRAIN_LINT_ALL") == "1"  # with the files that see LibTorch: scripts/lint --all
BUILD = pathlib.Path(os.environ.get("DTRAIN_BUILD_DIR", tree.ROOT / "build/release"))
FOLDERS = ["lib", "apps", "tests"]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
TORCH = re.compile(r"(torch|ATen|c10)/")


def words_of(command):
    """The compiler's arguments that decide what a file means: definitions, folders of headers, the language."""
    words = shlex.split(command)
    kept = [word for word in words if word.startswith(("-D", "-I", "-std="))]
    return kept + [part for word, folder in zip(words, words[1:]) if word == "-isystem" for part in (word, folder)]


def commands(root, build):
    """{source: words} of the sources of lib, apps and tests that this build folder compiles."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        file = pathlib.Path(entry["file"])
        unity = file.parent.name == "Unity"
        for source in map(pathlib.Path, INCLUDE.findall(file.read_text(encoding="utf-8"))) if unity else [file]:
            source = source.resolve()
            if source.suffix == ".cpp" and source.is_relative_to(root) and source.relative_to(root).parts[0] in FOLDERS:
                found[source] = words_of(entry["command"])
    return found


def one_of_each(lists):
    """The arguments of all lists, each once; `-isystem FOLDER` counts as one."""
    joined = {}
    for words in lists:
        pairs = iter(words)
        joined |= {(word, next(pairs)) if word == "-isystem" else (word,): None for word in pairs}
    return [word for pair in joined for word in pair]


@functools.cache
def included(path):
    """The names that a file includes."""
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


@functools.cache
def headers(path, folders):
    """The headers of these folders that a file includes, through others too."""
    found, ahead = set(), [path]
    while ahead:
        file = ahead.pop()
        candidates = [[folder / name for folder in (file.parent, *folders)] for name in included(file)]
        fresh = {header for header in [next(filter(pathlib.Path.is_file, files), None) for files in candidates] if header} - found
        found |= fresh
        ahead += fresh
    return frozenset(found)


@functools.cache
def sees_torch(path, folders):
    """Whether a file includes LibTorch, also through headers in these folders."""
    return any(TORCH.match(name) for file in {path} | headers(path, folders) for name in included(file))


def include_folders(root):
    return root / "lib", root / "apps/dtrain", root / "tests"


def side_by_side(work, items):
    """The results of work(item) for each item, as many at a time as there are cores."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return [line for lines in pool.map(work, items) for line in lines]
