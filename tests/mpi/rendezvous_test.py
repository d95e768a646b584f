"""Ranks that meet by a file: the shared cases, what the others do when one dies, does not come, or is on
another host, and what is refused: other jobs, users' files. No mpirun: each rank is a process with the
variables of a launcher."""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = None
LIMIT_S = 60
UNSHARE = shutil.which("unshare")
ELSEWHERE = (UNSHARE, "--uts", "sh", "-c", 'hostname elsewhere && exec "$0" "$@"')
OF_LAUNCHERS = ("OMPI_", "PMI_", "MPI_LOCAL", "SLURM_", "TORCHELASTIC_", "MASTER_", "LOCAL_", "RANK", "WORLD_SIZE")
OF_A_MEETING = b"nqdmeet of an earlier run"


def can_rename_host():
    return UNSHARE and subprocess.run([*ELSEWHERE, "true"], check=False, capture_output=True).returncode == 0


def rank_variables(launcher, rank, ranks):
    if launcher == "slurm":
        return {"SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": ranks, "SLURM_LOCALID": rank, "SLURM_STEP_ID": 0,
                "SLURM_JOB_ID": 7}
    words = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
    return words | ({"TORCHELASTIC_RUN_ID": "job"} if launcher == "torchrun" else {})


class Rendezvous(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nqd-rendezvous-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.meeting = f"file:{self.folder / 'meeting'}"
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def start(self, rank, ranks, *command, launcher="env", before=(), more=None):
        words = rank_variables(launcher, rank, ranks) | (more or {})
        env = {name: value for name, value in os.environ.items() if not name.startswith(OF_LAUNCHERS)}
        env |= {name: str(value) for name, value in words.items() if value is not None}
        process = subprocess.Popen([*before, *map(str, command)], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def meet(self, rank, ranks, deadline_ms=20000, **how):
        """Starts a rank of a world that only meets."""
        return self.start(rank, ranks, ARGS.faults, "return", deadline_ms, ranks, self.meeting, **how)

    def end(self, process, code, *said):
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(code, process.returncode, err)
        for text in said:
            self.assertIn(text, err)

    def wait_for(self, name):
        start = time.monotonic()
        while not (self.folder / name).exists():
            self.assertLess(time.monotonic() - start, LIMIT_S, f"no {name}")
            time.sleep(0.01)

    def left(self):
        return sorted(path.name for path in self.folder.iterdir())

    def run_cases(self, ranks, launcher):
        started = [self.start(rank, ranks, ARGS.cases, ranks, self.meeting, launcher=launcher)
                   for rank in range(ranks)]
        for rank, process in enumerate(started):
            _, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual(0, process.returncode, f"rank {rank}:\n{err}")
        self.assertEqual([], list(self.folder.iterdir()), "the meeting leaves nothing behind")

    def test_shared_cases(self):
        self.run_cases(3, "torchrun")

    def test_a_file_of_an_earlier_run_is_no_answer(self):
        (self.folder / "meeting").write_bytes(OF_A_MEETING)
        (self.folder / "meeting.1").write_bytes(OF_A_MEETING)
        self.run_cases(2, "slurm")

    def test_a_lost_rank_is_named(self):
        started = [self.start(rank, 3, ARGS.faults, "loop-direct", 20000, 3, self.meeting) for rank in range(3)]
        for process in started:
            self.assertTrue(process.stdout.readline().startswith("ready"))
        started[1].send_signal(signal.SIGKILL)
        struck = time.monotonic()
        for rank in (0, 2):
            _, err = started[rank].communicate(timeout=LIMIT_S)
            self.assertEqual(4, started[rank].returncode, err)
            self.assertIn("rank 1", err)
        self.assertLess(time.monotonic() - struck, 10)

    def test_a_failure_of_one_rank_reaches_the_others(self):
        started = [self.start(rank, 2, ARGS.faults, "throw", 20000, 2, self.meeting) for rank in range(2)]
        self.assertIn("rank 1", started[0].communicate(timeout=LIMIT_S)[1])
        self.assertEqual(4, started[0].returncode)
        self.assertIn("the data file is gone", started[1].communicate(timeout=LIMIT_S)[1])
        self.assertEqual(2, started[1].returncode)

    def test_a_rank_that_does_not_come_is_named(self):
        self.end(self.meet(0, 2, 300), 4, "NQD4002", "for rank 1")
        self.end(self.meet(1, 2, 300), 4, "NQD4002", "for rank 0")
        self.assertEqual([], self.left())

    def test_ranks_of_several_hosts_are_refused(self):
        if not can_rename_host():
            self.skipTest("host names cannot be set here")
        started = [self.meet(0, 2), self.meet(1, 2, before=ELSEWHERE)]
        for process in started:
            self.end(process, 3, "2 hosts", "elsewhere")

    def test_a_launcher_that_says_several_hosts_is_not_waited_for(self):
        started = time.monotonic()
        self.end(self.meet(0, 2, more={"LOCAL_WORLD_SIZE": 1}), 3, "NQD3007", "several hosts")
        self.end(self.meet(0, 2, launcher="slurm", more={"SLURM_STEP_NUM_NODES": 2}), 3, "several hosts")
        self.assertLess(time.monotonic() - started, 10)

    def test_a_killed_rank_of_an_earlier_run_is_no_part_of_this_one(self):
        before = ELSEWHERE if can_rename_host() else ()
        killed = self.meet(1, 3, before=before)
        self.wait_for("meeting.1")
        killed.kill()
        killed.communicate()
        # Both take the request that is left for rank 1's own at first.
        started = [self.meet(0, 3), self.meet(2, 3)]
        self.wait_for("meeting")
        time.sleep(0.2)
        for process in [*started, self.meet(1, 3)]:
            self.end(process, 0)
        self.assertEqual([], self.left())

    def test_a_second_job_is_refused_and_the_first_goes_on(self):
        first = self.meet(0, 2, more={"MASTER_PORT": 29500})
        self.wait_for("meeting.lock")
        self.end(self.meet(0, 2, more={"MASTER_PORT": 29501}), 3, "NQD3007", "another process is rank 0")
        for process in (first, self.meet(1, 2, more={"MASTER_PORT": 29500})):
            self.end(process, 0)
        self.assertEqual([], self.left())

    def test_jobs_that_nothing_tells_apart_are_not_mixed(self):
        waiting = self.meet(1, 2)
        self.wait_for("meeting.1.lock")
        self.end(self.meet(1, 2), 3, "NQD3007", "another process is rank 1")
        for process in (waiting, self.meet(0, 2)):
            self.end(process, 3, "two processes came as rank 1")

    def test_what_no_meeting_left_is_not_replaced(self):
        for name, rank in (("meeting", 0), ("meeting", 1), ("meeting.1", 1), ("meeting.lock", 0)):
            with self.subTest(name=name, rank=rank):
                path = self.folder / name
                path.write_text("mine")
                self.end(self.meet(rank, 2), 2, "NQD3007", name)
                self.assertEqual("mine", path.read_text())
                self.assertEqual([name], self.left())
                path.unlink()
        (self.folder / "meeting").mkdir()
        for rank in range(2):
            self.end(self.meet(rank, 2), 2, "NQD3007", "a folder")
        self.assertEqual(["meeting"], self.left())

    def test_a_folder_that_is_not_there_is_known_at_once(self):
        self.meeting = f"file:{self.folder / 'missing' / 'meeting'}"
        for rank in range(2):
            self.end(self.meet(rank, 2), 2, "NQD2002", "missing")

    def test_what_is_said_of_the_rank_must_be_possible(self):
        self.end(self.meet(2, 2), 3, "NQD3007", "RANK=2, WORLD_SIZE=2")
        self.end(self.meet(0, 2, more={"RANK": None}), 3, "NQD3007", "RANK is not set")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("--faults", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
