"""The calculations and the simulated collectives of the command line: contracts, text, bad input."""

import json
import pathlib
import tempfile
import unittest

from support import SOURCE, nqd

try:
    import jsonschema
except ImportError:
    jsonschema = None

GB, GIB = 1e9, 2**30


def schema(name):
    return json.loads((SOURCE / "schemas" / f"{name}.schema.json").read_text())


class Calculations(unittest.TestCase):
    def validated(self, name, out):
        document = json.loads(out)
        if jsonschema is not None:
            jsonschema.validate(document, schema(name))
        return document

    def calc(self, *arguments, code=0):
        done, out, err = nqd("calc", *arguments, "--json")
        self.assertEqual(code, done, err)
        document = self.validated("calc", out)
        self.assertEqual(arguments[0], document["calc"])
        return document

    def text(self, *arguments):
        code, out, err = nqd("calc", *arguments)
        self.assertEqual(0, code, err)
        return out

    def test_the_schemas_have_a_reader(self):
        if jsonschema is None:
            self.skipTest("python3-jsonschema is not installed")
        for name in ("calc", "simulate-collective"):
            jsonschema.Draft7Validator.check_schema(schema(name))

    def test_memory(self):
        memory = ["memory", "--parameters", "70e9", "--ranks", "64", "--engine"]
        for engine, gb in (("ddp", 1120), ("zero1", 293.125), ("zero2", 155.3125), ("zero3", 17.5),
                           ("fsdp2", 17.5)):
            self.assertEqual(gb * GB, self.calc(*memory, engine)["persistent_bytes_per_rank"])
        text = self.text(*memory, "zero2")
        self.assertIn("2·Φ + 14·Φ/N", text)
        self.assertIn("2·70e9 + 14·70e9/64", text)
        self.assertIn("155.31 GB (144.65 GiB)", text)
        self.assertEqual(140 * GB, self.calc(*memory, "hsdp", "--shard", "8")
                         ["persistent_bytes_per_rank"])
        split = self.calc(*memory, "zero1", "--tp", "8", "--pp", "4")
        self.assertEqual(293.125 * GB / 32, split["persistent_bytes_per_rank"])

    def test_memory_says_whether_it_fits_and_from_how_many_ranks_on(self):
        memory = ["memory", "--parameters", "175B", "--memory", "80 GB"]
        ddp = self.calc(*memory, "--ranks", "8", code=1)
        self.assertEqual((False, None), (ddp["fits"], ddp["min_shard_ranks"]))
        self.assertTrue(ddp["notes"])
        for ranks, left in ((35, 0), (40, 10), (64, 36.25)):
            zero3 = self.calc(*memory, "--engine", "zero3", "--ranks", str(ranks))
            self.assertEqual((True, 35), (zero3["fits"], zero3["min_shard_ranks"]))
            self.assertAlmostEqual(left * GB, zero3["left_bytes"], delta=1)

    def test_comm_of_one_algorithm(self):
        ring = self.calc("comm", "--collective", "all_reduce", "--algorithm", "ring", "--bytes",
                         "1e9", "--ranks", "8", "--bandwidth", "50e9", "--latency", "0")
        self.assertEqual(1_750_000_000, ring["bytes_sent_per_rank"])
        self.assertAlmostEqual(0.035, ring["time_s"], places=12)
        self.assertEqual(14, ring["steps"])
        for ranks, gib, seconds in ((2, 13.04, 0.280), (4, 19.56, 0.420), (8, 22.82, 0.490),
                                    (16, 24.45, 0.525)):
            one = self.calc("comm", "--algorithm", "ring", "--bytes", "14 GB", "--element-bytes",
                            "2", "--ranks", str(ranks), "--bandwidth", "400 Gb/s")
            self.assertEqual(gib, round(one["bytes_sent_per_rank"] / GIB, 2))
            self.assertEqual(seconds, round(one["time_s"], 3))

    def test_comm_of_uneven_lengths_is_the_maximum_over_ranks(self):
        uneven = self.calc("comm", "--algorithm", "ring", "--bytes", "10", "--ranks", "4",
                           "--bandwidth", "1e9")
        self.assertEqual(16, uneven["bytes_sent_per_rank"])

    def test_comm_side_by_side_with_crossovers(self):
        arguments = ["comm", "--bytes", "1 GB", "--ranks", "64", "--bandwidth", "50 GB/s",
                     "--latency", "5us"]
        both = self.calc(*arguments)
        names = [row["algorithm"] for row in both["algorithms"]]
        self.assertEqual(["ring", "tree", "double_binary_tree", "recursive_doubling",
                          "halving_doubling"], names)
        with_switch = self.calc(*arguments, "--nvls")
        self.assertEqual(names + ["nvls"], [row["algorithm"] for row in with_switch["algorithms"]])
        ranges = both["fastest"]
        self.assertEqual(0, ranges[0]["from_bytes"])
        self.assertIsNone(ranges[-1]["to_bytes"])
        for left, right in zip(ranges, ranges[1:]):
            self.assertEqual(left["to_bytes"], right["from_bytes"])
        text = self.text(*arguments)
        for name in names:
            self.assertRegex(text, rf"(?m)^{name} ")
        self.assertRegex(text, r"(?m)^fastest +from +to$")

    def test_comm_across_nodes(self):
        nodes = ["comm", "--bytes", "1e9", "--ranks", "16", "--ranks-per-node", "8", "--bandwidth",
                 "450e9", "--latency", "2us", "--network-bandwidth", "400 Gb/s",
                 "--network-latency", "5us", "--nics", "8", "--rails", "8"]
        both = self.calc(*nodes)
        self.assertEqual(400e9, both["egress_bytes_per_s"])
        times = {row["algorithm"]: row["time_s"] for row in both["algorithms"]}
        self.assertAlmostEqual(38e-6 + 1.75e9 / 450e9 + 2.5e-3, times["hierarchical"], places=12)
        shared = self.calc(*nodes, "--algorithm", "ring", "--concurrent-groups", "4")
        self.assertEqual(100e9, shared["egress_bytes_per_s"])
        self.assertGreater(shared["time_s"], times["ring"])

    def test_bubble(self):
        self.assertEqual(3 / 19, self.calc("bubble", "-p", "4", "-m", "16")["bubble_fraction"])
        self.assertEqual(3 / 7, self.calc("bubble", "-p", "4", "-m", "4")["bubble_fraction"])
        interleaved = self.calc("bubble", "-p", "4", "-m", "16", "--schedule", "interleaved", "-v",
                                "2", "--target", "10%")
        self.assertEqual(3 / 35, interleaved["bubble_fraction"])
        self.assertEqual(27, self.calc("bubble", "-p", "4", "-m", "4", "--target", "0.1")
                         ["micro_batches_for_target"])
        self.assertEqual(3 / 51, self.calc("bubble", "-p", "4", "-m", "16", "--schedule", "zb-h1")
                         ["bubble_fraction"])
        self.assertIn("3/(16+3)\n  = 15.8 %", self.text("bubble", "-p", "4", "-m", "16"))

    def test_activations(self):
        shape = ["activations", "--layers", "96", "--hidden", "12288", "--heads", "96",
                 "--sequence", "2048", "--tp", "8", "--pp", "8", "--vpp", "3"]
        variants = {row["variant"]: row["bytes"] / GIB for row in self.calc(*shape)["variants"]}
        self.assertAlmostEqual(66.84375, variants["tensor"], places=9)
        self.assertAlmostEqual(12.3515625, variants["tensor+sequence+selective"], places=9)
        self.assertIn("GiB", self.text(*shape, "--vocab", "51200"))

    def test_flops_and_mfu(self):
        preset = self.calc("flops", "--model", "gpt2-124m")
        self.assertEqual(124_439_808, preset["parameters"])
        # 6 operations a weight of a product, 6·L·s·h for the causal half of the scores.
        matmul = 12 * 12 * 768**2 + 50257 * 768
        self.assertEqual(6 * matmul + 6 * 12 * 1024 * 768, preset["model_flops_per_token"])
        shape = ["flops", "--layers", "12", "--hidden", "768", "--heads", "12", "--vocab", "50257",
                 "--sequence", "1024"]
        full = self.calc(*shape, "--recompute", "full", "--tokens", "10B", "--rate", "1 PFLOP/s")
        self.assertEqual(preset["model_flops_per_token"], full["model_flops_per_token"])
        # Full recomputation runs all but the head a fourth time.
        head = 2 * 50257 * 768
        self.assertEqual((4 * full["model_flops_per_token"] - 3 * head) / 3,
                         full["hardware_flops_per_token"])
        self.assertEqual(preset["model_flops_per_token"] + 6 * 12 * 1024 * 768,
                         preset["full_attention_flops_per_token"])
        llama = self.calc("flops", "--model", "llama3-8b")
        # 6·(8.03e9 − 0.525e9 of embedding), and attention over 8192 tokens: 5.15e10 with the
        # causal half, 5.79e10 with all scores.
        self.assertEqual((5.15, 5.79), (round(llama["model_flops_per_token"] / 1e10, 2),
                                        round(llama["full_attention_flops_per_token"] / 1e10, 2)))
        self.assertAlmostEqual(preset["model_flops_per_token"] * 1e10 / 1e15, full["time_s"])
        mfu = self.calc("mfu", "--tokens-per-second", "20000", "--flops-per-token", "120 GFLOP",
                        "--peak", "8 PFLOP/s")
        self.assertAlmostEqual(0.30, mfu["mfu_fraction"], places=12)
        self.assertEqual(2.4e15, mfu["achieved_flops_per_s"])

    def test_checkpoint_goodput_and_ingest(self):
        saves = self.calc("checkpoint", "--save-time", "4min", "--interval", "30min", "--gpus",
                          "512", "--price", "$4")
        self.assertAlmostEqual(4 / 34, saves["overhead_fraction"], places=12)
        self.assertEqual((900, 2048, 512), (saves["mean_lost_s"], saves["cost_per_hour"],
                                            saves["cost_per_failure"]))
        best = self.calc("checkpoint", "--save-time", "4min", "--mtbf", "1d")
        self.assertEqual(["young", "daly", "best"], [row["rule"] for row in best["intervals"]])
        large = self.calc("checkpoint", "--save-time", "30s", "--device-mtbf", "43800h", "--devices", "100000",
                          "--restart-time", "2min", "--interval", "30min", "--simulate", "200")
        self.assertEqual(1576.8, large["mtbf_s"])
        for row in large["intervals"]:
            self.assertAlmostEqual(row["goodput_fraction"], row["simulated_fraction"],
                                   delta=4 * row["standard_error_fraction"])
        self.assertEqual(2, nqd("calc", "checkpoint", "--save-time", "1s", "--mtbf", "1d", "--shape", "0.7")[0])
        self.assertEqual(2, nqd("calc", "checkpoint", "--save-time", "1s", "--devices", "5")[0])
        self.assertEqual(2, nqd("calc", "checkpoint", "--save-time", "1s", "--mtbf", "1d", "--devices", "5",
                                "--device-mtbf", "1d")[0])
        self.assertAlmostEqual((2 * 240 * 86400) ** 0.5, best["young_interval_s"], places=9)
        self.assertLess(best["daly_interval_s"], best["young_interval_s"])
        self.assertEqual(best["inputs"]["interval_s"], best["daly_interval_s"])
        self.assertIn("11.8 %", self.text("checkpoint", "--save-time", "4min", "--interval",
                                          "30min"))
        goodput = self.calc("goodput", "--save-time", "4min", "--interval", "30min", "--mtbf", "1d",
                            "--restart-time", "10min")
        self.assertAlmostEqual((30 / 34) * (1 - (600 + 1020) / 86400), goodput["goodput_fraction"],
                               places=12)
        ingest = ["ingest", "--samples-per-second", "1000", "--bytes-per-sample", "1 MB", "--nodes",
                  "4", "--available"]
        self.assertTrue(self.calc(*ingest, "2 Gb/s")["enough"])
        starved = self.calc(*ingest, "1 Gb/s", code=1)
        self.assertEqual((250e6, False), (starved["bytes_per_s_per_node"], starved["enough"]))

    def test_bad_input_says_what_to_write(self):
        for arguments, words in (
                (["memory", "--parameters", "many"], ["--parameters", "many", "70e9"]),
                (["memory", "--parameters", "-1"], ["more than 0"]),
                (["memory", "--parameters", "inf"], ["inf"]),
                (["memory"], ["--parameters"]),
                (["memory", "--parameters", "7B", "--engine", "hsdp", "--ranks", "8", "--shard",
                  "3"], ["--shard"]),
                (["comm", "--bytes", "1e9", "--ranks", "8", "--bandwidth", "25 GB"], ["GB/s"]),
                (["comm", "--bytes", "3", "--element-bytes", "2", "--ranks", "8", "--bandwidth",
                  "1e9"], ["--element-bytes"]),
                (["comm", "--bytes", "1e9", "--ranks", "6", "--ranks-per-node", "4", "--bandwidth",
                  "1e9"], ["--ranks-per-node"]),
                (["comm", "--bytes", "1e9", "--ranks", "8", "--ranks-per-node", "4", "--bandwidth",
                  "1e9"], ["--network-bandwidth"]),
                (["comm", "--collective", "all_gather", "--algorithm", "tree", "--bytes", "1e9",
                  "--ranks", "8", "--bandwidth", "1e9"], ["all_gather has no tree"]),
                (["comm", "--collective", "all_gather", "--algorithm", "halving_doubling",
                  "--bytes", "1e9", "--ranks", "6", "--bandwidth", "1e9"], ["power of two"]),
                (["bubble", "-p", "4", "-m", "4", "--target", "2"], ["--target"]),
                (["flops"], ["--model"]),
                (["flops", "--model", "nothing"], ["nothing"]),
                (["flops", "--model", "gpt2-124m", "--rate", "1e15"], ["--tokens"]),
                (["checkpoint", "--save-time", "4min"], ["--interval"]),
                (["checkpoint", "--save-time", "4min", "--interval", "1h", "--gpus", "8"],
                 ["--price"])):
            with self.subTest(arguments):
                code, out, err = nqd("calc", *arguments)
                self.assertEqual((2, ""), (code, out))
                for word in words:
                    self.assertIn(word, err)


class SimulatedCollectives(unittest.TestCase):
    def simulate(self, *arguments):
        code, out, err = nqd("simulate", "collective", *arguments)
        self.assertEqual(0, code, err)
        return out

    def document(self, *arguments):
        document = json.loads(self.simulate(*arguments, "--json"))
        if jsonschema is not None:
            jsonschema.validate(document, schema("simulate-collective"))
        self.assertEqual(document["predicted_elements_per_rank"],
                         document["elements_sent_per_rank"])
        return document

    def test_the_golden_ring(self):
        ring = self.document("all_reduce", "--algorithm", "ring", "--ranks", "4", "--elements", "8")
        self.assertEqual([[rank + 1] * 8 for rank in range(4)], ring["input"])
        self.assertEqual([[10] * 8] * 4, ring["result"])
        self.assertEqual([12] * 4, ring["elements_sent_per_rank"])
        owned = ring["steps"][2]["complete"]
        self.assertEqual([[2 * ((r + 1) % 4), 2 * ((r + 1) % 4) + 1] for r in range(4)], owned)
        text = self.simulate("all_reduce", "--algorithm", "ring", "--ranks", "4", "--elements", "8")
        self.assertIn("step 3\n  0 → 1  chunk 2, elements 4…5: 8 8  (sum of 3 ranks)", text)
        self.assertIn("rank 0  1 1 | 10* 10* |", text)

    def test_uneven_lengths_and_one_rank(self):
        uneven = self.document("all_reduce", "--ranks", "4", "--elements", "10")
        self.assertEqual([3, 3, 2, 2], uneven["chunks"])
        self.assertEqual([[10] * 10] * 4, uneven["result"])
        alone = self.document("all_reduce", "--ranks", "1", "--elements", "3")
        self.assertEqual(([], [[1] * 3]), (alone["steps"], alone["result"]))
        for collective in ("all_gather", "reduce_scatter", "broadcast"):
            self.document(collective, "--ranks", "5", "--elements", "7")
        tree = self.document("all_reduce", "--algorithm", "tree", "--ranks", "6", "--elements", "2")
        self.assertEqual(6, len(tree["steps"]))

    def test_the_trace_has_a_track_a_rank_and_lasts_as_long_as_the_model_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            self.simulate("all_reduce", "--ranks", "4", "--elements", "8", "--trace", path,
                          "--latency", "5us", "--bandwidth", "1 GB/s")
            events = json.loads(path.read_text())["traceEvents"]
            slices = [event for event in events if event["ph"] == "X"]
            self.assertEqual({0, 1, 2, 3}, {event["tid"] for event in slices})
            self.assertEqual(24, len(slices))
            end = max(event["ts"] + event["dur"] for event in slices)
            self.assertAlmostEqual(6 * (5 + 16e-3), end, places=9)
            starts = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
            ends = {e["id"]: e["ts"] for e in events if e["ph"] == "f"}
            self.assertEqual(starts.keys(), ends.keys())
            self.assertTrue(all(starts[i] < ends[i] for i in starts))
            before = path.read_bytes()
            code, _, _ = nqd("simulate", "collective", "all_to_all", "--trace", path)
            self.assertEqual((2, before), (code, path.read_bytes()))
            self.assertEqual([path], list(pathlib.Path(folder).iterdir()))

    def test_what_cannot_be_simulated_is_named(self):
        for arguments in (["all_reduce", "--algorithm", "nvls"], ["all_to_all"], ["barrier"],
                          ["all_reduce", "--algorithm", "none"], ["sum"],
                          ["all_reduce", "--ranks", "0"], ["all_reduce", "--elements", "5000"]):
            with self.subTest(arguments):
                code, out, err = nqd("simulate", "collective", *arguments)
                self.assertEqual((2, ""), (code, out))
                self.assertTrue(err)
        _, _, err = nqd("simulate", "collective", "all_reduce", "--algorithm", "nvls")
        self.assertIn("all_reduce ring, all_reduce tree", err)

    def test_what_is_only_priced_is_not_benched(self):
        code, _, err = nqd("bench", "all_reduce", "--algorithm", "nvls", "--ranks", "2")
        self.assertEqual(2, code)
        self.assertIn("NQD2102", err)


if __name__ == "__main__":
    unittest.main()
