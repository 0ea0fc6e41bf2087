"""Which device computes: the CPU where there is no driver, a clear sentence where a GPU is wanted and cannot be had.

A stand-in for NVIDIA's driver (tests/unit/device) shows GPUs on a machine that has none; nothing is computed on them.
"""

import os
import pathlib
import subprocess
import unittest

import program

DRIVER = pathlib.Path(os.environ.get("DTRAIN_STAND_IN_DRIVER", program.ROOT / "build/release/stand_in_driver"))
REAL_DRIVER = any(pathlib.Path(folder, "libcuda.so.1").exists() for folder in
                  ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64"))
REHEARSAL = pathlib.Path(program.DTRAIN).resolve().parent.parent / "rehearsal"
SMALL = {"task": "multiclass", "model": {"name": "small_cnn"}, "batch": {"per_rank": 4}, "epochs": 1,
         "data": {"format": "synthetic", "synthetic": {"samples": 16, "classes": 2}, "image": {"size": [32, 32]}}}


def with_gpus(count, **more):
    return {"DTRAIN_CONFIG__DEVICE": "auto", "LD_LIBRARY_PATH": str(DRIVER), "STAND_IN_GPUS": str(count), **more}


@unittest.skipIf(REAL_DRIVER, "this machine has a driver: tests/gpu has more to say")
class DeviceTest(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)

    def test_without_a_driver_the_cpu_computes_and_info_says_why(self):
        told = self.good("info", "--json").json()
        self.assertEqual(told["devices"], ["cpu"])
        self.assertEqual(told["gpus"], [])
        self.assertRegex(told["why_no_gpu"], "no NVIDIA driver|no GPU code")
        ended = self.good("--config", "small.yaml", "--dry-run", "device=auto", ranks=2)
        self.assertIn("cpu", ended.err)

    def test_a_gpu_that_is_asked_for_and_not_there_is_a_configuration_error(self):
        for ranks in (None, 2):
            ended = self.call("--config", "small.yaml", "--dry-run", "device=cuda", ranks=ranks)
            self.fails(ended, 78, "device is cuda, but", rank=0 if ranks else None)

    def test_nccl_needs_gpus(self):
        self.fails(self.call("--config", "small.yaml", "--dry-run", "distributed.backend=nccl"), 78, "nccl, which connects GPUs")
        self.fails(self.call("--config", "small.yaml", "--dry-run", "distributed.backend=nccl", "device=cpu"), 78, "but device is cpu")

    def test_sharing_needs_mpi(self):
        ended = self.call("--config", "small.yaml", "distributed.share_device=true")
        self.assertEqual(ended.code, 78, ended)
        self.assertIn("needs distributed.backend: mpi", ended.err)

    def test_info_shows_what_a_driver_tells_and_why_it_is_not_used(self):
        told = self.good("info", "--json", env=with_gpus(2)).json()
        self.assertEqual([gpu["name"] for gpu in told["gpus"]], ["Stand-in GPU 0", "Stand-in GPU 1"])
        self.assertEqual(told["driver_cuda"], "13.1")
        self.assertTrue(told["why_no_gpu"], told)  # no GPU code, or LibTorch's CUDA part does not load here
        self.assertEqual(told["devices"], ["cpu"])
        old = self.good("info", "--json", env=with_gpus(1, STAND_IN_MAJOR="6")).json()
        self.assertRegex(old["why_no_gpu"], "compute capability 6.0|no GPU code")
        old = self.good("info", "--json", env=with_gpus(1, STAND_IN_CUDA="12040")).json()
        self.assertRegex(old["why_no_gpu"], "runs CUDA up to 12.4, and this build needs|no GPU code")
        self.good("--config", "small.yaml", "--dry-run", env=with_gpus(1, STAND_IN_CUDA="12040"))  # auto: on the CPU

    def test_ranks_without_a_gpu_of_their_own_are_refused_before_anything_is_loaded(self):
        if "no GPU code" in self.good("info", env=with_gpus(1)).out:
            self.skipTest("this build has no GPU code")
        # Every rank sees the one GPU, as under mpirun with --gpus-per-task.
        ended = self.call("--config", "small.yaml", "--dry-run", ranks=2, env=with_gpus(1))
        self.fails(ended, 78, "ranks 0 and 1 on", "have the same GPU", "--gpus-per-task", "share_device", rank=0)
        ended = self.call("--config", "small.yaml", "--dry-run", ranks=3, env=with_gpus(2))
        self.fails(ended, 78, "3 ranks but shows 2 GPUs", "ppr:2:node", rank=0)

    def test_a_gpu_that_cannot_be_used_is_told_in_one_line(self):
        told = self.good("info", "--json", env=with_gpus(1)).json()["why_no_gpu"]
        if "no GPU code" in told:
            self.skipTest("this build has no GPU code")
        if not told:  # LibTorch's CUDA part is there, and finds that the stand-in is not a driver
            self.fails(self.call("--config", "small.yaml", "--dry-run", env=with_gpus(1)), 78, "GPU 0 cannot be used")
            return
        for ranks in (None, 2):
            ended = self.good("--config", "small.yaml", "--dry-run", ranks=ranks, env=with_gpus(ranks or 1))
            self.assertIn("cannot be loaded", ended.err)  # a warning: the CPU computes
            ended = self.call("--config", "small.yaml", "--dry-run", "device=cuda", ranks=ranks, env=with_gpus(ranks or 1))
            self.fails(ended, 78, "device is cuda, but", "cannot be loaded", rank=0 if ranks else None)
        ended = self.call("--config", "small.yaml", "--dry-run", "distributed.backend=nccl", env=with_gpus(1))
        self.fails(ended, 78, "nccl, which connects GPUs, but", "cannot be loaded")

    def test_a_gpu_that_has_failed_ends_the_run_by_69_though_destructors_meet_it_too(self):
        if not (REHEARSAL / "bin/dtrain").exists():
            self.skipTest("this build has no rehearsal: no nccl.h")
        env = program.environment({"DTRAIN_HOST_GPU_PLANT": "sticky", "LD_LIBRARY_PATH": str(REHEARSAL / "lib")})
        ended = subprocess.run([REHEARSAL / "bin/dtrain", "--config", "small.yaml", "device=cuda", "--run-dir", "failed"],
                               cwd=self.folder, env=env, capture_output=True, text=True, timeout=100 * program.PATIENCE, check=False)
        self.assertEqual(ended.returncode, 69, ended.stderr)
        self.assertRegex(ended.stderr.splitlines()[-1], "^dtrain: error 69: (a GPU of .* failed: CUDA error: an illegal|LibTorch: CUDA error)")


if __name__ == "__main__":
    program.main(at_once=3)
