"""Shipped configs pass; each invalid one fails with its documented exit code and stored message."""

import json
import unittest

from support import SOURCE, nqd

VALID = sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("configs/*.yaml"))
INVALID = sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("configs/invalid/*.yaml"))


class MeshPlan(unittest.TestCase):
    maxDiff = None

    def test_all_shipped_configs_pass_in_one_table(self):
        self.assertGreaterEqual(len(VALID), 10)
        code, out, err = nqd("mesh-plan", *VALID)
        self.assertEqual(0, code, err)
        for path in VALID:
            self.assertRegex(out, rf"(?m)^.*{path}.*pass.*$")

    def test_each_invalid_config_fails_as_stored(self):
        self.assertGreaterEqual(len(INVALID), 15)
        codes = set()
        for path in INVALID:
            with self.subTest(path):
                expected = (SOURCE / path).with_suffix(".expected").read_text()
                head, _, message = expected.partition("\n")
                code, _, err = nqd("mesh-plan", path)
                self.assertEqual(message.rstrip("\n"), err.rstrip("\n"))
                self.assertEqual(int(head.removeprefix("exit: ")), code)
                primary = message.split("error[", 1)[1].split("]", 1)[0]
                codes.add(primary)
        self.assertGreaterEqual(len(codes), 15)

    def test_one_bad_config_among_good_ones_decides_the_exit_code(self):
        code, out, _ = nqd("mesh-plan", VALID[0], INVALID[0], VALID[1])
        self.assertIn(code, (1, 2))
        self.assertRegex(out, rf"(?m)^.*{INVALID[0]}.*fail.*$")
        self.assertRegex(out, rf"(?m)^.*{VALID[0]}.*pass.*$")

    def test_json_holds_the_contract_fields(self):
        code, out, _ = nqd("mesh-plan", *VALID, "--json")
        self.assertEqual(0, code)
        configs = json.loads(out)["configs"]
        self.assertEqual(VALID, [config["path"] for config in configs])
        for config in configs:
            self.assertTrue(config["valid"])
            memory = config["memory"]
            worst = 0
            for stage in memory["stages"]:
                total = sum(stage["categories"].values())
                self.assertAlmostEqual(total, stage["total_bytes"], delta=1)
                self.assertAlmostEqual(stage["persistent_bytes"] + stage["transient_bytes"],
                                       stage["total_bytes"], delta=1)
                worst = max(worst, stage["total_bytes"])
            self.assertEqual(worst, memory["worst_total_bytes"])
            self.assertIsNot(False, memory["fits"])
            self.assertGreaterEqual(config["pipeline"]["bubble_fraction"], 0)

    def test_fits_is_null_when_the_limit_is_unknown(self):
        _, out, _ = nqd("mesh-plan", "configs/gpt2-124m-ddp.yaml", "--set", "cluster.memory_bytes=0",
                        "--json")
        memory = json.loads(out)["configs"][0]["memory"]
        self.assertIsNone(memory["limit_bytes"])
        self.assertIsNone(memory["fits"])

    def test_explaining_has_no_json_form(self):
        for flags in (["--json"], ["--format", "json"]):
            code, out, err = nqd("mesh-plan", VALID[0], "--explain-config", *flags)
            self.assertEqual((2, ""), (code, out))
            self.assertIn("--explain-config", err)

    def test_explaining_several_configs_heads_each_with_its_path(self):
        code, out, _ = nqd("mesh-plan", VALID[0], VALID[1], "--explain-config")
        self.assertEqual(0, code)
        heads = [line for line in out.splitlines() if line.startswith("# ")]
        self.assertEqual([f"# {VALID[0]}", f"# {VALID[1]}"], heads)
        _, out, _ = nqd("mesh-plan", VALID[0], "--explain-config")
        self.assertFalse(out.startswith("# "))

    def test_any_bucket_size_is_priced_at_once(self):
        import time
        for overrides in (["train.bucket_bytes=1"],
                          ["parallel.engine=zero1", "model.parameters=1e15"]):
            start = time.monotonic()
            flags = [part for override in overrides for part in ("--set", override)]
            code, _, err = nqd("mesh-plan", "configs/llama3-8b-zero3-node.yaml", *flags)
            self.assertIn(code, (0, 1), err)
            self.assertLess(time.monotonic() - start, 1)

    def test_diagnostics_in_json_carry_the_place(self):
        code, out, _ = nqd("mesh-plan", "configs/invalid/quickstart-wrong.yaml", "--json")
        self.assertIn(code, (1, 2))
        config = json.loads(out)["configs"][0]
        self.assertFalse(config["valid"])
        for diagnostic in config["diagnostics"]:
            self.assertRegex(diagnostic["code"], r"^NQD\d{4}$")
            self.assertGreater(diagnostic["line"], 0)
            self.assertGreater(diagnostic["column"], 0)

    def test_bad_configs_fail_within_milliseconds(self):
        import time
        start = time.monotonic()
        for path in INVALID[:10]:
            nqd("mesh-plan", path)
        self.assertLess((time.monotonic() - start) / 10, 0.25)

    def test_explain_knows_every_code_that_a_stored_message_shows(self):
        for path in SOURCE.glob("configs/invalid/*.expected"):
            text = path.read_text()
            for part in text.split("[NQD")[1:]:
                code, out, _ = nqd("explain", "NQD" + part[:4])
                self.assertEqual(0, code)
                self.assertGreater(len(out), 60)


if __name__ == "__main__":
    unittest.main()
