"""`nqd import` and `nqd export` as a user meets them: streams, files, JSON, exit codes."""

import json
import pathlib
import shutil
import tempfile
import unittest

from support import SOURCE, nqd

CORPUS = SOURCE / "tests/fuzz/corpus"


def validate(document, schema="import"):
    """The document against the schema, where the validator is installed."""
    try:
        import jsonschema
    except ImportError:
        return
    jsonschema.validate(document, json.loads((SOURCE / f"schemas/{schema}.schema.json").read_text()))


class ImportTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="nqd-import-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def write(self, name, text):
        path = self.scratch / name
        path.write_text(text)
        return path

    def test_script_to_plan_and_back(self):
        config = self.scratch / "gpt3.yaml"
        code, out, err = nqd("import", CORPUS / "megatron/gpt3_175b.sh", "--from", "megatron", "-o", config)
        self.assertEqual((0, ""), (code, out), err)
        self.assertIn("warning[NQD2314]: not represented: --init-method-std 0.006", err)
        self.assertIn("gpt3_175b.sh:42:", err)
        # 175B does not fit unsharded into an unknown device: the plan itself is another test's.
        code, out, err = nqd("mesh-plan", config, "--explain-config")
        self.assertIn("parallel.tp", out, err)
        code, script, err = nqd("export", config, "--to", "megatron")
        self.assertEqual(0, code, err)
        self.assertIn("    --num-layers 96 \\\n", script)
        again = self.write("again.sh", script)
        code, first, _ = nqd("import", CORPUS / "megatron/gpt3_175b.sh", "--from", "megatron", "--json")
        code, second, _ = nqd("import", again, "--from", "megatron", "--json")
        first, second = json.loads(first), json.loads(second)
        validate(first)
        self.assertEqual([], second["unrepresented"])
        for section in ("model", "parallel", "train"):
            for key, value in first["config"][section].items():
                self.assertEqual(value, second["config"][section].get(key, value), key)

    def test_json_lists_what_has_no_place(self):
        code, out, _ = nqd("import", CORPUS / "deepspeed/zero3_auto.json", "--from", "deepspeed", "--model",
                           CORPUS / "hf/llama3_8b.json", "--json")
        self.assertEqual(0, code)
        document = json.loads(out)
        validate(document)
        self.assertEqual("zero3", document["config"]["parallel"]["engine"])
        self.assertEqual(32, document["config"]["model"]["layers"])
        self.assertIn("engine: zero3", document["yaml"])
        listed = {item["key"]: item for item in document["unrepresented"]}
        self.assertEqual("auto", listed["train_batch_size"]["value"])
        self.assertEqual(12, listed["gradient_accumulation_steps"]["line"])
        self.assertTrue(listed["train_batch_size"]["reason"])

    def test_malformed_input_ends_2_and_writes_nothing(self):
        bad = self.write("bad.json", '{\n "a": 1,\n}')
        output = self.scratch / "out.yaml"
        code, out, err = nqd("import", bad, "--from", "hf", "-o", output)
        self.assertEqual((2, ""), (code, out))
        self.assertIn("bad.json:3:1: error[NQD2302]", err)
        self.assertFalse(output.exists())
        code, out, _ = nqd("import", bad, "--from", "hf", "--json")
        document = json.loads(out)
        validate(document)
        self.assertEqual((2, None, None), (code, document["config"], document["yaml"]))
        self.assertEqual("NQD2302", document["diagnostics"][0]["code"])
        self.assertEqual(2, nqd("import", bad, "--from", "nemo")[0])
        self.assertEqual(2, nqd("import", bad, bad, "--from", "hf")[0])
        self.assertEqual(2, nqd("import", self.scratch / "none", "--from", "hf")[0])

    def test_contradiction_ends_1(self):
        script = self.write("both.sh", "--num-layers 2 --hidden-size 64 --num-attention-heads 4 "
                            "--seq-length 64 --vocab-size 128 --fp16 --bf16\n")
        code, out, err = nqd("import", script, "--from", "megatron")
        self.assertEqual(1, code)
        self.assertIn("error[NQD2310]", err)
        self.assertIn("model:", out)

    def test_export_says_what_it_cannot(self):
        config = self.write("c.yaml", "model: {preset: crop-foundation}\n")
        code, out, err = nqd("export", config, "--to", "hf")
        self.assertEqual((1, ""), (code, out))
        self.assertIn("error[NQD2320]", err)
        config = self.write("d.yaml", "model: {preset: gpt2-124m}\ntrain: {ema: true}\n")
        code, out, err = nqd("export", config, "--to", "megatron")
        self.assertEqual(0, code, err)
        self.assertIn("d.yaml:2:14: warning[NQD2320]: not expressed: train.ema: true", err)
        self.assertIn("--num-layers 12", out)

    def test_export_as_json(self):
        config = self.write("d.yaml", "model: {preset: gpt2-124m}\ntrain: {seed: 1234}\n")
        code, out, err = nqd("export", config, "--to", "deepspeed", "--json")
        self.assertEqual(0, code, err)
        document = json.loads(out)
        validate(document, "export")
        self.assertEqual(1, json.loads(document["text"])["train_micro_batch_size_per_gpu"])
        self.assertEqual(["model.preset", "train.runtime", "train.seed"],
                         [key["path"] for key in document["inexpressible"]])
        config = self.write("c.yaml", "model: {preset: crop-foundation}\n")
        code, out, _ = nqd("export", config, "--to", "hf", "--json")
        document = json.loads(out)
        validate(document, "export")
        self.assertEqual((1, None), (code, document["text"]))
        self.assertEqual("model.family", document["inexpressible"][0]["path"])


if __name__ == "__main__":
    unittest.main()
