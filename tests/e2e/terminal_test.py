"""What a user sees on a terminal: one bar as wide as the window, a clean line after Ctrl-C, errors in colour; and what a shell
completes."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
import unittest

import program

# Epochs that no test sees the end of, so that no other line comes between bars.
STEADY = {
    "epochs": 1000,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "data": {"format": "synthetic", "synthetic": {"samples": 100000, "classes": 3}, "image": {"size": [32, 32]}, "split": {"valid": 0}},
}
LONG_STEPS = {"batch": {"per_rank": 16, "accumulate": 200}}
BAR = "█░"


class Screen:
    """What a terminal shows that wraps its lines again when the window's width changes, for the sequences that dtrain
    uses."""

    def __init__(self, columns):
        self.columns, self.rows, self.row, self.column = columns, [["", False]], 0, 0  # [text, continues in the next row]

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|[^\x1b]", text):
            row = self.rows[self.row]
            if part == "\r":
                self.column = 0
            elif part == "\n":
                self.next_row()
            elif part in ("\x1b[J", "\x1b[K"):
                row[:] = [row[0][:self.column], False]
                if part == "\x1b[J":
                    del self.rows[self.row + 1:]
            elif not part.startswith("\x1b"):
                if self.column == self.columns:
                    row[1], self.column = True, 0
                    self.next_row()
                    row = self.rows[self.row]
                row[0] = row[0][:self.column].ljust(self.column) + part + row[0][self.column + 1:]
                self.column += 1

    def next_row(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append(["", False])

    def resize(self, columns):
        lines, cursor = [""], (0, 0)
        for number, (text, goes_on) in enumerate(self.rows):
            if number == self.row:
                cursor = (len(lines) - 1, len(lines[-1]) + self.column)
            lines[-1] += text
            if not goes_on:
                lines.append("")
        self.columns, self.rows = columns, []
        for number, line in enumerate(lines[:-1]):
            if number == cursor[0]:
                self.row, self.column = len(self.rows) + cursor[1] // columns, cursor[1] % columns
            pieces = [line[at:at + columns] for at in range(0, len(line), columns)] or [""]
            self.rows += [[piece, piece is not pieces[-1]] for piece in pieces]

    def bars(self):
        return [text for text, _ in self.rows if set(text) & set(BAR)]


def stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(") ")[2][0] == "T"


class OnTerminal:
    """A call of dtrain with its own terminal, as from a shell in a window."""

    def __init__(self, words, cwd, columns, env=None):
        self.master, slave = pty.openpty()
        self.set_columns(columns)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(program.command(words), stdin=slave, stdout=slave, stderr=slave, cwd=cwd,
                                        env=program.environment({"TERM": "xterm", **(env or {})}), preexec_fn=take_terminal)
        os.close(slave)
        self.said, self.lock = "", threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        left = b""
        while True:
            try:
                got = os.read(self.master, 65536)
            except OSError:  # no process has it open any more
                return
            if not got:
                return
            left += got
            whole = left.decode("utf-8", "ignore")
            left = left[len(whole.encode()):]
            with self.lock:
                self.said += whole

    def taken(self):
        """What it has printed since the last call, up to the end of a complete bar."""
        with self.lock:
            end = self.said.rfind("\r") + 1
            text, self.said = self.said[:end], self.said[end:]
            return text

    def resize(self, columns, screen):
        """The window changes while the program is stopped, so that nothing of the old width is on its way."""
        os.kill(self.process.pid, signal.SIGSTOP)
        program.wait_until(lambda: stopped(self.process.pid), 30, "a stop")
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 0.1:
            with self.lock:
                text, self.said = self.said, ""
            if text:
                screen.feed(text)
                quiet_since = time.monotonic()
            time.sleep(0.01)
        self.set_columns(columns)
        screen.resize(columns)
        os.kill(self.process.pid, signal.SIGCONT)

    def set_columns(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text)

    def end(self, seconds):
        try:
            self.process.wait(seconds * program.PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        self.reader.join(10)
        os.close(self.master)
        return self.process.returncode


class OnATerminal(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("steady", STEADY)
        cls.write_config("long_steps", STEADY, LONG_STEPS)

    def on_terminal(self, *words, columns=80, env=None):
        return OnTerminal(words, self.folder, columns, env)

    def test_the_bar_is_one_line_at_every_width_and_through_its_changes(self):
        job, screen = self.on_terminal("steady.yaml", "--run-dir", "widths", columns=120), Screen(120)
        drawn = []

        def draws_anew():
            text = job.taken()
            drawn.extend(re.findall(f"[{BAR}]+ [^\r]*", text))
            screen.feed(text)
            return len(drawn) >= 2
        try:
            for columns in (120, 60, 40, 200, 80, 41):
                job.resize(columns, screen)
                drawn.clear()
                program.wait_until(draws_anew, 30, f"two bars at {columns} columns")
                self.assertEqual(len(screen.bars()), 1, (columns, screen.rows))
                self.assertLess(len(drawn[-1]), columns)
                self.assertEqual(screen.column, 0)
                for field, least in (("epoch ", 40), ("step ", 60), ("eta ", 60), ("loss ", 80), ("images/s", 100), ("lr ", 200)):
                    if columns >= least:
                        self.assertIn(field, drawn[-1])
            job.process.send_signal(signal.SIGUSR1)
        finally:
            code = job.end(60)
        self.assertEqual(code, 75)
        screen.feed(job.said)
        self.assertEqual(screen.bars(), [])
        self.assertTrue(any("stopped at step" in text for text, _ in screen.rows), screen.rows)

    def test_a_second_ctrl_c_leaves_an_empty_line_for_the_prompt(self):
        job, screen = self.on_terminal("long_steps.yaml", "--run-dir", "twice"), Screen(80)
        said = []

        def shows(what):
            said.append(job.taken())
            return what in "".join(said) + job.said
        try:
            program.wait_until(lambda: shows(BAR[1]), 60, "a bar")
            # In the middle of the next step, which takes a second: the stop takes effect at its end.
            job.type(b"\x03")
            program.wait_until(lambda: shows("^C"), 30, "the first Ctrl-C")
            program.wait_until(lambda: not program.in_status(job.process.pid, "ShdPnd", signal.SIGINT), 30, "its signal to come")
            job.type(b"\x03")
        finally:
            code = job.end(30)
        self.assertEqual(code, 128 + signal.SIGINT)
        screen.feed("".join(said))
        self.assertEqual(len(screen.bars()), 1, "it stood there until then")
        screen.feed(job.said)
        self.assertEqual((screen.bars(), screen.rows[screen.row][0], screen.column), ([], "", 0), screen.rows)

    def test_errors_have_colour_where_warnings_have(self):
        for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            with self.subTest(env):
                job = self.on_terminal("absent.yaml", env={"NO_COLOR": "", **env})
                self.assertEqual(job.end(30), 66)
                line = "dtrain: error 66: cannot open the configuration absent.yaml"
                self.assertIn(("\x1b[31m\x1b[1m" if coloured else "") + line, job.said)
                self.assertEqual("\x1b" in job.said, coloured, job.said)

    # Completion.

    def completed(self, *words):
        """What bash offers for the last word."""
        script = ('source <("$0" completion bash)\nCOMP_WORDS=(dtrain "$@")\nCOMP_CWORD=$#\n'
                  '_dtrain dtrain "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"\nprintf "%s\\n" "${COMPREPLY[@]}"')
        ended = subprocess.run(["bash", "-c", script, program.DTRAIN, *words], cwd=self.folder, env=program.environment(),
                               capture_output=True, text=True, timeout=60 * program.PATIENCE, check=True)
        self.assertEqual(ended.stderr, "")
        return ended.stdout.split()

    def test_bash_completes_commands_options_words_files_and_keys(self):
        for words, wanted in (
            (("ev",), ["eval"]),
            (("check", "--wo"), ["--world-size"]),
            (("bench", ""), ["step", "input", "comm"]),
            (("bench", "comm", "--by"), ["--bytes"]),
            (("--progress", "p"), ["plain"]),
            (("--progress", "=", "b"), ["bar"]),
            (("eval", "--split", ""), ["train", "valid", "test"]),
            (("--resume", "ne"), ["never"]),
            (("-c", "stead"), ["steady.yaml"]),
            (("check", "long"), ["long_steps.yaml"]),
            (("completion", "z"), ["zsh"]),
            (("check", "optimizer.mom"), ["optimizer.momentum="]),
            (("data.format", "=", "im"), ["image_folder", "image_mask"]),
            (("check", "data.format=im"), ["data.format=image_folder", "data.format=image_mask"]),
            (("data.split.stratify", "="), ["true", "false"]),
            (("schedule.scale_with_ranks", "=", "li"), ["linear"]),
            (("model.name", "=", "dense"), ["densenet121", "densenet169", "densenet201"]),
            (("check", "data.root", "=", "long"), ["long_steps.yaml"]),
            (("check", "data.root=long"), ["data.root=long_steps.yaml"]),
            (("init", "long"), ["long_steps.yaml"]),
            (("compare", "long"), ["long_steps.yaml"]),
            (("help", "eva"), ["eval"]),
            (("info", "--j"), ["--json"]),
        ):
            with self.subTest(words):
                self.assertEqual(self.completed(*words), wanted)
        offered = self.completed("")
        self.assertLessEqual({"check", "eval", "help", "completion", "steady.yaml"}, set(offered))
        self.assertFalse([word for word in offered if word.startswith("--")], offered)

    def test_completions_of_other_shells_can_be_read_by_them(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.good("completion", shell).out
            for word in ("--world-size", "optimizer.learning_rate=", "completion"):
                self.assertIn(word if shell != "fish" else word.lstrip("-"), script)
            if program.shutil.which(shell):
                checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""), shell)

    @unittest.skipUnless(program.shutil.which("fish"), "no fish here")
    def test_fish_completes_commands_options_keys_and_values(self):
        (self.folder / "dtrain.fish").write_text(self.good("completion", "fish").out)
        for line, wanted in (("ev", ["eval"]), ("check --wo", ["--world-size"]), ("eval --split ", ["test", "train", "valid"]),
                             ("check data.format=image_f", ["data.format=image_folder"]), ("init long", ["long_steps.yaml"]),
                             ("check optimizer.mom", ["optimizer.momentum="]), ("check data.root=long", ["data.root=long_steps.yaml"])):
            ended = subprocess.run(["fish", "--no-config", "-c", f"source dtrain.fish; complete -C 'dtrain {line}'"], cwd=self.folder,
                                   env=program.environment(), capture_output=True, text=True, timeout=60 * program.PATIENCE, check=True)
            self.assertEqual([one.split("\t")[0] for one in ended.stdout.splitlines()], wanted, line)


if __name__ == "__main__":
    program.main(at_once=3)
