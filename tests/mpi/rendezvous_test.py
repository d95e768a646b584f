"""Ranks that meet by a file: the shared cases, and what the others do when one dies, does not come, or is
on another host. No mpirun: each rank is a process with the variables of a launcher."""

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

    def start(self, rank, ranks, *command, launcher="env", before=()):
        env = dict(os.environ) | {name: str(value) for name, value in rank_variables(launcher, rank, ranks).items()}
        process = subprocess.Popen([*before, *map(str, command)], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

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
        (self.folder / "meeting").write_bytes(b"left behind")
        (self.folder / "meeting.1").write_bytes(b"left behind")
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
        process = self.start(0, 2, ARGS.faults, "return", 300, 2, self.meeting)
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual(4, process.returncode)
        self.assertIn("for rank 1", err)

    def test_ranks_of_several_hosts_are_refused(self):
        before = (UNSHARE, "--uts", "sh", "-c", 'hostname elsewhere && exec "$0" "$@"')
        if not UNSHARE or subprocess.run([*before, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("host names cannot be set here")
        started = [self.start(0, 2, ARGS.faults, "return", 20000, 2, self.meeting),
                   self.start(1, 2, ARGS.faults, "return", 20000, 2, self.meeting, before=before)]
        for process in started:
            _, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual(3, process.returncode, err)
            self.assertIn("2 hosts", err)
            self.assertIn("elsewhere", err)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", required=True)
    parser.add_argument("--faults", required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
