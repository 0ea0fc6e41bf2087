"""A long check in parts, each with a limit of its own. What goes wrong in one stops none of the others, and the report is on the
disk after every part, so that a second call goes on where the first one ended. Imported by scripts/gpu_check."""
import dataclasses
import json
import os
import shlex
import time
import traceback

import common


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    limit_s: float
    work: object  # the command line of a program that must end with 0, or a function of an Attempt


class Attempt:
    """One try of a part: what it found out is in `told`, what it found wrong in `wrong`. Both hold what was done before it
    ran out of time, too."""

    def __init__(self, part, env=None):
        self.part, self.env = part, env
        self.told, self.wrong = {}, []
        self.began = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began

    def run(self, words, env=None):
        """Runs a program to its end, for as long as the part has time, with another environment if one is given. Throws
        common.TimedOut."""
        left = self.part.limit_s - self.seconds()
        if left <= 0:
            raise common.TimedOut(f"no time was left for {shlex.join(map(str, words))}")
        return common.run([str(word) for word in words], env or self.env, timeout=left)

    def expect(self, holds, sentence):
        if not holds:
            self.note(sentence)
        return holds

    def note(self, sentence):
        self.wrong.append(sentence)
        common.say(f"WRONG: {sentence}")

    def good(self, words, env=None):
        """Runs a program that must end with 0; another exit code is noted as wrong."""
        ended = self.run(words, env)
        self.expect(ended.code == 0, f"{shlex.join(map(str, words))} {ended.how()}: {ended.last_words()}")
        return ended

    def work(self):
        """Tries the part, and returns the outcome in one word."""
        try:
            if callable(self.part.work):
                self.part.work(self)
            else:
                self.good(self.part.work)
        except common.TimedOut as late:
            self.note(f"{self.part.name} has {self.part.limit_s:g} s: {late}")
            return "timed out"
        except Exception as error:  # a report that changed meanwhile, a full disk: the other parts still run
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.note(f"{self.part.name}: {type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})")
            return "broke off"
        return "wrong" if self.wrong else "passed"


class Report:
    """What is known of each part, in one JSON object. `of`: the program, machine and settings that it is about; what an earlier
    call found out about the same counts, and of anything else it is kept beside. `path`: None for a report that lives in
    memory alone."""

    def __init__(self, path, of, again=False):
        self.path, self.all = path, {**of, "parts": {}, "wrong": [], "seconds": 0}
        earlier = self.earlier()
        if earlier is None:
            return
        if again or any(earlier.get(key) != value for key, value in of.items()):
            beside = next(place for number in range(1, 10**9) if not (place := path.with_name(f"{path.name}.{number}")).exists())
            path.rename(beside)
            common.say(f"begins anew; the earlier report is now {beside}")
            return
        self.all.update(parts=earlier["parts"], seconds=earlier["seconds"])
        for name, told in self.parts.items():
            if told["state"] == "running":
                told["state"] = "interrupted"
                told["wrong"] = [f"{name} was interrupted"]

    def earlier(self):
        if self.path is None or not self.path.exists():
            return None
        if not self.path.is_file():  # it will be replaced
            raise common.Refused(f"{self.path} is not a file", 78)
        if self.path.stat().st_size == 0:
            return None
        try:
            told = json.loads(self.path.read_text(encoding="utf-8"))
            good = all({"state", "wrong", "seconds"} <= part.keys() for part in told["parts"].values()) and told["seconds"] >= 0
        except (ValueError, TypeError, KeyError, AttributeError):
            good = False
        if not good:
            raise common.Refused(f"{self.path} is no report of this check; name another file or remove it", 78)
        return told

    @property
    def parts(self):
        return self.all["parts"]

    def state(self, name):
        return self.parts[name]["state"] if name in self.parts else "new"

    def set(self, part, state, attempt):
        earlier = self.parts.get(part.name, {})
        tries = earlier.get("tries", 0) + (state == "running")
        self.parts[part.name] = {"state": state, "seconds": round(attempt.seconds(), 1), "limit_s": part.limit_s, "tries": tries,
                                 "wrong": attempt.wrong, "told": attempt.told}
        self.save()

    def save(self):
        """Writes the file whole or not at all, whatever ends this process or the machine."""
        self.all["wrong"] = [sentence for part in self.parts.values() for sentence in part["wrong"]]
        if self.path is None:
            return
        beside = self.path.with_name(self.path.name + ".tmp")
        try:
            with open(beside, "w", encoding="utf-8") as file:
                file.write(self.text())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise common.Refused(f"the report cannot be written: {error}", 74) from None

    def text(self):
        return json.dumps(self.all, indent=1) + "\n"


def try_parts(parts, report, total_s, env=None):
    """Tries each part that has not passed yet, those first that were never tried, and returns the names of those for whose whole
    limit no time was left."""
    began = time.monotonic()
    before = report.all["seconds"]
    left_over = []
    for part in sorted(parts, key=lambda part: report.state(part.name) != "new"):  # stable: keeps the order otherwise
        if report.state(part.name) == "passed":
            common.say(f"{part.name}: passed before")
            continue
        if time.monotonic() - began + part.limit_s > total_s:
            left_over.append(part.name)
            continue
        common.say(f"{part.name} …")
        attempt = Attempt(part, env)
        state = "interrupted"
        try:
            report.set(part, "running", attempt)
            state = attempt.work()
        finally:
            if state == "interrupted":
                attempt.wrong.append(f"{part.name} was interrupted")
            report.all["seconds"] = round(before + time.monotonic() - began, 1)
            report.set(part, state, attempt)
        common.say(f"{part.name}: {state} after {attempt.seconds():.1f} s")
    return left_over
