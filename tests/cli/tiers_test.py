"""Saves by time, copies of generations in a second folder, and what goes on from either."""

import shutil
import subprocess
import unittest

from support import NQD, SOURCE, NqdTestCase, TINY, environment, mpi_nqd, needs_mpi, nqd, read_json
from train_files_test import Mounted

RUN = [*TINY, "--set", "train.steps=12", "--set", "checkpoint.every=5", "--set", "train.global_batch_size=8"]


def latest(folder):
    return (folder / "LATEST").read_text().split()[0]


def steps_in(folder):
    return sorted(int(path.name[5:17]) for path in folder.glob("step-*"))


class Tiers(NqdTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.scratch / "whole"
        cls.fast, cls.durable = cls.whole / "checkpoints", cls.scratch / "whole-durable"
        code, _, err = cls.train(cls.whole, cls.durable)
        assert code == 0, err
        cls.evidence = read_json(cls.whole / "evidence.json")

    @classmethod
    def arguments(cls, output, durable, *more, ranks=2):
        return ["train", "configs/quickstart.yaml", "--set", f"data.path={cls.data}", "--output-dir", output, *RUN,
                "--set", f"checkpoint.durable_path={durable}", "--ranks", ranks, *more]

    @classmethod
    def train(cls, output, durable, *more, ranks=2):
        return nqd(*cls.arguments(output, durable, *more, ranks=ranks))

    def assertSameEnd(self, run):
        evidence = read_json(run / "evidence.json")
        self.assertEqual(self.evidence["weights_sha256"], evidence["weights_sha256"])
        # A run that was complete already has done nothing to audit.
        self.assertIs(evidence["audit_ok"], True if evidence["steps"] else None)
        return evidence

    def test_copies_are_the_generations(self):
        self.assertEqual([5, 10, 12], [one["step"] for one in self.evidence["checkpoints"]])
        for one in self.evidence["checkpoints"]:
            if one["step"] == 12:
                self.assertGreater(one["durable_s"], one["write_s"])
        self.assertEqual(latest(self.fast), latest(self.durable))
        self.assertCode(0, nqd("checkpoint", "verify", self.durable))
        name = latest(self.fast)
        self.assertEqual(sorted(path.name for path in (self.fast / name).iterdir()),
                         sorted(path.name for path in (self.durable / name).iterdir()))
        for path in (self.fast / name).iterdir():
            self.assertEqual(path.read_bytes(), (self.durable / name / path.name).read_bytes(), path.name)

    def test_what_is_kept_for_good_are_copies(self):
        run, durable = self.scratch / "kept", self.scratch / "kept-durable"
        self.assertCode(0, self.train(run, durable, "--set", "checkpoint.every=1", "--set", "checkpoint.keep_last=1",
                                      "--set", "checkpoint.keep_every=4"))
        self.assertEqual([12], steps_in(run / "checkpoints"))
        self.assertEqual([4, 8, 12], steps_in(durable))
        self.assertSameEnd(run)

    def resumed(self, name, spoil):
        """Goes on from both folders after `spoil(fast, durable)`; a folder of its own for each case."""
        run, durable = self.scratch / name, self.scratch / f"{name}-durable"
        shutil.copytree(self.whole, run)
        shutil.copytree(self.durable, durable)
        spoil(run / "checkpoints", durable)
        _, err = self.assertCode(0, self.train(run, durable, "--resume", "auto"))
        self.assertSameEnd(run)
        return err, run / "checkpoints", durable

    def test_a_fast_folder_that_is_gone(self):
        err, fast, _ = self.resumed("gone", lambda fast, durable: shutil.rmtree(fast))
        self.assertIn("has no generation: the durable copy in", err)
        self.assertIn("going on after step 12", err)
        self.assertFalse(fast.exists())

    def test_a_fast_folder_that_is_damaged(self):
        def flip(fast, _):
            path = fast / latest(fast) / "rank-00001.safetensors"
            data = bytearray(path.read_bytes())
            data[-5] ^= 16
            path.write_bytes(data)

        err, _, durable = self.resumed("damaged", flip)
        self.assertIn("rank-00001.safetensors: bytes 0 to", err)
        self.assertIn(f"going on after step 12 from {durable}", err)

    def test_a_fast_folder_that_is_behind(self):
        def old(fast, _):
            shutil.rmtree(fast / latest(fast))

        err, _, durable = self.resumed("behind", old)
        self.assertIn("has only step-000000000010", err)
        self.assertIn(f"going on after step 12 from {durable}", err)

    def test_a_durable_folder_that_is_behind_is_brought_up(self):
        name = latest(self.fast)

        def old(_, durable):
            # As a crash leaves it between the manifest and LATEST.
            before = next(path.name for path in durable.glob("step-*-*") if path.name != name)
            shutil.rmtree(durable / name)
            (durable / name).mkdir()
            (durable / name / "rank-00000.safetensors").write_bytes(b"cut short")
            (durable / "LATEST").write_text(f"{before} {self.digest(durable / before)}\n")

        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                _, fast, durable = self.resumed(f"brought-up-{ranks}", old)
                self.assertEqual(latest(fast), latest(durable))
                self.assertCode(0, nqd("checkpoint", "verify", durable))

    @staticmethod
    def digest(generation):
        return (generation / "manifest.sha256").read_text().split()[0]

    def test_both_damaged(self):
        run, durable = self.scratch / "both", self.scratch / "both-durable"
        shutil.copytree(self.whole, run)
        shutil.copytree(self.durable, durable)
        for folder in (run / "checkpoints", durable):
            (folder / latest(folder) / "rank-00001.safetensors").unlink()
        again, again_durable = self.scratch / "both-again", self.scratch / "both-again-durable"
        shutil.copytree(run, again)
        shutil.copytree(durable, again_durable)
        _, err = self.assertCode(0, self.train(again, again_durable, "--resume", "auto"))
        self.assertIn("going on after step 10", err)
        self.assertSameEnd(again)
        for folder in (run / "checkpoints", durable):
            for path in folder.glob("step-*"):
                (path / "rank-00001.safetensors").unlink(missing_ok=True)
        _, err = self.assertCode(2, self.train(run, durable, "--resume", "auto"))
        self.assertIn("NQD2083", err)

    def test_a_slow_copy_does_not_hold_up_training(self):
        run, durable = self.scratch / "slow", self.scratch / "slow-durable"
        self.assertCode(0, self.train(run, durable, "--set", "checkpoint.every=1", "--set",
                                      "checkpoint.bytes_per_s=3000000"))
        evidence = self.assertSameEnd(run)
        self.assertEqual(list(range(1, 13)), [one["step"] for one in evidence["checkpoints"]])
        self.assertIn("durable_s", evidence["checkpoints"][-1])
        self.assertEqual(latest(run / "checkpoints"), latest(durable))

    def test_a_full_durable_disk_costs_copies_not_the_run(self):
        with Mounted(self.scratch / "small", "size=150k") as small:
            run = self.scratch / "full"
            _, err = self.assertCode(4, self.train(run, small / "c"))
            self.assertIn("a checkpoint was not copied", err)
            self.assertIn("NQD4003", err)
            self.assertFalse((small / "c/LATEST").exists())
            # Step 5 stays where its copy was under way while step 12 was saved.
            self.assertEqual([10, 12], steps_in(run / "checkpoints")[-2:])
        # The next attempt copies what this one could not.
        again = self.scratch / "full-durable"
        self.assertCode(0, self.train(run, again, "--resume", "auto"))
        self.assertEqual(latest(run / "checkpoints"), latest(again))

    def test_refusals(self):
        run = self.scratch / "refused"
        _, err = self.assertCode(2, self.train(run, run / "checkpoints"))
        self.assertIn("NQD2086", err)
        _, err = self.assertCode(2, self.train(run, self.durable))
        self.assertIn("NQD2085", err)
        self.assertIn(str(self.durable), err)

    def test_synchronous_saves_are_copied_too(self):
        run, durable = self.scratch / "sync", self.scratch / "sync-durable"
        self.assertCode(0, self.train(run, durable, "--set", "checkpoint.async=false"))
        self.assertSameEnd(run)
        self.assertEqual(latest(run / "checkpoints"), latest(durable))

    @needs_mpi
    def test_under_mpirun(self):
        run, durable = self.scratch / "mpi", self.scratch / "mpi-durable"
        arguments = self.arguments(run, durable)
        self.assertCode(0, mpi_nqd(2, *arguments))
        self.assertSameEnd(run)
        self.assertEqual(latest(run / "checkpoints"), latest(durable))

    def test_a_run_killed_at_any_instant_has_both(self):
        run, durable = self.scratch / "killed", self.scratch / "killed-durable"
        more = ["--set", "checkpoint.every=1", "--set", "train.steps=200", "--resume", "auto"]
        for attempt in range(40):
            if attempt % 3 == 1:
                shutil.rmtree(run / "checkpoints", ignore_errors=True)
            line = [NQD, *self.arguments(run, durable, *more, ranks=1 + attempt % 2)]
            process = subprocess.Popen([str(word) for word in line], cwd=SOURCE, env=environment(),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                _, err = process.communicate(timeout=0.15 + 0.02 * attempt)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                continue
            self.assertEqual(0, process.returncode, err)
            break
        else:
            self.assertCode(0, nqd(*self.arguments(run, durable, *more)))
        self.assertEqual(200, steps_in(durable)[-1])
        whole = self.scratch / "killed-whole"
        self.assertCode(0, self.train(whole, self.scratch / "killed-whole-durable", "--set", "train.steps=200"))
        self.assertEqual(read_json(whole / "evidence.json")["weights_sha256"],
                         read_json(run / "evidence.json")["weights_sha256"])

    def test_saves_by_time(self):
        run, durable = self.scratch / "time", self.scratch / "time-durable"
        _, err = self.assertCode(75, self.train(run, durable, "--set", "checkpoint.every=0", "--set",
                                                "checkpoint.every_s=200ms", "--set", "train.steps=100000",
                                                "--set", "checkpoint.keep_last=100", "--max-time", 2))
        saved = read_json(run / "evidence.json")["checkpoints"]
        # A save does not begin before 0.2 s have passed since the last one; the stop itself is one.
        self.assertGreaterEqual(len(saved), 3)
        self.assertLessEqual(len(saved), 12)

    def test_the_last_step_is_saved_where_saves_go_by_time(self):
        run, durable = self.scratch / "hours", self.scratch / "hours-durable"
        self.assertCode(0, self.train(run, durable, "--set", "checkpoint.every=0", "--set", "checkpoint.every_s=3600s"))
        self.assertEqual([12], [one["step"] for one in self.assertSameEnd(run)["checkpoints"]])

    def test_going_on_from_an_older_generation_on_purpose(self):
        run, durable = self.scratch / "older", self.scratch / "older-durable"
        shutil.copytree(self.whole, run)
        shutil.copytree(self.durable, durable)
        fast = run / "checkpoints"
        old = next(fast.glob("step-000000000010-*"))
        # Another way from step 10 on, which ends before the abandoned one did.
        other = ["--set", "train.optimizer.weight_decay=0.2", "--allow-changed", "train.optimizer."]
        self.assertCode(0, self.train(run, durable, *other, "--set", "train.steps=11", "--resume", old))
        self.assertEqual([10, 11], steps_in(fast))
        self.assertTrue(latest(fast).startswith("step-000000000011"))
        self.assertEqual(latest(fast), latest(durable))
        _, err = self.assertCode(0, self.train(run, durable, *other, "--resume", "auto"))
        self.assertIn("going on after step 11", err)


if __name__ == "__main__":
    unittest.main()
