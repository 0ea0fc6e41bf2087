"""scripts/gpu_check, rehearsed on the CPU: every part runs as it would on a GPU, and reports what is wrong."""

import json
import os
import pathlib
import subprocess
import sys

import program

CHECK = program.ROOT / "scripts/gpu_check"
# dtrain with less to do: a small network is measured, and compared in place of DenseNet-121 and ResNet-50, on a few small pictures
# (same_bits_test.py has the deep networks). On a CPU rates mean nothing, and only the script is rehearsed.
LESS = f"""#!/bin/bash
words=("$@") network=(model.name=small_cnn model.dropout=0)
[[ "$*" != *model.name=unet* ]] || network=()
for ((i = 0; i < ${{#words[@]}}; ++i)); do
  case ${{words[i]}} in
    bench) words+=("${{network[@]}}") ;;
    */bits.yaml) words=("${{words[@]:0:i+1}}" "${{network[@]}}" "data.image.size=[32,32]" batch.per_rank=2
                       data.synthetic.samples=32 "${{words[@]:i+1}}") ;;
    model.name=resnet50) [[ $1 == bench ]] || words[i]=model.name=small_cnn ;;
  esac
done
exec "{program.DTRAIN}" "${{words[@]}}"
"""
# A program whose runs in bf16 fail, and whose other runs leave the files that the script compares.
BROKEN = f"""#!/bin/bash
line="$*"
case $line in
  *precision=bf16*) exit 70 ;;
  *--run-dir*) folder=${{line#*--run-dir }} && mkdir -p "${{folder%% *}}" && echo '{{"result_sha256": "0123"}}' >"${{folder%% *}}/run.json" ;;
  *) exec "{program.DTRAIN}" "$@" ;;
esac
"""


class GpuCheckTest(program.ProgramTest):
    def script(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)
        return self.folder / name

    def check(self, *words, env=None, dtrain=program.DTRAIN):
        return subprocess.run([sys.executable, "-B", str(CHECK), "--program", str(dtrain), *words], cwd=self.folder, text=True,
                              capture_output=True, env=program.environment(env), timeout=880 * program.PATIENCE, check=False)

    def test_a_rehearsal_passes_and_reports_every_part(self):
        (self.folder / "test_gpu").symlink_to(pathlib.Path(program.DTRAIN).resolve().with_name("test_gpu"))  # looked for beside it
        ended = self.check("--device", "cpu", "--quick", "--python", "/bin/false", "--output", "report.json", dtrain=self.script("less", LESS))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        report = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["wrong"], [])
        self.assertEqual({part["state"] for part in report["parts"].values()}, {"passed"})
        told = {name: part["told"] for name, part in report["parts"].items()}
        self.assertEqual({name for name in told if name.startswith("train.")},
                         {f"train.{job}" for job in ("chexnet", "resnet50", "chips_cnn", "unet_microscopy")})
        ways = {"1 alone", "2 sharing"}
        for name in ("again", "fp32", "bf16", "resnet50", "unet", "clip", "uneven"):
            hashes = told[f"bits.{name}"]
            self.assertEqual(set(hashes), {"again": {"1 first", "1 second", "1 third"},
                                           "fp32": ways | {"1 recorded", "4 sharing"}}.get(name, ways))
            self.assertEqual(len(set(hashes.values())), 1)
        for precision in ("fp32", "bf16"):
            self.assertTrue(all(told[f"graphs.{precision}"][way] > 0 for way in ("plain", "recorded")))
        self.assertEqual(set(told["bits.tf32"]) | set(told["bits.fp16"]) | set(told["tests.sanitizer"]), {"not_tried"})
        self.assertEqual(told["resume"]["the rest, 1 rank"], told["resume"]["without a stop"])
        self.assertEqual(told["comm"]["sums"]["ranks"], 2)
        self.assertEqual({name for name, row in told.items() if name.startswith("rates.") and row["dtrain"]["images_per_s"] > 0},
                         {f"rates.{model}.{precision}" for model in ("densenet121", "resnet50") for precision in ("fp32", "tf32", "bf16")})
        self.assertNotEqual(told["bits.fp32"]["1 alone"], told["bits.bf16"]["1 alone"])

    def test_what_goes_wrong_is_reported_and_returned(self):
        ended = self.check("--device", "cpu", "--quick", "--only", "bits.fp32,bits.bf16", dtrain=self.script("broken", BROKEN))
        self.assertEqual(ended.returncode, 1, ended.stderr)
        wrong = json.loads(ended.stdout)["wrong"]
        self.assertEqual(len(wrong), 3, ended.stdout)  # two runs, and no hash to compare
        self.assertTrue(all("bf16" in sentence for sentence in wrong), wrong)

    def test_without_a_gpu_it_says_why_it_does_not_begin(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        ended = self.check()
        self.assertEqual(ended.returncode, 78, ended.stderr)
        self.assertIn("--device cpu rehearses", ended.stderr)


if __name__ == "__main__":
    program.main()
