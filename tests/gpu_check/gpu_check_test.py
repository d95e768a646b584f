#!/usr/bin/env python3
"""scripts/gpu_check as a user starts it, on CPU ranks: what it writes and how it ends. No figure of it says
anything about a GPU."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu_check"
BUILD = pathlib.Path(os.environ["NQD_BINARY_DIR"])


def gpu_check(output, *words):
    done = subprocess.run([sys.executable, str(SCRIPT), "--build", str(BUILD), "--output", str(output), "--python", "",
                           *words], capture_output=True, text=True, check=False, timeout=280,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    record = pathlib.Path(output) / "gpu_check.json"
    return done, json.loads(record.read_text()) if record.exists() else None


class GpuCheck(unittest.TestCase):
    def test_the_trial_on_cpu_ranks_passes_and_writes_its_evidence(self):
        with tempfile.TemporaryDirectory() as folder:
            done, record = gpu_check(folder, "--device", "cpu", "--budget", "900", "--sections",
                                     "parity,throughput,messages")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            results = {one["name"]: one["result"] for one in record["checks"]}
            self.assertEqual(set(results.values()), {"pass"}, done.stdout)
            self.assertIn("ddp x2 float32", results)
            self.assertIn("bench all_reduce", results)
            speed = record["measured"]["throughput"]["byte-gpt-small"]
            self.assertEqual(len(speed["tokens_per_s"]["nqd"]), 2)
            self.assertIn("--python", speed["why"]["PyTorch"])
            self.assertGreater(record["measured"]["audits"]["rows"], 20)
            self.assertEqual({one["result"] for one in record["targets"]}, {"not measured"})
            self.assertTrue(record["ok"])
            self.assertEqual(record["argv"][1:3], ["--build", str(BUILD)])
            self.assertTrue((pathlib.Path(folder) / "doctor.json").exists())
            self.assertIn("| target |", (pathlib.Path(folder) / "gpu_check.md").read_text())

    def test_without_a_build_or_a_gpu_it_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            done, record = gpu_check(folder, "--build", folder)
            self.assertEqual((done.returncode, record), (3, None))
            self.assertIn("does not exist", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            done, record = gpu_check(folder)
            self.assertEqual((done.returncode, record), (3, None))
            self.assertIn("no GPU", done.stderr)


if __name__ == "__main__":
    unittest.main()
