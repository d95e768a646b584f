"""What the sections of scripts/torture share: nqd and the preloaded fault library, a tiny model, and
the check that a run which went on has the bits of one that nobody disturbed."""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SEED = 20
STEPS, EVERY = 8, 2
# A few thousand parameters: a run of eight steps and four saves takes some 20 ms.
CONFIG = """\
model: {{family: gpt, layers: 1, hidden: 16, heads: 2, ffn_hidden: 32, vocab: 256, sequence: 16}}
cluster: {{gpus_per_node: {ranks}}}
parallel: {{engine: {engine}, dp: {dp}, tp: {tp}, pp: {pp}}}
train:
  micro_batch_size: 1
  global_batch_size: 4
  steps: {steps}
  precision: float32
  gradient_precision: float32
  bucket_bytes: 20000
  eval_every: 0
  eval_batches: 1
  optimizer: {{learning_rate: 1e-3, warmup_steps: 2}}
data: {{path: {data}}}
checkpoint: {{every: {every}, keep_last: {keep_last}, async: {asynchronous}}}
"""
MESH = {"engine": "ddp", "dp": 2, "tp": 1, "pp": 1, "steps": STEPS, "every": EVERY, "keep_last": 1,
        "asynchronous": "true"}


class Failure(Exception):
    """What a section found that must not be; its text says what and where."""


class Unavailable(Exception):
    """Why a section cannot run here."""


@dataclasses.dataclass
class Done:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    seconds: float

    def why(self):
        """Its errors, without notes on the config and progress before them."""
        return self.err[max(self.err.find("error"), 0):][-1500:]


class Tools:
    """nqd, the programs beside it, and a scratch folder."""

    def __init__(self, nqd, work):
        self.nqd = pathlib.Path(nqd).resolve()
        build = self.nqd.parents[1] if len(self.nqd.parents) > 1 else self.nqd
        programs = build / "tests/torture"
        self.fault_library = programs / "libnqd_io_fault.so"
        self.tool = programs / "torture_tool"
        for path in (self.nqd, self.fault_library, self.tool):
            if not path.exists():
                raise Unavailable(f"{path} does not exist: build nqd with its tests (NQD_BUILD_TESTS=ON)")
        self.doctor = json.loads(self.run(self.nqd, "doctor", "--json").out)
        # Other launchers pass an environment on in other ways.
        self.mpirun = ""
        if self.doctor["libraries"].get("mpi", "").startswith("Open MPI"):
            self.mpirun = os.environ.get("NQD_MPIRUN", shutil.which("mpirun") or "")
        self.work = pathlib.Path(work)
        # Files in memory are as real to a killed process as others, and take no disk time.
        self.fast = self.work
        if os.access("/dev/shm", os.W_OK):
            self.fast = pathlib.Path("/dev/shm") / self.work.name
            self.fast.mkdir(exist_ok=True)
        self.data = self.work / "data"
        self._configs = {}
        self._lock = threading.Lock()
        self._folders = 0
        done = self.run(self.nqd, "data", "prepare", "--output", self.data)
        if done.code != 0:
            raise Unavailable("nqd data prepare: " + done.why())

    def close(self):
        for folder in {self.work, self.fast}:
            shutil.rmtree(folder, ignore_errors=True)

    def folder(self, fast=True):
        """A path of its own that does not exist yet."""
        with self._lock:
            self._folders += 1
            return (self.fast if fast else self.work) / f"f{self._folders}"

    def config(self, **mesh):
        """A config file of the tiny model; `mesh` replaces values of MESH."""
        values = {**MESH, **mesh}
        values["ranks"] = values["dp"] * values["tp"] * values["pp"]
        text = CONFIG.format(data=self.data, **values)
        with self._lock:
            if text not in self._configs:
                self._configs[text] = self.work / f"config-{len(self._configs)}.yaml"
                self._configs[text].write_text(text)
            return self._configs[text]

    @staticmethod
    def run(*words, environment=None, timeout=120, cwd=SOURCE):
        """A command to its end; one that hangs is a Failure."""
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               **(environment or {})}
        begin = time.monotonic()
        process = subprocess.Popen([str(word) for word in words], cwd=cwd, env=env, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            raise Failure(f"no end after {timeout} s: {' '.join(map(str, words))}\n{err[-2000:]}") from None
        return Done(process.returncode, out, err, time.monotonic() - begin)

    def train_line(self, config, output, *more, mpi=0, faults=None):
        """The words that start a run: ranks as threads, or `mpi` processes with `faults` in their
        environment alone, not in mpirun's."""
        train = [self.nqd, "train", config, "--output-dir", output, *more]
        if not mpi:
            return train
        passed = [word for name, value in (faults or {}).items() for word in ("-x", f"{name}={value}")]
        return [self.mpirun, "--oversubscribe", "--bind-to", "none", *passed, "-n", mpi, *train]

    def faults(self, below, trace, action="", at=0, rank=None, **more):
        """The environment of the preloaded library (io_fault.cpp)."""
        values = {"LD_PRELOAD": self.fault_library, "NQD_IO_FAULT_BELOW": below, "NQD_IO_FAULT_TRACE": trace,
                  "NQD_IO_FAULT_ACTION": action, "NQD_IO_FAULT_AT": at, **more}
        if rank is not None:
            values["NQD_IO_FAULT_RANK"] = rank
        return {name: str(value) for name, value in values.items()}


@dataclasses.dataclass
class Trace:
    """What the preloaded library saw."""
    operations: list  # (number, name, whether it succeeded, path), in the order of their return
    starts: dict      # pid: (rank, seconds)
    exits: dict       # pid: (rank, seconds, code, peak resident set in bytes)
    kills: dict       # pid: (rank, seconds)

    @classmethod
    def read(cls, path):
        trace = cls([], {}, {}, {})
        for line in path.read_text().splitlines() if path.exists() else []:
            words = line.split(" ", 5)
            if words[0] == "op":
                trace.operations.append((int(words[1]), words[2], words[3] == "done", words[5]))
            elif words[0] == "exit":
                code, peak_kib = words[4], words[5]
                trace.exits[int(words[1])] = (words[2], float(words[3]), int(code), int(peak_kib) * 1024)
            else:
                into = trace.starts if words[0] == "start" else trace.kills
                into[int(words[1])] = (words[2], float(words[3]))
        return trace

    def published(self):
        """How many saves were made to count, apart from copies of them."""
        return sum(name == "rename" and good and path.endswith("/checkpoints/LATEST")
                   for _, name, good, path in self.operations)


def is_complete(generation):
    try:
        manifest = (generation / "manifest.json").read_bytes()
        digest = (generation / "manifest.sha256").read_text().split()[0]
        if hashlib.sha256(manifest).hexdigest() != digest:
            return False
        return all((generation / one["name"]).stat().st_size == one["bytes"] for one in json.loads(manifest)["files"])
    except (FileNotFoundError, IndexError):
        return False


def latest_step(checkpoints):
    """The step that LATEST names; where that is missing, of the newest complete generation; or 0."""
    try:
        return int((checkpoints / "LATEST").read_text().split("-")[1])
    except FileNotFoundError:
        return max((int(one.name.split("-")[1]) for one in checkpoints.glob("step-*") if is_complete(one)), default=0)


class Reference:
    """The losses and weights of a run that nobody disturbed; the same on every mesh."""

    def __init__(self, tools, extra=(), **mesh):
        folder = tools.folder()
        done = tools.run(*tools.train_line(tools.config(**mesh), folder, "--ranks", 2, *extra), timeout=600)
        if done.code != 0:
            raise Failure("a run that nobody disturbs ends with " + f"{done.code}: {done.why()}")
        evidence = json.loads((folder / "evidence.json").read_text())
        self.steps = len(evidence["steps"])
        self.losses = {one["step"]: (one["loss"], one["grad_norm"]) for one in evidence["steps"]}
        self.weights = evidence["weights_sha256"]

    def check(self, run, after):
        """That the run in this folder, resumed after step `after`, ended as the reference did."""
        evidence = json.loads((run / "evidence.json").read_text())
        resumed = (evidence.get("resumed") or {}).get("after_step", 0)
        if resumed != after:
            raise Failure(f"resumed after step {resumed} where {after} was saved")
        losses = {one["step"]: (one["loss"], one["grad_norm"]) for one in evidence["steps"]}
        expected = {step: value for step, value in self.losses.items() if step > after}
        if losses != expected:
            wrong = [step for step in expected if losses.get(step) != expected[step]]
            raise Failure(f"other losses after step {after}, first at step {(wrong or [self.steps + 1])[0]}")
        if evidence["weights_sha256"] != self.weights:
            raise Failure(f"other final weights, resumed after step {after}")
        self.check_metrics(run / "metrics.jsonl")

    def check_metrics(self, path):
        """Every step once, in order, whatever was cut off and made again."""
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        seen = {one["step"]: one["loss"] for one in lines if "loss" in one}
        order = [one["step"] for one in lines if "loss" in one]
        if order != list(range(1, self.steps + 1)):
            raise Failure(f"metrics.jsonl has the steps {order}")
        if any(seen[step] != loss for step, (loss, _) in self.losses.items()):
            raise Failure("metrics.jsonl has other losses")


class Budget:
    """Seconds of a section, from now."""

    def __init__(self, seconds):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self):
        return self._end - time.monotonic()


def run_all(work, items, budget, most_failures=20):
    """Calls work(item) on as many threads as there are processors until the items or the budget are
    used up. Returns (results, failures); the rest is not tried once `most_failures` are there."""
    results, failures = [], []
    source, lock = iter(items), threading.Lock()

    def loop():
        while budget.left() > 0 and len(failures) < most_failures:
            with lock:
                item = next(source, None)
            if item is None:
                return
            try:
                results.append(work(item))
            except (Failure, OSError, ValueError, KeyError) as failure:
                # A document that is not there or not whole is a finding too.
                failures.append(f"{item}: {type(failure).__name__}: {failure}")

    count = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(loop) for _ in range(count)]:
            future.result()
    return results, failures
