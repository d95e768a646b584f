"""Every byte and every call's bytes where the plan said, whatever the mesh, engine and precision."""

import json
import unittest

from support import NqdTestCase, SOURCE, mpi_nqd, needs_mpi, nqd

GPT = SOURCE / "configs" / "parity" / "gpt-tied.yaml"
LLAMA = SOURCE / "configs" / "parity" / "llama-gqa.yaml"

# Config, (dp, tp, pp), settings, and what of its traffic must have been counted.
CASES = [
    (GPT, (3, 1, 1), ["parallel.engine=ddp", "train.micro_batch_size=8"], ["dp.all_reduce"]),
    (GPT, (2, 1, 1), ["parallel.engine=ddp", "train.micro_batch_size=4"],
     ["dp.all_to_all", "dp.all_gather"]),
    (LLAMA, (2, 1, 1), ["parallel.engine=zero1", "train.precision=bfloat16", "train.ema=true"],
     ["dp.all_to_all", "dp.all_gather"]),
    (GPT, (2, 1, 1), ["parallel.engine=zero1", "train.optimizer.kind=sgd"], ["dp.all_gather"]),
    (GPT, (3, 1, 1), ["parallel.engine=zero2"], ["dp.all_to_all", "dp.all_gather"]),
    (LLAMA, (3, 1, 1), ["parallel.engine=zero2", "numerics=fast"],
     ["dp.reduce_scatter", "dp.all_gather"]),
    (GPT, (4, 1, 1), ["parallel.engine=hsdp", "parallel.hsdp_shard=2",
                      "train.micro_batch_size=3"],
     ["dp_shard.reduce_scatter", "dp_shard.all_gather", "dp_replicate.all_reduce"]),
    (LLAMA, (2, 2, 1), ["parallel.engine=zero3", "parallel.sequence_parallel=true",
                        "train.precision=float16", "train.recompute=full",
                        "train.recompute_every=2"],
     ["dp.reduce_scatter", "tp.reduce_scatter", "tp.all_gather", "tp.all_reduce"]),
    (GPT, (2, 1, 2), ["parallel.engine=zero3", "parallel.schedule=zb-h1", "train.recompute=full",
                      "numerics=fast"],
     ["dp.all_gather", "pp.send_recv", "embedding.all_reduce"]),
    (GPT, (1, 2, 2), ["parallel.schedule=interleaved", "parallel.vpp=2",
                      "train.recompute=selective", "train.precision=bfloat16"],
     ["tp.all_reduce", "pp.send_recv", "embedding.all_reduce"]),
    (GPT, (1, 1, 4), ["parallel.schedule=gpipe"], ["pp.send_recv", "embedding.all_reduce"]),
    (LLAMA, (1, 1, 2), ["parallel.schedule=zb-v", "parallel.vpp=2"], ["pp.send_recv"]),
]


class TrainAudit(NqdTestCase):
    def train(self, name, case, runner):
        config, (dp, tp, pp), settings, _ = case
        settings = [f"parallel.dp={dp}", f"parallel.tp={tp}", f"parallel.pp={pp}",
                    f"cluster.gpus_per_node={dp * tp * pp}", f"data.path={self.data}",
                    "train.steps=2", "train.eval_every=1", *settings]
        flags = [flag for setting in settings for flag in ("--set", setting)]
        _, out, err = runner("train", config, "--json", "--no-graph", "--output-dir", self.scratch / name, *flags)
        self.assertTrue(out.startswith("{"), err)
        document = json.loads(out)
        # What only a device that is not the host has to say.
        self.assertFalse({"step_graph", "uncounted_memory"} & document.keys())
        self.assertNotIn("host_s", document["steps"][0])
        return document

    def check(self, case, rows):
        exact = [row for row in rows if row["exact"] and "predicted_bytes" in row]
        for row in exact:
            self.assertEqual(row["predicted_bytes"], row["measured_bytes"], row)
        sent = {row["category"] for row in exact if row["kind"] == "communicated"}
        self.assertLessEqual({*case[3], "control.all_reduce"}, sent)
        measured = {row["category"] for row in exact if row["measured_bytes"] > 0}
        self.assertLessEqual({"weights", "gradients", "activations", "workspace", "logits"}, measured)
        stages = {f"activations.stage{i}" for i in range(case[1][2])} if case[1][2] > 1 else set()
        self.assertEqual(stages, {category for category in measured if ".stage" in category})
        self.assertEqual("train.optimizer.kind=sgd" not in case[2], "moments" in measured)

    def test_threads(self):
        for number, case in enumerate(CASES):
            ranks = case[1][0] * case[1][1] * case[1][2]
            with self.subTest(case=case):
                run = lambda *a, ranks=ranks: nqd(*a, "--ranks", ranks)
                self.check(case, self.train(f"threads-{number}", case, run)["audit"])

    def test_momentum_and_average_do_not_depend_on_the_mesh(self):
        settings = ["train.optimizer.kind=sgd-momentum", "train.ema=true"]
        one = self.train("one", (GPT, (1, 1, 1), settings, []), lambda *a: nqd(*a, "--ranks", 1))
        two = self.train("two", (GPT, (2, 1, 1), [*settings, "parallel.engine=zero1"], []),
                         lambda *a: nqd(*a, "--ranks", 2))
        self.assertEqual(one["weights_sha256"], two["weights_sha256"])
        self.assertEqual([step["loss"] for step in one["steps"]],
                         [step["loss"] for step in two["steps"]])
        self.assertIn("ema", {row["category"] for row in two["audit"]})

    def test_skipped_steps_are_in_the_summary(self):
        settings = ["train.steps=6", "train.optimizer.learning_rate=1e30", "train.micro_batch_size=8",
                    "train.optimizer.warmup_steps=0", "train.optimizer.grad_clip=0"]
        case = (GPT, (1, 1, 1), settings, [])
        seen = []

        def run(*arguments):
            seen.append(nqd(*arguments, "--ranks", 1))
            return seen[0]

        evidence = self.train("skipped", case, run)
        self.assertEqual(5, evidence["skipped_steps"])
        self.assertIn("5 of 6 steps were skipped", seen[0][2])

    @needs_mpi
    def test_processes(self):
        for number, case in enumerate([CASES[1], CASES[3], CASES[6]]):
            ranks = case[1][0] * case[1][1] * case[1][2]
            with self.subTest(case=case):
                run = lambda *a, ranks=ranks: mpi_nqd(ranks, *a)
                self.check(case, self.train(f"processes-{number}", case, run)["audit"])


if __name__ == "__main__":
    unittest.main()
