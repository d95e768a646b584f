"""nqd parity: its document, its text, its launchers, and what it refuses. And train's evidence of steps
that were skipped."""

import json
import unittest

from support import NqdTestCase, SOURCE, TINY, needs_mpi, nqd, read_json

CONFIG = "configs/parity/gpt-tied.yaml"


def validate(test, document):
    try:
        import jsonschema
    except ImportError:
        test.skipTest("python3-jsonschema is not installed")
    schema = read_json(SOURCE / "schemas" / "evidence.schema.json")
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(document)


class Parity(NqdTestCase):
    def test_quick_document_and_text(self):
        output = self.scratch / "parity.json"
        text, _ = self.assertCode(0, nqd("parity", CONFIG, "--quick", "--launcher", "threads",
                                         "--output", output))
        document = read_json(output)
        self.assertEqual("parity", document["kind"])
        self.assertEqual(0, document["failed"])
        self.assertEqual(len(document["cases"]), document["passed"])
        self.assertEqual(f"{document['passed']} passed, 0 failed", text.splitlines()[-1])
        for case in document["cases"]:
            self.assertEqual(("bit-identical", "threads", CONFIG),
                             (case["verdict"], case["launcher"], case["config"]))
            self.assertEqual((0, 0), (case["max_rel_loss_diff"], case["max_rel_weight_diff"]))
        self.assertEqual({1, 2}, {case["threads"] for case in document["cases"]})
        self.assertIn("2x2x2", [case["mesh"] for case in document["cases"]])
        self.assertEqual(["zero1 2x1x1 after step 2", "zero3 3x1x1 after step 2", "zero2 2x2x2 zb-h1 after step 2"],
                         [case["resumed_from"] for case in document["cases"] if case["resumed_from"]])
        self.assertEqual({3, 4}, {len(case["losses"]) for case in document["cases"]})
        self.assertRegex(text, "zero1 .* resumed ")
        self.assertRegex(text, "ddp .* resharded ")
        validate(self, document)

    @needs_mpi
    def test_under_mpirun(self):
        # What the caller sets reaches the processes too: else they would train for three steps.
        out, _ = self.assertCode(0, nqd("parity", CONFIG, "--quick", "--launcher", "mpirun", "--json",
                                        "--set", "train.steps=4"))
        cases = json.loads(out)["cases"]
        self.assertTrue(cases)
        for case in cases:
            self.assertEqual(("mpirun", "bit-identical"), (case["launcher"], case["verdict"]))
            self.assertEqual(4, len(case["losses"]))
        self.assertEqual(["", "ddp 2x1x1 after step 2"], [case["resumed_from"] for case in cases])

    def test_unknown_config(self):
        _, err = self.assertCode(2, nqd("parity", "no-such.yaml", "--quick"))
        self.assertIn("no-such.yaml", err)
        self.assertIn("error[NQD1001]", err)

    def test_a_batch_that_no_mesh_divides(self):
        """A cell that breaks a rule of its mesh has failed; with none left there is nothing to prove."""
        out, _ = self.assertCode(1, nqd("parity", CONFIG, "--quick", "--launcher", "threads", "--json", "--set",
                                        "train.global_batch_size=4"))
        document = json.loads(out)
        failed = [case for case in document["cases"] if case["verdict"] == "failed"]
        self.assertEqual([("zero3", "3x1x1", ""), ("ddp", "1x2x1+sp", "zero3 3x1x1 after step 2")],
                         [(case["engine"], case["mesh"], case["resumed_from"]) for case in failed])
        for case in failed:
            self.assertIn("cannot run: NQD12", case["reason"])
        self.assertEqual((2, len(document["cases"]) - 2), (document["failed"], document["passed"]))
        validate(self, document)
        _, err = self.assertCode(2, nqd("parity", CONFIG, "--quick", "--launcher", "threads", "--set",
                                        "model.layers=1", "--set", "model.heads=1", "--set",
                                        "train.global_batch_size=1"))
        self.assertIn("NQD", err)


class SkippedSteps(NqdTestCase):
    def test_steps_that_are_not_finite_are_null_marked_and_counted(self):
        output = self.scratch / "skipped"
        code, _, err = nqd(*self.train_arguments(
            output, *TINY, "--ranks", 2, "--set", "train.steps=20", "--set",
            "train.optimizer.learning_rate=1e30", "--set", "train.optimizer.min_learning_rate=1e30",
            "--set", "train.optimizer.grad_clip=0", "--set", "train.optimizer.warmup_steps=0"))
        self.assertEqual(4, code, err)
        self.assertIn("NQD4006", err)
        evidence = read_json(output / "evidence.json")
        skipped = [step for step in evidence["steps"] if step["skipped"]]
        self.assertEqual(8, len(skipped))
        self.assertEqual(8, evidence["skipped_steps"])
        self.assertEqual(evidence["steps"][-1]["step"], evidence["fault"]["at_step"])
        self.assertFalse(evidence["steps"][0]["skipped"])
        for step in skipped:
            self.assertTrue(step["loss"] is None or step["grad_norm"] is None, step)
        validate(self, evidence)


if __name__ == "__main__":
    unittest.main()
