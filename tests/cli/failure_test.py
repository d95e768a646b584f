"""What every command does with input that it cannot use: exit status, stderr, and JSON all the same."""

import json
import pathlib
import shutil
import tempfile
import unittest

from support import SOURCE, mpi_nqd, needs_mpi, nqd

try:
    import jsonschema
except ImportError:
    jsonschema = None

TYPO = "model: {preset: gpt2-124m}\ntrain: {global_batch_sice: 8}\n"


class Failure(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="nqd-failure-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def write(self, name, text):
        path = self.scratch / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def failure(self, *arguments):
        """The first diagnostic of a command that ends with 2."""
        code, out, err = nqd(*arguments, "--json")
        self.assertEqual(2, code, err)
        self.assertTrue(err)
        document = json.loads(out)
        if jsonschema is not None:
            schema = json.loads((SOURCE / "schemas/failure.schema.json").read_text())
            jsonschema.Draft7Validator.check_schema(schema)
            jsonschema.Draft7Validator(schema).validate(document)
        return document["diagnostics"][0]

    def test_a_malformed_config(self):
        config = self.write("typo.yaml", TYPO)
        for arguments in (["search", config], ["search", config, "--sweep", "nodes=1,2"],
                          ["export", config, "--to", "hf"]):
            found = self.failure(*arguments)
            self.assertEqual(("NQD1006", 2, "did you mean global_batch_size?"),
                             (found["code"], found["line"], found["hint"]))
        code, out, _ = nqd("mesh-plan", config, "--json")
        self.assertEqual((2, "NQD1006"),
                         (code, json.loads(out)["configs"][0]["diagnostics"][0]["code"]))

    def test_other_input(self):
        none = self.scratch / "none"
        self.assertEqual("NQD2001", self.failure("import", none, "--from", "hf")["code"])
        self.assertEqual("NQD2060", self.failure("validate-model", self.write("t", "{"))["code"])
        found = self.failure("calc", "memory", "--parameters", "-1", "--ranks", "8")
        self.assertEqual("NQD1009", found["code"])
        self.assertEqual("NQD1009", self.failure("simulate", "pipeline", "--schedule", "1f1b", "-p",
                                                 "100000", "-m", "100000")["code"])

    def test_a_swept_value_is_reported_at_sweep(self):
        config = self.write("c.yaml", "model: {preset: gpt2-124m}\ncluster: {gpus_per_node: 8}\n")
        code, out, err = nqd("search", config, "--sweep", "nodes=1,-1")
        self.assertEqual((2, ""), (code, out))
        self.assertIn("--sweep: error[NQD1009]: cluster.nodes is out of range", err)

    def test_counts_are_from_one(self):
        config = self.write("c.yaml", "model: {preset: gpt2-124m}\n")
        for flag in ("--top", "--threads"):
            code, _, err = nqd("search", config, flag, "0")
            self.assertEqual(2, code)
            self.assertIn(f"{flag}: Value 0 not in range 1 to ", err)

    def test_a_command_that_does_not_exist(self):
        code, out, err = nqd("mesh-pln")
        self.assertEqual((2, ""), (code, out))
        self.assertIn('there is no command "mesh-pln"', err)
        self.assertIn("did you mean mesh-plan?", err)

    def test_a_command_line_that_cannot_be_read(self):
        comm = ["calc", "comm", "--collective", "all_reduce", "--bytes", "1e6", "--bandwidth", "50e9"]
        for arguments, message in ((["calc", "bubble", "-p", "4"], "--micro-batches is required"),
                                   ([*comm, "--ranks", "0"], "--ranks: Value 0 not in range"),
                                   (["search"], "config is required"),
                                   (["doctor", "--nosuch"], "--nosuch"),
                                   (["mesh-pln"], 'there is no command "mesh-pln"')):
            found = self.failure(*arguments)
            self.assertIn(message, found["message"])
            self.assertIsNone(found["code"])
            self.assertTrue(found["hint"])
        # Without the flag, behind `--`, and of commands that run as many processes: stderr alone.
        for arguments in (["calc", "bubble", "-p", "4"], ["calc", "bubble", "-p", "4", "--", "--json"],
                          ["bench", "--nosuch", "--json"], ["train", "--nosuch", "--json"]):
            code, out, err = nqd(*arguments)
            self.assertEqual((2, ""), (code, out), arguments)
            self.assertTrue(err)

    @needs_mpi
    def test_the_first_of_several_processes_prints(self):
        code, out, _ = mpi_nqd(2, "calc", "bubble", "-p", "4", "--json")
        self.assertNotEqual(0, code)
        self.assertEqual(1, out.count("schema_version"))

    def test_texts_that_are_no_configs(self):
        for name, text, found in (("empty", "", "NQD1003"), ("binary", bytes(range(256)), "NQD1026"),
                                  ("tab", "model:\n\tpreset: gpt2-124m\n", "NQD1018"),
                                  ("large", "# " + "x" * (1 << 21), "NQD1024"),
                                  ("merge", "model: {<<: {layers: 2}}\n", "NQD1019"),
                                  ("huge", "model: {preset: gpt2-124m, layers: 1e400}\n", "NQD1017")):
            self.assertEqual(found, self.failure("search", self.write(name, text))["code"])
        # As many findings as keys, in one line: neither slow nor large.
        keys = ", ".join(f"abcdefgh{i}: 1" for i in range(55000))
        code, _, err = nqd("mesh-plan", self.write("keys", "model: {preset: gpt2-124m, " + keys + "}\n"))
        self.assertEqual(2, code)
        self.assertLess(len(err), 100_000)
        self.assertIn("more findings are not shown", err)

    def test_sarif_sentences_and_places(self):
        code, out, _ = nqd("mesh-plan", self.write("b", b"model:\n  \xff\n"), self.write("typo.yaml", TYPO),
                           "--format", "sarif")
        self.assertEqual(2, code)
        binary, typo = json.loads(out)["runs"][0]["results"]
        region = binary["locations"][0]["physicalLocation"]["region"]
        self.assertEqual({"startLine": 2, "startColumn": 3}, region)
        self.assertTrue(typo["message"]["text"].endswith("did you mean global_batch_size?"))


if __name__ == "__main__":
    unittest.main()
