"""Disks that fail, fill up, cannot be written or are slow, and a clock that jumps back: the run goes
on or ends with the right code and message, and the newest save is never a damaged one."""

import contextlib
import dataclasses
import errno
import itertools
import re
import shutil

import crash_points
from crash_points import CrashPoints, Scenario
from harness import EVERY, STEPS, Failure, Tools, Trace, Unavailable, latest_step, run_all

TARGET = 2000
ERRORS = [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES]
SCENARIOS = [one for one in crash_points.SCENARIOS if not one.mpi and not one.on_disk]
# Seconds that the clock jumps: 400 days back.
JUMP_S = -400 * 86400
SLEEP_US = 2000


@dataclasses.dataclass(frozen=True)
class Fault:
    scenario: Scenario
    error: int
    lasting: bool  # it and all later operations that change the disk fail
    at: int

    def __str__(self):
        return (f"{self.scenario.name}: {errno.errorcode[self.error]} "
                f"{'from' if self.lasting else 'at'} operation {self.at}{' on' if self.lasting else ''}")


@contextlib.contextmanager
def mounted(folder, size):
    """A tmpfs of so many bytes."""
    folder.mkdir()
    done = Tools.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    if done.code != 0:
        raise Unavailable("mounting a tmpfs is not allowed here: " + done.err.strip())
    try:
        yield
    finally:
        Tools.run("umount", folder)


class FailingDisk(CrashPoints):
    def faults(self):
        """All operations of all scenarios with all errors, in random order."""
        found = []
        for scenario, count in self.counts().items():
            found += [Fault(scenario, error, lasting, at) for error in ERRORS
                      for lasting in (False, True) for at in range(1, count + 1)]
        self.dice.shuffle(found)
        self.planned = len(found)
        return found

    def counts(self):
        counts = {}
        for scenario in SCENARIOS:
            run, _ = self.start_of(scenario)
            trace = self.tools.folder()
            self.disturbed(scenario, run, trace)
            counts[scenario] = len(Trace.read(trace).operations)
        return counts

    def check_end(self, scenario, done, trace):
        """The exit code that the fault deserves, and a message with a code."""
        failed = {name for _, name, good, _ in trace.operations if not good}
        allowed = {0, 4}
        # What cannot be read before the run has begun, or written by a command, is a bad input.
        first = next((i for i, (_, _, good, _) in enumerate(trace.operations) if not good), 0)
        only_read = all(name in ("stat", "open", "read") for _, name, _, _ in trace.operations[:first + 1])
        if scenario.resumes or scenario.prunes or scenario.whole_folder or only_read:
            allowed.add(2)
        if done.code not in allowed:
            raise Failure(f"exit code {done.code} when {sorted(failed)} failed: {done.why()}")
        if done.code != 0 and not re.search(r"\[NQD\d{4}\]", done.err):
            raise Failure(f"no message with a code: {done.why()}")

    def check_whole(self, checkpoints):
        if not (checkpoints / "LATEST").exists():
            return
        done = self.tools.run(self.tools.nqd, "checkpoint", "verify", checkpoints)
        if done.code != 0 or "is of no use" in done.err:
            raise Failure(f"the newest save is damaged: {done.why()}")

    def attempt(self, fault):
        scenario = fault.scenario
        run, before = self.start_of(scenario)
        trace_file = self.tools.folder()
        word = "errors" if fault.lasting else "error"
        done = self.disturbed(scenario, run, trace_file, f"{word} {fault.error}", fault.at)
        trace = Trace.read(trace_file)
        self.check_end(scenario, done, trace)
        if latest_step(run / "checkpoints") < max(before, EVERY * min(trace.published(), 1)):
            raise Failure("LATEST went back")
        self.check_whole(run / "checkpoints")
        self.finish(scenario, run)
        shutil.rmtree(run)
        trace_file.unlink()
        return done.code

    def full(self):
        """Real file systems of every size up to one on which all fits."""
        for size in range(48, 400, 32):
            folder, run = self.tools.folder(), self.tools.folder()
            with mounted(folder, f"{size}k"):
                where = ["--set", f"checkpoint.path={folder}/c"]
                line = self.tools.train_line(self.tools.config(), run, "--ranks", 2, *where)
                done = self.tools.run(*line)
                if done.code not in (0, 4) or (done.code == 4 and "No space left" not in done.err):
                    raise Failure(f"{size} KiB: exit code {done.code}: {done.why()}")
                self.check_whole(folder / "c")
                after = latest_step(folder / "c")
                Tools.run("mount", "-o", "remount,size=10m", folder)
                self.go_on(line, run, after)

    def go_on(self, line, run, after):
        done = self.tools.run(*line, "--resume", "auto")
        if done.code != 0:
            raise Failure(f"exit code {done.code} once the disk is well: {done.why()}")
        self.reference.check(run, after)

    def read_only(self):
        """A folder that turns read-only under the run's earlier saves."""
        folder, run = self.tools.folder(), self.tools.folder()
        shutil.copytree(self.saved, run)
        with mounted(folder, "10m"):
            shutil.copytree(self.saved / "checkpoints", folder / "c")
            before = latest_step(folder / "c")
            Tools.run("mount", "-o", "remount,ro", folder)
            line = self.tools.train_line(self.tools.config(), run, "--ranks", 2, "--set",
                                         f"checkpoint.path={folder}/c")
            done = self.tools.run(*line, "--resume", "auto")
            if done.code != 2 or "NQD2002" not in done.err or "Read-only file system" not in done.err:
                raise Failure(f"exit code {done.code} on a read-only disk: {done.why()}")
            Tools.run("mount", "-o", "remount,rw", folder)
            self.go_on(line, run, before)

    def slow(self):
        """Every operation takes milliseconds more."""
        for scenario in SCENARIOS[:2]:
            run, _ = self.start_of(scenario)
            done = self.disturbed(scenario, run, self.tools.folder(), f"sleep {SLEEP_US}")
            if done.code != 0:
                raise Failure(f"exit code {done.code}: {done.why()}")
            self.reference.check(run, 0)

    def clock(self):
        """The clock jumps back before a run goes on, and in the midst of one."""
        resume = next(one for one in SCENARIOS if one.resumes)
        for scenario, first in itertools.product([SCENARIOS[0], resume], [0, 50, 150]):
            run, before = self.start_of(scenario)
            done = self.disturbed(scenario, run, self.tools.folder(), NQD_IO_FAULT_CLOCK=JUMP_S,
                                  NQD_IO_FAULT_CLOCK_FROM=first)
            if done.code != 0:
                raise Failure(f"exit code {done.code}: {done.why()}")
            self.reference.check(run, before)
            left = sorted(path.name[:17] for path in (run / "checkpoints").iterdir())
            if left != ["LATEST", f"step-{STEPS:012d}"]:
                raise Failure(f"{scenario.name}, clock back from operation {first} on: left {left}")


def run(tools, budget, seed):
    work = FailingDisk(tools, seed)
    cases, failures = {}, []
    for name in ("full", "read_only", "slow", "clock"):
        try:
            getattr(work, name)()
            cases[name] = "as promised"
        except Unavailable as why:
            cases[name] = f"skipped: {why}"
        except Failure as failure:
            cases[name] = "failed"
            failures.append(f"{name}: {failure}")
    results, more = run_all(work.attempt, work.faults(), budget)
    return {
        "injected_faults": len(results),
        "distinct_faults": work.planned,
        "ended_with": {str(code): results.count(code) for code in sorted(set(results))},
        "cases": cases,
        "failures": failures + more,
    }
