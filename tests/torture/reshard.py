"""How much memory resharding and resuming take beyond what they hold: of 85 million parameters."""

import json
import shutil

from harness import Failure, Trace, Unavailable, latest_step
from stall import MODEL

# Beyond the largest tensor, and beyond a run that did not resume.
LIMIT_BYTES = 256 << 20
LARGEST_TENSOR_BYTES = 768 * 3072 * 4
STEP = 2
# Four data-parallel ranks share a batch of eight.
SMALL_BATCH = [word.replace("micro_batch_size=4", "micro_batch_size=2") for word in MODEL]
NEEDED_BYTES = 5 << 30
LEAST_S = 30


def peaks(tools, line, environment=None, trace=None):
    """Largest resident sets of the processes of a command that must succeed."""
    done = tools.run(*line, environment=environment, timeout=1200)
    if done.code != 0:
        raise Failure(f"{' '.join(map(str, line))}\nends with {done.code}: {done.why()}")
    return [peak for _, _, _, peak in Trace.read(trace).exits.values()]


def train(tools, run, steps, *more):
    """The larger peak of two ranks."""
    trace = tools.folder()
    config = tools.config(engine="zero3", every=STEP)
    line = tools.train_line(config, run, *SMALL_BATCH, "--set", f"train.steps={steps}", *more, mpi=2,
                            faults=tools.faults("", trace))
    return max(peaks(tools, line, trace=trace))


def reshard(tools, source, *mesh):
    trace, out = tools.folder(), tools.folder()
    line = [tools.nqd, "checkpoint", "reshard", source, "--output", out, *mesh]
    peak = max(peaks(tools, line, tools.faults("", trace), trace))
    differ = tools.run(tools.nqd, "checkpoint", "diff", source, out, "--json")
    # Values of the mesh are others; no element is.
    if not differ.out or json.loads(differ.out)["tensors"]:
        raise Failure(f"resharding changed tensors: {differ.out[-800:]} {differ.why()}")
    return out, peak


def run(tools, budget, seed):
    if tools.run(tools.nqd, "checkpoint", "reshard", "--help").code != 0:
        raise Unavailable("this nqd has no `checkpoint reshard`")
    if not tools.mpirun:
        raise Unavailable("no mpirun: the memory of one rank is that of a process")
    if budget.seconds < LEAST_S or shutil.disk_usage(tools.fast).free < NEEDED_BYTES:
        raise Unavailable(f"needs a share of {LEAST_S} s and {NEEDED_BYTES >> 30} GiB in {tools.fast}")
    fresh = tools.folder()
    fresh_peak = train(tools, fresh, STEP)
    source = fresh / "checkpoints"
    found = {}
    for name, mesh in {"ddp 1": ["--ranks", 1, "--set", "parallel.engine=ddp"],
                       "zero3 4": ["--ranks", 4, "--set", "parallel.engine=zero3"],
                       "tp 2 pp 2": ["--ranks", 4, "--set", "parallel.engine=ddp", "--set", "parallel.tp=2",
                                     "--set", "parallel.pp=2"]}.items():
        out, found[name] = reshard(tools, source, *mesh)
        if latest_step(out) != STEP:
            raise Failure(f"resharded to {name}: LATEST is of step {latest_step(out)}")
        shutil.rmtree(out)
    resumed_peak = train(tools, fresh, STEP + 1, "--resume", "auto")
    shutil.rmtree(fresh)
    return {
        "reshard_peak_bytes": found,
        "reshard_beyond_largest_tensor_bytes": max(found.values()) - LARGEST_TENSOR_BYTES,
        "largest_tensor_bytes": LARGEST_TENSOR_BYTES,
        "fresh_rank_peak_bytes": fresh_peak,
        "resumed_rank_peak_bytes": resumed_peak,
        "resumed_beyond_fresh_bytes": resumed_peak - fresh_peak,
    }
