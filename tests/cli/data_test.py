"""nqd data prepare, stats and verify through the real command."""

import json
import resource
import subprocess
import unittest

from support import NQD, NqdTestCase, nqd


class Data(NqdTestCase):
    def write_texts(self, name, count=6):
        folder = self.folder(name)
        for i in range(count):
            (folder / f"text-{i}").write_text(f"{i} line of text {i}\n" * 50)
        return folder

    def test_prepare_prints_both_splits_and_what_is_held_out(self):
        texts = self.write_texts("print-in")
        (texts / "zz-copy").write_bytes((texts / "text-3").read_bytes())
        out, err = self.assertCode(0, nqd("data", "prepare", texts, "--output",
                                          self.scratch / "print"))
        self.assertRegex(out, r"train +\d documents +[\d,]+ tokens")
        self.assertRegex(out, r"heldout +\d documents +[\d,]+ tokens")
        self.assertRegex(out, r"held out \S+/text-\d\n")
        self.assertIn(f"dropped {texts}/zz-copy (same content as {texts}/text-3)", err)

    def test_json_goes_to_stdout_and_agrees_with_the_index(self):
        texts, output = self.write_texts("json-in"), self.scratch / "json"
        out, _ = self.assertCode(0, nqd("data", "prepare", texts, "--output", output, "--json"))
        printed = json.loads(out)
        index = json.loads((output / "dataset.json").read_text())
        self.assertEqual(printed["digest"], index["digest"])
        self.assertEqual(printed["documents"], index["documents"])
        self.assertEqual(printed["train_tokens"], index["files"]["train"]["tokens"])
        out, _ = self.assertCode(0, nqd("data", "stats", output, "--json"))
        self.assertEqual([split["tokens"] for split in json.loads(out)["splits"]],
                         [printed["train_tokens"], printed["heldout_tokens"]])
        out, _ = self.assertCode(0, nqd("data", "verify", output, "--json"))
        self.assertEqual(json.loads(out)["digest"], printed["digest"])

    def test_synthetic_series_are_the_same_from_the_same_seed(self):
        options = ["--samples", 30, "--regions", 5, "--classes", 3, "--steps", 12, "--seed", 7]
        digests = []
        for name in ["series-a", "series-b"]:
            output = self.scratch / name
            out, _ = self.assertCode(0, nqd("data", "synthesize", "crops", "--output", output,
                                            *options, "--json"))
            made = json.loads(out)
            self.assertEqual(out, (output / "dataset.json").read_text())
            self.assertTrue(made["synthetic"])
            self.assertEqual((12, 3, 18), (made["steps"], made["classes"], len(made["features"])))
            digests.append(made["digest"])
            out, _ = self.assertCode(0, nqd("data", "verify", output, "--json"))
            self.assertEqual((made["digest"], 30),
                             (json.loads(out)["digest"], json.loads(out)["train_samples"] +
                              json.loads(out)["heldout_samples"]))
            out, _ = self.assertCode(0, nqd("data", "stats", output, "--json"))
            self.assertEqual([4, 1], [split["regions"] for split in json.loads(out)["splits"]])
        self.assertEqual(*digests)
        out, _ = self.assertCode(0, nqd("data", "synthesize", "crops", "--output",
                                        self.scratch / "series-a", *options))
        self.assertRegex(out, r"train +4 regions +24 samples +80\.0%")
        self.assertIn("synthetic: 12 time steps of 18 features, 3 classes", out)
        _, err = self.assertCode(2, nqd("data", "synthesize", "crops", "--output",
                                        self.scratch / "series-c", "--regions", 1))
        self.assertIn("NQD2009", err)

    def test_one_file_is_split_and_said_so(self):
        text = self.write_texts("one-in", 1) / "text-0"
        _, err = self.assertCode(0, nqd("data", "prepare", text, "--output", self.scratch / "one"))
        self.assertIn("split at a line end", err)

    def test_verify_finds_one_changed_byte(self):
        output = self.scratch / "changed"
        self.assertCode(0, nqd("data", "prepare", self.write_texts("changed-in"), "--output", output))
        content = bytearray((output / "train.tokens").read_bytes())
        content[-1] ^= 1
        (output / "train.tokens").write_bytes(content)
        _, err = self.assertCode(2, nqd("data", "verify", output))
        self.assertIn("NQD2005", err)

    def test_bad_input_ends_with_2_and_writes_nothing(self):
        output = self.scratch / "never"
        for arguments, code in [(["nowhere"], "NQD2001"),
                                (["--heldout-fraction", "1"], "NQD2008"),
                                ([self.folder("empty")], "NQD2003")]:
            _, err = self.assertCode(2, nqd("data", "prepare", *arguments, "--output", output))
            self.assertIn(code, err)
        self.assertCode(2, nqd("data", "prepare"))
        self.assertCode(2, nqd("data", "stats", output))
        self.assertFalse(output.exists())

    def test_a_file_size_limit_ends_with_4_and_leaves_the_old_dataset(self):
        output = self.scratch / "limited"
        self.assertCode(0, nqd("data", "prepare", self.write_texts("limited-in"), "--output", output))
        before = {path.name: path.read_bytes() for path in output.iterdir()}
        done = subprocess.run(
            [NQD, "data", "prepare", "--output", output], capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)))
        self.assertEqual(4, done.returncode, done.stderr)
        self.assertIn("NQD4003", done.stderr)
        self.assertEqual(before, {path.name: path.read_bytes() for path in output.iterdir()})


if __name__ == "__main__":
    unittest.main()
