"""The Containerfile tells the truth about this tree: it is built by people with podman, not by tests."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import tree

sys.path.insert(0, str(tree.ROOT / "cmake/bundle"))
import libraries  # noqa: E402

INSTRUCTION = re.compile(r"^(FROM|ARG|ENV|LABEL|COPY|RUN|USER|WORKDIR|ENTRYPOINT|CMD) (.*)$")
CACHE = pathlib.Path(os.environ.get("DTRAIN_CACHE") or pathlib.Path.home() / ".cache/dtrain")
OF_EVERY_SYSTEM = re.compile("|".join(libraries.OF_THE_NODE[name] for name in ("glibc", "compiler")))


def stages(text):
    """Each stage as a list of (instruction, its words as one text)."""
    found = [[]]
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        if line and not line.startswith("#"):
            match = INSTRUCTION.match(line)
            found += [[]] if match[1] == "FROM" else []
            found[-1].append((match[1], match[2]))
    return found


def let_in(ignore, name):
    """Whether a file or folder of the tree's root reaches the build."""
    return f"!{name}" in ignore.splitlines()


def files_of(name, root=tree.ROOT):
    return (root / name).read_text(encoding="utf-8")


class Container(tree.RuleTest):
    def setUp(self):
        before, self.build, self.final = stages(files_of("Containerfile"))
        self.base = dict(before)["ARG"]
        self.ignore = files_of(".dockerignore")

    def all_of(self, stage, name):
        return [words for instruction, words in stage if instruction == name]

    def test_both_stages_begin_with_one_image_of_a_system_that_set_up_knows(self):
        self.assertEqual(self.base, "BASE=debian:bookworm-slim")
        self.assertIn("Debian 12 or Ubuntu 24.04", files_of("scripts/setup"))
        for stage in (self.build, self.final):
            self.assertIn("${BASE}", self.all_of(stage, "FROM")[0])

    def test_the_project_s_own_scripts_install_build_and_bundle(self):
        commands = " && ".join(self.all_of(self.build, "RUN"))
        for script in ("scripts/setup", "scripts/bundle /opt/dtrain --build build/release"):
            self.assertIn(script, commands)
            self.assertTrue(os.access(tree.ROOT / script.split()[0], os.X_OK))
        self.assertIn("cmake --preset release -DBUILD_TESTING=OFF", commands)
        self.assertNotRegex("".join(words for stage in (self.build, self.final) for _, words in stage), r"apt-get|pip |curl|torch-\d")
        self.assertIn("DTRAIN_CACHE=/cache", self.all_of(self.build, "ENV"))

    def test_what_the_build_reads_reaches_it_and_nothing_else_does(self):
        cmake = files_of("CMakeLists.txt") + files_of("cmake/DtrainBundle.cmake")
        read = set(re.findall(r"add_subdirectory\((\w+)", cmake)) - {"tests"}
        read |= set(re.findall(r"install\(DIRECTORY (\w+) ", cmake)) | set(re.search(r"install\(FILES (README.*?) DEST", cmake)[1].split())
        self.holds([f".dockerignore keeps {name} out" for name in sorted(read | {"cmake", "scripts", "CMakeLists.txt", "CMakePresets.json"})
                    if not let_in(self.ignore, name)])
        named = re.findall(r"^!(.*)$", self.ignore, re.MULTILINE)
        self.holds([f".dockerignore names {name}, which is not there" for name in named if not (tree.ROOT / name).exists()])
        self.assertIn("*", self.ignore.splitlines())
        self.assertFalse(set(named) & {"build", "data", "runs", "sample", "tests", ".git"})
        copied = [name for words in self.all_of(self.build, "COPY") for name in shlex.split(words)[:-1]]
        self.holds([f"the Containerfile copies {name}, which is not there" for name in copied if not (tree.ROOT / name).exists()])

    def test_the_labels_are_the_project_s(self):
        project = re.search(r'project\(dtrain VERSION (\S+) DESCRIPTION "(.*)"', files_of("CMakeLists.txt"))
        labels = dict(word.split("=", 1) for word in shlex.split(self.all_of(self.final, "LABEL")[0]))
        told = {name.removeprefix("org.opencontainers.image."): text for name, text in labels.items()}
        self.assertEqual(told, {"title": "dtrain", "version": project[1], "description": project[2], "licenses": "Apache-2.0"})
        self.assertIn("Apache License", files_of("LICENSE"))

    def test_it_runs_dtrain_and_not_as_root(self):
        self.assertRegex(self.all_of(self.final, "USER")[0], r"^[1-9]\d*$")
        self.assertEqual(self.all_of(self.final, "ENTRYPOINT"), ['["dtrain"]'])
        self.assertTrue(self.all_of(self.final, "ENV")[0].startswith("PATH=/opt/dtrain/bin:"))
        self.assertEqual(self.all_of(self.final, "COPY"), ["--from=build /opt /opt"])

    def test_it_takes_every_library_that_libtorch_s_cpu_half_needs(self):
        installed = sorted(CACHE.glob("torch-*"))
        if not installed or not shutil.which("readelf"):
            self.skipTest("scripts/setup has fetched no LibTorch, or there is no readelf")
        there = {path.name: path for path in [*installed[-1].glob("torch/lib/*.so*"), *installed[-1].glob("nvidia/*/lib/*.so*")]}
        needed, todo = set(), ["libtorch_cpu.so"]
        while todo:
            name = todo.pop()
            if name not in needed and not OF_EVERY_SYSTEM.fullmatch(name):
                needed.add(name)
                told = subprocess.run(["readelf", "-d", there[name]], check=True, capture_output=True, text=True).stdout
                todo += re.findall(r"\(NEEDED\).*\[(.*)\]", told)
        copied = set(re.findall(r"/(lib[^/\s]+\.so\S*)", " ".join(self.all_of(self.build, "RUN"))))
        self.assertEqual(copied, needed)


if __name__ == "__main__":
    tree.main()
