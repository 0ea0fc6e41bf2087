#!/usr/bin/env python3
"""Packs a bundle as a wheel, which pip installs into any Python environment, with LibTorch as pip's torch.

  wheel.py BUNDLE FOLDER

writes FOLDER/dtrain-VERSION-py3-none-manylinux_2_GLIBC_ARCH.whl and prints its path. In site-packages the folder dtrain is
the bundle, without its tests. The same bundle gives the same bytes; files are dated SOURCE_DATE_EPOCH, else 1980.
"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import sys
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SHARE = pathlib.PurePath("share/dtrain")
NOT_CARRIED = (SHARE / "tests", SHARE / "run_tests")
LICENCES = SHARE / "licences"
OLDEST_DATE = 315532800  # a zip archive knows no date before 1980

COMMANDS = """[console_scripts]
dtrain = dtrain:program
dtrain-mpirun = dtrain:mpirun
"""

START = """
## From this wheel

    dtrain sample --kind chips --output sample/chips
    dtrain init sample/chips --output chips.yaml
    dtrain-mpirun -np 2 --bind-to none dtrain --config chips.yaml epochs=4

`dtrain help` explains the commands; `python3 -c "import dtrain; print(dtrain.share)"` prints the folder with configurations,
scripts and documentation, in which `docs/bundle.md` tells about this wheel.
"""


def metadata(facts, readme, licences):
    """METADATA: what pip reads, then what people read of the README, without links into the sources."""
    summary = re.search(r'DESCRIPTION "(.*)"', (HERE.parent.parent / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    head = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", readme.partition("\n## ")[0]).rstrip()
    return "\n".join([
        "Metadata-Version: 2.4", "Name: dtrain", f"Version: {facts['dtrain']}", f"Summary: {summary}",
        *(f"License-File: {name}" for name in licences),
        "Classifier: Operating System :: POSIX :: Linux", "Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Requires-Python: >=3.10", f"Requires-Dist: torch=={facts['libtorch'].partition('+')[0]}",
        "Description-Content-Type: text/markdown", "", head, START])


def carried(bundle):
    """(path in the bundle, file) of what a wheel has of it, sorted."""
    for path in sorted(bundle.rglob("*")):
        place = path.relative_to(bundle)
        if not path.is_dir() and "__pycache__" not in place.parts and not any(place.is_relative_to(other) for other in NOT_CARRIED):
            yield place, path


def contents(bundle):
    """(name in the archive, bytes, whether it is a program), the dist-info folder last, and the wheel's tag."""
    facts = dict(line.split() for line in (bundle / SHARE / "bundle").read_text(encoding="utf-8").splitlines())
    tag = f"py3-none-manylinux_{facts['glibc'].replace('.', '_')}_{platform.machine()}"
    info = f"dtrain-{facts['dtrain']}.dist-info"
    files, licences = [], {}
    for place, path in carried(bundle):
        if place == SHARE / "LICENSE" or place.is_relative_to(LICENCES):
            licences[path.name] = path.read_bytes()
        else:
            files.append((f"dtrain/{place}", path.read_bytes(), os.access(path, os.X_OK)))
    files += [(f"dtrain/{path.name}", path.read_bytes(), False) for path in sorted((HERE / "python").glob("*.py"))]
    readme = (bundle / SHARE / "README.md").read_text(encoding="utf-8")
    texts = {"METADATA": metadata(facts, readme, licences), "entry_points.txt": COMMANDS,
             "WHEEL": f"Wheel-Version: 1.0\nGenerator: dtrain\nRoot-Is-Purelib: false\nTag: {tag}\n"}
    files += [(f"{info}/licenses/{name}", text, False) for name, text in licences.items()]
    files += [(f"{info}/{name}", text.encode(), False) for name, text in texts.items()]
    record = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
              for name, data, _ in files]
    files.append((f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]).encode(), False))
    return files, tag, facts["dtrain"]


def pack(bundle, folder):
    """Writes the wheel and returns its path. It appears complete or not at all."""
    files, tag, version = contents(bundle)
    date = time.gmtime(max(OLDEST_DATE, int(os.environ.get("SOURCE_DATE_EPOCH") or 0)))[:6]
    target = folder / f"dtrain-{version}-{tag}.whl"
    part = target.with_name(target.name + ".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, is_program in files:
            entry = zipfile.ZipInfo(name, date)
            entry.create_system = 3  # Unix: the mode below holds
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    part.replace(target)
    return target


def main():
    if len(sys.argv) != 3:
        print("wheel.py: error: BUNDLE and FOLDER, please", file=sys.stderr)
        return 64
    print(pack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
