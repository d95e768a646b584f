"""Generations that no run wrote: for another mesh, and from weights of another origin."""

import json
import os
import subprocess
import unittest

from checkpoint_test import RUN, folder_of, wide
from support import NQD, SOURCE, NqdTestCase, environment, nqd, read_json

MESHES = {
    "one": (["--ranks", 1], []),
    "ddp4": (["--ranks", 4], []),
    "zero3": (["--ranks", 4], ["parallel.engine=zero3"]),
    "zero1-of-3": (["--ranks", 3], ["parallel.engine=zero1"]),
    "hsdp": (["--ranks", 4], ["parallel.engine=hsdp", "parallel.hsdp_shard=2"]),
    "tp2-zero2": (["--ranks", 4], ["parallel.tp=2", "parallel.engine=zero2"]),
    "tp2-pp2": (["--ranks", 4], ["parallel.tp=2", "parallel.pp=2"]),
}


def sets(values):
    return [word for value in values for word in ("--set", value)]


def mesh(ranks, values):
    """Flags of `nqd train`, which checks the config before it resizes dp."""
    split = 1
    for value in values:
        split *= int(value.split("=")[1]) if value.startswith(("parallel.tp=", "parallel.pp=")) else 1
    return [*wide(ranks[1] // split, ranks[1]), *sets(values), *ranks]


def peak_bytes(*arguments):
    """Of nqd's resident set."""
    process = subprocess.Popen([NQD, *map(str, arguments)], cwd=SOURCE, env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return usage.ru_maxrss * 1024


class Reshard(NqdTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.scratch / "whole"
        code, _, err = cls.train(cls.whole, "--ranks", 2)
        assert code == 0, err
        cls.saved = folder_of(cls.whole, 10)
        cls.sha256 = read_json(cls.whole / "evidence.json")["weights_sha256"]

    @classmethod
    def train(cls, output, *more):
        return nqd("train", "configs/quickstart.yaml", "--set", f"data.path={cls.data}", "--output-dir", output,
                   *RUN, "--set", "train.global_batch_size=12", "--set", "train.micro_batch_size=1", *more)

    def reshard(self, source, name, ranks, values):
        output = self.scratch / name
        self.assertCode(0, nqd("checkpoint", "reshard", source, "--output", output, *ranks, *sets(values)))
        return output

    def test_the_files_are_those_that_ranks_of_the_mesh_write(self):
        for name, (ranks, values) in MESHES.items():
            with self.subTest(mesh=name):
                output = self.reshard(self.saved, f"to-{name}", ranks, values)
                self.assertCode(0, nqd("checkpoint", "verify", output))
                self.assertCode(0, nqd("checkpoint", "diff", output, self.saved))
                run = self.scratch / f"run-{name}"
                self.assertCode(0, self.train(run, *mesh(ranks, values)))
                own = folder_of(run, 10)
                new = next(output.glob("step-*"))
                names = sorted(path.name for path in own.glob("*.safetensors"))
                self.assertEqual(names, sorted(path.name for path in new.glob("*.safetensors")))
                self.assertEqual(ranks[1], len(names))
                for file in names:
                    self.assertEqual((own / file).read_bytes(), (new / file).read_bytes(), file)

    def test_runs_go_on_from_it_with_the_same_bits(self):
        for name, (ranks, values) in MESHES.items():
            if name not in ("zero3", "tp2-pp2"):
                continue
            with self.subTest(mesh=name):
                output = self.reshard(self.saved, f"on-{name}", ranks, values)
                # On the mesh that it was made for, then back to the first one.
                run = self.scratch / f"on-run-{name}"
                self.assertCode(0, self.train(run, *mesh(ranks, values), "--resume", output))
                evidence = read_json(run / "evidence.json")
                self.assertEqual(10, evidence["resumed"]["after_step"])
                self.assertEqual(self.sha256, evidence["weights_sha256"])
                back = self.reshard(output, f"back-{name}", ["--ranks", 2],
                                    ["parallel.engine=ddp", "parallel.tp=1", "parallel.pp=1"])
                for path in self.saved.glob("*.safetensors"):
                    self.assertEqual(path.read_bytes(), (next(back.glob("step-*")) / path.name).read_bytes())

    def test_what_it_says(self):
        output = self.scratch / "says"
        out, _ = self.assertCode(0, nqd("checkpoint", "reshard", self.whole / "checkpoints", "--output", output,
                                        "--ranks", 4, "--set", "parallel.engine=zero3", "--json"))
        summary = json.loads(out)
        self.assertEqual("zero3 dp 4 tp 1 pp 1", summary["mesh"])
        self.assertEqual(12, summary["step"])
        self.assertEqual(("zero3", "4", "4"), tuple(summary["config"][key] for key in (
            "parallel.engine", "parallel.dp", "parallel.world_size")))

    def test_refusals(self):
        def refused(code, words, *arguments):
            output = self.scratch / "refused"
            _, err = self.assertCode(code, nqd("checkpoint", "reshard", self.saved, "--output", output, *arguments))
            for word in words:
                self.assertIn(word, err)
            self.assertFalse(output.exists())

        refused(1, ["NQD12"], "--ranks", 3, "--set", "parallel.tp=3")
        refused(1, ["NQD12"], "--ranks", 5)
        refused(2, ["NQD2084", "model.layers"], "--ranks", 2, "--set", "model.layers=3")
        refused(2, ["NQD10"], "--set", "parallel.engine=zero9")
        _, err = self.assertCode(2, nqd("checkpoint", "reshard", self.saved, "--output", self.whole / "checkpoints"))
        self.assertIn("NQD2085", err)
        _, err = self.assertCode(2, nqd("checkpoint", "reshard", self.scratch / "none", "--output", self.scratch / "o"))
        self.assertIn("NQD2080", err)

    def test_memory_does_not_grow_with_the_model(self):
        run = self.scratch / "large"
        larger = ["model.layers=8", "model.hidden=512", "model.heads=8", "model.ffn_hidden=2048", "train.steps=1",
                  "train.optimizer.warmup_steps=1",
                  "train.eval_batches=1"]
        self.assertCode(0, self.train(run, "--ranks", 2, *sets(larger)))
        generation = folder_of(run, 1)
        size = sum(path.stat().st_size for path in generation.iterdir())
        self.assertGreater(size, 280 << 20)
        for name, mesh in {"rows": ["parallel.tp=2", "parallel.engine=zero3"], "stages": ["parallel.pp=4"]}.items():
            with self.subTest(name):
                peak = peak_bytes("checkpoint", "reshard", generation, "--output", self.scratch / f"large-{name}",
                                  "--ranks", 4, *sets(mesh))
                # The largest tensor has 4 MiB.
                self.assertLess(peak, 64 << 20)


class Import(NqdTestCase):
    GPT = ("configs/quickstart.yaml", [])
    LLAMA = ("configs/parity/llama-gqa.yaml", ["model.heads=4", "model.kv_heads=2"])

    def arguments(self, values):
        return ["--set", f"data.path={self.data}", *RUN, *sets(values), "--ranks", 2]

    def test_there_and_back(self):
        for name, (config, values) in {"gpt": self.GPT, "llama": self.LLAMA}.items():
            with self.subTest(name):
                first, again = self.scratch / f"{name}-hf", self.scratch / f"{name}-hf2"
                base = self.scratch / f"{name}-base"
                self.assertCode(0, nqd("train", config, "--output-dir", base, *self.arguments(values),
                                       "--export-weights", first))
                generation = self.scratch / f"{name}-generation"
                self.assertCode(0, nqd("checkpoint", "import", first, config, "--output", generation,
                                       *self.arguments([*values, "parallel.engine=zero3"])))
                self.assertCode(0, nqd("checkpoint", "verify", generation))
                self.assertCode(0, nqd("checkpoint", "export", generation, "--output", again))
                for file in ("model.safetensors", "config.json"):
                    self.assertEqual((first / file).read_bytes(), (again / file).read_bytes(), file)
                # A run goes on from it as one that starts from the weights.
                ends = []
                for how, more in {"resumed": ["--resume", generation], "started": ["--init-weights", first]}.items():
                    run = self.scratch / f"{name}-{how}"
                    self.assertCode(0, nqd("train", config, "--output-dir", run, *self.arguments(values), *more))
                    evidence = read_json(run / "evidence.json")
                    self.assertTrue(evidence["audit_ok"])
                    ends.append((evidence["weights_sha256"], [step["loss"] for step in evidence["steps"]]))
                self.assertEqual(ends[0], ends[1])

    def test_float16_and_ema_begin_as_a_run_does(self):
        values = ["train.precision=float16", "train.ema=true"]
        base, hf = self.scratch / "half-base", self.scratch / "half-hf"
        self.assertCode(0, nqd("train", "configs/quickstart.yaml", "--output-dir", base, *self.arguments(values),
                               "--export-weights", hf))
        generation = self.scratch / "half"
        self.assertCode(0, nqd("checkpoint", "import", hf, "configs/quickstart.yaml", "--output", generation,
                               *self.arguments(values)))
        exports = []
        for how, more in {"resumed": ["--resume", generation], "started": ["--init-weights", hf]}.items():
            run = self.scratch / f"half-{how}"
            self.assertCode(0, nqd("train", "configs/quickstart.yaml", "--output-dir", run, *self.arguments(values),
                                   *more))
            out = self.scratch / f"half-{how}-ema"
            self.assertCode(0, nqd("checkpoint", "export", run / "checkpoints", "--ema", "--output", out))
            exports.append((out / "model.safetensors").read_bytes())
        self.assertEqual(exports[0], exports[1])

    def test_refusals(self):
        hf = self.scratch / "other-hf"
        self.assertCode(0, nqd("train", "configs/quickstart.yaml", "--output-dir", self.scratch / "other",
                               *self.arguments([]), "--export-weights", hf))
        output = self.scratch / "refused"
        for value, code in (("model.layers=3", "NQD207"), ("data.path=", "NQD1402")):
            _, err = self.assertCode(2, nqd("checkpoint", "import", hf, "configs/quickstart.yaml", "--output", output,
                                            *self.arguments([value])))
            self.assertIn(code, err)
            self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main()
