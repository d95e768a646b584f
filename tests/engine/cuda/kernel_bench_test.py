"""nqd_kernel_bench on the CPU: every pass and product is there, with the bytes that it has to move."""

import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60)


class KernelBench(unittest.TestCase):
    def test_json(self):
        done = run("--device", "cpu", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["device"], "CPU")
        passes = {row["name"]: row for row in document["passes"]}
        self.assertEqual(len(passes), len(document["passes"]))
        self.assertEqual(document["passes"][0]["name"], "copy")
        self.assertEqual(passes["layer_norm"]["bytes"], 64 * 128 * 4)
        self.assertEqual(passes["adamw_stored"]["bytes"], 4096 * 30)
        self.assertEqual(passes["cross_entropy_backward_narrow"]["bytes"], 32 * 256 * 6)
        for row in passes.values():
            self.assertGreater(row["seconds"], 0)
            self.assertAlmostEqual(row["bytes_per_s"], row["bytes"] / row["seconds"],
                                   delta=1e-4 * row["bytes_per_s"])
            self.assertAlmostEqual(row["share_of_copy"],
                                   row["bytes_per_s"] / document["copy_bytes_per_s"],
                                   delta=1e-3 * row["share_of_copy"])
        # A CPU fuses nothing.
        self.assertEqual([row["name"] for row in document["products"]],
                         ["up", "down", "input_gradient", "weight_gradient"]
                         + 2 * ["attention", "attention_backward"])
        self.assertEqual(document["products"][0]["operations"], 2 * 64 * 128 * 512)

    def test_table(self):
        done = run("--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("% of a copy", done.stdout)
        self.assertIn("TFLOP/s", done.stdout)

    def test_wrong_words_are_refused(self):
        for words in (["--device"], ["--device", "tpu"], ["--fast"]):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn("usage", done.stderr)


if __name__ == "__main__":
    unittest.main()
