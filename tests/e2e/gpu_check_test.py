"""scripts/gpu_check, rehearsed on the tests' GPU of host memory: every part runs as it would on a GPU, and finds what it is there for.

Four of the planted mistakes are drawn each time. All of them, from the top folder:

  DTRAIN_PROGRAM=build/release/bin/dtrain DTRAIN_COUNT=13 python3 -B tests/e2e/gpu_check_test.py GpuCheckTest.test_planted_mistakes_are_found
"""

import json
import os
import pathlib
import random
import subprocess
import sys

import program

CHECK = program.ROOT / "scripts/gpu_check"
REHEARSAL = pathlib.Path(program.DTRAIN).resolve().parent.parent / "rehearsal"
# dtrain with less to do: a small network is measured, and compared in place of DenseNet-121 and ResNet-50, on a few small pictures
# (mpi.streams has the deep networks). Rates mean nothing here.
LESS = f"""#!/bin/bash
words=("$@") network=(model.name=small_cnn model.dropout=0)
[[ "$*" != *model.name=unet* ]] || network=(model.base_width=4 model.levels=2)
for ((i = 0; i < ${{#words[@]}}; ++i)); do
  case ${{words[i]}} in
    bench) words+=("${{network[@]}}") ;;
    */bits.yaml) words=("${{words[@]:0:i+1}}" "${{network[@]}}" "data.image.size=[32,32]" batch.per_rank=2
                       data.synthetic.samples=32 "${{words[@]:i+1}}") ;;
    model.name=resnet50) [[ $1 == bench ]] || words[i]=model.name=small_cnn ;;
  esac
done
exec "{REHEARSAL}/bin/dtrain" "${{words[@]}}"
"""
# A mistake in the GPU (tests/support/host_gpu/planted.hpp) or in NCCL (tests/support/nccl/plan.hpp), and a part that must find it.
PLANTED = {
    "add": "tests.all",
    "pictures": "tests.all",
    "replay": "bits.fp32",
    "frozen": "train.chips_cnn",
    "drift": "bits.again",
    "ranks": "bits.uneven",
    "crash": "bits.clip",
    "forgets": "faults.killed",
    "memory": "rates.resnet50.fp32",
    "record": "graphs.fp32",
    "boundless": "faults.memory",
    "unavailable": "tests.all",
    "fault=error,rank=1,at=1": "comm",
}


class GpuCheckTest(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A folder as the build's own, with another program.
        here = cls.folder / "rehearsal"
        (here / "bin").mkdir(parents=True)
        (here / "lib").symlink_to(REHEARSAL / "lib")
        (here / "bin/test_gpu").symlink_to(REHEARSAL / "bin/test_gpu")
        (here / "bin/dtrain").write_text(LESS)
        (here / "bin/dtrain").chmod(0o755)

    def check(self, *words, env=None):
        return subprocess.run([sys.executable, "-B", str(CHECK), *words], cwd=self.folder, text=True, capture_output=True,
                              env=program.environment(env), timeout=880 * program.PATIENCE, check=False)

    def rehearse(self, *words, env=None):
        if not (REHEARSAL / "bin/dtrain").exists():
            self.skipTest("this build has no rehearsal: no nccl.h")
        return self.check("--rehearse", "--program", str(self.folder / "rehearsal/bin/dtrain"), *words, env=env)

    def test_a_rehearsal_passes_and_reports_every_part(self):
        ended = self.rehearse("--output", "report.json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["wrong"], [])
        self.assertEqual({part["state"] for part in report["parts"].values()}, {"passed"})
        told = {name: part["told"] for name, part in report["parts"].items()}
        self.assertEqual({name for name in told if name.startswith("train.")},
                         {f"train.{job}" for job in ("chexnet", "resnet50", "chips_cnn", "unet_microscopy")})
        ways = {"1 alone", "2 sharing"}
        all_ways = ways | {"1 recorded", "4 sharing", "2 nccl", "2 nccl recorded"}
        for name in ("again", "fp32", "tf32", "bf16", "fp16", "resnet50", "unet", "clip", "uneven"):
            hashes = told[f"bits.{name}"]
            self.assertEqual(set(hashes), {"again": {"1 first", "1 second", "1 third"}, "fp32": all_ways}.get(name, ways))
            self.assertEqual(len(set(hashes.values())), 1)
        for precision in ("fp32", "bf16"):
            self.assertTrue(all(told[f"graphs.{precision}"][way] > 0 for way in ("plain", "recorded")))
        self.assertEqual(set(told["tests.sanitizer"]), {"not_tried"})
        self.assertEqual(told["resume"]["the rest, 1 rank"], told["resume"]["without a stop"])
        self.assertEqual(told["comm"]["sums"]["ranks"], 2)
        self.assertEqual({name for name, row in told.items() if name.startswith("rates.") and row["dtrain"]["images_per_s"] > 0},
                         {f"rates.{model}.{precision}" for model in ("densenet121", "resnet50") for precision in ("fp32", "tf32", "bf16")})
        self.assertNotEqual(told["bits.fp32"]["1 alone"], told["bits.bf16"]["1 alone"])
        self.assertEqual(told["faults.killed"]["went on"], told["faults.killed"]["without it"])
        self.assertEqual([told["faults.stopped"]["code"], told["faults.memory"]["code"]], [76, 71])

    def test_planted_mistakes_are_found(self):
        count, seed = program.campaign(4)
        drawn = random.Random(seed).sample(list(PLANTED), min(count, len(PLANTED)))
        for mistake in drawn:
            name = PLANTED[mistake]
            variable = "DTRAIN_STAND_IN_NCCL" if "=" in mistake else "DTRAIN_HOST_GPU_PLANT"
            ended = self.rehearse("--only", name, env={variable: mistake})
            part = json.loads(ended.stdout)["parts"][name]
            with self.subTest(mistake, seed=seed):
                self.assertEqual((ended.returncode, part["state"], bool(part["wrong"])), (1, "wrong", True))
        print(f"DTRAIN_SEED={seed}: {', '.join(drawn)}", file=sys.stderr)

    def test_without_a_gpu_it_says_why_it_does_not_begin(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        ended = self.check("--program", program.DTRAIN)
        self.assertEqual(ended.returncode, 78, ended.stderr)
        self.assertIn("--rehearse", ended.stderr)


if __name__ == "__main__":
    program.main(at_once=2)
