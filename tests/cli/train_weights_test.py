"""Checkpoints of Hugging Face in and out of a training run."""

import json
import shutil
import struct
import unittest

from support import NqdTestCase, SOURCE, mpi_nqd, needs_mpi, nqd, read_json

CONFIG = SOURCE / "configs" / "parity" / "llama-gqa.yaml"


class TrainWeights(NqdTestCase):
    def train(self, name, *flags, runner=nqd, mesh=("parallel.dp=2",)):
        settings = [f"data.path={self.data}", "cluster.gpus_per_node=2", "train.steps=2",
                    "train.eval_batches=1", "train.micro_batch_size=4", *mesh]
        flags = [*flags, *(flag for setting in settings for flag in ("--set", setting))]
        if runner is nqd:
            flags += ["--ranks", "2"]
        return runner("train", CONFIG, "--output-dir", self.scratch / name, *flags)

    def header(self, file):
        data = file.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        return json.loads(data[8 : 8 + length])

    def evidence(self, name):
        return read_json(self.scratch / name / "evidence.json")

    @needs_mpi
    def test_a_run_goes_on_where_another_ended(self):
        exported = self.scratch / "exported"
        code, _, err = self.train("first", "--export-weights", exported)
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(path.name for path in exported.iterdir()),
                         ["config.json", "model.safetensors"])
        header = self.header(exported / "model.safetensors")
        self.assertEqual(header["__metadata__"], {"format": "pt"})
        self.assertEqual(header["model.layers.7.mlp.up_proj.weight"]["shape"], [192, 64])
        self.assertEqual(read_json(exported / "config.json")["num_key_value_heads"], 8)
        again = self.scratch / "again"
        for name, runner, mesh in (
            ("threads", nqd, ("parallel.dp=1", "parallel.tp=2")),
            ("mpi", lambda *a: mpi_nqd(2, *a), ("parallel.dp=2", "parallel.engine=zero3")),
        ):
            code, _, err = self.train(name, "--init-weights", exported, "--export-weights",
                                      again / name, runner=runner, mesh=mesh)
            self.assertEqual(code, 0, err)
            self.assertEqual(self.evidence(name)["evals"][0]["heldout_loss"],
                             self.evidence("first")["evals"][-1]["heldout_loss"])
        self.assertEqual((again / "threads" / "model.safetensors").read_bytes(),
                         (again / "mpi" / "model.safetensors").read_bytes())

    def test_types(self):
        exported = self.scratch / "narrow"
        code, _, err = self.train("narrow-run", "--export-weights", exported, "--export-type",
                                  "bfloat16")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.header(exported / "model.safetensors")["lm_head.weight"]["dtype"],
                         "BF16")
        code, _, _ = self.train("narrow-run", "--export-weights", exported, "--export-type", "int8")
        self.assertEqual(code, 2)

    def test_refusals_name_file_and_tensor(self):
        code, _, err = self.train("refused", "--init-weights", self.scratch / "nowhere")
        self.assertEqual(code, 2)
        self.assertIn("NQD2001", err)
        theirs = SOURCE / "tests" / "fixtures" / "hugging_face" / "llama"
        code, _, err = self.train("refused", "--init-weights", theirs)
        self.assertEqual(code, 2)
        self.assertIn("NQD2073", err)
        self.assertIn("model.layers 2", err)
        lone = self.scratch / "lone.safetensors"
        shutil.copy(theirs / "model.safetensors", lone)
        code, _, err = self.train("refused", "--init-weights", lone)
        self.assertEqual(code, 2)
        self.assertIn("NQD2071", err)
        self.assertIn(f"{lone}: tensor \"model.embed_tokens.weight\" is [61, 32]", err)
        lone.write_bytes(lone.read_bytes()[:-1])
        code, _, err = self.train("refused", "--init-weights", lone)
        self.assertEqual(code, 2)
        self.assertIn("NQD2070", err)
        code, _, err = self.train("refused", "--export-weights", lone / "x")
        self.assertEqual(code, 2)
        self.assertIn("NQD2002", err)


if __name__ == "__main__":
    unittest.main()
