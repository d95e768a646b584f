"""The same losses whatever starts the ranks, and the audit of each run."""

import json
import subprocess
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
        held_out = [row["heldout_loss"] for row in threads["evals"]]
        self.assertLess(held_out[-1], held_out[0] - 1)

    def train_by_file(self, name, *more):
        """Two processes with the variables of torchrun, which meet by a file."""
        output = self.scratch / name
        line = [support.NQD, *map(str, self.train_arguments(output, *more)), "--rendezvous",
                f"file:{self.scratch / name}.meeting"]
        words = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
        ranks = [subprocess.Popen(line, cwd=support.SOURCE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True,
                                  env=support.environment(words | {"RANK": str(rank), "LOCAL_RANK": str(rank)}))
                 for rank in range(2)]
        for rank in ranks:
            _, err = rank.communicate(timeout=120)
            self.assertEqual(0, rank.returncode, err)
        return read_json(output / "evidence.json")

    def test_processes_that_meet_by_a_file_train_the_bits_of_threads(self):
        by_file = self.train_by_file("by-file", *TINY, "--set", "train.steps=20")
        threads = self.train("of-threads", nqd, "--ranks", 2, *TINY, "--set", "train.steps=20")
        self.assertEqual(("shm", 2), (by_file["backend"], by_file["world_size_actual"]))
        self.assertEqual(losses(threads), losses(by_file))
        self.assertEqual(threads["weights_sha256"], by_file["weights_sha256"])
        self.assertAudited(by_file)

    def test_two_equal_runs_are_bit_identical(self):
        a = self.train("a", nqd, "--ranks", 2, *TINY, "--set", "train.steps=40")
        b = self.train("b", nqd, "--ranks", 2, *TINY, "--set", "train.steps=40")
        self.assertEqual(losses(a), losses(b))
        self.assertEqual(a["weights_sha256"], b["weights_sha256"])
        self.assertEqual(a["config"]["sha256"], b["config"]["sha256"])

    def test_metrics_lines_match_the_evidence(self):
        evidence = self.train("lines", nqd, "--ranks", 2, *TINY, "--set", "train.steps=7")
        lines = (self.scratch / "lines" / "metrics.jsonl").read_text().splitlines()
        steps = [row for row in map(json.loads, lines) if "grad_norm" in row]
        self.assertEqual(losses(evidence), [row["loss"] for row in steps])

    @needs_mpi
    def test_pmpi_bears_out_the_counters(self):
        """Two runs that differ in steps alone: what an outside witness counts more in the longer
        one is exactly what the counters count more (start-up and audit traffic are the same). The
        plan says two nodes, so that gradients travel as messages."""
        short = self.witnessed("short", 9)
        long = self.witnessed("long", 21)
        for rank in (0, 1):
            self.assertGreater(long[rank]["counted"], short[rank]["counted"])
            for counted, seen in (("counted", "seen"), ("messages", "seen_messages")):
                self.assertEqual(long[rank][counted] - short[rank][counted],
                                 long[rank][seen] - short[rank][seen])

    def witnessed(self, name, steps):
        output, counts = self.scratch / name, self.scratch / f"{name}.witness"
        line = support.mpi_line(2, "-x", f"LD_PRELOAD={support.WITNESS}", "-x",
                                f"NQD_PMPI_WITNESS={counts}", support.NQD, *self.train_arguments(
                                    output, *TINY, "--set", f"train.steps={steps}", "--set", "cluster.nodes=2", "--set",
                                    "cluster.gpus_per_node=1"))
        subprocess.run(line, cwd=support.SOURCE, env=support.environment(), check=True,
                       capture_output=True, timeout=120)
        ranks = {0: {"counted": 0, "messages": 0}, 1: {"counted": 0, "messages": 0}}
        for sent in read_json(output / "evidence.json")["traffic"]:
            ranks[sent["rank"]]["counted"] += sent["bytes_sent"]
            ranks[sent["rank"]]["messages"] += sent["messages"]
        for rank, found in ranks.items():
            seen = (counts.parent / f"{counts.name}.{rank}").read_text().split()
            self.assertEqual(rank, int(seen[0]))
            found["seen"], found["seen_messages"] = int(seen[1]), int(seen[2])
        return ranks


if __name__ == "__main__":
    unittest.main()
