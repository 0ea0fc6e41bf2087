#!/usr/bin/env python3
"""The libraries of a bundle: which it carries, which it finds on the node, and whether it is complete.

  libraries.py fill PREFIX --program BUILD/bin/dtrain --mpirun /usr/bin/mpirun --strip strip
  libraries.py check PREFIX

fill is the last step of cmake --install. It takes Open MPI's runtime and every library that the programs in PREFIX need
into PREFIX/lib, removes debugging symbols, and makes all of them find each other wherever PREFIX is moved. check lists
what is wrong with a bundle, a size above 60 MB among it, and ends with 1, or prints the size in bytes.
"""
import argparse
import os
import pathlib
import re
import shutil
import stat
import struct
import subprocess
import sys

LARGEST = 60_000_000  # bytes, all files together

# Libraries that a bundle finds on the node. Everything else that it needs must be in its own lib/.
OF_THE_NODE = {
    "LibTorch": r"libtorch(_\w+)?\.so|libc10(_\w+)?\.so|libcaffe2_nvrtc\.so|libshm\.so",
    # Beside LibTorch, in NVIDIA's wheels or a toolkit. A GPU module in lib/ may need these.
    "CUDA": r"lib(cudart|cupti|cublas|cublasLt|cudnn\w*|cufft|cufftw|cufile|curand|cusolver|cusolverMg|cusparse|cusparseLt|nccl"
            r"|nvrtc|nvJitLink|nvshmem_host)\.so\.\d+",
    "driver": r"libcuda\.so\.1|libnvidia-ml\.so\.1",
    # A process can have only one C library, which belongs to the node's kernel and loader. The compiler's libraries
    # must be as new as the newest of their users needs, LibTorch included. Every system whose glibc is new enough for a
    # bundle has them from GCC 12 or newer; a copy in the bundle could only be older.
    "glibc": r"ld-linux[\w-]*\.so\.\d|lib(c|m|pthread|dl|rt|util|resolv|anl)\.so\.\d|libmvec\.so\.1",
    "compiler": r"libstdc\+\+\.so\.6|libgcc_s\.so\.1",
}
ALLOWED = re.compile("|".join(f"(?:{pattern})" for pattern in OF_THE_NODE.values()))

# Plugins of Open MPI that need one of these are left out: drivers of network hardware, which would have to fit the
# node's kernel (Debian switches them off as well), and another programming model. Shared memory and TCP remain.
NOT_CARRIED = re.compile(r"lib(ucp|ucs|uct|ucm|fabric|psm2|psm_infinipath|ibverbs|rdmacm|oshmem|mca_common_(ofi|ucx|verbs))\.so")

DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 5, 14, 15, 29


class Wrong(Exception):
    """One sentence for the user, and the exit code."""

    def __init__(self, sentence, code=70):
        super().__init__(sentence)
        self.code = code


class Elf:
    """What the loader reads of a 64-bit program or library: names of libraries, search path."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.data = bytearray(self.path.read_bytes())
        offset, = struct.unpack_from("<Q", self.data, 0x20)
        size, count = struct.unpack_from("<HH", self.data, 0x36)
        segments = [struct.unpack_from("<IIQQQQQQ", self.data, offset + i * size) for i in range(count)]
        self.loaded = [(start, address, length) for kind, _, start, address, _, length, _, _ in segments if kind == 1]
        self.entries = []  # (offset in the file, tag, value)
        for kind, _, start, _, _, length, _, _ in segments:
            if kind == 2:
                for place in range(start, start + length, 16):
                    tag, value = struct.unpack_from("<qQ", self.data, place)
                    if tag == 0:
                        break
                    self.entries.append((place, tag, value))
        self.is_program = any(segment[0] == 3 for segment in segments)  # it names its loader

    def texts(self, *tags):
        names = next(self.in_file(value) for _, tag, value in self.entries if tag == DT_STRTAB) if self.entries else 0
        return [(place, names + value) for place, tag, value in self.entries if tag in tags]

    def in_file(self, address):
        return next(address - start + place for place, start, length in self.loaded if start <= address < start + length)

    def text(self, place):
        return self.data[place:self.data.index(0, place)].decode()

    def needed(self):
        return [self.text(place) for _, place in self.texts(DT_NEEDED)]

    def search_path(self):
        return [folder for _, place in self.texts(DT_RPATH, DT_RUNPATH) for folder in self.text(place).split(":")]

    def strange_folders(self):
        """Entries of the search path that depend on the working directory; an empty entry means that directory."""
        return [folder for folder in self.search_path() if not re.match(r"/|\$ORIGIN(/|$)", folder)]

    def newest_glibc(self):
        return max((int(found) for found in re.findall(rb"\0GLIBC_2\.(\d+)\b", self.data)), default=0)

    def set_search_path(self, path):
        """Sets DT_RPATH, in the room of the existing path: it applies to all that the program loads, also to plugins
        and what they need, and precedes LD_LIBRARY_PATH. DT_RUNPATH would apply only to what the program itself
        needs."""
        found = self.texts(DT_RPATH, DT_RUNPATH)
        if self.search_path() == [path] and self.data[found[0][0]] == DT_RPATH:
            return
        # The last word stays, because the linker may use it as the end of another name, too.
        room = self.text(found[0][1]).rfind("/") if found else -1
        if room < len(path):
            raise Wrong(f"{self.path} has no search path that could be replaced by {path}")
        entry, place = found[0]
        self.data[place:place + room] = path.encode().ljust(room, b"\0")
        self.data[place + room] = 0
        struct.pack_into("<q", self.data, entry, DT_RPATH)
        self.path.write_bytes(self.data)

    def drop_search_path(self):
        """Removes the search path: a library without one uses the program's, an empty one would prevent that."""
        dropped = {entry for entry, _ in self.texts(DT_RPATH, DT_RUNPATH)}
        if dropped:
            kept = [(tag, value) for place, tag, value in self.entries if place not in dropped]
            kept += [(0, 0)] * len(dropped)
            for (place, _, _), entry in zip(self.entries, kept):
                struct.pack_into("<qQ", self.data, place, *entry)
            self.path.write_bytes(self.data)


def elves(prefix, others=()):
    """All programs and libraries in a folder and its subfolders, except files that end in one of `others`."""
    found = []
    for path in sorted(pathlib.Path(prefix).rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix not in others:
            with open(path, "rb") as file:
                if file.read(5) == b"\x7fELF\x02":
                    found.append(Elf(path))
    return found


def output_of(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True,
                          env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}).stdout


class Search:
    """Where libraries are on this machine: where the build found them, then where the system's loader looks."""

    def __init__(self, program):
        self.folders = [*Elf(program).search_path(), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
        known = re.findall(r"^\s+(\S+) \(libc6,(?:x86-64|AArch64).*\) => (\S+)$", output_of(shutil.which("ldconfig") or "/sbin/ldconfig", "-p"), re.M)
        self.known = dict(reversed(known))

    def find(self, name, whose):
        for folder in filter(None, self.folders):
            if os.path.exists(f"{folder}/{name}"):
                return pathlib.Path(folder, name)
        if name in self.known:
            return pathlib.Path(self.known[name])
        raise Wrong(f"{name}, which {whose} needs, is not on this machine", 66)


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) or ".so" in target.name else 0o644)


def take_open_mpi(prefix, mpirun):
    """Copies Open MPI's programs, plugins and help texts to lib/openmpi, laid out as in the folder it was built for, so
    that OPAL_PREFIX names them all. Returns the files that were copied."""
    mpirun = pathlib.Path(mpirun).resolve()
    info, orted = mpirun.with_name("ompi_info"), mpirun.with_name("orted")
    if not info.exists() or not orted.exists():
        raise Wrong(f"a bundle needs Open MPI 4, and {mpirun} is none: ompi_info or orted is missing beside it", 78)
    told = dict(re.findall(r"^path:(\w+):(.*)$", output_of(info, "--parsable", "--path", "all"), re.M))
    home, copied = prefix / "lib/openmpi", []

    def take(source, target):
        copy(source, target)
        copied.append(pathlib.Path(source))

    take(mpirun, home / "bin/mpirun")
    take(orted, home / "libexec/orted")  # bin/orted is a script that names the bundle's parts to it
    for plugin in sorted(pathlib.Path(told["pkglibdir"]).glob("mca_*.so")):
        if not any(NOT_CARRIED.match(name) for name in Elf(plugin).needed()):
            take(plugin, home / os.path.relpath(plugin, told["prefix"]))
    for text in sorted(pathlib.Path(told["pkgdatadir"]).glob("help-*.txt")):
        take(text, home / os.path.relpath(text, told["prefix"]))
    (home / "etc").mkdir(exist_ok=True)
    (home / "etc/openmpi-mca-params.conf").write_text("# Settings of Open MPI for all jobs of this bundle: name = value\n")
    return copied


def take_libraries(prefix, search):
    """Copies what the files in the bundle need and the node does not have, until nothing is missing."""
    copied, todo = [], elves(prefix)
    while todo:
        elf = todo.pop()
        for name in elf.needed():
            if ALLOWED.fullmatch(name) or (prefix / "lib" / name).exists():
                continue
            source = search.find(name, elf.path.name)
            copy(source, prefix / "lib" / name)
            copied.append(source)
            todo.append(Elf(prefix / "lib" / name))
            if name.startswith("libpmix.so"):  # PMIx, which connects Open MPI to its launcher, has its own plugins and texts
                for text in sorted(source.resolve().parent.parent.glob("share/pmix/help-*.txt")):
                    copy(text, prefix / "lib/openmpi/share/pmix" / text.name)
                for plugin in sorted(source.resolve().parent.glob("pmix/*.so")):
                    copy(plugin, prefix / "lib/openmpi/lib/pmix" / plugin.name)
                    todo.append(Elf(prefix / "lib/openmpi/lib/pmix" / plugin.name))
    return copied


def take_licences(prefix, sources):
    """Copies the licences of the packages that the files came from; does nothing without Debian packages."""
    if not shutil.which("dpkg-query"):
        return
    paths = {str(spelt) for source in sources for real in (source, source.resolve())
             for spelt in (real, str(real).removeprefix("/usr"))}
    asked = subprocess.run(["dpkg-query", "-S", *sorted(paths)], capture_output=True, text=True, check=False).stdout
    for package in sorted(set(re.findall(r"^([^:\s,]+)[:,]", asked, re.M))):
        text = pathlib.Path("/usr/share/doc", package, "copyright")
        if text.exists():
            copy(text, prefix / "share/dtrain/licences" / package)


def fill(prefix, program, mpirun, strip):
    copied = take_open_mpi(prefix, mpirun)
    copied += take_libraries(prefix, Search(program))
    take_licences(prefix, copied)
    for elf in elves(prefix):
        elf.path.chmod(elf.path.stat().st_mode | stat.S_IWUSR)
        output_of(strip, "--strip-all" if elf.is_program else "--strip-unneeded", elf.path)
        elf = Elf(elf.path)
        if elf.is_program:
            elf.set_search_path("$ORIGIN/" + os.path.relpath(prefix / "lib", elf.path.parent))
        else:
            elf.drop_search_path()
    with open(prefix / "share/dtrain/bundle", "a", encoding="utf-8") as file:
        file.write(f"glibc 2.{max(elf.newest_glibc() for elf in elves(prefix))}\n")


def size_of(prefix):
    return sum(path.lstat().st_size for path in pathlib.Path(prefix).rglob("*") if not path.is_dir())


def violations(prefix, largest=None):
    """What is wrong with a bundle, one sentence each."""
    for elf in elves(prefix):
        place = elf.path.relative_to(prefix)
        for name in elf.needed():
            if not ALLOWED.fullmatch(name) and not (prefix / "lib" / name).exists():
                yield f"{place} needs {name}, which is neither in lib/ nor among what a node has"
        wanted = ["$ORIGIN/" + os.path.relpath(prefix / "lib", elf.path.parent)] if elf.is_program else []
        if elf.search_path() != wanted:
            yield f"{place} looks for libraries in {':'.join(elf.search_path()) or 'no folder'} instead of the bundle's lib"
    for path in pathlib.Path(prefix).rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(pathlib.Path(prefix).resolve()):
            yield f"{path.relative_to(prefix)} is a link that leads out of the bundle"
    if largest is not None and size_of(prefix) > largest:
        yield f"it has {size_of(prefix) / 1e6:.1f} MB; {largest / 1e6:g} MB is the limit"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["fill", "check"])
    parser.add_argument("prefix", type=pathlib.Path)
    parser.add_argument("--program", help="dtrain in the build folder, which knows where its libraries were found")
    parser.add_argument("--mpirun", help="mpirun of the Open MPI that dtrain was built with")
    parser.add_argument("--strip", help="the program that removes symbols")
    words = parser.parse_args()
    prefix = words.prefix.resolve()
    try:
        if words.step == "fill":
            fill(prefix, words.program, words.mpirun, words.strip)
        # Debug builds may be larger; bundles for other machines may not.
        found = list(violations(prefix, LARGEST if words.step == "check" else None))
        if found:
            print(*found, sep="\n", file=sys.stderr)
            return 1
        if words.step == "check":
            print(size_of(prefix))
        return 0
    except subprocess.CalledProcessError as failed:
        print(f"bundle: error: {' '.join(failed.cmd)} failed: {failed.stderr.strip()}", file=sys.stderr)
        return 70
    except Wrong as wrong:
        print(f"bundle: error: {wrong}", file=sys.stderr)
        return wrong.code


if __name__ == "__main__":
    sys.exit(main())
