#!/usr/bin/env python3
"""The verdict of real_text.py, and that record, page and picture in the tree say the same."""

import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench/peers"))

import real_text_tables as tables
from tables import BEGIN, END


def curve(group, seed, last, training=(5.5, 3.0)):
    return {"label": f"{group}, seed {seed}", "group": group, "seed": seed, "training_losses": list(training),
            "evals": [{"step": 0, "heldout_loss": 5.5, "tokens": 64}, {"step": 2, "heldout_loss": last, "tokens": 64}]}


def rounded(value):
    """Libraries may differ in the last digits of a logarithm."""
    if isinstance(value, dict):
        return {key: rounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [rounded(member) for member in value]
    return round(value, 9) if isinstance(value, float) else value


class Verdict(unittest.TestCase):
    NAMES = {"nqd": "nqd", "torch": "PyTorch", "same": "same"}

    def test_students_distribution(self):
        # Tabulated quantiles of t at 0.05, two-sided.
        for freedom, bound in ((1, 12.706), (2, 4.303), (4, 2.776), (30, 2.042)):
            self.assertAlmostEqual(tables.t_bound(freedom), bound, delta=0.001)
            self.assertAlmostEqual(tables.t_tail(bound, freedom), 0.05, delta=0.0001)

    def test_equal_means_are_within_noise_and_others_are_not(self):
        near = tables.welch([1.01, 1.02, 1.00], [1.03, 1.01, 1.02])
        self.assertAlmostEqual(near["difference"], -0.01)
        self.assertAlmostEqual(near["standard_error"], (2e-4 / 3) ** 0.5)
        self.assertAlmostEqual(near["degrees_of_freedom"], 4)
        self.assertAlmostEqual(near["p"], 0.2879, delta=0.0001)
        self.assertTrue(near["within_noise"])
        far = tables.welch([1.01, 1.02, 1.00], [1.08, 1.06, 1.07])
        self.assertLess(far["p"], 0.01)
        self.assertFalse(far["within_noise"])

    def test_runs_from_the_same_weights_are_compared_by_step_and_seed(self):
        curves = [curve("nqd", 1, 2.0), curve("nqd", 2, 2.5), curve("PyTorch", 1, 2.25), curve("PyTorch", 2, 2.75),
                  curve("same", 2, 2.625, (5.5, 3.25))]
        found = tables.verdict(curves, self.NAMES)
        self.assertAlmostEqual(found["difference"], -0.25)
        self.assertEqual(found["runs"], [2, 2])
        [same] = found["same_weights"]
        self.assertEqual((same["seed"], same["largest_heldout"]), (2, 0.125))
        self.assertEqual(same["first_steps"], [{"steps": 1, "largest_training": 0},
                                               {"steps": 2, "largest_training": 0.25}])


class Record(unittest.TestCase):
    """What the documentation shows follows from the stored curves alone."""

    def setUp(self):
        self.record = json.loads((ROOT / "docs/evidence/real-text.json").read_text(encoding="utf-8"))

    def test_verdict(self):
        names = dict(zip(("nqd", "torch", "same"), dict.fromkeys(c["group"] for c in self.record["curves"])))
        self.assertEqual(rounded(tables.verdict(self.record["curves"], names)), rounded(self.record["verdict"]))
        self.assertTrue(self.record["verdict"]["within_noise"])

    def test_page_and_picture(self):
        page = (ROOT / "docs/real-text.md").read_text(encoding="utf-8")
        self.assertEqual(page[page.index(BEGIN) + len(BEGIN):page.index(END)], tables.render(self.record))
        self.assertEqual((ROOT / "docs/real-text.svg").read_text(encoding="utf-8"), tables.svg(self.record["curves"]))


if __name__ == "__main__":
    unittest.main()
