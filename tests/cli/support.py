"""Running the real nqd, alone and under mpirun, for the command tests."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NQD = os.environ["NQD_BINARY"]
MPIRUN = os.environ.get("NQD_MPIRUN", "")
# How much longer the build may take than an optimised one: sanitizers.
SLOWNESS = float(os.environ.get("NQD_SLOWNESS", "1"))
WITNESS = os.environ.get("NQD_PMPI_WITNESS_LIBRARY", "")

# A model of a few thousand parameters: a step takes about a millisecond.
TINY = [
    "--set", "model.layers=2", "--set", "model.hidden=32", "--set", "model.heads=2",
    "--set", "model.ffn_hidden=128", "--set", "model.sequence=32",
    "--set", "train.micro_batch_size=2", "--set", "train.global_batch_size=4",
    "--set", "train.bucket_bytes=20000", "--set", "train.optimizer.warmup_steps=2",
]


def environment(extra=None):
    env = dict(os.environ)
    env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env.update(extra or {})
    return env


def nqd(*arguments, cwd=SOURCE, timeout=120, env=None):
    """Runs nqd in this process's world; returns (exit code, stdout, stderr)."""
    done = subprocess.run([NQD, *map(str, arguments)], cwd=cwd, env=environment(env), timeout=timeout,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def mpi_line(ranks, *arguments):
    return [MPIRUN, "--oversubscribe", "-n", str(ranks), *map(str, arguments)]


def mpi_nqd(ranks, *arguments, cwd=SOURCE, timeout=180, env=None):
    done = subprocess.run(mpi_line(ranks, NQD, *arguments), cwd=cwd, env=environment(env),
                          timeout=timeout, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Ranks:
    """An mpirun whose ranks leave their process id and their own exit code in a folder."""

    # mpirun ends what it started at its own pace, SIGKILL included: the recorder of the exit code
    # lives in a session of its own, and SIGTERM is passed on as mpirun sends it.
    WRAPPER = """#!/bin/sh
rank="$OMPI_COMM_WORLD_RANK"
export rank
setsid "$NQD_TEST_FOLDER/recorder.sh" "$@" &
recorder=$!
pid="$NQD_TEST_FOLDER/pid.$rank"
trap 'test -e "$pid" && kill -TERM "$(cat "$pid")"' TERM
# A signal that the trap handled ends one wait, not the recorder.
while kill -0 "$recorder" 2>/dev/null; do wait "$recorder"; done
exit "$(cut -d" " -f1 "$NQD_TEST_FOLDER/code.$rank")"
"""
    RECORDER = """#!/bin/sh
"$@" 2> "$NQD_TEST_FOLDER/stderr.$rank" &
pid=$!
echo "$pid" > "$NQD_TEST_FOLDER/pid.$rank.tmp"
mv "$NQD_TEST_FOLDER/pid.$rank.tmp" "$NQD_TEST_FOLDER/pid.$rank"
wait "$pid"
echo "$? $(date +%s.%N)" > "$NQD_TEST_FOLDER/code.$rank.tmp"
mv "$NQD_TEST_FOLDER/code.$rank.tmp" "$NQD_TEST_FOLDER/code.$rank"
"""

    def __init__(self, folder, ranks, *arguments):
        self.folder = pathlib.Path(folder)
        self.count = ranks
        wrapper, recorder = self.folder / "rank.sh", self.folder / "recorder.sh"
        for path, text in ((wrapper, self.WRAPPER), (recorder, self.RECORDER)):
            path.write_text(text)
            path.chmod(0o755)
        # A session of its own: ending the test ends every rank.
        self.process = subprocess.Popen(
            mpi_line(ranks, wrapper, NQD, *arguments), cwd=SOURCE, start_new_session=True,
            env=environment({"NQD_TEST_FOLDER": str(self.folder)}), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def pid(self, rank):
        path = self.folder / f"pid.{rank}"
        wait_for(path.exists, 20, f"rank {rank} to start")
        return int(path.read_text())

    def code(self, rank, seconds=20):
        """(exit code, time of exit) of one rank."""
        path = self.folder / f"code.{rank}"
        wait_for(path.exists, seconds, f"rank {rank} to end")
        code, when = path.read_text().split()
        return int(code), float(when)

    def stderr(self, rank):
        return (self.folder / f"stderr.{rank}").read_text()

    def close(self):
        for rank in range(self.count):
            path = self.folder / f"pid.{rank}"
            if path.exists():
                try:
                    os.kill(int(path.read_text()), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(0.005)


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


class NqdTestCase(unittest.TestCase):
    """A scratch folder with prepared data for each test class."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="nqd-test-"))
        cls.data = cls.scratch / "data"
        code, _, err = nqd("data", "prepare", "--output", cls.data)
        assert code == 0, err

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    def folder(self, name):
        path = self.scratch / name
        path.mkdir()
        return path

    def train_arguments(self, output, *more):
        return ["train", "configs/quickstart.yaml", "--set", f"data.path={self.data}",
                "--output-dir", output, *more]

    def assertCode(self, wanted, done):
        code, out, err = done
        self.assertEqual(wanted, code, f"stdout:\n{out}\nstderr:\n{err}")
        return out, err


def needs_mpi(test):
    return unittest.skipUnless(MPIRUN, "this build has no MPI")(test)
