"""What survivors do when a rank dies, stops, leaves or fails under mpirun.

mpirun reports one code for the job, so every rank runs under a shell that writes down the exit code
and the time of its program. The harness strikes when all ranks have said that they are ready.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ARGS = None
HOST = socket.gethostname()

# The trap lets the shell outlive mpirun's SIGTERM, and the SIGUSR1 by which MPICH's launcher tells of
# a lost rank; a handler, unlike "ignore", is not inherited. Built-ins alone after the program: mpirun
# signals the whole process group.
WRAPPER = ('trap : TERM USR1; "$@"; code=$?; echo "$code $EPOCHREALTIME" '
           '> "$NQD_TEST_FOLDER/exit.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exit $code')
# MPICH's launcher would otherwise end every rank by SIGKILL as soon as it misses one.
FLAGS = {"openmpi": [], "mpich": ["-disable-auto-cleanup"]}
# What waiting for a stopped rank may cost.
MOST_OF_A_CORE = 0.05


def cpu_seconds(pid):
    """What all threads of a process have run, to the nanosecond (sched-stats.rst of the kernel)."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


class Job:
    """A running fault_program of `ranks` ranks."""

    def __init__(self, ranks, mode, deadline_ms=20000, asked=None, flags=None, more=()):
        self.ranks = ranks
        self.folder = tempfile.mkdtemp()
        self.pids = {}
        self.struck = None
        self.stopped = None
        command = [ARGS.mpiexec, *(FLAGS[ARGS.launcher] if flags is None else flags),
                   "-n", str(ranks), "bash", "-c", WRAPPER, "rank", ARGS.program, mode,
                   str(deadline_ms)] + ([str(asked)] if asked else []) + list(more)
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=dict(os.environ, NQD_TEST_FOLDER=self.folder))
        self.guard = threading.Timer(60, self.process.kill)
        self.guard.start()

    def wait_ready(self):
        while len(self.pids) < self.ranks:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError("the job ended before it was ready:\n" + self.finish()[1])
            word, rank, pid = line.split()
            assert word == "ready"
            self.pids[int(rank)] = int(pid)
        time.sleep(0.2)
        return self

    def strike(self, rank, number):
        self.struck = time.time()
        os.kill(self.pids[rank], number)
        if number == signal.SIGSTOP:
            self.stopped = rank

    def waiting_shares(self):
        """The share of a core that each rank uses while it waits for the stopped one."""
        pids = {rank: pid for rank, pid in self.pids.items() if rank != self.stopped}
        time.sleep(0.4)
        start = time.monotonic()
        before = {rank: cpu_seconds(pid) for rank, pid in pids.items()}
        time.sleep(1)
        passed = time.monotonic() - start
        return {rank: (cpu_seconds(pid) - before[rank]) / passed for rank, pid in pids.items()}

    def end_stopped(self):
        """Does for a launcher that leaves a stopped rank alone what others do once a rank has failed."""
        others = [self.exit_path(rank) for rank in range(self.ranks) if rank != self.stopped]
        while not all(map(os.path.exists, others)) and self.process.poll() is None:
            time.sleep(0.01)
        os.kill(self.pids[self.stopped], signal.SIGKILL)

    def exit_path(self, rank):
        return os.path.join(self.folder, f"exit.{rank}")

    def finish(self):
        """Exit code and seconds since the strike by rank, and all of stderr."""
        if self.stopped is not None and ARGS.launcher == "mpich":
            self.end_stopped()
        self.process.communicate()
        self.guard.cancel()
        exits = {}
        for rank in range(self.ranks):
            path = self.exit_path(rank)
            if os.path.exists(path) and os.path.getsize(path) > 0:
                with open(path, encoding="ascii") as file:
                    code, at = file.read().split()
                exits[rank] = (int(code), float(at) - (self.struck or float(at)))
        shutil.rmtree(self.folder)
        with self.errors:
            self.errors.seek(0)
            return exits, self.errors.read()


def own_lines(errors, rank):
    """What one rank itself reported."""
    return [line for line in errors.splitlines() if line.startswith(f"nqd [rank {rank}]: error")]


class FaultTest(unittest.TestCase):
    def setUp(self):
        self.shared_memory = set(os.listdir("/dev/shm"))

    def tearDown(self):
        left = set(os.listdir("/dev/shm")) - self.shared_memory
        self.assertFalse([name for name in left if "nqd" in name], "left in /dev/shm")

    def check_survivors(self, exits, errors, survivors, text, within_s=5):
        for rank in survivors:
            reports = own_lines(errors, rank)
            self.assertEqual(len(reports), 1, errors)
            self.assertIn(text, reports[0])
        # Once two survivors have exited, mpirun sends SIGKILL to the shells of the others, which may
        # then be too late to write a code.
        seen = [rank for rank in survivors if rank in exits]
        self.assertGreaterEqual(len(seen), min(2, len(survivors)), errors)
        for rank in seen:
            self.assertEqual(exits[rank][0], 4, f"rank {rank}:\n{errors}")
            self.assertLess(exits[rank][1], within_s)
        slowest = max(exits[rank][1] for rank in seen)
        if slowest > 0:
            print(f"{self.id()}: the last survivor ended {slowest:.3f} s after", file=sys.stderr)

    def test_killed_rank_is_named_at_once(self):
        for ranks, lost in ((2, 1), (4, 2), (3, 0)):
            with self.subTest(ranks=ranks, lost=lost):
                job = Job(ranks, "reduce").wait_ready()
                job.strike(lost, signal.SIGKILL)
                exits, errors = job.finish()
                survivors = [rank for rank in range(ranks) if rank != lost]
                self.assertEqual(exits[lost][0], 128 + signal.SIGKILL)
                self.check_survivors(exits, errors, survivors,
                                     f"NQD4001]: rank {lost} on host {HOST} was lost", 0.9)

    def test_stopped_rank_is_named_after_the_deadline(self):
        job = Job(3, "reduce", deadline_ms=2000).wait_ready()
        job.strike(1, signal.SIGSTOP)
        used = max(job.waiting_shares().values())
        print(f"{self.id()}: waiting used {used:.1%} of a core", file=sys.stderr)
        self.assertLessEqual(used, MOST_OF_A_CORE)
        exits, errors = job.finish()
        self.check_survivors(exits, errors, (0, 2), "NQD4002]: all_reduce #", 4)
        for rank in (0, 2):
            self.assertGreaterEqual(exits[rank][1], 1.5)
            self.assertIn(f"for rank 1 on host {HOST}: no heartbeat for", own_lines(errors, rank)[0])
            self.assertIn("of group dp", own_lines(errors, rank)[0])

    def test_rank_that_exits_with_0_is_lost(self):
        exits, errors = Job(3, "exit").wait_ready().finish()
        self.assertEqual(exits[1][0], 0)
        self.check_survivors(exits, errors, (0, 2), f"NQD4001]: rank 1 on host {HOST} was lost")

    def test_message_of_a_failed_rank_reaches_its_peers(self):
        exits, errors = Job(3, "throw").wait_ready().finish()
        self.assertEqual(exits[1][0], 2)
        self.assertIn("the data file is gone", own_lines(errors, 1)[0])
        self.check_survivors(exits, errors, (0, 2),
                             f"NQD4001]: rank 1 (host {HOST}) failed: the data file is gone")

    def test_rank_whose_body_returned_is_named_after_the_deadline(self):
        exits, errors = Job(3, "leave", deadline_ms=1500).wait_ready().finish()
        self.check_survivors(exits, errors, (0, 1, 2), f"rank 1 on host {HOST}")
        self.assertIn("its part of the run has ended", errors)

    def test_rank_deep_in_a_computation_is_ended_by_its_watchdog(self):
        job = Job(3, "compute").wait_ready()
        job.strike(1, signal.SIGKILL)
        # What mpirun sends later: it must not keep the report from coming out.
        os.kill(job.pids[0], signal.SIGTERM)
        exits, errors = job.finish()
        self.check_survivors(exits, errors, (0, 2), f"NQD4001]: rank 1 on host {HOST} was lost", 1.5)
        self.assertGreaterEqual(exits[0][1], 0.25)

    def test_ranks_that_all_compute_for_ever_are_ended_and_all_named(self):
        exits, errors = Job(3, "stall").wait_ready().finish()
        self.assertEqual({code for code, _ in exits.values()}, {4}, errors)
        for rank in range(3):
            self.assertIn("NQD4002]: step 5 was not done within 3 s; ", own_lines(errors, rank)[0])
            # One that lags may not have left the barrier yet.
            self.assertRegex(
                errors, rf"; rank {rank} on host {HOST}: (computes after|in) barrier #1 of group world")
        self.assertIn(f"; rank 1 on host {HOST}: computes after barrier", errors)

    def test_rank_inside_the_library_is_ended_by_its_watchdog(self):
        job = Job(3, "library").wait_ready()
        job.strike(1, signal.SIGKILL)
        exits, errors = job.finish()
        self.check_survivors(exits, errors, (0, 2), f"NQD4001]: rank 1 on host {HOST} was lost", 1.5)

    def test_library_call_has_the_deadline_too(self):
        job = Job(2, "library", deadline_ms=1500).wait_ready()
        job.strike(1, signal.SIGSTOP)
        exits, errors = job.finish()
        self.check_survivors(exits, errors, (0,), "NQD4002]: all_reduce #2 of group world", 5)
        self.assertIn(f"rank 1 on host {HOST}: no heartbeat", errors)

    def test_disagreement_about_length(self):
        exits, errors = Job(2, "mismatch").wait_ready().finish()
        self.assertEqual({code for code, _ in exits.values()}, {4})
        self.assertIn("NQD4005", errors)

    def test_sigterm_with_a_lost_peer_still_reports_it(self):
        job = Job(3, "reduce").wait_ready()
        os.kill(job.pids[0], signal.SIGTERM)
        job.strike(1, signal.SIGKILL)
        exits, errors = job.finish()
        self.check_survivors(exits, errors, (0, 2), f"NQD4001]: rank 1 on host {HOST} was lost", 0.9)

    def test_sigterm_alone_ends_the_job_quietly(self):
        job = Job(3, "reduce").wait_ready()
        job.struck = time.time()
        for pid in job.pids.values():
            os.kill(pid, signal.SIGTERM)
        exits, errors = job.finish()
        self.assertEqual({code for code, _ in exits.values()}, {128 + signal.SIGTERM}, errors)
        self.assertNotIn("was lost", errors)

    def test_world_of_another_size_does_not_start(self):
        exits, errors = Job(2, "return", asked=5).finish()
        self.assertEqual({code for code, _ in exits.values()}, {3})
        self.assertIn(f"asked for 5 ranks, but {ARGS.launcher} started 2", errors)

    def test_notice_of_the_launcher_does_not_end_a_rank(self):
        if ARGS.launcher != "mpich":
            self.skipTest("this launcher sends no SIGUSR1")
        job = Job(3, "reduce").wait_ready()
        for pid in job.pids.values():
            os.kill(pid, signal.SIGUSR1)
        job.strike(1, signal.SIGKILL)
        exits, errors = job.finish()
        self.check_survivors(exits, errors, (0, 2), f"NQD4001]: rank 1 on host {HOST} was lost", 0.9)

    def test_launcher_left_to_itself_ends_the_job(self):
        job = Job(3, "reduce", flags=[]).wait_ready()
        job.strike(1, signal.SIGKILL)
        job.finish()
        self.assertNotEqual(job.process.returncode, 0)
        self.assertLess(time.time() - job.struck, 5)
        # The launcher may have ended the shells alone: then the ranks notice for themselves.
        while any(os.path.exists(f"/proc/{pid}") for pid in job.pids.values()):
            self.assertLess(time.time() - job.struck, 5, "a rank is left")
            time.sleep(0.01)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--launcher", choices=sorted(FLAGS), default="openmpi")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest, verbosity=1)
