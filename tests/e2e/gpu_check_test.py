"""scripts/gpu_check, rehearsed on the CPU: every part runs as it would on a GPU, and says what is wrong."""

import json
import os
import subprocess
import sys

import program

CHECK = program.ROOT / "scripts/gpu_check"


class GpuCheckTest(program.ProgramTest):
    def check(self, *words, env=None):
        return subprocess.run([sys.executable, "-B", str(CHECK), "--program", program.DTRAIN, *words], cwd=self.folder, text=True,
                              capture_output=True, env=program.environment(env), timeout=280, check=False)

    def test_a_rehearsal_passes_and_reports_every_part(self):
        ended = self.check("--device", "cpu", "--quick", "--python", "/bin/false", "--output", "report.json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["wrong"], [])
        self.assertEqual({part["state"] for part in report["parts"].values()}, {"passed"})
        told = {name: part["told"] for name, part in report["parts"].items()}
        self.assertEqual({name for name in told if name.startswith("train.")},
                         {f"train.{job}" for job in ("chexnet", "resnet50", "chips_cnn", "unet_microscopy")})
        for precision in ("fp32", "bf16"):
            hashes = told[f"bits.{precision}"]
            self.assertEqual(set(hashes), {"1 alone", "1 recorded", "2 sharing", "4 sharing"})
            self.assertEqual(len(set(hashes.values())), 1)
            self.assertTrue(all(told[f"graphs.{precision}"][way] > 0 for way in ("plain", "recorded")))
        self.assertEqual({name for name, row in told.items() if name.startswith("rates.") and row["dtrain"]["images_per_s"] > 0},
                         {f"rates.{model}.{precision}" for model in ("densenet121", "resnet50") for precision in ("fp32", "tf32", "bf16")})
        self.assertNotEqual(told["bits.fp32"]["1 alone"], told["bits.bf16"]["1 alone"])

    def test_what_goes_wrong_is_reported_and_returned(self):
        wrapper = self.folder / "broken"
        wrapper.write_text(f'#!/bin/sh\ncase "$*" in *precision=bf16*) exit 70 ;; esac\nexec "{program.DTRAIN}" "$@"\n')
        wrapper.chmod(0o755)
        ended = self.check("--device", "cpu", "--quick", "--only", "bits", "--program", str(wrapper))
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertEqual(len(json.loads(ended.stdout)["wrong"]), 5, ended.stdout)  # four runs, and no hash to compare

    def test_without_a_gpu_it_says_why_it_does_not_begin(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        ended = self.check()
        self.assertEqual(ended.returncode, 78, ended.stderr)
        self.assertIn("--device cpu rehearses", ended.stderr)


if __name__ == "__main__":
    program.main()
