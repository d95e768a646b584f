"""SIGKILL of one rank or of all, at every file operation of saves, prunes and resumes."""

import dataclasses
import itertools
import random
import shutil

from harness import EVERY, STEPS, Failure, Reference, Trace, latest_step, run_all

TARGET = 2000
# Of points in processes under mpirun, which take a second each.
MPI_SHARE = 0.1
# Of points whose resumed run is killed too.
SECOND_SHARE = 0.25


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    mesh: tuple = ()             # (key, value) of harness.CONFIG
    mpi: int = 0                 # processes; 0: ranks are threads
    resumes: bool = False        # goes on from two saves that are there
    prunes: bool = False         # `nqd checkpoint prune`, with three saves and a cut one there
    whole_folder: bool = False   # also files of the run beside its saves
    on_disk: bool = False
    copies: bool = False         # to a second folder, which may be all that is left

    def more(self, run):
        return ["--set", f"checkpoint.durable_path={run}/durable"] if self.copies else []

    def config(self, tools):
        return tools.config(**dict(self.mesh))

    def ranks(self):
        mesh = {"dp": 2, "tp": 1, "pp": 1, **dict(self.mesh)}
        return mesh["dp"] * mesh["tp"] * mesh["pp"]


SCENARIOS = [
    Scenario("save beside training"),
    Scenario("save beside training, on disk", on_disk=True),
    Scenario("save that training waits for", (("asynchronous", "false"),)),
    Scenario("zero3, 4 ranks, two kept", (("engine", "zero3"), ("dp", 4), ("keep_last", 2))),
    Scenario("tp 2, pp 1", (("dp", 1), ("tp", 2))),
    Scenario("resume", resumes=True),
    Scenario("all files of the run", whole_folder=True),
    Scenario("prune", prunes=True),
    Scenario("durable copies", copies=True, whole_folder=True),
    Scenario("processes", mpi=2),
    Scenario("processes, save that training waits for", (("asynchronous", "false"),), mpi=2),
]


@dataclasses.dataclass(frozen=True)
class Point:
    scenario: Scenario
    action: str
    at: int
    rank: int = -1  # of the process; -1: all are one
    second: int = 0  # where the resumed run is killed too; 0: nowhere

    def __str__(self):
        return (f"{self.scenario.name}: {self.action} at operation {self.at}"
                + (f" of rank {self.rank}" if self.rank >= 0 else "")
                + (f", then at {self.second} of the resumed run" if self.second else ""))


class CrashPoints:
    def __init__(self, tools, seed):
        self.tools = tools
        self.dice = random.Random(seed)
        self.reference = Reference(tools)
        self.by_operation = {}
        self.survivor_s = []
        self.saved = self._stopped_run()

    def _stopped_run(self):
        """A run folder with saves of steps 2, 4 and 6, and one of 8 that was cut before it counted."""
        config = self.tools.config(keep_last=3)
        at = 0
        for _ in range(20):
            folder, trace = self.tools.folder(), self.tools.folder()
            below = folder / "checkpoints"
            self.tools.run(*self.tools.train_line(config, folder, "--ranks", 2),
                           environment=self.tools.faults(below, trace, "kill" if at else "", at))
            if latest_step(below) == STEPS - EVERY and any(below.glob(f"step-{STEPS:012d}-*")):
                return folder
            if not at:
                # Threads take turns as they like, so that a number is another operation each time.
                at = max(number for number, name, _, path in Trace.read(trace).operations
                         if name == "rename" and path.endswith("/LATEST")) - 10
            shutil.rmtree(folder)
        raise Failure("20 runs could not be cut between their last two saves")

    def start_of(self, scenario):
        """A fresh run folder of the scenario, and the step that it has saved."""
        run = self.tools.folder(fast=not scenario.on_disk)
        if not (scenario.resumes or scenario.prunes):
            return run, 0
        shutil.copytree(self.saved, run)
        return run, latest_step(run / "checkpoints")

    def disturbed(self, scenario, run, trace, action="", at=0, rank=None, **more_faults):
        """Runs the scenario in this folder with a fault injected."""
        below = run if scenario.whole_folder else run / "checkpoints"
        pids = self.tools.folder()
        pids.mkdir()
        faults = self.tools.faults(below, trace, action, at, rank, NQD_IO_FAULT_PIDS=pids, **more_faults)
        if scenario.prunes:
            line = [self.tools.nqd, "checkpoint", "prune", below, "--keep-last", 1]
        else:
            more = scenario.more(run) + (["--resume", "auto"] if scenario.resumes else [])
            if not scenario.mpi:
                more += ["--ranks", scenario.ranks()]
            line = self.tools.train_line(scenario.config(self.tools), run, *more, mpi=scenario.mpi,
                                         faults=faults)
        done = self.tools.run(*line, environment=None if scenario.mpi else faults)
        shutil.rmtree(pids)
        return done

    def plan(self):
        """Every point: those of threads, and those of processes, which are slow."""
        cheap, slow = [], []
        for scenario in SCENARIOS:
            if scenario.mpi and not self.tools.mpirun:
                continue
            run, _ = self.start_of(scenario)
            trace = self.tools.folder()
            done = self.disturbed(scenario, run, trace, rank=0)
            if done.code != 0:
                raise Failure(f"{scenario.name} ends with {done.code} undisturbed\n{done.why()}")
            shutil.rmtree(run)
            operations = {number: name for number, name, _, _ in Trace.read(trace).operations}
            for number, name in operations.items():
                torn = ["torn"] if name == "write" else []
                if not scenario.mpi:
                    cheap += [Point(scenario, action, number) for action in ["kill", *torn]]
                    continue
                actions = ["kill", "kill-all", *torn, *(word + "-all" for word in torn)]
                slow += [Point(scenario, action, number, rank) for action in actions for rank in (0, 1)]
        return cheap, slow

    def points(self):
        """All points in random order, over and over, those of processes among them."""
        cheap, slow = self.plan()
        self.planned = len(cheap) + len(slow)
        while True:
            self.dice.shuffle(cheap)
            self.dice.shuffle(slow)
            rest = itertools.cycle(slow)
            for point in cheap:
                if slow and self.dice.random() < MPI_SHARE:
                    yield next(rest)
                again = not point.scenario.prunes and self.dice.random() < SECOND_SHARE
                yield dataclasses.replace(point, second=self.dice.randint(1, 250) if again else 0)

    def check_survivors(self, trace):
        """A rank that lives on says so: exit code 4, within seconds."""
        killed = max(when for _, when in trace.kills.values())
        for pid, (rank, _) in trace.starts.items():
            if pid in trace.kills:
                continue
            if pid not in trace.exits:
                raise Failure(f"rank {rank} was ended by a signal before it had reported")
            _, when, code, _ = trace.exits[pid]
            if when > killed and code != 4:
                raise Failure(f"rank {rank} survived and ended with {code}")
            if when > killed:
                self.survivor_s.append(when - killed)

    def attempt(self, point):
        """Injects one point (two, with a second kill). Returns how many were reached."""
        scenario = point.scenario
        run, before = self.start_of(scenario)
        checkpoints = run / "checkpoints"
        trace_file = self.tools.folder()
        self.disturbed(scenario, run, trace_file, point.action, point.at,
                       point.rank if point.rank >= 0 else None)
        trace = Trace.read(trace_file)
        reached = int(bool(trace.kills))
        if point.rank >= 0 and reached and not point.action.endswith("-all"):
            self.check_survivors(trace)
        self.check_saved(checkpoints, before, trace)
        self.count_operation(trace)
        if point.second and run.exists():
            trace_file.unlink()
            before = latest_step(checkpoints)
            resumed = dataclasses.replace(scenario, resumes=True)
            self.disturbed(resumed, run, trace_file, "kill", point.second)
            trace = Trace.read(trace_file)
            reached += int(bool(trace.kills))
            self.check_saved(checkpoints, before, trace)
            self.count_operation(trace)
        if scenario.copies and run.exists():
            self.check_copies(run)
        self.finish(scenario, run)
        shutil.rmtree(run)
        trace_file.unlink()
        return reached

    def check_copies(self, run):
        """What the second LATEST names is whole, and half of the runs go on from it alone."""
        if (run / "durable/LATEST").exists():
            done = self.tools.run(self.tools.nqd, "checkpoint", "verify", run / "durable")
            if done.code != 0:
                raise Failure(f"the durable copy is not whole: {done.why()}")
        if self.dice.random() < 0.5:
            shutil.rmtree(run / "checkpoints", ignore_errors=True)

    def check_saved(self, checkpoints, before, trace):
        """No save that counted is gone, and at most the one under way has come to it."""
        least = before + EVERY * trace.published()
        step = latest_step(checkpoints)
        if not least <= step <= least + EVERY:
            raise Failure(f"LATEST is of step {step} where that of {least} had been published")

    def count_operation(self, trace):
        name = trace.operations[-1][1] if trace.operations else "none"
        self.by_operation[name] = self.by_operation.get(name, 0) + int(bool(trace.kills))

    def finish(self, scenario, run):
        """Goes on undisturbed to the end; what it ends with and leaves."""
        after = max(latest_step(run / "checkpoints"), latest_step(run / "durable"))
        config = self.tools.config(**{**dict(scenario.mesh), "keep_last": 1})
        done = self.tools.run(*self.tools.train_line(config, run, "--ranks", scenario.ranks(),
                                                     "--resume", "auto", *scenario.more(run)))
        if done.code != 0:
            raise Failure(f"the resumed run ends with {done.code}: {done.why()}")
        self.reference.check(run, after)
        if after == STEPS:
            return
        left = sorted(path.name for path in (run / "checkpoints").iterdir())
        if len(left) != 2 or left[0] != "LATEST" or latest_step(run / "checkpoints") != STEPS:
            raise Failure(f"left behind: {left}")


def run(tools, budget, seed):
    work = CrashPoints(tools, seed)
    results, failures = run_all(work.attempt, work.points(), budget)
    times = sorted(work.survivor_s)
    return {
        "injected_points": sum(results),
        "runs": len(results),
        "distinct_points": work.planned,
        "by_last_operation": dict(sorted(work.by_operation.items())),
        "scenarios": [one.name for one in SCENARIOS if tools.mpirun or not one.mpi],
        "survivor_exit_s_max": times[-1] if times else None,
        "failures": failures,
    }
