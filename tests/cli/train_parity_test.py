"""The same losses whatever starts the ranks, and the audit of each run."""

import unittest

import support
from support import NqdTestCase, TINY, mpi_nqd, needs_mpi, nqd, read_json


def losses(evidence):
    return [step["loss"] for step in evidence["steps"]]


class TrainParity(NqdTestCase):
    STEPS = ["--set", "train.steps=50", "--set", "train.eval_every=25"]

    def train(self, name, runner, *more):
        output = self.scratch / name
        out, err = self.assertCode(0, runner(*self.train_arguments(output, *more)))
        self.assertIn("audit passed", err)
        return read_json(output / "evidence.json")

    def assertAudited(self, evidence):
        exact = [row for row in evidence["audit"] if row["kind"] in ("persistent", "communicated")]
        self.assertTrue({"weights", "gradients", "moments", "dp.all_reduce"} <=
                        {row["category"] for row in exact})
        for row in exact:
            self.assertEqual(1, row["ratio"], row)
            self.assertEqual(row["predicted_bytes"], row["measured_bytes"])
            self.assertGreater(row["measured_bytes"], 0, row)

    @needs_mpi
    def test_mpirun_threads_and_single_rank_agree(self):
        threads = self.train("threads", nqd, "--ranks", 2, *self.STEPS)
        mpi = self.train("mpi", lambda *a: mpi_nqd(2, *a), *self.STEPS)
        single = self.train("single", nqd, "--ranks", 1, *self.STEPS)
        self.assertEqual(50, len(losses(threads)))
        self.assertEqual(losses(threads), losses(mpi))
        self.assertEqual(threads["weights_sha256"], mpi["weights_sha256"])
        for one, two in zip(losses(single), losses(threads)):
            self.assertLessEqual(abs(one - two) / one, 1e-5)
        self.assertNotEqual(losses(single)[0], losses(single)[49])
        self.assertAudited(threads)
        self.assertAudited(mpi)
        held_out = [row["loss"] for row in threads["evals"]]
        self.assertLess(held_out[-1], held_out[0] - 1)

    def test_two_equal_runs_are_bit_identical(self):
        a = self.train("a", nqd, "--ranks", 2, *TINY, "--set", "train.steps=40")
        b = self.train("b", nqd, "--ranks", 2, *TINY, "--set", "train.steps=40")
        self.assertEqual(losses(a), losses(b))
        self.assertEqual(a["weights_sha256"], b["weights_sha256"])
        self.assertEqual(a["config"]["sha256"], b["config"]["sha256"])

    def test_metrics_lines_match_the_evidence(self):
        import json
        evidence = self.train("lines", nqd, "--ranks", 2, *TINY, "--set", "train.steps=7")
        lines = (self.scratch / "lines" / "metrics.jsonl").read_text().splitlines()
        steps = [row for row in map(json.loads, lines) if "grad_norm" in row]
        self.assertEqual(losses(evidence), [row["loss"] for row in steps])

    @needs_mpi
    def test_pmpi_counts_every_byte_that_the_counters_count(self):
        import os
        witness = os.environ.get("NQD_PMPI_WITNESS_LIBRARY")
        self.assertTrue(witness, "the test environment names no witness library")
        counted = self.scratch / "witness.txt"
        env = {"NQD_PMPI_WITNESS": str(counted)}
        line = ["-x", f"LD_PRELOAD={witness}", "-x", f"NQD_PMPI_WITNESS={counted}"]
        output = self.scratch / "witnessed"
        import subprocess
        command = support.mpi_line(2, *line, support.NQD, *self.train_arguments(
            output, *TINY, "--set", "train.steps=9"))
        subprocess.run(command, cwd=support.SOURCE, env=support.environment(env), check=True,
                       capture_output=True, timeout=120)
        traffic = {entry["rank"]: entry["bytes_sent"] for entry in
                   read_json(output / "evidence.json")["traffic"]}
        rows = [tuple(map(int, row.split())) for row in counted.read_text().splitlines()]
        self.assertEqual({0, 1}, {rank for rank, _, _ in rows})
        for rank, sent, _ in rows:
            self.assertGreaterEqual(sent, traffic[rank])


if __name__ == "__main__":
    unittest.main()
