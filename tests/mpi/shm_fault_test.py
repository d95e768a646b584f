"""Faults of the shm backend under mpirun: any rank killed, stopped, or gone without a word, in every kind
of wait. The survivors name it and end with exit code 4 in time, and waiting for a stopped rank costs
next to nothing.

--all runs every rank in every wait (minutes); otherwise the rank changes from one wait to the next.
"""

import argparse
import os
import signal
import sys
import threading
import unittest

import fault_test
from fault_test import HOST, MOST_OF_A_CORE, Job, own_lines

RANKS = 3
WAITS = {"eager": "send_recv #", "long": "send_recv #", "ring": "all_reduce #", "direct": "all_reduce #",
         "barrier": "barrier #", "split": "barrier #"}
LIMIT_S = 15
ALL = False


def victims(index):
    return range(RANKS) if ALL else [index % RANKS]


# What this test starts inherits it: other runs on the machine have segments too.
MARK = f"NQD_TEST_RUN={os.getpid()}"
os.environ.update([MARK.split("=")])


def holders_of_segments():
    """The processes started by this test that map a segment of nqd or have one open."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if MARK.encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                held = "/memfd:nqd" in file.read()
            files = [os.path.join(f"/proc/{pid}/fd", name) for name in os.listdir(f"/proc/{pid}/fd")]
            if held or any(os.readlink(file).startswith("/memfd:nqd") for file in files):
                found.add(int(pid))
        except OSError:
            continue  # it ended, or is somebody else's
    return found


class Outcome:
    """One job with one victim, run on a thread of its own."""

    def __init__(self, kind, victim, action):
        self.kind, self.victim, self.action = kind, victim, action
        self.shares = {}
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        leaver = [str(self.victim)] if self.action == "exit" else []
        job = Job(RANKS, "loop-" + self.kind, deadline_ms=2000, asked=RANKS, more=["shm"] + leaver)
        job.wait_ready()
        if self.action == "kill":
            job.strike(self.victim, signal.SIGKILL)
        elif self.action == "stop":
            job.strike(self.victim, signal.SIGSTOP)
            self.shares = job.waiting_shares()
        self.exits, self.errors = job.finish()


class ShmFaultTest(unittest.TestCase):
    def outcomes(self, action):
        """Three jobs at a time: what they wait for is not the processor."""
        cases = [(kind, victim) for index, kind in enumerate(WAITS) for victim in victims(index)]
        for batch in (cases[i:i + 3] for i in range(0, len(cases), 3)):
            running = [Outcome(kind, victim, action) for kind, victim in batch]
            for outcome in running:
                outcome.thread.join()
                yield outcome

    def check_each(self, action, text, also=lambda outcome: None):
        for outcome in self.outcomes(action):
            with self.subTest(wait=outcome.kind, victim=outcome.victim):
                self.check(outcome, text)
                also(outcome)

    def check(self, outcome, text):
        survivors = [rank for rank in range(RANKS) if rank != outcome.victim]
        for rank in survivors:
            reports = own_lines(outcome.errors, rank)
            self.assertEqual(len(reports), 1, outcome.errors)
            self.assertIn(f"rank {outcome.victim} on host {HOST}", reports[0])
            self.assertIn(text, reports[0])
            # A split has no number of its own.
            self.assertRegex(reports[0], WAITS[outcome.kind] + r"\d+ of group world")
        # mpirun may kill the shell of the last survivor before it writes its code.
        seen = [rank for rank in survivors if rank in outcome.exits]
        self.assertGreaterEqual(len(seen), 1, outcome.errors)
        for rank in seen:
            code, after_s = outcome.exits[rank]
            self.assertEqual(code, 4, outcome.errors)
            self.assertLess(after_s, LIMIT_S)

    def test_killed_rank(self):
        self.check_each("kill", "NQD4001]: ")

    def test_rank_that_leaves_without_a_word(self):
        self.check_each("exit", "was lost: its process")

    def test_stopped_rank(self):
        self.check_each("stop", "no heartbeat for", self.check_idle)

    def check_idle(self, outcome):
        used = max(outcome.shares.values())
        print(f"{outcome.kind}: waiting used {used:.1%} of a core", file=sys.stderr)
        # The MPI library, which makes the communicator of a split, does not sleep.
        if outcome.kind != "split":
            self.assertLessEqual(used, MOST_OF_A_CORE)

    def test_crossed_calls_are_named(self):
        exits, errors = Job(RANKS, "crossed", deadline_ms=5000, asked=RANKS, more=["shm"]).finish()
        self.assertEqual({code for code, _ in exits.values()}, {4}, errors)
        self.assertIn("NQD4005", errors)
        self.assertRegex(errors, "in all_(reduce|gather) #1 of group world")

    def test_nothing_stays_behind(self):
        """Segments are memory files without a name in any folder: they live as long as a process
        maps them or has them open."""
        job = Job(RANKS, "loop-long", asked=RANKS, more=["shm"]).wait_ready()
        self.assertLessEqual(set(job.pids.values()), holders_of_segments())
        for pid in job.pids.values():
            os.kill(pid, signal.SIGKILL)
        job.finish()
        self.assertEqual(holders_of_segments(), set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--launcher", choices=sorted(fault_test.FLAGS), default="openmpi")
    parser.add_argument("--all", action="store_true")
    fault_test.ARGS, rest = parser.parse_known_args()
    ALL = fault_test.ARGS.all
    unittest.main(argv=[sys.argv[0]] + rest, verbosity=1)
