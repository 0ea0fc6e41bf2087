"""What the help pages say: each command has one that fits a terminal, and its examples work when they are pasted."""

import os
import pathlib
import subprocess

import program

# In the order in which somebody tries them: each page may use what those before it have made.
PAGES = ("", "sample", "init", "check", "eval", "predict", "export", "compare", "pack", "verify", "bench step", "bench input", "bench comm", "bench",
         "sweep", "simulate", "report", "info", "help")
# Words of examples that need what this test has not: a batch system, another tool's logs, time (e2e.advise, loader, study, sweep).
NOT_HERE = ("--launch slurm", "--map hvd.yaml", "--tiny", "--advise", "--train-ms", "--zip", "--folds", "--repeat")
# Small pictures and short runs, where the line itself does not say otherwise.
SMALL = {"DTRAIN_CONFIG__DATA__IMAGE__SIZE": "[32, 32]", "DTRAIN_CONFIG__EPOCHS": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def examples(page):
    """The lines to type; what each is for stands beside or below it."""
    lines = page.partition("Examples:\n")[2].partition("\n\n")[0].replace(" \\\n    ", " ").splitlines()
    return [line.strip().split("   ")[0] for line in lines if not line.startswith("      ")]


class HelpPages(program.ProgramTest):
    def typed(self, line):
        path = f"{pathlib.Path(program.DTRAIN).parent}:{pathlib.Path(program.MPIEXEC).parent}:{os.environ['PATH']}"
        return subprocess.run(["bash", "-c", "set -o pipefail; " + line], cwd=self.folder, env=program.environment({**SMALL, "PATH": path}),
                              capture_output=True, text=True, timeout=300 * program.PATIENCE, check=False)

    def page(self, name):
        """One run of the program for each."""
        return self.once(f"page {name}", lambda: self.good("help", *name.split()).out)

    def test_every_example_works_when_it_is_pasted(self):
        (self.folder / "configs").symlink_to(program.ROOT / "configs")
        done = {"mpirun -np 2 --bind-to none dtrain bench comm"}  # all sizes; another example of it names two

        def paste(line):
            if line in done or any(words in line for words in NOT_HERE):
                return
            done.add(line)
            ended = self.typed(line)
            self.assertEqual(ended.returncode, 0, f"{line}\n{ended.stdout[-1500:]}\n{ended.stderr[-1500:]}")

        def paste_page(name):
            for line in examples(self.page(name)):
                paste(line)
        for name in PAGES[:2]:
            paste_page(name)
        # What pages suppose that somebody has: runs for the other two tasks, a picture, a list, a table.
        for kind, words in (("cells", "epochs=1"), ("xray", "epochs=1 model.name=resnet18")):
            paste(f"dtrain init sample/{kind} --output {kind}.yaml")
            paste(f"dtrain --config {kind}.yaml {words}")
        pictures = sorted((self.folder / "sample/cells/images").iterdir())
        (self.folder / "cell.png").write_bytes(pictures[0].read_bytes())
        (self.folder / "list.txt").write_text("".join(f"{picture}\n" for picture in pictures[:5]))
        (self.folder / "visits.csv").write_text("picture\n" + "".join(f"{picture}\n" for picture in sorted((self.folder / "sample/chips/good").iterdir())[:5]))
        paste("dtrain eval --checkpoint runs/chips --split test && dtrain eval --checkpoint runs/two --split test")
        for name in PAGES[2:]:
            paste_page(name)
        self.assertGreater(len(done), 55)

    def test_every_page_fits_a_terminal_and_says_what_is_written_and_how_it_ends(self):
        commands = [line.split()[0] for line in self.page("").partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
                    if not line.startswith("   ")]
        self.assertEqual(sorted(commands), sorted({*(page.split()[0] for page in PAGES[1:]), "completion"}))
        for name in (*PAGES, "completion"):
            with self.subTest(name):
                page = self.page(name)
                self.assertLessEqual(max(map(len, page.splitlines())), 80)
                self.assertTrue(page.partition("\nUsage: ")[2].startswith(f"dtrain {name}".strip() + " "))
                self.assertTrue(examples(page))
                self.assertNotIn("  \n", page)
                if name != "bench":
                    self.assertRegex(page, r"\nWrites:\n  \S[\s\S]*\nExit codes:\n  0 ")
                if " " not in name and name not in ("", "bench", "help"):
                    self.assertIn(name, page.partition("Examples:\n")[2])
                    self.assertEqual(sum("--print-config" in line for line in page.splitlines()),
                                     int(name in ("check", "eval", "predict", "export", "pack", "sweep")))
        self.assertIn("-c --config", self.page("check"))
        self.assertIn("--cam[=NAME]", self.page("predict"))

    def test_the_page_of_no_command_is_refused(self):
        for word, hint in (("fit", "dtrain --config FILE"), ("foo", "dtrain --help"), ("chekc", "'check'")):
            self.fails(self.call(word, "--help"), 64, f"'{word}' is neither a command nor key=value", hint)
        self.fails(self.call("help", "foo"), 64, "'foo' is no command; dtrain help lists them all")
        self.assertIn("Usage: dtrain --config", self.good("any.yaml", "epochs=3", "--help").out)


if __name__ == "__main__":
    program.main(at_once=2)
