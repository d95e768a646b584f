"""Ranks that die, stop or never come: the others name them and end with exit code 4."""

import os
import re
import signal
import socket
import subprocess
import time
import unittest

import support
from support import NqdTestCase, Ranks, TINY, mpi_nqd, needs_mpi, nqd, read_json, wait_for

# The survivors must speak before mpirun ends them, about a second after a rank's death.
DETECTION_LIMIT_S = 0.5


@needs_mpi
class LostRanks(NqdTestCase):
    def start(self, name, ranks, *more):
        folder = self.folder(name)
        output = folder / "run"
        world = Ranks(folder, ranks, *self.train_arguments(
            output, *TINY, "--set", f"train.global_batch_size={2 * ranks}",
            "--set", f"cluster.gpus_per_node={ranks}", "--set", f"parallel.dp={ranks}",
            "--set", "train.steps=1000000", *more))
        self.addCleanup(world.close)
        metrics = output / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 5, 30,
                 "the first steps")
        return world, output

    def assertNoSave(self, output):
        """mpirun sends the survivors of a death SIGTERM: that is no request to save and stop."""
        self.assertEqual([], list(output.glob("checkpoints/step-*")))

    def kill_and_check(self, name, ranks, victim):
        world, output = self.start(name, ranks)
        pid = world.pid(victim)
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        survivors = [rank for rank in range(ranks) if rank != victim]
        for rank in survivors:
            code, when = world.code(rank)
            self.assertEqual(4, code, f"rank {rank}: {world.stderr(rank)}")
            self.assertLess(when - killed, DETECTION_LIMIT_S, f"rank {rank}")
            self.assertIn(f"rank {victim}", world.stderr(rank))
            self.assertIn(socket.gethostname(), world.stderr(rank))
            print(f"rank {rank} ended {1e3 * (when - killed):.0f} ms after rank {victim} was killed")
        evidence = read_json(output / "evidence.json")
        self.assertEqual(victim, evidence["fault"]["lost_rank"])
        self.assertEqual(socket.gethostname(), evidence["fault"]["lost_host"])
        self.assertGreater(len(evidence["steps"]), 0)
        self.assertEqual([], [p.name for p in output.iterdir() if ".tmp" in p.name])
        self.assertNoSave(output)

    def test_the_last_rank_is_killed(self):
        self.kill_and_check("last", 2, 1)

    def test_rank_zero_is_killed_and_a_survivor_writes_the_evidence(self):
        self.kill_and_check("zero", 2, 0)

    def test_a_middle_rank_of_four_is_killed(self):
        self.kill_and_check("middle", 4, 2)

    def test_a_rank_in_a_long_computation_still_reports_and_leaves_evidence(self):
        """Steps of several seconds with one reduction at their end: nobody looks at a message."""
        folder = self.folder("long")
        output = folder / "run"
        world = Ranks(folder, 2, *self.train_arguments(
            output, "--set", "train.global_batch_size=1024", "--set", "train.eval_batches=1"))
        self.addCleanup(world.close)
        metrics = output / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, 30, "the evaluation")
        time.sleep(0.5)
        killed = time.time()
        os.kill(world.pid(1), signal.SIGKILL)
        code, when = world.code(0)
        self.assertEqual(4, code, world.stderr(0))
        self.assertLess(when - killed, DETECTION_LIMIT_S)
        self.assertIn("rank 1", world.stderr(0))
        print(f"rank 0 ended {1e3 * (when - killed):.0f} ms after rank 1 was killed in a long step")
        fault = read_json(output / "evidence.json")["fault"]
        self.assertEqual((1, socket.gethostname()), (fault["lost_rank"], fault["lost_host"]))
        self.assertNoSave(output)

    def test_a_stopped_rank_is_named_after_the_deadline(self):
        world, output = self.start("stopped", 2, "--deadline", "2")
        pid = world.pid(1)
        stopped = time.time()
        os.kill(pid, signal.SIGSTOP)
        code, when = world.code(0)
        self.assertEqual(4, code, world.stderr(0))
        self.assertGreater(when - stopped, 1.9)
        self.assertLess(when - stopped, 6)
        self.assertRegex(world.stderr(0), r"rank 1\b")
        evidence = read_json(output / "evidence.json")
        self.assertEqual(1, evidence["fault"]["lost_rank"])
        self.assertRegex(evidence["fault"]["code"], re.compile("NQD400[12]"))

    def test_no_shared_memory_stays_behind(self):
        before = set(os.listdir("/dev/shm"))
        world, _ = self.start("shm", 2)
        os.kill(world.pid(0), signal.SIGKILL)
        os.kill(world.pid(1), signal.SIGKILL)
        world.process.wait(timeout=20)
        # Open MPI's own segments are Open MPI's to remove.
        left = [name for name in set(os.listdir("/dev/shm")) - before
                if not name.startswith(("vader_segment.", "osc_"))]
        self.assertEqual([], left)
        for rank in (0, 1):
            self.assertFalse(os.path.exists(f"/proc/{world.pid(rank)}"))


class WorldSize(NqdTestCase):
    @needs_mpi
    def test_an_error_of_all_ranks_is_printed_once_every_time(self):
        for _ in range(4):
            code, _, err = mpi_nqd(4, "train", "configs/invalid/quickstart-wrong.yaml")
            self.assertEqual(2, code, err)
            self.assertEqual(1, err.count("NQD1006]"), err)

    @needs_mpi
    def test_an_error_of_one_rank_is_printed_by_that_rank(self):
        """Rank 1 finds no config where rank 0 finds one."""
        script = self.scratch / "elsewhere.sh"
        script.write_text("#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 0 ] || cd /\nexec \"$@\"\n")
        script.chmod(0o755)
        line = support.mpi_line(2, script, support.NQD, *self.train_arguments(self.scratch / "e"))
        done = subprocess.run(line, cwd=support.SOURCE, env=support.environment(), text=True,
                              capture_output=True, timeout=60)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("NQD1001", done.stderr)

    def test_alone_without_ranks_is_an_environment_error(self):
        _, err = self.assertCode(3, nqd(*self.train_arguments(self.scratch / "alone")))
        self.assertIn("NQD3001", err)
        self.assertIn("mpirun -n 2", err)
        self.assertFalse((self.scratch / "alone").exists())

    @needs_mpi
    def test_another_world_size_is_an_environment_error(self):
        code, _, err = mpi_nqd(3, *self.train_arguments(self.scratch / "three"))
        self.assertEqual(3, code, err)
        self.assertIn("NQD3001", err)
        self.assertFalse((self.scratch / "three").exists())

    @needs_mpi
    def test_ranks_flag_against_the_launcher_is_an_environment_error(self):
        code, _, err = mpi_nqd(2, *self.train_arguments(self.scratch / "flag", "--ranks", 1))
        self.assertEqual(3, code, err)
        self.assertIn("NQD3001", err)


if __name__ == "__main__":
    unittest.main()
