"""bench of all algorithms -> calibrate -> bench --algorithm auto --cluster, under a real mpirun."""

import json
import unittest

from support import MPIRUN, NqdTestCase, TINY, mpi_nqd, needs_mpi, nqd, read_json

SWEEP = ["-b", "1K", "-e", "64K", "-f", "4", "-n", "40"]

TABLE = """\
version: 1
source: "by hand"
curves: []
crossovers:
  - collective: all_reduce
    ranks: 3
    inside_node: true
    backend: mpi
    registered: false
    choices:
      - {from_bytes: 1024, algorithm: tree}
      - {from_bytes: 4096, algorithm: recursive_doubling}
      - {from_bytes: 65536, algorithm: ring}
"""


class Tuning(NqdTestCase):
    def bench(self, ranks, *arguments):
        out, err = self.assertCode(0, mpi_nqd(ranks, "bench", "all_reduce", *arguments, "--json"))
        return json.loads(out), err

    @needs_mpi
    def test_auto_runs_what_was_measured_to_be_fastest(self):
        bench, cluster = self.scratch / "all.json", self.scratch / "cluster.yaml"
        self.bench(2, *SWEEP, "--algorithm", "all", "--output", bench)
        out, _ = self.assertCode(0, nqd("calibrate", bench, "--output", cluster, "--json",
                                        "--hold-out"))
        document = json.loads(out)
        table, = document["crossovers"]
        self.assertEqual(("all_reduce", 2, True, "mpi", False),
                         tuple(table[key] for key in ("collective", "ranks", "inside_node",
                                                      "backend", "registered")))
        self.assertEqual(1024, table["choices"][0]["from_bytes"])
        fastest = min((row for row in read_json(bench)["rows"]
                       if row["effective_bytes"] == 1024 and row["algorithm"] != "library"),
                      key=lambda row: row["p50_s"])
        self.assertEqual(fastest["algorithm"], table["choices"][0]["algorithm"])
        auto, _ = self.bench(2, *SWEEP, "--algorithm", "auto", "--cluster", cluster)
        for row in auto["rows"]:
            chosen = [choice["algorithm"] for choice in table["choices"]
                      if choice["from_bytes"] <= row["effective_bytes"]][-1]
            self.assertEqual((chosen, "auto", 0),
                             (row["algorithm"], row["requested_algorithm"], row["wrong"]))

    @needs_mpi
    def test_every_rank_follows_the_table_of_rank_0(self):
        cluster = self.scratch / "cluster.yaml"
        cluster.write_text(TABLE)
        sweep = ["-b", "1K", "-e", "64K", "-f", "4", "-n", "3", "--algorithm", "auto", "--cluster"]
        document, _ = self.bench(3, *sweep, cluster)
        self.assertEqual([(1024, "tree"), (4096, "recursive_doubling"),
                          (16384, "recursive_doubling"), (65536, "ring")],
                         [(row["effective_bytes"], row["algorithm"]) for row in document["rows"]])
        self.assertEqual([], [v for v in document["verdicts"] if v["code"] == "byte-count-mismatch"])
        self.assertEqual(["auto"], document["options"]["algorithms"])
        # The table says nothing of two ranks.
        document, err = self.bench(2, *sweep, cluster)
        self.assertIn("no crossovers of all_reduce on 2 ranks", err)
        self.assertEqual(1, err.count("no crossovers"))
        self.assertEqual(1, len({row["algorithm"] for row in document["rows"]}))

    @needs_mpi
    def test_training_follows_the_table_of_its_buffers_and_the_audit_is_exact(self):
        cluster = self.scratch / "train.yaml"
        cluster.write_text(TABLE.replace("ranks: 3", "ranks: 2").replace("false", "true"))
        output = self.scratch / "train"
        tiny = [*TINY, "--set", "train.steps=5", "--cluster", cluster]
        _, err = self.assertCode(0, mpi_nqd(2, *self.train_arguments(output, *tiny)))
        self.assertIn("NQD1309", err)
        self.assertIn("name recursive_doubling for gradient buckets", err)
        evidence = read_json(output / "evidence.json")
        self.assertEqual(["recursive_doubling"],
                         [row["algorithm"] for row in evidence["predicted_plan"]["communication"]
                          if row["group"] == "dp"])
        row, = [row for row in evidence["audit"] if row["category"] == "dp.all_reduce"]
        self.assertEqual((1, True), (row["ratio"], row["measured_bytes"] > 0))
        self.assertTrue(all(row["ok"] for row in evidence["audit"]))
        # Threads have no table here: the default, and said.
        threads = self.train_arguments(self.scratch / "threads", *tiny, "--ranks", 2)
        _, err = self.assertCode(0, nqd(*threads))
        self.assertIn("no crossovers of all_reduce on 2 ranks of one host, registered buffers, local",
                      err)
        self.assertIn("audit passed", err)

    def test_a_table_that_cannot_be_read_is_refused_once_with_its_place(self):
        cluster = self.scratch / "cluster.yaml"
        cluster.write_text(TABLE.replace("algorithm: ring", "algorithm: rings"))
        arguments = ["bench", "all_reduce", "-b", "1K", "-e", "1K", "--algorithm", "auto",
                     "--cluster", cluster]
        done = mpi_nqd(2, *arguments) if MPIRUN else nqd(*arguments, "--ranks", 2)
        _, err = self.assertCode(2, done)
        self.assertIn(f"{cluster}:13:9: crossovers[0].choices[2] has an unknown algorithm rings", err)
        self.assertEqual(1, err.count("NQD1011"))


if __name__ == "__main__":
    unittest.main()
