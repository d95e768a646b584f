"""nqd canary: a rank that is slowed for real is named, and one that is left alone is not."""

import json
import os
import signal
import subprocess
import sys
import time

import support
from support import (MPIRUN, NQD, SOURCE, NqdTestCase, TINY, environment, mpi_nqd, needs_mpi, nqd,
                     read_json)

CALIBRATION = """\
version: 1
source: "by hand"
{rates}
curves:
  - collective: send_recv
    algorithm: library
    ranks: 2
    inside_node: true
    max_residual_fraction: 0
    pieces:
      - {{from_bytes: 4096, to_bytes: 67108864, alpha_s: 0, beta_s_per_byte: {beta}}}
"""


class Canary(NqdTestCase):
    def calibration(self, name, rates, beta):
        path = self.scratch / name
        path.write_text(CALIBRATION.format(rates=rates, beta=beta))
        return path

    def check_document(self, text):
        path = self.scratch / "document.json"
        path.write_text(text)
        done = subprocess.run(
            [sys.executable, SOURCE / "tests/reports/validate_evidence.py", path,
             SOURCE / "schemas/evidence.schema.json"], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 77), done.stdout)
        return json.loads(text)

    def test_nothing_is_slow_where_nobody_is_slowed(self):
        # Other work on this machine may slow a rank for real, but not every time.
        for attempt in range(5):
            output = self.scratch / "clean.json"
            code, out, err = nqd("canary", "--ranks", 2, "--output", output)
            document = self.check_document(output.read_text())
            self.assertEqual((code == 0), document["healthy"], out + err)
            if code == 0:
                break
        self.assertEqual(0, code, out + err)
        self.assertEqual([], document["findings"])
        self.assertEqual(1, document["passes"])
        self.assertEqual([0, 1], [device["rank"] for device in document["devices"]])
        self.assertEqual([(0, 1)], [(link["a"], link["b"]) for link in document["links"]])
        self.assertIn("healthy: nothing is slow", out)

    def test_a_calibration_that_the_machine_does_not_reach(self):
        path = self.calibration("fast.yaml", "gemm_flops: 1e16\nmemory_bandwidth_bytes_per_s: 1e15",
                                1e-16)
        code, out, err = nqd("canary", "--ranks", 2, "--calibration", path, "--json")
        self.assertEqual(1, code, err)
        document = self.check_document(out)
        self.assertFalse(document["healthy"])
        self.assertEqual(str(path), document["calibration"])
        found = {(one["test"], one["rank"], one["peer"]) for one in document["findings"]
                 if one["against"] == "calibration"}
        self.assertEqual({("gemm", 0, None), ("gemm", 1, None), ("copy", 0, None),
                          ("copy", 1, None), ("bandwidth", 0, 1)}, found)
        self.assertEqual(3, document["passes"])
        self.assertEqual([document["host"]["hostname"]], document["slow_hosts"])

    def test_a_single_rank_is_judged_by_the_calibration_alone(self):
        slow = self.calibration("slow.yaml", "gemm_flops: 1e6", 1)
        out, _ = self.assertCode(0, nqd("canary", "--ranks", 1, "--calibration", slow, "--json"))
        self.assertEqual([], self.check_document(out)["links"])

    def test_wrong_calibrations(self):
        _, err = self.assertCode(2, nqd("canary", "--calibration", self.scratch / "absent.yaml"))
        self.assertIn("absent.yaml", err)

    @needs_mpi
    def test_a_rank_that_gets_half_of_its_time_is_named(self):
        """Rank 1 is stopped for half of every 20 ms, as a quota of its cgroup does."""
        pid_file, output = self.scratch / "pid", self.scratch / "slowed.json"
        script = self.scratch / "rank.sh"
        script.write_text('#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo $$ > "$1.tmp" && '
                          'mv "$1.tmp" "$1"\nshift\nexec "$@"\n')
        script.chmod(0o755)
        busy = 0
        for attempt in range(5):
            pid_file.unlink(missing_ok=True)
            process = subprocess.Popen(
                [MPIRUN, "--oversubscribe", "-n", "2", script, pid_file, NQD, "canary", "--output",
                 output], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            support.wait_for(pid_file.exists, 20, "rank 1 to start")
            pid = int(pid_file.read_text())
            while process.poll() is None:
                try:
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.012)
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    break
                time.sleep(0.008)
            out, err = process.communicate(timeout=60)
            document = read_json(output)
            named = {(one["test"], one["rank"]) for one in document["findings"]
                     if one["peer"] is None}
            if ("cpu_share", 1) in named:
                break
            # Other work slows the other rank too; then nobody stands out, and the canary says that.
            if document["busy_hosts"]:
                self.assertIn("busy-host", out)
                busy += 1
        if busy == 5:
            self.skipTest("this machine is busy")
        self.assertIn(("cpu_share", 1), named, json.dumps(document["devices"]))
        self.assertNotIn(("cpu_share", 0), named)
        self.assertNotEqual(0, process.returncode)
        self.assertIn("time on a CPU of rank 1 on host", out)
        self.assertLess(document["devices"][1]["cpu_share"], 0.67)

    @needs_mpi
    def test_train_refuses_before_the_first_step(self):
        run = self.scratch / "refused"
        fast = self.calibration("refuse.yaml", "gemm_flops: 1e16", 1e-16)
        code, _, err = mpi_nqd(2, *self.train_arguments(run, *TINY, "--canary", "--cluster", fast))
        self.assertEqual(1, code, err)
        self.assertEqual(1, err.count("NQD3050"), err)
        self.assertIn("matrix products of rank 1 on host", err)
        self.assertFalse((run / "metrics.jsonl").exists())
        self.assertFalse(read_json(run / "canary.json")["healthy"])

    def test_train_goes_on_when_nothing_is_slow(self):
        run = self.scratch / "trained"
        slow = self.calibration("train.yaml", "gemm_flops: 1e6", 1)
        code, _, err = nqd(*self.train_arguments(run, *TINY, "--set", "train.steps=3", "--ranks", 1,
                                                 "--canary", "--cluster", slow))
        self.assertEqual(0, code, err)
        self.assertIn("canary: nothing is slow", err)
        self.assertTrue(read_json(run / "canary.json")["healthy"])
        self.assertTrue(read_json(run / "evidence.json")["audit_ok"])
