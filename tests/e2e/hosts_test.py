"""Ranks on several hosts give the bits of one process. The hosts are namespaces of this machine (scripts/hosts)."""

import os
import subprocess
import unittest

import program

HOSTS = str(program.ROOT / "scripts/hosts")
NO_HOSTS = (66, 77)  # no iproute2 or util-linux; not root, or no right to make namespaces
JOB = {
    "seed": 11,
    "epochs": 2,
    "model": {"name": "small_cnn", "dropout": 0.5},
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 4},
    "optimizer": {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "data": {
        "format": "synthetic", "synthetic": {"samples": 44, "classes": 2}, "image": {"size": [32, 32]},
        "split": {"valid": 8 / 44}, "augment": {"hflip": 0.5},
    },
}


class Hosts(program.ProgramTest):
    @classmethod
    def hosts(cls, *words, timeout=40):
        """scripts/hosts, with its own hosts: another TMPDIR has other hosts."""
        env = program.environment({"TMPDIR": str(cls.folder), "DTRAIN_MPIEXEC": program.MPIEXEC})
        return subprocess.run([HOSTS, *map(str, words)], cwd=cls.folder, env=env, capture_output=True, text=True,
                              timeout=timeout * program.PATIENCE, check=False)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.addClassCleanup(cls.hosts, "down")
        up = cls.hosts("up", 3)
        if up.returncode in NO_HOSTS:
            raise unittest.SkipTest(up.stderr.strip().splitlines()[-1])
        if up.returncode != 0:
            raise AssertionError(up.stderr)
        cls.write_config("job", JOB)

    def train(self, name, *launch):
        ended = self.hosts("run", *launch, "-np", 4, "--", program.DTRAIN, "--config", "job.yaml", "--run-dir", name)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return self.run_at(name)

    def one(self):
        """The same job by one process; made once."""
        self.once("one", lambda: self.good("--config", "job.yaml", "--run-dir", "one"))
        return self.run_at("one")

    def test_two_hosts_and_three_give_the_bits_of_one_process(self):
        one = self.one()
        self.assertEqual(one.facts()["steps"], 10)
        for name, launch, places in (("two", ("--hosts", 2), ["host1", "host1", "host2", "host2"]),
                                     ("three", ("--slots", "1,1,2"), ["host1", "host2", "host3", "host3"])):
            with self.subTest(hosts=name):
                run = self.train(name, *launch)
                self.assertEqual([host["host"] for host in run.facts()["hosts"]], places)
                self.assertIn("messages between them", run.facts()["transport"])
                self.assertEqual(run.hash(), one.hash())
                self.assertEqual(run.result_rows(), one.result_rows())
                self.assertEqual(program.tensor_checksums(run.checkpoints()[-1]), program.tensor_checksums(one.checkpoints()[-1]))

    def test_too_little_shared_memory_falls_back_to_messages_on_all_ranks(self):
        full = "dd if=/dev/zero of=/dev/shm/filler bs=1M 2>/dev/null; test -f /dev/shm/filler"
        said = self.hosts("rsh", "host2", full)
        self.assertEqual(said.returncode, 0, said.stderr)
        try:  # Open MPI's own transport works without /dev/shm: it uses its session folder or TCP
            ended = self.hosts("run", "--hosts", 2, "-np", 4, "--", program.DTRAIN, "--config", "job.yaml", "--run-dir", "tight")
        finally:
            self.hosts("rsh", "host2", "rm /dev/shm/filler")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        run = self.run_at("tight")
        self.assertIn("/dev/shm", run.facts()["transport"])
        self.assertEqual(run.hash(), self.one().hash())

    def test_a_cut_link_ends_the_job_with_76_and_names_the_ranks_behind_it(self):
        self.write_config("long", JOB, {"epochs": 1000000, "distributed": {"watchdog": {"warn": "2 s", "abort": "8 s"}}})
        # mpirun waits for its helper on a lost host until TCP gives up: after 15 minutes, here after about 9 s.
        for host in ("host1", "host2"):
            self.assertEqual(self.hosts("rsh", host, "echo 4 >/proc/sys/net/ipv4/tcp_retries2").returncode, 0)
        env = program.environment({"TMPDIR": str(self.folder), "DTRAIN_MPIEXEC": program.MPIEXEC})
        words = [HOSTS, "run", "--hosts", "2", "-np", "4", "--", program.DTRAIN, "--config", "long.yaml", "--run-dir", "cut",
                 "--progress", "none"]
        with open(self.folder / "cut.txt", "w+", encoding="utf-8") as said:
            job = subprocess.Popen(words, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                program.wait_until(lambda: self.run_at("cut").steps_logged() >= 3 or job.poll() is not None, 60, "the third step")
                self.assertIsNone(job.poll(), (self.folder / "cut.txt").read_text(encoding="utf-8"))
                self.assertEqual(self.hosts("rsh", "host2", "ip link set eth0 down").returncode, 0)
                code = job.wait(90 * program.PATIENCE)
            finally:
                job.kill()
                job.wait()
                self.hosts("rsh", "host2", "ip link set eth0 up")
            said.seek(0)
            text = said.read()
        self.assertEqual(code, 76, text)
        errors = [line for line in text.splitlines() if line.startswith("dtrain: error")]
        self.assertEqual(len(errors), 1, text)
        self.assertRegex(errors[0], r"^dtrain: error 76 \[rank 0 @ host1\]: stalled \d+ s in .*; waiting for ranks 2, 3, last seen in "
                         r".* on host2: no sign of life")
        self.assertEqual(sorted(path.name for path in (self.folder / "cut/flight").glob("rank-000[01].json")),
                         ["rank-0000.json", "rank-0001.json"])

    def test_each_host_has_its_own_shared_memory_and_the_same_files(self):
        said = self.hosts("rsh", "host1", "touch /dev/shm/mine shared && hostname")
        self.assertEqual((said.returncode, said.stdout), (0, "host1\n"), said.stderr)
        said = self.hosts("rsh", "host2", "ls /dev/shm shared && hostname")
        self.assertEqual((said.returncode, said.stdout.split()), (0, ["shared", "/dev/shm:", "host2"]), said.stderr)

    def test_down_ends_what_runs_inside_and_up_makes_hosts_again(self):
        sleeper = subprocess.Popen([HOSTS, "rsh", "host2", "exec sleep 600"], cwd=self.folder,
                                   env=program.environment({"TMPDIR": str(self.folder)}))
        try:
            own = os.readlink("/proc/self/ns/net")
            program.wait_until(lambda: os.readlink(f"/proc/{sleeper.pid}/ns/net") != own, 10, "the sleeper is in host2")
            self.assertEqual(self.hosts("down").returncode, 0)
            self.assertNotEqual(sleeper.wait(10), 0)
        finally:
            sleeper.kill()
            sleeper.wait()
        self.assertFalse((self.folder / "dtrain-hosts").exists())
        self.assertEqual(self.hosts("run", "-np", 1, "--", "true").returncode, 66)
        for _ in range(2):
            again = self.hosts("up", 3)
            self.assertEqual(again.returncode, 0, again.stderr)


if __name__ == "__main__":
    program.main()
