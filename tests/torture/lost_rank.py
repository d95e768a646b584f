"""Ranks and launchers that are killed or stopped at random instants of one supervised run."""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import time

from harness import SOURCE, Failure, Reference, Trace, Unavailable

TARGET = 50
LIMIT_S = 15.0
DEADLINE_S = 5
EVERY = 25
# Of one kill: a start under mpirun, the steps until it, the end of all ranks, and its share of the
# two runs that nobody disturbs.
CYCLE_S = 5.0
LEAST_KILLS, MOST_KILLS = 3, 2 * TARGET
# How long training goes on between kills, which sets how many steps the run has.
BETWEEN_S = 0.5
SLOWER = ["--set", "model.hidden=64", "--set", "model.ffn_hidden=256", "--set", "model.layers=2",
          "--set", "train.bucket_bytes=1000000", "--set", "checkpoint.keep_last=2"]


def is_alive(pid):
    """Also of a zombie, which has ended: no."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


class SupervisedRun:
    def __init__(self, tools, steps, kills, seed):
        self.tools = tools
        self.dice = random.Random(seed)
        self.kills = kills
        self.settings = [*SLOWER, "--set", f"train.steps={steps}"]
        self.run = tools.folder(fast=False)
        self.trace = tools.folder()
        self.errors = tools.folder()
        self.failures = []
        self.ends = {"rank": [], "launcher": [], "stopped": []}
        self.in_start = 0  # kills before training had begun, when nobody can report yet

    def start(self):
        faults = self.tools.faults("", self.trace)
        line = self.tools.train_line(self.tools.config(every=EVERY), self.run, "--deadline", DEADLINE_S,
                                     "--resume", "auto", *self.settings, mpi=2, faults=faults)
        supervise = [self.tools.nqd, "supervise", "--max-restarts", 10 * self.kills + 100,
                     "--give-up-after", 50, "--back-off", 0.05, "--json", "--", *line]
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen([str(word) for word in supervise], cwd=SOURCE, env=env,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=errors, text=True)

    def alive_ranks(self):
        """{rank: pid}"""
        return {int(rank): pid for pid, (rank, _) in Trace.read(self.trace).starts.items() if is_alive(pid)}

    def metrics_size(self):
        path = self.run / "metrics.jsonl"
        return path.stat().st_size if path.exists() else 0

    def kill_one(self, number):
        """Waits for an attempt, disturbs it, and watches how it ends. False when the run is over."""
        ended = lambda: self.process.poll() is not None
        if not wait_until(lambda: ended() or len(self.alive_ranks()) == 2, 60) or ended():
            return False
        size = self.metrics_size()
        kind = self.dice.choices(list(self.ends), [0.7, 0.15, 0.15])[0]
        waits = kind == "stopped" or self.dice.random() < 0.85
        if waits and not wait_until(lambda: ended() or self.metrics_size() > size + 500, 30):
            raise Failure(f"kill {number}: no step within 30 s of a start")
        time.sleep(self.dice.uniform(0, 2 * BETWEEN_S))
        ranks = self.alive_ranks()
        if ended() or len(ranks) != 2:
            return not ended()
        victim = self.dice.choice([0, 1])
        told = self.errors.stat().st_size
        training = self.metrics_size() > size + 500
        begin = time.monotonic()
        try:
            pid = parent_of(ranks[victim]) if kind == "launcher" else ranks[victim]
            os.kill(pid, signal.SIGSTOP if kind == "stopped" else signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            return True
        others = list(ranks.values()) if kind == "launcher" else [ranks[1 - victim]]
        if not wait_until(lambda: not any(map(is_alive, others)), LIMIT_S + 10):
            raise Failure(f"kill {number} ({kind}): the others still ran {LIMIT_S + 10} s later")
        self.judge(f"kill {number} ({kind} {victim})", kind, training, victim, others, begin, told)
        return True

    def judge(self, what, kind, training, victim, others, begin, told):
        exits = Trace.read(self.trace).exits
        ends = [exits[pid][1] if pid in exits else time.monotonic() for pid in others]
        self.ends[kind].append(max(ends) - begin)
        if self.ends[kind][-1] > LIMIT_S:
            self.failures.append(f"{what}: the others ended {self.ends[kind][-1]:.1f} s later")
        if not training:
            self.in_start += 1
            return
        if kind == "launcher":
            return
        codes = [exits[pid][2] if pid in exits else None for pid in others]
        # A run may be through at that very moment.
        if codes == [0]:
            return
        if codes != [4]:
            self.failures.append(f"{what}: the survivor ended with {codes[0]} (none: by a signal)")
        # mpirun passes on what a rank said in its own time.
        if not wait_until(lambda: re.search(rf"\brank {victim}\b", self.said_since(told)), 5):
            self.failures.append(f"{what}: the report does not name rank {victim}: {self.said_since(told)[-800:]}")

    def said_since(self, place):
        with open(self.errors) as errors:
            errors.seek(place)
            return errors.read()

    def finish(self, timeout):
        try:
            out, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise Failure("the supervised run did not come to its end: "
                          + self.errors.read_text()[-1500:]) from None
        if self.process.returncode != 0:
            raise Failure(f"the supervised run ended with {self.process.returncode}: "
                          + self.errors.read_text()[-1500:])
        return json.loads(out)["attempts"]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()


def spread(values):
    if not values:
        return None
    return {"count": len(values), "median": statistics.median(values), "max": max(values)}


def steps_for(tools, kills):
    """So many that training lasts over the kills."""
    folder = tools.folder()
    done = tools.run(*tools.train_line(tools.config(every=0), folder, *SLOWER, "--set", "train.steps=200", mpi=2))
    if done.code != 0:
        raise Failure("a run that nobody disturbs ends with " + f"{done.code}: {done.why()}")
    steps = json.loads((folder / "evidence.json").read_text())["steps"]
    step_s = statistics.median(one["step_s"] for one in steps)
    return max(500, int(1.5 * kills * BETWEEN_S / step_s))


def run(tools, budget, seed):
    if not tools.mpirun:
        raise Unavailable("no mpirun: ranks of one process cannot be lost alone")
    kills = min(max(LEAST_KILLS, int(budget.left() / CYCLE_S)), MOST_KILLS)
    steps = steps_for(tools, kills)
    world = SupervisedRun(tools, steps, kills, seed)
    reference = Reference(tools, every=0, extra=world.settings)
    world.start()
    try:
        number = 0
        while number < kills and (number < LEAST_KILLS or budget.left() > 0) and world.kill_one(number):
            number += 1
        attempts = world.finish(timeout=budget.seconds + 300)
    finally:
        world.stop()
    evidence = json.loads((world.run / "evidence.json").read_text())
    if evidence["weights_sha256"] != reference.weights:
        world.failures.append("other final weights than the run that nobody disturbed")
    reference.check_metrics(world.run / "metrics.jsonl")
    return {
        "kills": sum(map(len, world.ends.values())),
        "before_training": world.in_start,
        "steps": steps,
        "attempts": len(attempts),
        "others_ended_s": {kind: spread(ends) for kind, ends in world.ends.items()},
        "recovery_s": spread([one["recovery_s"] for one in attempts if one["recovery_s"] is not None]),
        "lost_steps": spread([one["lost_steps"] for one in attempts if one["lost_steps"] is not None]),
        "deadline_s": DEADLINE_S,
        "save_every_steps": EVERY,
        "failures": world.failures,
    }
