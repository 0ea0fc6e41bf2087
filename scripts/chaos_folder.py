"""Run folders that are taken away at random moments; for scripts/chaos."""
import contextlib
import shutil
import subprocess
import time

import common
from chaos_jobs import Campaign, Failed, add_trials, epochs_of, events

WAYS = ("moved", "removed", "link", "entered", "unlocked")
TOLD = (66, 74)  # a folder that is taken away while the job starts may be reported as missing


def complete(campaign, folder):
    """A finished run with the undisturbed result, every byte of it."""
    if not (folder / "DONE").exists() or campaign.result(folder) != campaign.hash:
        raise Failed(f"{folder.name} ended with 0 without its result")
    verified = subprocess.run([campaign.program, "verify", folder], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=common.environment(), timeout=60, check=False)
    if verified.returncode != 0:
        raise Failed(f"{folder.name} ended with 0, but verify with {verified.returncode}: {verified.stderr.strip()}")
    if len(events(folder, "start")) != 1:
        raise Failed(f"{folder.name} was begun {len(events(folder, 'start'))} times")


def take(way, folder, campaign):
    """Takes the folder away. Returns the job that entered it, None for other ways, False if the folder was finished or
    absent."""
    away = folder.with_name(folder.name + "-away")
    if (folder / "DONE").exists():
        return False
    try:
        if way == "unlocked":
            (folder / ".lock").unlink()
            return False if (folder / "DONE").exists() else None
        if way == "removed":
            folder.stat()
            finished = folder.with_name(folder.name + "-removed")
            folder.rename(finished)  # to see whether DONE was written meanwhile
            late = (finished / "DONE").exists()
            while finished.exists():  # the job may still be writing
                shutil.rmtree(finished, ignore_errors=True)
            return False if late else None
        folder.rename(away)
    except FileNotFoundError:
        return False
    if (away / "DONE").exists():
        return False
    if way == "link":
        folder.with_name(folder.name + "-other").mkdir()
        folder.symlink_to(folder.with_name(folder.name + "-other"))
    return campaign.job(folder, 1) if way == "entered" else None


def trial_of(campaign):
    def trial(folder, draw):
        ranks, way = draw.choice((1, 2, 3)), draw.choice(WAYS)
        job, second = campaign.begin(folder, ranks), None
        names = [folder.with_name(folder.name + ending) for ending in ("-away", "-other", "-removed", ".rescued")]
        try:
            if not campaign.wait_for_moment(job, folder, ranks, draw):
                return None
            trained = len(events(folder, "checkpoint")) > 0
            second = take(way, folder, campaign)
            if second is False:
                job.wait()
                return None
            struck = time.monotonic()
            code = job.wait()
            seconds = time.monotonic() - struck
            if second is not None and second.wait() != 0:
                raise Failed(f"the job that entered the name ended with {second.process.returncode}: {second.told()}")
            if second is not None:
                complete(campaign, folder)
            elif code == 0:  # taken before it was locked: the job has made a new one
                complete(campaign, folder)
            elif code not in TOLD or (trained and code != 74):
                raise Failed(f"{way}, on {ranks} ranks: ended with {code}: {job.told()}")
            if code == 0 and trained:
                raise Failed(f"{way}, on {ranks} ranks: ended with 0")
            if way == "link" and any(names[1].iterdir()):
                raise Failed("something was written through the link")
            if way == "unlocked" and code != 74:
                raise Failed(f"{way}, on {ranks} ranks: ended with {code}: {job.told()}")
            if way in ("moved", "removed") and code != 0 and folder.exists():
                raise Failed(f"{way}: a folder of the name was made anew")
            if trained and not names[3].exists():
                raise Failed(f"{way}: nothing was saved beside: {job.told()}")
            resumed = campaign.resumes(names[3], draw) if names[3].exists() else 0
            return {"seconds": seconds, "step": resumed}
        finally:
            job.kill()
            if second:
                second.kill()
            with contextlib.suppress(OSError):
                folder.unlink()  # a link
            for name in names:
                shutil.rmtree(name, ignore_errors=True)
    return trial


def taken(args):
    with Campaign(args, "taken", epochs=epochs_of(args)) as campaign:
        facts, failures, late = campaign.run(trial_of(campaign))
        return campaign.tell(facts, failures, late, "folders taken", {"seconds to the end": [fact["seconds"] for fact in facts],
                                                                      "resumed at step": [fact["step"] for fact in facts]})


def add(commands):
    add_trials(commands, taken, "taken",
               "the run folder is moved, removed, replaced by a link, or entered by a second job after it was moved, at a random\n"
               "moment: never 0 with a file missing, never two writers in one folder, and what was in memory goes on from RUN.rescued")
