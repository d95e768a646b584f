"""Bad data and bad outputs: a clear error before the run, the right code, nothing half written."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import unittest

import support
from support import MPIRUN, NqdTestCase, TINY, mpi_nqd, nqd

ROOT = os.geteuid() == 0


class Mounted:
    """A small tmpfs, for a disk that is full or read-only."""

    def __init__(self, path, options):
        self.path = pathlib.Path(path)
        self.options = options

    def __enter__(self):
        self.path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", self.path],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest("mounting a tmpfs is not allowed here: " + done.stderr.strip())
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", self.path], check=True)


class Files(NqdTestCase):
    STEPS = [*TINY, "--set", "train.steps=3"]

    def start(self, output, *more):
        arguments = self.train_arguments(output, *self.STEPS, *more)
        return mpi_nqd(2, *arguments) if MPIRUN else nqd(*arguments, "--ranks", 2)

    def refuse_data(self, name, spoil, *words):
        data = self.scratch / f"data-{name}"
        shutil.copytree(self.data, data)
        spoil(data)
        output = self.scratch / f"run-{name}"
        _, err = self.assertCode(2, self.start(output, "--set", f"data.path={data}"))
        for word in words:
            self.assertIn(word, err)
        self.assertEqual(1, err.count("error: ["), "one message for all ranks:\n" + err)
        self.assertFalse(output.exists(), "a refused run makes nothing")

    def test_no_cuda_device(self):
        _, doctor, _ = nqd("doctor")
        if "CUDA" in doctor and " x " in doctor[doctor.index("CUDA"):].splitlines()[0]:
            self.skipTest("there is a CUDA device")
        output = self.scratch / "run-cuda"
        arguments = self.train_arguments(output, *self.STEPS, "--ranks", 2, "--set", "cluster.preset=dgx-h100")
        _, err = self.assertCode(2, nqd(*arguments))
        self.assertIn("--device cuda", err)
        arguments += ["--device", "cuda"]
        _, err = self.assertCode(3, nqd(*arguments))
        self.assertIn("NQD3060", err)
        self.assertFalse(output.exists(), "a refused run makes nothing")

    def test_nccl_between_cpus(self):
        output = self.scratch / "run-nccl"
        _, err = self.assertCode(2, nqd(*self.train_arguments(output, *self.STEPS, "--ranks", 2, "--backend", "nccl")))
        self.assertIn("NQD3007", err)
        self.assertIn("--device cuda", err)
        self.assertFalse(output.exists(), "a refused run makes nothing")

    def test_missing_token_file(self):
        self.refuse_data("missing", lambda d: (d / "train.tokens").unlink(), "train.tokens")

    def test_empty_token_file(self):
        self.refuse_data("empty", lambda d: (d / "train.tokens").write_bytes(b""), "train.tokens",
                         "NQD2005")

    def test_truncated_token_file(self):
        def cut(folder):
            path = folder / "heldout.tokens"
            path.write_bytes(path.read_bytes()[:-100])
        self.refuse_data("truncated", cut, "heldout.tokens", "NQD2005")

    def test_changed_token_file(self):
        def zero(folder):
            path = folder / "train.tokens"
            text = bytearray(path.read_bytes())
            text[5000:6000] = bytes(1000)
            path.write_bytes(text)
        self.refuse_data("changed", zero, "train.tokens", "NQD2005")

    def test_foreign_token_file(self):
        self.refuse_data("foreign", lambda d: (d / "train.tokens").write_bytes(b"x" * 5000),
                         "train.tokens", "NQD2005")

    def test_unreadable_token_file(self):
        def folder_instead(folder):
            (folder / "train.tokens").unlink()
            (folder / "train.tokens").mkdir()
        self.refuse_data("unreadable", folder_instead, "train.tokens", "NQD2001")

    def test_output_that_is_a_file(self):
        blocker = self.scratch / "blocker"
        blocker.write_text("kept")
        _, err = self.assertCode(2, self.start(blocker / "run"))
        self.assertIn("NQD2002", err)
        self.assertEqual("kept", blocker.read_text())

    @unittest.skipUnless(ROOT, "mounting needs root")
    def test_read_only_output(self):
        with Mounted(self.scratch / "readonly", "size=1m,ro") as folder:
            _, err = self.assertCode(2, self.start(folder / "run"))
            self.assertIn("NQD2002", err)
            self.assertEqual([], os.listdir(folder))

    @unittest.skipUnless(ROOT, "mounting needs root")
    def test_full_disk_is_told_before_the_run(self):
        with Mounted(self.scratch / "full", "size=64k") as folder:
            _, err = self.assertCode(4, self.start(folder / "run"))
            self.assertIn("NQD4003", err)
            self.assertIn("free", err)
            self.assertFalse((folder / "run" / "evidence.json").exists())

    @unittest.skipUnless(ROOT, "mounting needs root")
    def test_a_disk_that_fills_during_the_run_leaves_nothing_half_written(self):
        # Space enough at the start; another program takes it while the ranks train.
        with Mounted(self.scratch / "filling", "size=3m") as folder:
            output = folder / "run"
            arguments = self.train_arguments(output, *TINY, "--set", "train.steps=1500",
                                             "--ranks", 2)
            process = subprocess.Popen([support.NQD, *map(str, arguments)], cwd=support.SOURCE,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            self.addCleanup(process.kill)
            metrics = output / "metrics.jsonl"
            support.wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0, 20, "a step")
            try:
                with open(folder / "other", "wb") as other:
                    while True:
                        other.write(b"\0" * 4096)
                        other.flush()
            except OSError:
                pass
            _, err = process.communicate(timeout=60)
            self.assertEqual(4, process.returncode, err)
            self.assertIn("NQD4003", err)
            self.assertFalse((output / "evidence.json").exists())
            self.assertEqual([], [p.name for p in output.iterdir() if ".tmp" in p.name])

    def test_two_runs_are_kept_out_of_one_folder(self):
        output = self.folder("locked")
        with open(output / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write("4242")
            lock.flush()
            _, err = self.assertCode(3, self.start(output))
        self.assertIn("NQD2010", err)
        self.assertIn("4242", err)
        self.assertCode(0, self.start(output))

    def test_explained_config_names_every_origin(self):
        out, _ = self.assertCode(0, nqd(*self.train_arguments(self.scratch / "x"),
                                        "--explain-config", "--set", "train.steps=99"))
        self.assertRegex(out, r"train\.steps +99 +# --set")
        self.assertRegex(out, r"model\.hidden +192 +# preset byte-gpt-small")
        self.assertRegex(out, r"train\.global_batch_size +16 +# configs/quickstart\.yaml:\d+")
        self.assertRegex(out, r"# default")
        self.assertFalse((self.scratch / "x").exists())


if __name__ == "__main__":
    unittest.main()
