"""What users and disks do to folders of checkpoints: no whole generation goes that nobody gave up."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import time
import unittest

from support import NQD, SOURCE, NqdTestCase, TINY, environment, nqd, read_json, wait_for
from train_files_test import Mounted

RUN = [*TINY, "--set", "train.steps=12", "--set", "checkpoint.every=4", "--set", "checkpoint.keep_last=3"]


def steps_in(folder):
    return sorted(int(path.name[5:17]) for path in pathlib.Path(folder).glob("step-*"))


def generation(folder, step):
    return next(pathlib.Path(folder).glob(f"step-{step:012d}-*"))


def flip(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 16
    path.write_bytes(data)


class Loss(NqdTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole, cls.copies = cls.scratch / "whole", cls.scratch / "whole-copies"
        code, _, err = cls.train(cls.whole, "--set", f"checkpoint.durable_path={cls.copies}")
        assert code == 0, err
        cls.sha256 = read_json(cls.whole / "evidence.json")["weights_sha256"]

    @classmethod
    def arguments(cls, output, *more):
        return ["train", "configs/quickstart.yaml", "--set", f"data.path={cls.data}", "--output-dir", output, *RUN,
                "--ranks", 2, *more]

    @classmethod
    def train(cls, output, *more):
        return nqd(*cls.arguments(output, *more))

    def copy(self, name):
        run = self.scratch / name
        shutil.copytree(self.whole, run)
        return run, run / "checkpoints"

    def assertRefused(self, folder, run, *more):
        before = steps_in(folder), (folder / "LATEST").exists()
        _, err = self.assertCode(2, self.train(run, *more))
        self.assertIn("NQD2085", err)
        self.assertIn(str(folder), err)
        self.assertEqual(before, (steps_in(folder), (folder / "LATEST").exists()))

    def test_a_new_run_that_saves_at_a_stop_alone(self):
        run, folder = self.copy("anew")
        stops = ["--set", "checkpoint.every=0", "--stop-after", 3]
        self.assertRefused(folder, run, *stops, "--set", "model.hidden=64")
        shared = self.scratch / "anew-copies"
        shutil.copytree(self.copies, shared)
        self.assertRefused(shared, self.scratch / "anew-other", *stops, "--set", "train.seed=9", "--set",
                           f"checkpoint.durable_path={shared}")

    def test_going_on_from_another_run(self):
        run, folder = self.copy("foreign")
        other = self.scratch / "foreign-other"
        self.assertCode(0, self.train(other, "--set", "train.steps=4"))
        source = generation(other / "checkpoints", 4)
        self.assertRefused(folder, run, "--resume", source)
        # Its own past may come from anywhere.
        moved = self.scratch / "foreign-moved"
        shutil.copytree(generation(folder, 8), moved)
        self.assertCode(0, self.train(run, "--resume", moved, "--set", "checkpoint.every=0"))

    def test_a_missing_latest(self):
        run, folder = self.copy("latest")
        (folder / "LATEST").unlink()
        for command in (["inspect"], ["export", "--output", self.scratch / "latest-hf"]):
            _, err = self.assertCode(0, nqd("checkpoint", command[0], folder, *command[1:]))
            self.assertIn("LATEST is missing", err)
        _, err = self.assertCode(1, nqd("checkpoint", "verify", folder))
        self.assertIn("LATEST is missing", err)
        self.assertRefused(folder, run)
        _, err = self.assertCode(0, self.train(run, "--resume", "auto", "--set", "train.steps=16"))
        self.assertIn("going on after step 12", err)
        self.assertEqual([8, 12, 16], steps_in(folder))

    def test_damaged_generations_make_way_for_older_ones(self):
        run, folder = self.copy("damaged")
        flip(generation(folder, 12) / "rank-00001.safetensors")
        generation(folder, 8).joinpath("rank-00000.safetensors").unlink()
        _, err = self.assertCode(2, self.train(run, "--resume", generation(folder, 12)))
        self.assertIn("NQD2082", err)
        _, err = self.assertCode(0, self.train(run, "--resume", "auto"))
        self.assertIn("rank-00001.safetensors: bytes 0 to", err)
        self.assertIn("going on after step 4", err)
        self.assertEqual(self.sha256, read_json(run / "evidence.json")["weights_sha256"])
        self.assertCode(0, nqd("checkpoint", "verify", folder))

    def test_a_full_disk_that_has_room_again(self):
        # A generation takes about 330 kB; the file that takes the room goes while the run goes on.
        for name, option in (("own", "checkpoint.path"), ("copies", "checkpoint.durable_path")):
            with self.subTest(name), Mounted(self.scratch / f"room-{name}", "size=1200k") as small:
                blocker = small / "blocker"
                blocker.write_bytes(bytes(1000 << 10))
                run, log = self.scratch / f"room-{name}-run", self.scratch / f"room-{name}.log"
                line = [NQD, *self.arguments(run, "--set", f"{option}={small}/c", "--set", "checkpoint.every=40",
                                             "--set", "checkpoint.keep_last=1", "--set", "train.steps=100000",
                                             "--max-time", 20)]
                with open(log, "w") as out:
                    process = subprocess.Popen([str(word) for word in line], cwd=SOURCE, env=environment(),
                                               stdin=subprocess.DEVNULL, stdout=out, stderr=out)
                wait_for(lambda: log.read_text().count("NQD4003") + log.read_text().count("No space left") >= 2, 20,
                         "failed saves")
                self.assertFalse((small / "c/LATEST").exists())
                blocker.unlink()
                wait_for((small / "c/LATEST").exists, 20, "a save")
                process.terminate()
                self.assertEqual(75, process.wait(30), log.read_text())
                left = steps_in(small / "c")
                self.assertEqual(1, len(left), left)
                self.assertCode(0, nqd("checkpoint", "verify", small / "c"))

    def test_cut_saves_of_ended_runs_go(self):
        run, folder = self.copy("cut")
        for step in (3, 99):
            cut = folder / f"step-{step:012d}-deadbeef"
            cut.mkdir()
            (cut / "rank-00000.safetensors").write_bytes(b"cut short")
        again = self.scratch / "cut-again"
        shutil.copytree(folder, again)
        out, _ = self.assertCode(0, nqd("checkpoint", "prune", again, "--keep-last", 3))
        self.assertEqual(["removed step-000000000003-deadbeef", "removed step-000000000099-deadbeef, which was incomplete"],
                         out.splitlines())
        _, err = self.assertCode(0, self.train(run, "--resume", "auto"))
        self.assertIn("step-000000000099-deadbeef, a save that was cut short", err)
        self.assertEqual([4, 8, 12], steps_in(folder))

    def test_two_runs_with_one_folder(self):
        run, folder = self.copy("locked")
        cut = folder / "step-000000000099-deadbeef"
        cut.mkdir()
        with open(folder / ".checkpoints.lock", "w") as lock:
            lock.write("4321")
            lock.flush()
            fcntl.flock(lock, fcntl.LOCK_EX)
            for option in ("checkpoint.path", "checkpoint.durable_path"):
                _, err = self.assertCode(3, self.train(self.scratch / "locked-other", "--set", f"{option}={folder}"))
                self.assertIn("NQD2010", err)
                self.assertIn(f"another run (process 4321) is using {folder}", err)
                self.assertIn(option, err)
            _, err = self.assertCode(0, nqd("checkpoint", "prune", folder, "--keep-last", 2))
            self.assertIn("process 4321", err)
            self.assertEqual([8, 12, 99], steps_in(folder))
        self.assertCode(0, self.train(run, "--resume", "auto"))
        self.assertFalse((folder / ".checkpoints.lock").exists())

    def test_folders_that_cannot_be_written_are_told_before_the_run(self):
        blocker = self.scratch / "blocker"
        blocker.write_text("kept")
        for option in ("checkpoint.path", "checkpoint.durable_path"):
            run = self.scratch / f"unwritable-{option}"
            _, err = self.assertCode(2, self.train(run, "--set", f"{option}={blocker}/c"))
            self.assertIn("NQD2002", err)
            self.assertIn(option, err)
            self.assertFalse((run / "metrics.jsonl").exists())
            self.assertFalse((run / "checkpoints").exists())

    def test_prune_and_list_look_at_the_files(self):
        _, folder = self.copy("files")
        generation(folder, 12).joinpath("rank-00001.safetensors").unlink()
        out, _ = self.assertCode(0, nqd("checkpoint", "list", folder))
        self.assertIn("LATEST  incomplete: ", out)
        self.assertIn("rank-00001.safetensors is missing", out)
        self.assertCode(0, nqd("checkpoint", "prune", folder, "--keep-last", 1))
        self.assertEqual([8, 12], steps_in(folder))

    def test_a_link_to_a_generation(self):
        _, folder = self.copy("link")
        away = self.scratch / "away"
        old = generation(folder, 4)
        shutil.move(old, away)
        old.symlink_to(away)
        self.assertCode(0, nqd("checkpoint", "prune", folder, "--keep-last", 1))
        self.assertFalse(os.path.lexists(old))
        self.assertCode(0, nqd("checkpoint", "verify", away))

    def test_old_generations_that_cannot_be_removed(self):
        run, folder = self.copy("kept")
        # No removal of files gets rid of a folder.
        (generation(folder, 4) / "notes").mkdir()
        (generation(folder, 4) / "notes/text").write_text("kept")
        _, err = self.assertCode(0, self.train(run, "--resume", "auto", "--set", "checkpoint.keep_last=1", "--set",
                                               "train.steps=16"))
        self.assertIn("old checkpoints were not removed", err)
        self.assertEqual(16, read_json(run / "evidence.json")["checkpoints"][-1]["step"])

    def test_verify_beside_a_run(self):
        run = self.scratch / "live"
        line = [NQD, *self.arguments(run, "--set", "checkpoint.every=1", "--set", "checkpoint.keep_last=1", "--set",
                                     "train.steps=100000", "--max-time", 30)]
        process = subprocess.Popen([str(word) for word in line], cwd=SOURCE, env=environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for((run / "checkpoints/LATEST").exists, 20, "a save")
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                self.assertCode(0, nqd("checkpoint", "verify", run / "checkpoints"))
        finally:
            process.terminate()
            process.wait(30)

    def test_reshard_again_after_a_failure(self):
        _, folder = self.copy("reshard")
        source, output = generation(folder, 12), self.scratch / "resharded"
        flip(source / "rank-00001.safetensors")
        _, err = self.assertCode(2, nqd("checkpoint", "reshard", source, "--output", output, "--ranks", 1))
        self.assertIn("NQD2082", err)
        self.assertEqual([], steps_in(output))
        self.assertCode(0, nqd("checkpoint", "reshard", generation(folder, 8), "--output", output, "--ranks", 1))

    def test_what_the_messages_advise_exists(self):
        folder = self.whole / "checkpoints"
        _, err = self.assertCode(2, nqd("checkpoint", "reshard", folder, "--output", self.scratch / "no", "--ranks", 1,
                                        "--set", "train.seed=3"))
        self.assertIn("NQD2084", err)
        self.assertIn("a run may change them", err)
        _, err = self.assertCode(2, nqd("checkpoint", "export", folder, "--ema", "--output", self.scratch / "no-ema"))
        self.assertIn("it was trained without train.ema", err)


if __name__ == "__main__":
    unittest.main()
