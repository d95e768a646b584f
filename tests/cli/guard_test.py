"""Runs that go wrong without dying: skipped batches, roll-backs, slow ranks."""

import json
import os
import signal
import threading
import time
import unittest

from support import NqdTestCase, Ranks, TINY, mpi_nqd, needs_mpi, nqd, read_json, wait_for

# Weights stand still, so that losses scatter around one value, and the first far above is a spike.
SPIKES = [
    *TINY, "--set", "train.steps=60", "--set", "train.optimizer.learning_rate=1e-9",
    "--set", "train.optimizer.min_learning_rate=1e-9",
    "--set", "train.optimizer.schedule=constant", "--set", "checkpoint.every=5",
    "--set", "guard.roll_back=true", "--set", "guard.max_skips=1",
    "--set", "guard.max_roll_backs=100", "--set", "guard.spike_score=2", "--set", "guard.window=8",
]


def metrics(output):
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


class RollBack(NqdTestCase):
    def test_spikes_are_rolled_back_alike_on_threads_and_processes(self):
        output = self.scratch / "threads"
        out, err = self.assertCode(0, nqd(*self.train_arguments(output, *SPIKES, "--ranks", 2)))
        evidence = read_json(output / "evidence.json")
        backs = evidence["roll_backs"]
        self.assertGreater(len(backs), 0)
        self.assertTrue(evidence["audit_ok"])
        self.assertEqual(list(range(1, 61)), [step["step"] for step in evidence["steps"]])
        for back in backs:
            self.assertEqual(0, back["to_step"] % 5)
            self.assertEqual(back["at_step"] - back["to_step"], back["skipped_batches"])
            self.assertIn("the loss is a spike", back["reason"])
            self.assertIn(back["generation"], err)
        lines = metrics(output)
        self.assertEqual(backs, [line["roll_back"] for line in lines if "roll_back" in line])
        undone = sum(back["skipped_batches"] for back in backs)
        self.assertEqual(60 + undone, sum("loss" in line for line in lines))

        # Stopped on the way and gone on with elsewhere, it reads the same batches.
        elsewhere = self.scratch / "elsewhere"
        until = backs[0]["at_step"] // 5 * 5 + 5
        stopping = ["--set", f"train.steps={until}"]
        self.assertCode(0, nqd(*self.train_arguments(elsewhere, *SPIKES, *stopping, "--ranks", 2)))
        resumed = ["--set", "parallel.engine=zero3", "--resume", "auto"]
        again = self.train_arguments(elsewhere, *SPIKES, *resumed)
        done = mpi_nqd(2, *again) if mpi_available() else nqd(*again, "--ranks", 2)
        self.assertCode(0, done)
        later = read_json(elsewhere / "evidence.json")
        self.assertEqual(evidence["weights_sha256"], later["weights_sha256"])
        self.assertTrue(later["audit_ok"])
        kept = [line["step"] for line in metrics(elsewhere) if "loss" in line]
        self.assertEqual([line["step"] for line in lines if "loss" in line], kept)

    def test_a_run_that_cannot_be_saved_so_ends_and_says_how_often_it_tried(self):
        output = self.scratch / "hopeless"
        _, err = self.assertCode(4, nqd(*self.train_arguments(
            output, *TINY, "--ranks", 2, "--set", "train.optimizer.learning_rate=1e30",
            "--set", "train.optimizer.warmup_steps=0", "--set", "train.optimizer.grad_clip=0",
            "--set", "checkpoint.every=1", "--set", "guard.roll_back=true",
            "--set", "guard.max_skips=2", "--set", "guard.max_roll_backs=2")))
        self.assertIn("NQD4006", err)
        self.assertIn("after 2 roll-backs", err)
        evidence = read_json(output / "evidence.json")
        self.assertEqual([(3, 1, 2)] * 2, [
            (back["at_step"], back["to_step"], back["skipped_batches"])
            for back in evidence["roll_backs"]])
        self.assertEqual([1, 2, 3], [step["step"] for step in evidence["steps"]])
        self.assertEqual(2, evidence["skipped_steps"])

    def test_a_roll_back_needs_generations(self):
        _, err = self.assertCode(1, nqd(*self.train_arguments(
            self.scratch / "none", *TINY, "--set", "guard.roll_back=true")))
        self.assertIn("NQD1268", err)


def mpi_available():
    return bool(os.environ.get("NQD_MPIRUN"))


class Pulses(threading.Thread):
    """Takes a process off its core for half of the time, as a busy neighbour would."""

    PERIOD_S = 0.02

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.ends = threading.Event()

    def run(self):
        try:
            while not self.ends.is_set():
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(self.PERIOD_S)
                os.kill(self.pid, signal.SIGCONT)
                time.sleep(self.PERIOD_S)
        except ProcessLookupError:
            pass


@needs_mpi
class SlowRank(NqdTestCase):
    def test_a_rank_that_others_slow_down_is_named_and_the_run_stops_behind_a_save(self):
        folder = self.folder("slow")
        output = folder / "run"
        world = Ranks(folder, 2, *self.train_arguments(
            output, "--set", "train.steps=100000", "--set", "guard.straggler_score=6",
            "--set", "guard.window=4", "--set", "guard.straggler_stop=true",
            "--set", "train.micro_batch_size=4", "--set", "train.global_batch_size=8"))
        self.addCleanup(world.close)
        wait_for(lambda: (output / "metrics.jsonl").exists(), 30, "the first step")
        pulses = Pulses(world.pid(1))
        pulses.start()
        codes = [world.code(rank, 90)[0] for rank in (0, 1)]
        pulses.ends.set()
        self.assertEqual([75, 75], codes, world.stderr(0))
        evidence = read_json(output / "evidence.json")
        self.assertTrue(evidence["stopped"])
        self.assertTrue(evidence["audit_ok"])
        found = evidence["stragglers"][-1]
        self.assertEqual(1, found["rank"])
        self.assertIn(found["phase"], ("forward", "backward"))
        self.assertGreater(found["seconds"], 1.3 * found["median_s"])
        self.assertEqual(evidence["steps"][-1]["step"], found["step"])
        self.assertIn(f"rank 1 on host {found['host']} is slow in {found['phase']}",
                      world.stderr(0))


if __name__ == "__main__":
    unittest.main()
