"""What scripts/slurm/train.sbatch makes of a job: ranks, launcher, words for dtrain, signals, requeueing. Slurm, mpirun, srun and
dtrain are stood in for by small scripts; tests/slurm runs the same file on a real Slurm."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import tree

FOLDER = tree.ROOT / "scripts/slurm"
# Launchers print their arguments, then run the command once, and pass signals on to it, like the real ones. In Python,
# because a shell cannot trap a signal that was ignored when it began.
LAUNCHER = r"""exec python3 - "${0##*/}" "$@" 3<&0 <<'PY'
import os, signal, subprocess, sys, time
print(*sys.argv[1:], flush=True)
print("fence", os.environ.get("SLURM_PMIX_FENCE"), flush=True)
time.sleep(float(os.environ.get("STUB_SLOW", "0")))
rank = subprocess.Popen(sys.argv[sys.argv.index("sh"):])
signal.signal(signal.SIGUSR1, lambda *_: rank.send_signal(signal.SIGUSR1))
sys.exit(rank.wait())
PY"""
DTRAIN = r"""
for word in "$@"; do echo "word $word"; done
[[ " $* " != *" --print-config "* ]] || {
  echo "name: ${STUB_NAME:-chexnet}      # chexnet.yaml:3"
  echo "output:"
  echo "  dir: $PWD/runs       # default"
  exit "${STUB_CONFIG_CODE:-0}"
}
[[ -z ${STUB_DONE:-} ]] || { mkdir -p "$STUB_DONE" && echo result >"$STUB_DONE/DONE"; }
[[ -z ${STUB_DEAF:-} ]] || exec python3 -c '
import os, signal, sys, time
time.sleep(float(os.environ["STUB_DEAF"]))
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75))
time.sleep(10)'
exit "${STUB_CODE:-0}"
"""
SCONTROL = r"""echo "scontrol $*"
[[ $1 != show ]] || { echo "   Command=$STUB_COMMAND"; echo "   Command=another"; }
exit "${STUB_SCONTROL:-0}"
"""


class Sbatch(tree.RuleTest):
    @contextlib.contextmanager
    def node(self, **programs):
        """A node with these programs on PATH beside mpirun, srun, dtrain and scontrol; yields start(words …, variables …)."""
        with tempfile.TemporaryDirectory(prefix="dtrain-repo-") as folder:
            home = pathlib.Path(os.path.realpath(folder))
            (home / "bin").mkdir()
            (home / "tmp").mkdir()
            shutil.copytree(FOLDER, home / "dtrain/scripts/slurm", ignore=shutil.ignore_patterns("site.sh"))
            stubs = {"mpirun": LAUNCHER, "srun": LAUNCHER, "dtrain": DTRAIN, "scontrol": SCONTROL} | programs
            for name, text in stubs.items():
                if text is not None:
                    self.script(home / "bin" / name, text)

            def start(*words, script="dtrain/scripts/slurm/train.sbatch", **variables):
                kept = {key: value for key, value in os.environ.items() if not key.startswith(("DTRAIN_", "SLURM_", "OMPI_"))}
                kept.pop("DTRAIN", None)
                kept |= {"PATH": f"{home}/bin:/usr/bin:/bin", "TMPDIR": str(home / "tmp"), "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1",
                         "HOSTNAME": "node-by-another-name"}
                return subprocess.Popen([home / script, *words], env=kept | variables, cwd=home, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

            start.home = home
            yield start
            self.assertEqual(os.listdir(home / "tmp"), [])

    def script(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/bash\n" + text + "\n", encoding="utf-8")
        path.chmod(0o755)

    def run_job(self, start, *words, code=0, **how):
        process = start(*words, **how)
        told = process.communicate(timeout=50)[0]
        self.assertEqual(process.returncode, code, told)
        return told

    def words(self, told):
        return re.findall(r"^word (.*)$", told, re.MULTILINE)

    def test_ranks_are_the_tasks_or_the_gpus(self):
        layouts = (
            ({"SLURM_NTASKS": "8", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_JOB_NUM_NODES": "2"},
             "-np 8 --map-by ppr:4:node --bind-to none sh", "--ntasks=8 --ntasks-per-node=4 sh"),
            ({"SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "3,1", "SLURM_JOB_NUM_NODES": "2"}, "-np 4 --bind-to none sh", "--ntasks=4 sh"),
            ({"SLURM_NTASKS": "2", "SLURM_TASKS_PER_NODE": "2", "SLURM_CPUS_PER_TASK": "6"},
             "-np 2 --map-by ppr:2:node --bind-to none sh", "--ntasks=2 --ntasks-per-node=2 --cpus-per-task=6 sh"),
            ({"SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NUM_NODES": "2"},
             "-np 8 --map-by ppr:4:node --bind-to none --oversubscribe sh", "--ntasks=8 --ntasks-per-node=4 --overcommit sh"),
            ({}, "-np 1 --map-by ppr:1:node --bind-to none --oversubscribe sh", "--ntasks=1 --ntasks-per-node=1 --overcommit sh"),
            ({"SLURM_NTASKS": "2", "SLURM_TASKS_PER_NODE": "2", "DTRAIN_PLACEMENT": "--map-by socket"}, "-np 2 --map-by socket sh",
             "--ntasks=2 --ntasks-per-node=2 --map-by socket sh"),
        )
        with self.node() as start:
            for variables, by_mpirun, by_srun in layouts:
                self.assertIn(f"mpirun {by_mpirun}", self.run_job(start, **variables))
                told = self.run_job(start, DTRAIN_LAUNCHER="srun", **variables)
                self.assertIn("srun --mpi=pmix --kill-on-bad-exit=0 --wait=5 " + by_srun, told)
            self.assertIn("fence tree\n", told)
            self.assertIn("fence ring\n", self.run_job(start, DTRAIN_LAUNCHER="srun", SLURM_PMIX_FENCE="ring"))
            self.assertIn("fence None\n", self.run_job(start))
            told = self.run_job(start, DTRAIN_LAUNCHER="ibrun", code=64)
            self.assertIn("DTRAIN_LAUNCHER=ibrun is neither mpirun nor srun", told)

    def test_words_reach_dtrain_as_they_were_given(self):
        with self.node() as start:
            words = ["--config", "a b.yaml", "name=x y", "--resume", "never", "--resume-with", "epochs", "--run-dir=r 1"]
            told = self.run_job(start, *words)
            self.assertEqual(self.words(told), words[:-1] + ["--run-dir", "r 1"])
            self.assertIn("train.sbatch: dtrain ended with 0", told)

    def test_a_restart_goes_on_whatever_the_first_start_was_told(self):
        with self.node() as start:
            for words in (["--resume", "never"], ["--resume=old.safetensors"]):
                told = self.run_job(start, "--config", "a.yaml", *words, "epochs=3", SLURM_RESTART_COUNT="1")
                self.assertEqual(self.words(told), ["--config", "a.yaml", "epochs=3"])

    def test_an_array_gives_each_task_a_seed_and_a_folder(self):
        with self.node() as start:
            told = self.run_job(start, "--config", "chexnet.yaml", SLURM_ARRAY_TASK_ID="3")
            self.assertEqual(self.words(told)[-4:], ["--config", "chexnet.yaml", "seed=3", "name=chexnet-seed-3"])
            told = self.run_job(start, "--run-dir", "r", "--config", "chexnet.yaml", SLURM_ARRAY_TASK_ID="3")
            self.assertEqual(self.words(told), ["--config", "chexnet.yaml", "seed=3", "--run-dir", "r-seed-3"])
            self.run_job(start, "--config", "no.yaml", SLURM_ARRAY_TASK_ID="3", STUB_CONFIG_CODE="66", code=66)

    def test_75_puts_the_job_back_as_often_as_allowed_and_other_codes_do_not(self):
        with self.node() as start:
            told = self.run_job(start, STUB_CODE="75", code=75)
            self.assertIn("put back into the queue (restart 1 of 100)\nscontrol requeue 7\n", told)
            told = self.run_job(start, STUB_CODE="75", code=75, SLURM_RESTART_COUNT="2", DTRAIN_MAX_RESTARTS="2")
            self.assertNotIn("scontrol", told)
            self.assertIn("not put back, because 2 restarts are as many as DTRAIN_MAX_RESTARTS allows", told)
            told = self.run_job(start, STUB_CODE="75", code=75, STUB_SCONTROL="1")
            self.assertIn("Slurm did not put it back (see above); the same sbatch line goes on", told)
            for code in (2, 76):
                self.assertNotIn("scontrol", self.run_job(start, STUB_CODE=str(code), code=code))
            self.assertIn("scontrol requeue 7", self.run_job(start, STUB_CODE="76", code=76, DTRAIN_REQUEUE_ON="75 76"))

    def test_what_a_killed_mpirun_leaves_is_removed_and_nothing_of_another(self):
        number = os.getpid() << 8  # a job number that no Open MPI would use: the last 16 bits are a step's
        leave = r"""
host=$(uname -n)
host=${host%%.*}
session=$TMPDIR/ompi.$host.$UID/pid.$$
mkdir -p "$session/pmix_dstor_ds21_$$" "$TMPDIR/ompi.$host.$UID/pid.1"
touch "$session/pmix_dstor_ds21_$$/smlockseg-NUMBER" "$session/contact.txt"
touch /dev/shm/vader_segment.$host.$UID.HEX.{0,1} /dev/shm/vader_segment.$host.$UID.HEX1.0
kill -9 $$""".replace("NUMBER", str(number)).replace("HEX", f"{number:x}")
        segments = lambda: sorted(path.name for path in pathlib.Path("/dev/shm").glob(f"vader_segment.*.{number:x}*"))  # noqa: E731
        with self.node(mpirun=leave) as start:
            try:
                told = self.run_job(start, code=137)
                self.assertIn("mpirun was killed; what it left in ", told)
                self.assertEqual([path.name for path in (start.home / "tmp").glob("*/*")], ["pid.1"])
                self.assertEqual([name.split(".", 3)[-1] for name in segments()], [f"{number:x}1.0"])
            finally:
                for name in segments():
                    os.unlink(f"/dev/shm/{name}")
                shutil.rmtree(start.home / "tmp")
                (start.home / "tmp").mkdir()

    def test_an_mpirun_that_starts_no_rank_is_started_once_more_and_no_other(self):
        failing = '[[ -e second ]] || { touch second; echo no folder; exit 1; }\n' + LAUNCHER
        with self.node(mpirun=failing, srun=failing) as start:
            told = self.run_job(start, "--config", "a.yaml")
            self.assertEqual(told.count("no folder"), 1)
            self.assertIn("mpirun started no rank, as it says above; it is started once more", told)
            self.assertEqual(self.words(told), ["--config", "a.yaml"])
            self.assertNotIn("once more", self.run_job(start, STUB_CODE="1", code=69))  # a rank has begun
            (start.home / "second").unlink()
            self.assertNotIn("once more", self.run_job(start, DTRAIN_LAUNCHER="srun", code=1))
            (start.home / "second").unlink()
            process = start(STUB_SLOW="0.3", STUB_DEAF="0.3")
            while "once more" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGUSR1)
            told = process.communicate(timeout=50)[0]
            self.assertEqual(process.returncode, 75, told)
            self.assertIn("scontrol requeue 7", told)

    def test_a_signal_reaches_a_rank_that_listens_later_and_the_code_survives(self):
        with self.node() as start:
            for launcher in ("mpirun", "srun"):
                process = start(STUB_DEAF="0.3", STUB_SLOW="0.5", DTRAIN_LAUNCHER=launcher)
                self.assertIn("start 1: 1 rank(s)", process.stdout.readline())
                began = time.monotonic()
                process.send_signal(signal.SIGUSR1)
                told = process.communicate(timeout=50)[0]
                self.assertEqual(process.returncode, 75, told)
                self.assertIn("scontrol requeue 7", told)
                self.assertLess(time.monotonic() - began, 9, "the script leaves with dtrain")

    def test_a_launcher_that_dies_of_the_signal_when_the_run_is_done_has_done_it(self):
        dying = LAUNCHER.replace("sys.exit(rank.wait())", "rank.wait()\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)\n"
                                                          "os.kill(os.getpid(), signal.SIGUSR1)")
        with self.node(mpirun=dying) as start:
            for words, folder, how in ((("--run-dir", "r 1"), "r 1", {}), ((), "runs/chexnet", {}), ((), "runs/a b", {"STUB_NAME": '"a b"'}),
                                       (("--run-dir", "r"), "r-seed-3", {"SLURM_ARRAY_TASK_ID": "3"})):
                told = self.run_job(start, *words, STUB_DONE=folder, **how)
                self.assertRegex(told, f"mpirun ended with 138 after this start had written (.*/)?{folder}/DONE: the run is finished")
                self.assertIn("dtrain ended with 0", told)
                told = self.run_job(start, *words, code=138, **how)  # here DONE is an earlier start's
                self.assertIn("dtrain ended with 138", told)
            self.assertIn("dtrain ended with 138", self.run_job(start, "--run-dir", "nothing", code=138))
        losing = LAUNCHER.replace("sys.exit(rank.wait())", "sys.exit(rank.wait() or 1)")
        with self.node(mpirun=losing, srun=losing) as start:
            self.assertIn("mpirun ended with 1 after this start had written r/DONE", self.run_job(start, "--run-dir", "r", STUB_DONE="r"))
            self.run_job(start, "--run-dir", "r", code=69)
            self.run_job(start, "--run-dir", "r", STUB_DONE="r", DTRAIN_LAUNCHER="srun", code=1)
            self.run_job(start, "--run-dir", "r", STUB_DONE="r", STUB_CODE="70", code=70)  # any other code is passed on

    def test_a_rank_that_the_signal_ends_while_it_starts_costs_no_run(self):
        ended = LAUNCHER.replace("sys.exit(rank.wait())", "sys.exit(138 if rank.wait() == 75 else 70)")
        with self.node(mpirun=ended, srun=ended) as start:
            for launcher in ("mpirun", "srun"):
                process = start(STUB_DEAF="0.1", DTRAIN_LAUNCHER=launcher)
                self.assertIn("start 1: 1 rank(s)", process.stdout.readline())
                process.send_signal(signal.SIGUSR1)
                told = process.communicate(timeout=50)[0]
                self.assertEqual(process.returncode, 75, told)
                self.assertIn(f"{launcher} ended with 138 after USR1", told)
                self.assertIn("scontrol requeue 7", told)

    def test_a_launcher_that_starts_nothing_is_not_believed_whatever_it_calls_that(self):
        with self.node(srun="echo srun: error: task 0 launch failed", mpirun="echo no slots; exit 1") as start:
            for launcher, said in (("mpirun", "mpirun ended with 1, and dtrain told no error"), ("srun", "srun started no rank here")):
                told = self.run_job(start, DTRAIN_LAUNCHER=launcher, code=69)
                self.assertIn(f"error 69: {said}", told)
                self.assertEqual(told.count("no slots"), 2 * (launcher == "mpirun"))
                self.assertIn("scontrol requeue 7", self.run_job(start, DTRAIN_LAUNCHER=launcher, DTRAIN_REQUEUE_ON="69 75", code=69))

    def test_dtrain_s_error_stands_last_whatever_the_launcher_adds(self):
        chatty = LAUNCHER.replace("sys.exit(rank.wait())", "code = rank.wait()\nprint('ten lines of its own', file=sys.stderr)\nsys.exit(code)")
        line = "dtrain: error 78 [rank 0 @ node]: a.yaml:3:1: unknown key 'typo'"
        with self.node(mpirun=chatty, srun=chatty, dtrain=f'echo "{line}" >&2\nexit "${{STUB_CODE:-78}}"') as start:
            for launcher in ("mpirun", "srun"):
                told = self.run_job(start, DTRAIN_LAUNCHER=launcher, code=78).splitlines()
                self.assertEqual(told[-4:], [line, "ten lines of its own", "train.sbatch: dtrain ended with 78", line])
                told = self.run_job(start, DTRAIN_LAUNCHER=launcher, STUB_CODE="0").splitlines()
                self.assertEqual(told[-1], "train.sbatch: dtrain ended with 0")

    def test_dtrain_s_code_counts_where_mpirun_lost_it(self):
        losing = LAUNCHER.replace("sys.exit(rank.wait())", "sys.exit(rank.wait() and int(os.environ['STUB_LOST']))")
        for line, lost, code in (("dtrain: error 79 [rank 0 @ a]: it diverged", 1, 79), ("dtrain: error 69: a peer is gone", 205, 69),
                                 ("dtrain: error 69 [rank 1 @ a]: rank 0 was killed", 137, 137), ("dtrain: error 74: no room", 138, 74),
                                 ("dtrain: error 69: rank 0 died of USR1", 138, 138), ("mpirun was not told how many", 1, 69),
                                 ("dtrain: error 7: none of its codes", 1, 69)):
            with self.node(mpirun=losing, srun=losing, dtrain=f'echo "{line}" >&2\nexit 79') as start:
                told = self.run_job(start, STUB_LOST=str(lost), code=code)
                how = f"dtrain with {code}" if f"error {code}" in line else "and dtrain told no error"
                self.assertEqual(f"mpirun ended with {lost}, {how}" in told, lost != code, told)
                self.assertIn(f"dtrain ended with {code}\n", told)
                self.run_job(start, STUB_LOST=str(lost), DTRAIN_LAUNCHER="srun", code=74 if code == 74 else lost)

    def test_a_rank_that_saved_and_whose_code_mpirun_lost_goes_on(self):
        losing = LAUNCHER.replace("sys.exit(rank.wait())", "sys.exit(1 if rank.wait() == 75 else 70)")
        with self.node(mpirun=losing) as start:
            process = start(STUB_DEAF="0.1")
            self.assertIn("start 1: 1 rank(s)", process.stdout.readline())
            process.send_signal(signal.SIGUSR1)
            told = process.communicate(timeout=50)[0]
            self.assertEqual(process.returncode, 75, told)
            self.assertIn("mpirun ended with 1 after USR1", told)
            self.assertIn("scontrol requeue 7", told)

    def test_the_program_is_found_in_the_order_told(self):
        with self.node(dtrain=None) as start:
            told = self.run_job(start, code=66)
            self.assertIn("error 66: dtrain is not on PATH, not built and not in a bundle", told)
            told = self.run_job(start, code=66, DTRAIN="nowhere/dtrain")
            self.assertIn("error 66: DTRAIN=nowhere/dtrain is no program", told)
            self.script(start.home / "dtrain/build/release/bin/dtrain", "echo the build")
            self.assertIn("the build", self.run_job(start))
            self.script(start.home / "bin/dtrain", "echo on PATH")
            self.assertIn("on PATH", self.run_job(start))
            self.script(start.home / "mine", "echo mine")
            self.assertIn("mine", self.run_job(start, DTRAIN="./mine"))

    def test_in_a_bundle_it_takes_the_bundle_s_program_and_mpirun(self):
        with self.node(dtrain=None) as start:
            shutil.copytree(FOLDER, start.home / "bundle/share/dtrain/scripts/slurm")
            self.script(start.home / "bundle/bin/dtrain", "echo the bundle")
            self.script(start.home / "bundle/bin/mpirun", "echo its mpirun\n" + LAUNCHER)
            told = self.run_job(start, script="bundle/share/dtrain/scripts/slurm/train.sbatch")
            self.assertIn("its mpirun", told)
            self.assertIn("the bundle", told)

    def test_of_a_python_environment_it_takes_dtrain_s_own_mpirun(self):
        with self.node() as start:
            self.script(start.home / "env/bin/dtrain", "echo the environment")
            self.script(start.home / "env/bin/dtrain-mpirun", "echo its mpirun\n" + LAUNCHER)
            told = self.run_job(start, DTRAIN="env/bin/dtrain")
            self.assertIn("its mpirun", told)
            self.assertIn("the environment", told)

    def test_from_slurm_s_spool_it_finds_what_lies_beside_the_original(self):
        with self.node() as start:
            slurm = start.home / "dtrain/scripts/slurm"
            (slurm / "site.sh").write_text("echo the site $not_set; false; DTRAIN_MAX_RESTARTS=0\n")
            self.script(start.home / "spool/slurm_script", (slurm / "train.sbatch").read_text())
            told = self.run_job(start, "--config", "a b.yaml", script="spool/slurm_script", code=75, STUB_CODE="75",
                                STUB_COMMAND=f"{slurm}/train.sbatch --config a b.yaml")
            self.assertIn("the site", told)
            self.assertIn("not put back", told)
            self.assertNotIn("the site", self.run_job(start, DTRAIN_SITE="/dev/null"))
            self.assertIn("error 66: DTRAIN_SITE=gone cannot be read", self.run_job(start, DTRAIN_SITE="gone", code=66))


class Cluster(tree.RuleTest):
    def call(self, *words, **variables):
        return subprocess.run([FOLDER / "cluster", *words], env={"PATH": "/usr/bin:/bin", **variables}, capture_output=True, text=True,
                              timeout=20, check=False)

    def test_it_tells_its_usage_and_refuses_what_it_cannot_do(self):
        self.assertTrue(self.call("--help").stdout.startswith("usage: scripts/slurm/cluster start DIR"))
        for words, told in ((["up", "d"], "'up' is neither start nor stop"), (["start"], "start takes a folder"),
                            (["start", "d", "--nodes", "0"], "--nodes takes a number"), (["stop", "d", "--nodes", "2"], "no option --nodes"),
                            (["start", "a b"], "without spaces")):
            ended = self.call(*words)
            self.assertEqual(ended.returncode, 64, ended.stderr)
            self.assertIn(told, ended.stderr.splitlines()[-1])


if __name__ == "__main__":
    tree.main()
