"""nqd scale: figures that follow from its raw times, equal quality and a test that can fail, what it refuses."""

import json
import re
import signal
import statistics
import subprocess
import unittest

from parity_test import validate
from support import NQD, SOURCE, SLOWNESS, NqdTestCase, environment, needs_mpi, nqd, read_json, wait_for

CONFIG = "configs/parity/gpt-tied.yaml"
SMALL = ["--set", "model.layers=2", "--warmup", 1, "--steps", 3]
TWICE_T = {2: 12.706205, 3: 4.302653}  # of the 95 % interval of a mean, by seeds


class Scale(NqdTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.document_path, cls.page = cls.scratch / "scale.json", cls.scratch / "scale.html"
        cls.code, cls.text, cls.err = nqd("scale", CONFIG, *SMALL, "--ranks", "1,2,4", "--seeds", 3, "--margin", 0.1,
                                          "--output", cls.document_path, "--html", cls.page)
        assert cls.code == 0, cls.text + cls.err
        cls.document = read_json(cls.document_path)

    def close(self, expected, found):
        self.assertAlmostEqual(1, found / expected, places=7)

    def interval(self, values, found):
        reach = TWICE_T[len(values)] * statistics.stdev(values) / len(values) ** 0.5
        self.close(statistics.mean(values), found["mean"])
        self.assertAlmostEqual(statistics.mean(values) - reach, found["low"], delta=1e-5 * statistics.mean(values))
        self.assertAlmostEqual(statistics.mean(values) + reach, found["high"], delta=1e-5 * statistics.mean(values))

    def test_figures_follow_from_the_raw_times(self):
        validate(self, self.document)
        points = self.document["points"]
        self.assertEqual([(regime, ranks) for regime in ("equal-global-batch", "equal-local-batch")
                          for ranks in (1, 2, 4)], [(point["regime"], point["ranks"]) for point in points])
        self.assertEqual([24, 24, 24, 24, 48, 96], [point["global_batch_size"] for point in points])
        for i, point in enumerate(points):
            self.assertEqual(16 * point["global_batch_size"], point["tokens_per_step"])
            base = points[i - i % 3]
            efficiencies = []
            for run, first in zip(point["runs"], base["runs"]):
                self.assertEqual(4, len(run["step_s"]))
                self.assertEqual(statistics.median(run["step_s"][1:]), run["step_p50_s"])
                self.close(point["tokens_per_step"] / run["step_p50_s"], run["tokens_per_s"])
                efficiencies.append(run["tokens_per_s"] / first["tokens_per_s"] / point["ranks"])
            self.interval([run["tokens_per_s"] for run in point["runs"]], point["tokens_per_s"])
            self.assertEqual(point["ranks"] > self.document["cpus"], point["oversubscribed"])
            if point["oversubscribed"]:
                self.assertIsNone(point["efficiency"])
            else:
                self.close(statistics.mean(efficiencies), point["efficiency"]["mean"])

    def test_quality(self):
        self.assertTrue(self.document["ok"])
        one, two, four, *local = self.document["points"]
        self.assertIsNone(one["quality"])
        self.assertEqual([1234, 1235, 1236], [run["seed"] for run in one["runs"]])
        self.assertEqual(3, len({run["heldout_loss"] for run in one["runs"]}))
        for point in (two, four):
            self.assertEqual(("bits", "bit-identical", True),
                             tuple(point["quality"][key] for key in ("test", "verdict", "ok")))
            self.assertEqual([run["weights_sha256"] for run in one["runs"]],
                             [run["weights_sha256"] for run in point["runs"]])
        self.assertEqual([("paired non-inferiority", "not-worse")] * 2,
                         [(point["quality"]["test"], point["quality"]["verdict"]) for point in local[1:]])
        self.assertEqual(one["runs"], local[0]["runs"])

    def test_text_and_page(self):
        self.assertIn("3 seeds, 1 steps of warm-up and 3 measured, threads, canonical numerics", self.text)
        self.assertIn("bit-identical", self.text)
        self.assertIn("have the bits of the fewest", self.text)
        self.assertIn("not worse by a one-sided paired t-test", self.text)
        if self.document["cpus"] < 4:
            self.assertRegex(self.text, r"4 ranks of 1 thread are more than \d+ CPUs")
        page = self.page.read_text()
        own = page[:page.index("<script>")]
        for words in ('<section id="scale"', "Throughput, equal-global-batch", "Held-out loss, equal-local-batch",
                      "seed 1236", "bit-identical"):
            self.assertIn(words, own)
        again = self.scratch / "again.html"
        self.assertCode(0, nqd("report", self.document_path, "-o", again))
        cut = lambda text: re.sub(r"made this page at \S+|scale\.json", "", text)
        self.assertEqual(cut(page), cut(again.read_text()))

    def test_an_edited_document_is_refused(self):
        for name, edit in {
                "rate": lambda one: one["points"][1]["runs"][0].update(tokens_per_s=1e9),
                "step": lambda one: one["points"][0]["runs"][2].update(step_s=[1, 1, 1, 1]),
                "fewer": lambda one: one["points"][2]["runs"].pop()}.items():
            with self.subTest(name):
                edited = json.loads(json.dumps(self.document))
                edit(edited)
                path = self.scratch / f"edited-{name}.json"
                path.write_text(json.dumps(edited))
                _, err = self.assertCode(2, nqd("report", path, "-o", self.scratch / "no.html"))
                self.assertIn("NQD2101", err)
                self.assertFalse((self.scratch / "no.html").exists())

    def test_a_difference_beyond_the_margin_is_no(self):
        """Fast numerics on two ranks differ in rounding: equivalent at 1 %, and not at a part in 10¹⁵."""
        run = ["scale", CONFIG, *SMALL, "--ranks", "1,2", "--seeds", 2, "--regime", "equal-global-batch", "--set",
               "numerics.mode=fast", "--json"]
        out, _ = self.assertCode(0, nqd(*run, "--margin", 0.01))
        quality = json.loads(out)["points"][1]["quality"]
        self.assertEqual(("paired TOST", "equivalent"), (quality["test"], quality["verdict"]))
        self.assertLess(quality["p"], 0.05)
        out, _ = self.assertCode(1, nqd(*run, "--margin", 1e-15))
        document = json.loads(out)
        self.assertFalse(document["ok"])
        self.assertEqual("not-shown", document["points"][1]["quality"]["verdict"])
        self.assertGreater(document["points"][1]["quality"]["p"], 0.05)
        validate(self, document)

    @needs_mpi
    def test_under_mpirun(self):
        out, _ = self.assertCode(0, nqd("scale", CONFIG, *SMALL, "--ranks", "1,2", "--seeds", 1, "--regime",
                                        "equal-global-batch", "--launcher", "mpirun", "--json"))
        document = json.loads(out)
        self.assertEqual(("mpirun", "mpi", True), (document["launcher"], document["backend"], document["ok"]))
        same = lambda points: [points[i]["runs"][0]["weights_sha256"] for i in (0, 1)]
        self.assertEqual(same(self.document["points"]), same(document["points"]))
        self.assertIsNone(document["points"][1]["tokens_per_s"]["low"])

    def test_counts_that_cannot_run_are_named_before_anything_runs(self):
        output = self.scratch / "refused.json"
        _, err = self.assertCode(1, nqd("scale", CONFIG, *SMALL, "--ranks", "1,5,7", "--output", output))
        self.assertIn("NQD1410", err)
        self.assertRegex(err, "5 ranks, equal-global-batch: NQD12")
        self.assertRegex(err, "7 ranks, equal-global-batch: NQD12")
        self.assertNotIn("seed 1234", err)
        self.assertFalse(output.exists())
        self.assertCode(2, nqd("scale", CONFIG, "--ranks", "0"))
        self.assertCode(2, nqd("scale", "no-such.yaml", "--ranks", "1"))
        same = self.scratch / "same"
        self.assertCode(2, nqd("scale", CONFIG, "--ranks", "1", "--output", same, "--html", same))

    def test_a_signal_leaves_nothing_behind(self):
        for name, number in (("int", signal.SIGINT), ("term", signal.SIGTERM)):
            with self.subTest(name):
                folder, temporary = self.folder(f"out-{name}"), self.folder(f"tmp-{name}")
                process = subprocess.Popen(
                    [NQD, "scale", CONFIG, "--steps", "3000", "--ranks", "1,2", "--output", folder / "s.json", "--html",
                     folder / "s.html"], cwd=SOURCE, env=environment({"TMPDIR": str(temporary)}),
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                wait_for(lambda: any(temporary.iterdir()) and any(folder.iterdir()), 20, "its files")
                wait_for(lambda: "seed 1234" in process.stderr.readline(), 60, "the first run")
                process.send_signal(number)
                out, err = process.communicate(timeout=30 * SLOWNESS)
                self.assertEqual((4, ""), (process.returncode, out), err)
                self.assertIn("NQD4051", err)
                self.assertEqual([], list(folder.iterdir()))
                self.assertEqual([], list(temporary.iterdir()))


if __name__ == "__main__":
    unittest.main()
