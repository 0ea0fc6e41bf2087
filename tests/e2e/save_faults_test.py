"""A training run whose disk fails or that is killed while it saves keeps its older checkpoint, ends with the right
code, and continues from there to the same bits."""

import os
import shutil
import signal
import subprocess
import unittest

import program

SHIM = os.environ.get("DTRAIN_FAULT_SHIM", str(program.ROOT / "build/release/chaos/libfault_shim.so"))
CONFIG = {
    "epochs": 3,
    "seed": 9,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "checkpoint": {"keep": 2},
    "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.3, "stratify": True}},
}


def may_mount():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


class SaveFaults(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 24)
        cls.write_config("chips", CONFIG)
        ended = cls.faulty("whole", "none@0", DTRAIN_FAULT_TELL=str(cls.folder / "told"))
        assert ended.code == 0, ended
        cls.calls = int((cls.folder / "told").read_text())  # of a whole run in its checkpoints folder
        cls.hash = program.Run(cls.folder / "whole").hash()

    @classmethod
    def faulty(cls, name, fault, *words, ranks=None, **more):
        env = {"LD_PRELOAD": SHIM, "DTRAIN_FAULT_FOLDER": str(cls.folder / name / "checkpoints"), "DTRAIN_FAULT": fault, **more}
        return cls.call("--config", "chips.yaml", "--run-dir", cls.folder / name, *words, ranks=ranks, env=env)

    def test_killed_at_any_call_of_a_save_the_run_goes_on_to_the_same_bits(self):
        self.assertGreater(self.calls, 30)
        for part in range(4):  # chaos.saves tries every call, without training
            at = 1 + part * (self.calls - 1) // 3
            with self.subTest(f"kill@{at} of {self.calls}"):
                name = f"killed_{part}"
                self.assertEqual(self.faulty(name, f"kill@{at}").code, -signal.SIGKILL)
                ended = self.call("verify", name)
                self.assertEqual(ended.code, 0, ended)
                self.good("--config", "chips.yaml", "--run-dir", name)
                self.assertEqual(self.run_at(name).hash(), self.hash)
                self.assertEqual([path.name for path in (self.folder / name).rglob("*.tmp")], [])

    def test_a_disk_that_fails_from_some_save_on_ends_in_74_and_the_older_checkpoint_is_whole(self):
        for fault, sentence in (("ENOSPC", "No space left"), ("EIO", "Input/output error")):
            with self.subTest(fault):
                name = "full_" + fault
                self.fails(self.faulty(name, f"{fault}@{self.calls // 2}+"), 74, sentence, "checkpoint")
                self.good("verify", name)
                self.assertGreaterEqual(len(self.run_at(name).checkpoints()), 1)
                self.assertFalse(self.run_at(name).done())
                self.good("--config", "chips.yaml", "--run-dir", name)
                self.assertEqual(self.run_at(name).hash(), self.hash)

    def test_a_last_save_that_fails_is_tried_again_and_keeps_no_rank_waiting(self):
        words = ("distributed.watchdog.abort=8 s", "distributed.logical_ranks=1")
        last = self.calls * 5 // 6  # of three saves
        ended = self.faulty("again", f"ENOSPC@{last}", *words)
        self.assertEqual(ended.code, 0, ended)
        self.assertIn("NOT SAVED", ended.err)
        self.assertEqual(self.run_at("again").hash(), self.hash)
        words = ("distributed.watchdog.abort=8 s", "distributed.logical_ranks=2")
        self.fails(self.faulty("two", f"ENOSPC@{last}+", *words, ranks=2), 74, "No space left", "last checkpoint", rank=0)
        ended = self.faulty("two_again", f"ENOSPC@{last}", *words, ranks=2)
        self.assertEqual(ended.code, 0, ended)
        self.assertIn("NOT SAVED", ended.err)
        self.good("verify", "two_again")

    def test_short_and_interrupted_writes_are_carried_on(self):
        for fault in ("short@3+", "EINTR@3"):
            with self.subTest(fault):
                name = "carried_" + fault[:5]
                ended = self.faulty(name, fault)
                self.assertEqual(ended.code, 0, ended)
                self.assertEqual(self.run_at(name).hash(), self.hash)
                self.good("verify", name)

    def test_a_limit_on_the_size_of_files_ends_in_74_and_not_in_a_signal(self):
        size = self.run_at("whole").checkpoints()[-1].stat().st_size
        ended = self.call("--config", "chips.yaml", "--run-dir", "limited", through=program.limited("fsize", size // 2))
        self.fails(ended, 74, "File too large")
        self.assertEqual(list((self.folder / "limited/checkpoints").iterdir()), [])

    def test_a_limit_on_memory_ends_in_71_wherever_it_is_met(self):
        codes = []
        for megabytes in range(320, 4000, 10):  # from too little for the dynamic linker (127) to enough
            codes.append(self.call("check", "--config", "chips.yaml", through=program.limited("as", megabytes * 1_000_000)).code)
            if codes[-4:] == [0] * 4:
                break
        self.assertLessEqual(set(codes), {0, 71, 127})
        self.assertGreaterEqual(codes.count(71), 3, codes)

    @unittest.skipUnless(may_mount(), "mounting a small file system takes root and unshare")
    def test_a_full_file_system_keeps_what_was_saved(self):
        size = self.run_at("whole").checkpoints()[-1].stat().st_size
        for room, saved in ((64 << 10, 0), (size * 2, 1)):
            with self.subTest(f"{room} bytes"):
                disk = self.folder / f"disk_{room}"
                disk.mkdir()
                script = (f"mount -t tmpfs -o size={room} none {disk} && {{ {program.DTRAIN} --config chips.yaml --run-dir {disk}/run; "
                          f"echo code $?; ls {disk}/run/checkpoints; {program.DTRAIN} verify {disk}/run; echo code $?; }}")
                ended = program.Started((), cwd=self.folder, line=["unshare", "-m", "bash", "-c", script]).wait(60)
                codes = [line for line in ended.out.splitlines() if line.startswith("code ")]
                self.assertEqual(codes, ["code 74", "code 0"], ended)
                self.assertIn("No space left on device", ended.err)
                names = [line for line in ended.out.splitlines() if line.startswith("epoch-")]
                self.assertEqual(len(names), saved, ended)
                self.assertFalse(any(name.endswith(".tmp") for name in names), ended)


if __name__ == "__main__":
    program.main(at_once=3)
