"""Saves of real runs: what goes on from them has the bits of the run that was never stopped."""

import json
import math
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

import support
from support import MPIRUN, NQD, SOURCE, NqdTestCase, TINY, environment, mpi_line, mpi_nqd, needs_mpi, nqd, read_json, wait_for
from train_files_test import Mounted

RUN = [*TINY, "--set", "train.steps=12", "--set", "checkpoint.every=5", "--set", "train.eval_every=4",
       "--set", "train.global_batch_size=8"]


def folder_of(run, step):
    return next((pathlib.Path(run) / "checkpoints").glob(f"step-{step:012d}-*"))


def wide(dp, devices=4):
    return ["--set", f"cluster.gpus_per_node={devices}", "--set", f"parallel.dp={dp}"]


def losses(run):
    return {step["step"]: (step["loss"], step["grad_norm"]) for step in read_json(run / "evidence.json")["steps"]}


class Checkpoints(NqdTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.scratch / "whole"
        code, _, err = cls.train(cls.whole)
        assert code == 0, err
        cls.evidence = read_json(cls.whole / "evidence.json")

    @classmethod
    def train(cls, output, *more, ranks=2):
        return nqd("train", "configs/quickstart.yaml", "--set", f"data.path={cls.data}", "--output-dir",
                   output, *RUN, "--ranks", ranks, *more)

    def assertGoesOn(self, run, after):
        evidence = read_json(run / "evidence.json")
        self.assertEqual(after, evidence["resumed"]["after_step"])
        self.assertTrue(evidence["audit_ok"])
        own, whole = losses(run), losses(self.whole)
        self.assertEqual(list(range(after + 1, 13)), sorted(own))
        for step, values in own.items():
            self.assertEqual(whole[step], values, f"step {step}")
        self.assertEqual(self.evidence["weights_sha256"], evidence["weights_sha256"])
        self.assertEqual(self.evidence["evals"][-1], evidence["evals"][-1])

    def test_evidence_and_what_is_kept(self):
        self.assertEqual([5, 10, 12], [one["step"] for one in self.evidence["checkpoints"]])
        names = sorted(path.name[:17] for path in (self.whole / "checkpoints").iterdir())
        self.assertEqual(["LATEST", "step-000000000010", "step-000000000012"], names)

    def test_any_mesh_goes_on_with_the_same_bits(self):
        saved = folder_of(self.whole, 10)
        meshes = {
            "ddp2": ["--ranks", 2], "one": ["--ranks", 1], "ddp4": ["--ranks", 4],
            "zero1": ["--ranks", 2, "--set", "parallel.engine=zero1"],
            "zero2": ["--ranks", 4, "--set", "parallel.engine=zero2"],
            "zero3": ["--ranks", 4, "--set", "parallel.engine=zero3"],
            "hsdp": ["--ranks", 4, *wide(4), "--set", "parallel.engine=hsdp", "--set", "parallel.hsdp_shard=2"],
            "tp2": ["--ranks", 2, *wide(1, 2), "--set", "parallel.tp=2"],
            "tp2-sp-zero3": ["--ranks", 4, *wide(2), "--set", "parallel.tp=2", "--set", "parallel.sequence_parallel=true",
                             "--set", "parallel.engine=zero3"],
            "pp2": ["--ranks", 2, *wide(1, 2), "--set", "parallel.pp=2"],
            "pp2-dp2": ["--ranks", 4, *wide(2), "--set", "parallel.pp=2", "--set", "parallel.engine=zero1"],
            "recompute": ["--ranks", 2, "--set", "train.recompute=full"],
        }
        for name, mesh in meshes.items():
            with self.subTest(mesh=name):
                run = self.scratch / f"mesh-{name}"
                self.assertCode(0, nqd("train", "configs/quickstart.yaml", "--set", f"data.path={self.data}",
                                       "--output-dir", run, *RUN, *mesh, "--resume", saved))
                self.assertGoesOn(run, 10)

    def test_what_a_mesh_of_every_kind_saves_goes_on_elsewhere(self):
        meshes = {
            "zero3": ["--ranks", 4, "--set", "parallel.engine=zero3"],
            "hsdp": ["--ranks", 4, *wide(4), "--set", "parallel.engine=hsdp", "--set", "parallel.hsdp_shard=2"],
            "tp2-pp2": ["--ranks", 4, *wide(1), "--set", "parallel.tp=2", "--set", "parallel.pp=2"],
            "zero1": ["--ranks", 3, "--set", "parallel.engine=zero1", "--set", "train.global_batch_size=12"],
        }
        for name, mesh in meshes.items():
            with self.subTest(mesh=name):
                first, second = self.scratch / f"from-{name}", self.scratch / f"to-{name}"
                line = ["train", "configs/quickstart.yaml", "--set", f"data.path={self.data}", *RUN]
                self.assertCode(0, nqd(*line, *mesh, "--output-dir", first))
                batch = [mesh[i + 1] for i in range(len(mesh) - 1) if "global_batch" in str(mesh[i + 1])]
                more = [word for value in batch for word in ("--set", value)]
                self.assertCode(0, nqd(*line, "--ranks", 2, *more, "--output-dir", second, "--resume",
                                       folder_of(first, 10)))
                whole, rest = read_json(first / "evidence.json"), read_json(second / "evidence.json")
                self.assertEqual(whole["weights_sha256"], rest["weights_sha256"])
                self.assertEqual([s["loss"] for s in whole["steps"][10:]], [s["loss"] for s in rest["steps"]])

    @needs_mpi
    def test_under_mpirun(self):
        run = self.scratch / "mpi"
        self.assertCode(0, mpi_nqd(2, "train", "configs/quickstart.yaml", "--set", f"data.path={self.data}",
                                   "--output-dir", run, *RUN, "--resume", folder_of(self.whole, 10)))
        self.assertGoesOn(run, 10)

    def test_bfloat16_momentum_and_ema(self):
        for name, more in {"bfloat16": ["train.precision=bfloat16", "train.ema=true"],
                           "momentum": ["train.optimizer.kind=sgd-momentum", "train.dropout=true"],
                           "sgd": ["train.optimizer.kind=sgd"], "float16": ["train.precision=float16"]}.items():
            with self.subTest(name):
                settings = [word for value in more for word in ("--set", value)]
                whole, rest = self.scratch / f"{name}-whole", self.scratch / f"{name}-rest"
                self.assertCode(0, self.train(whole, *settings))
                self.assertCode(0, self.train(rest, *settings, "--resume", folder_of(whole, 10),
                                              "--set", "parallel.engine=zero3"))
                self.assertEqual(read_json(whole / "evidence.json")["weights_sha256"],
                                 read_json(rest / "evidence.json")["weights_sha256"])

    def start(self, run, *more, ranks=2):
        line = [NQD, "train", "configs/quickstart.yaml", "--set", f"data.path={self.data}", "--output-dir", run,
                *RUN, "--ranks", ranks, *more]
        return subprocess.Popen([str(word) for word in line], cwd=SOURCE, env=environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def lines(self, run):
        try:
            return len((run / "metrics.jsonl").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def test_sigterm_saves_and_ends_75(self):
        for name, number in (("term", signal.SIGTERM), ("usr1", signal.SIGUSR1)):
            with self.subTest(name):
                run = self.scratch / f"stop-{name}"
                long = ["--set", "train.steps=100000", "--set", "checkpoint.every=0", "--set", "train.eval_every=0"]
                process = self.start(run, *long)
                wait_for(lambda: self.lines(run) > 20, 30, "steps")
                process.send_signal(number)
                _, err = process.communicate(timeout=30)
                self.assertEqual(75, process.returncode, err)
                evidence = read_json(run / "evidence.json")
                self.assertTrue(evidence["stopped"])
                step = evidence["steps"][-1]["step"]
                self.assertEqual([step], [one["step"] for one in evidence["checkpoints"]])
                code, _, err = nqd("train", "configs/quickstart.yaml", "--set", f"data.path={self.data}",
                                   "--output-dir", run, *RUN, *long, "--ranks", 2, "--resume", "auto", "--max-time",
                                   "1")
                self.assertEqual(75, code, err)
                steps = [line.split(":")[1].split(",")[0] for line in (run / "metrics.jsonl").read_text().splitlines()
                         if '"loss"' in line]
                self.assertEqual([str(i + 1) for i in range(len(steps))], [text.strip() for text in steps])
                self.assertGreater(len(steps), step)

    def test_stop_after_a_step(self):
        run = self.scratch / "stop-after"
        self.assertCode(75, self.train(run, "--stop-after", 7))
        evidence = read_json(run / "evidence.json")
        self.assertTrue(evidence["stopped"])
        self.assertEqual([5, 7], [one["step"] for one in evidence["checkpoints"]])
        self.assertEqual(7, len(evidence["steps"]))
        self.assertCode(0, self.train(run, "--resume", "auto"))
        self.assertGoesOn(run, 7)

    def test_second_signal_ends_at_once(self):
        run = self.scratch / "twice"
        slow = ["--set", "model.hidden=512", "--set", "model.heads=8", "--set", "model.ffn_hidden=2048",
                "--set", "model.layers=8", "--set", "model.sequence=256", "--set", "train.micro_batch_size=16",
                "--set", "train.global_batch_size=64"]
        process = self.start(run, *slow)
        wait_for(lambda: (run / "metrics.jsonl").exists(), 120, "the first evaluation")
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        self.assertEqual(-signal.SIGTERM, process.returncode)

    def test_synchronous_and_throttled_saves(self):
        for name, more in {"sync": ["checkpoint.async=false"], "throttled": ["checkpoint.bytes_per_s=2000000"]}.items():
            with self.subTest(name):
                run = self.scratch / name
                settings = [word for value in more for word in ("--set", value)]
                self.assertCode(0, self.train(run, *settings))
                evidence = read_json(run / "evidence.json")
                self.assertEqual([5, 10, 12], [one["step"] for one in evidence["checkpoints"]])
                self.assertEqual(self.evidence["weights_sha256"], evidence["weights_sha256"])
                self.assertCode(0, nqd("checkpoint", "diff", folder_of(self.whole, 10), folder_of(run, 10)))

    def test_kills_at_any_instant(self):
        run = self.scratch / "killed"
        dice = random.Random(3)
        settings = ["--set", "checkpoint.every=1", "--set", "train.steps=300"]
        whole = self.scratch / "killed-whole"
        self.assertCode(0, self.train(whole, *settings))
        kills = 0
        for attempt in range(60):
            # Every process of the run at once; each start is on another mesh.
            ranks = dice.choice([1, 2, 4])
            process = self.start(run, *settings, "--resume", "auto", ranks=ranks)
            try:
                process.communicate(timeout=dice.uniform(0.05, 0.5) * support.SLOWNESS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
                continue
            if process.returncode == 0:
                break
        if process.returncode != 0:
            # A slow disk: no start came to its end.
            self.assertCode(0, self.train(run, *settings, "--resume", "auto"))
        self.assertGreater(kills, 2)
        self.assertEqual(read_json(whole / "evidence.json")["weights_sha256"],
                         read_json(run / "evidence.json")["weights_sha256"])

    def spoiled(self, name, spoil, *more):
        folder = self.scratch / f"spoiled-{name}"
        shutil.copytree(self.whole / "checkpoints", folder)
        spoil(folder)
        return self.train(self.scratch / f"run-{name}", "--set", f"checkpoint.path={folder}", "--resume", "auto",
                          *more)

    def test_refusals(self):
        def alone(folder):
            """The newest generation, without an older one to fall back to."""
            newest = folder / (folder / "LATEST").read_text().split()[0]
            for path in folder.glob("step-*"):
                if path != newest:
                    shutil.rmtree(path)
            return newest

        def flip(path, at):
            data = bytearray(path.read_bytes())
            data[at] ^= 1
            path.write_bytes(data)

        cases = {
            "seed": (lambda folder: None, ["--set", "train.seed=2"], ["NQD2084", "train.seed: `1234` then, `2` now"]),
            "model": (lambda folder: None, ["--set", "model.ffn_hidden=64"], ["NQD2084", "model.ffn_hidden"]),
            "misspelt": (lambda folder: None, ["--allow-changed", "train.sede"], ["NQD2084", "train.sede is none of"]),
            "misspelt, and no generation yet": (shutil.rmtree, ["--allow-changed", "train.sede"], ["NQD2084"]),
            "missing": (lambda folder: (alone(folder) / "rank-00001.safetensors").unlink(), [],
                        ["NQD2083", "rank-00001.safetensors is missing"]),
            "flipped": (lambda folder: flip(alone(folder) / "rank-00000.safetensors", 20000), [],
                        ["NQD2082", "rank-00000.safetensors: bytes 0 to", "weights of"]),
        }
        for name, (spoil, more, words) in cases.items():
            with self.subTest(name):
                _, err = self.assertCode(2, self.spoiled(name, spoil, *more))
                for word in words:
                    self.assertIn(word, err)
                self.assertEqual(1, err.count("error: ["), err)

    def test_latest_of_no_use_falls_back(self):
        _, err = self.assertCode(0, self.spoiled("latest", lambda folder: (folder / "LATEST").write_text("what\n")))
        self.assertIn("LATEST is of no use", err)

    def test_changes_that_are_meant(self):
        self.assertCode(0, self.spoiled("meant", lambda folder: None, "--set", "train.optimizer.learning_rate=1e-4",
                                        "--allow-changed", "train.optimizer."))

    def test_a_new_run_does_not_write_among_old_generations(self):
        _, err = self.assertCode(2, self.train(self.whole))
        self.assertIn("NQD2085", err)
        self.assertTrue((self.whole / "evidence.json").exists())

    def test_a_full_disk_costs_a_save_not_the_run(self):
        with Mounted(self.scratch / "small", "size=150k") as small:
            run = self.scratch / "full"
            _, err = self.assertCode(4, self.train(run, "--set", f"checkpoint.path={small}/c"))
            self.assertIn("a checkpoint was not written", err)
            self.assertIn("NQD4003", err)
            self.assertFalse((small / "c/LATEST").exists())

    def test_commands(self):
        folder = self.whole / "checkpoints"
        out, _ = self.assertCode(0, nqd("checkpoint", "list", folder))
        self.assertEqual(1, out.count("LATEST"))
        out, _ = self.assertCode(0, nqd("checkpoint", "inspect", folder))
        self.assertIn("step 12", out)
        self.assertIn("embedding.token", out)
        self.assertCode(0, nqd("checkpoint", "verify", folder))
        self.check_files(folder_of(self.whole, 12))
        copy = self.scratch / "copy"
        shutil.copytree(folder, copy)
        victim = folder_of(self.whole, 12).name
        with open(copy / victim / "rank-00001.safetensors", "r+b") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"\xff")
        out, err = self.assertCode(1, nqd("checkpoint", "verify", copy, "--json"))
        self.assertIn("rank-00001.safetensors", err)
        self.assertIn('"ok": false', out)
        shutil.copytree(copy / victim, copy / victim.replace("000012", "000011"))
        os.remove(copy / victim.replace("000012", "000011") / "manifest.json")
        out, _ = self.assertCode(0, nqd("checkpoint", "prune", copy, "--keep-last", 1))
        self.assertEqual(2, out.count("removed"))
        self.assertCode(2, nqd("checkpoint", "list", self.scratch))

    def check_files(self, folder):
        """inspect --ranks and --json: every rank's file with its size and place."""
        out, _ = self.assertCode(0, nqd("checkpoint", "inspect", folder, "--json"))
        found = json.loads(out)
        self.assertEqual([(0, 0, 0, 0), (1, 0, 1, 0)],
                         [(one["rank"], one["pp"], one["dp"], one["tp"]) for one in found["files"]])
        self.assertEqual([(folder / one["name"]).stat().st_size for one in found["files"]],
                         [one["bytes"] for one in found["files"]])
        elements = sum(math.prod(one["shape"]) for one in found["tensors"])
        self.assertEqual(elements * len(found["quantities"]), sum(one["elements"] for one in found["files"]))
        self.assertEqual({one["name"] for one in found["tensors"]},
                         {name for one in found["files"] for name in one["tensors"]})
        out, _ = self.assertCode(0, nqd("checkpoint", "inspect", folder, "--ranks"))
        rows = [line.split() for line in out.splitlines()[-2:]]
        self.assertEqual([[str(one["rank"]), "0", str(one["dp"]), "0", str(one["bytes"]), str(len(one["tensors"])),
                           str(one["elements"]), one["name"]] for one in found["files"]], rows)

    def test_diff(self):
        step_10, step_12 = folder_of(self.whole, 10), folder_of(self.whole, 12)
        out, _ = self.assertCode(0, nqd("checkpoint", "diff", step_10, step_10))
        self.assertIn("the same bits", out)
        out, _ = self.assertCode(1, nqd("checkpoint", "diff", step_10, step_12, "--json"))
        found = json.loads(out)
        self.assertEqual([{"key": "state.step", "a": "10", "b": "12"}], found["values"])
        self.assertEqual({"weights", "moments.0", "moments.1"}, {one["quantity"] for one in found["tensors"]})
        out, _ = self.assertCode(1, nqd("checkpoint", "diff", step_10, step_12))
        self.assertIn("weights of embedding.token", out)
        # Another mesh writes other files with the same bits.
        run = self.scratch / "diff-zero3"
        self.assertCode(0, self.train(run, "--set", "parallel.engine=zero3"))
        self.assertCode(0, nqd("checkpoint", "diff", step_12, run / "checkpoints"))

    def test_export_is_what_the_run_exports(self):
        run, own, exported = self.scratch / "export", self.scratch / "own", self.scratch / "exported"
        self.assertCode(0, self.train(run, "--export-weights", own))
        self.assertCode(0, nqd("checkpoint", "export", run / "checkpoints", "--output", exported))
        for name in ("model.safetensors", "config.json"):
            self.assertEqual((own / name).read_bytes(), (exported / name).read_bytes(), name)


if __name__ == "__main__":
    unittest.main()
