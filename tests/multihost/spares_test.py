"""nqd supervise over several hosts: one hangs, then its spare, and the run ends with the bits of one that
nobody disturbed. What is behind a slow cable is named by the canary."""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import bed as beds

ARGS = None
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TINY = ["model.layers=2", "model.hidden=32", "model.heads=2", "model.ffn_hidden=128", "model.sequence=32",
        "train.micro_batch_size=2", "train.global_batch_size=4", "train.bucket_bytes=20000",
        "train.optimizer.warmup_steps=2", "train.eval_every=0", "checkpoint.every=20"]


class SparesTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nqd-spares-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.nqd("data", "prepare", "--output", self.folder / "data")

    def nqd(self, *arguments):
        done = subprocess.run([ARGS.nqd, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def train(self, run, steps):
        words = ["train", SOURCE / "configs/quickstart.yaml", "--output-dir", self.folder / run]
        for value in [*TINY, f"train.steps={steps}", f"data.path={self.folder / 'data'}"]:
            words += ["--set", value]
        return [str(word) for word in words]

    def wait_for_attempt(self, number, metrics, job):
        """Until the attempt of that number (from 0), which goes on from a save, has made some steps."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            parts = metrics.read_text().split('"resumed_after"') if metrics.exists() else [""]
            if len(parts) > number and parts[number].count('"loss"') >= 50:
                return
            self.assertIsNone(job.process.poll(), "the supervisor has ended")
            time.sleep(0.02)
        self.fail(f"attempt {number} made no steps")

    def test_a_host_hangs_and_then_its_spare(self):
        steps = 1500
        self.nqd(*self.train("whole", steps), "--ranks", 2)
        with beds.Bed(["alpha", "beta", "gamma"], mpiexec=ARGS.mpiexec) as bed:
            metrics = self.folder / "run/metrics.jsonl"
            job = bed.start([ARGS.nqd, "supervise", "--hosts", "alpha:1,beta:1", "--spares", "gamma:1", "--elastic",
                             "--back-off", "0.1", "--json", "--", *bed.mpirun_words("{hosts}"), "-n", "{ranks}",
                             ARGS.nqd, *self.train("run", steps), "--deadline", "2", "--resume", "auto"],
                            timeout_s=120)
            for number, host in enumerate(["beta", "gamma"]):
                self.wait_for_attempt(number, metrics, job)
                bed.strike(host, bed.inside(host, "pgrep", "-x", "nqd").split()[0], signal.SIGSTOP)
            code, out, errors = job.finish()
        self.assertEqual(code, 0, errors)
        attempts = json.loads(out)["attempts"]
        self.assertEqual([["alpha", "beta"], ["alpha", "gamma"], ["alpha"]], [one["hosts"] for one in attempts])
        self.assertEqual([[], ["beta"], ["beta", "gamma"]], [one["left_out"] for one in attempts])
        self.assertIn("dp 1", attempts[2]["mesh"])
        for attempt in attempts[1:]:
            print(f"recovered in {attempt['recovery_s']:.1f} s, {attempt['lost_steps']} steps again",
                  file=sys.stderr)
        whole, run = (json.loads((self.folder / name / "evidence.json").read_text()) for name in ("whole", "run"))
        self.assertEqual(whole["weights_sha256"], run["weights_sha256"])
        self.assertEqual(whole["steps"][-1]["loss"], run["steps"][-1]["loss"])


CALIBRATION = """\
version: 1
source: "by hand: 20 MB/s across hosts"
curves:
  - collective: send_recv
    algorithm: library
    ranks: 2
    inside_node: false
    max_residual_fraction: 0
    pieces:
      - {from_bytes: 4096, to_bytes: 67108864, alpha_s: 0, beta_s_per_byte: 5e-8}
"""


class SlowCableTest(unittest.TestCase):
    def test_the_links_behind_a_slow_cable_are_named(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="nqd-cable-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "cluster.yaml").write_text(CALIBRATION)
        hosts = ["alpha", "beta", "gamma"]
        with beds.Bed(hosts, mpiexec=ARGS.mpiexec) as bed:
            bed.limit("beta", "40mbit")
            code, out, errors = bed.mpirun(",".join(f"{host}:1" for host in hosts),
                                           [ARGS.nqd, "canary", "--calibration", folder / "cluster.yaml",
                                            "--json"]).finish()
        self.assertEqual(code, 1, out + errors)
        found = {(one["rank"], one["peer"]) for one in json.loads(out)["findings"]
                 if one["against"] == "calibration"}
        self.assertEqual({(0, 1), (1, 2)}, found, out)


def main():
    global ARGS
    parser = argparse.ArgumentParser()
    for name in ("mpiexec", "nqd"):
        parser.add_argument("--" + name, required=True)
    ARGS, rest = parser.parse_known_args()
    version = subprocess.run([ARGS.mpiexec, "--version"], capture_output=True, text=True, check=False)
    if "Open MPI" not in version.stdout and "OpenRTE" not in version.stdout:
        beds.skip(f"{ARGS.mpiexec} is not Open MPI's")
    beds.become_root()
    try:
        with beds.Bed(["alpha"], rate="100mbit"):
            pass
    except beds.Unavailable as reason:
        beds.skip(str(reason))
    unittest.main(argv=[sys.argv[0]] + rest)


if __name__ == "__main__":
    main()
