"""`nqd bench --backend`: what ran is in the rows, and what cannot run is refused at once."""

import argparse
import json
import os
import subprocess
import sys
import unittest

ARGS = None
SMALL = ["-b", "4K", "-e", "1M", "-f", "16", "-n", "3", "-w", "1"]
# Another host name for the second rank: what several hosts look like to nqd.
OTHER_HOST = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh"]


def run(command, **variables):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                          env=dict(os.environ, **variables))


def mpirun(ranks, *flags, **variables):
    return run([ARGS.mpiexec, "-n", str(ranks), ARGS.nqd, "bench", *flags], **variables)


class BackendsTest(unittest.TestCase):
    def check_rows(self, done, backend, transport):
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["backend"], backend)
        for row in document["rows"]:
            self.assertEqual((row["backend"], row["transport"]), (backend, transport))
            self.assertEqual(row["wrong"], 0)
            self.assertEqual(row["bytes_sent_per_rank"], row["predicted_bytes_per_rank"])
        return document["rows"]

    def refused(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("[NQD3007]"), 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_rows_say_what_ran(self):
        flags = ["all_reduce", *SMALL, "--algorithm", "all", "--check-calls", "--json"]
        rows = self.check_rows(mpirun(3, *flags, "--backend", "shm"), "shm", "shm")
        self.assertIn("library", {row["algorithm"] for row in rows})
        self.assertIn("direct", {row["algorithm"] for row in rows})
        flags = ["all_gather", *SMALL, "--json"]
        self.check_rows(mpirun(2, *flags, "--backend", "mpi"), "mpi", "mpi")
        self.check_rows(mpirun(2, *flags), "mpi", "mpi")
        self.check_rows(run([ARGS.nqd, "bench", *flags, "--backend", "local", "--ranks", "2"]),
                        "local", "threads")

    def test_without_reading_foreign_memory_messages_are_copied(self):
        done = mpirun(2, "all_reduce", *SMALL, "--algorithm", "all", "--backend", "shm", "--json",
                      NQD_CROSS_MEMORY="off")
        rows = self.check_rows(done, "shm", "shm")
        self.assertIn("ring", {row["algorithm"] for row in rows})
        self.assertNotIn("direct", {row["algorithm"] for row in rows})

    def test_nccl_says_what_is_missing(self):
        done = run([ARGS.nqd, "bench", "all_reduce", *SMALL, "--backend", "nccl", "--ranks", "2"],
                   CUDA_VISIBLE_DEVICES="")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"\[NQD306[04]\]")
        self.assertEqual(done.stdout, "")
        done = run([ARGS.nqd, "bench", "all_reduce", *SMALL, "--backend", "nccl", "--algorithm",
                    "ring", "--ranks", "2"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("[NQD2102]", done.stderr)
        done = run([ARGS.nqd, "bench", "all_reduce", *SMALL, "--graph", "--ranks", "2"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--backend nccl", done.stderr)

    def test_a_backend_that_cannot_run_is_refused(self):
        self.refused(mpirun(2, "all_reduce", *SMALL, "--backend", "local"), 3,
                     f"{ARGS.launcher} started rank 0 of 2")
        for backend in ("mpi", "shm"):
            alone = [ARGS.nqd, "bench", "all_reduce", *SMALL, "--ranks", "2", "--backend", backend]
            self.refused(run(alone), 3, f"the {backend} backend", "mpirun -n N")
        self.refused(run([ARGS.nqd, "bench", "all_reduce", *SMALL, "--backend", "smoke"]), 2,
                     "there is no backend `smoke`")

    def test_shm_across_hosts_is_refused(self):
        if run([*OTHER_HOST, "true"]).returncode != 0:
            self.skipTest("this system gives no UTS namespace")
        bench = [ARGS.nqd, "bench", "all_reduce", *SMALL, "--backend", "shm"]
        self.refused(run([ARGS.mpiexec, "-n", "1", *bench, ":", "-n", "1", *OTHER_HOST, *bench]), 3,
                     "do not share memory")

    def test_doctor_says_how_long_messages_travel(self):
        done = run([ARGS.nqd, "doctor"], NQD_CROSS_MEMORY="off")
        self.assertIn("backend shm", done.stdout)
        self.assertIn("pass through copies (NQD_CROSS_MEMORY=off)", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--nqd", required=True)
    parser.add_argument("--launcher", choices=("openmpi", "mpich"), default="openmpi")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)
