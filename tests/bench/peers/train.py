#!/usr/bin/env python3
"""`nqd train` beside PyTorch and llm.c on the same cores, same shapes, in one session.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    tests/bench/peers/train.py --nqd build/release/cli/nqd --torch /tmp/torch/bin/python \\
        --llmc /tmp/llm.c --raw raw.json --output table.md

Every series runs in turn, several times over, so that a change of the machine meets all of them
alike. A time is the median over the steps of one run; a ratio is the median over repetitions of
the ratio within one. Threads are pinned: CPU 0, or CPUs 0 and 1.

    tests/bench/peers/train.py --from raw.json --document docs/engine.md

renders stored measurements between the markers of a page. Needs idle cores: the load at start and
end is part of the record.
"""

import argparse
import array
import datetime
import json
import os
import pathlib
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time

import tables

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = """\
model: {{family: gpt, layers: {layers}, hidden: {hidden}, heads: {heads}, vocab: 256, sequence: 256}}
cluster: {{preset: cpu-host, gpus_per_node: {ranks}}}
parallel: {{{mesh}}}
numerics: {{mode: {numerics}}}
train:
  micro_batch_size: {micro_batch}
  global_batch_size: {batch}
  steps: {steps}
  threads: {threads}
  precision: float32
  gradient_precision: float32
  eval_batches: 1
  optimizer: {{learning_rate: 1e-3, warmup_steps: 1}}
data: {{path: {data}}}
"""
WARMUP = 2


SMALL = {"layers": 6, "hidden": 384, "heads": 6}
LARGE = {"layers": 12, "hidden": 768, "heads": 12}  # 85 million parameters


def nqd(name, numerics="fast", threads=1, mesh="engine: ddp", ranks=1, micro_batch=4, **more):
    return {"name": name, "numerics": numerics, "threads": threads, "ranks": ranks,
            "mesh": mesh, "micro_batch": micro_batch, **SMALL, **more}


def llmc(name, threads):
    return {"name": name, "llmc": True, "threads": threads}


def torch(name, mode, threads=1):
    return {"name": name, "mode": mode, "threads": threads}


SERIES = (
    nqd("nqd, 1 thread"), nqd("nqd canonical, 1 thread", numerics="canonical"),
    torch("PyTorch eager, 1 thread", "eager"), torch("PyTorch compiled, 1 thread", "compiled"),
    nqd("nqd, 2 threads", threads=2), nqd("nqd canonical, 2 threads", numerics="canonical", threads=2),
    torch("PyTorch eager, 2 threads", "eager", 2), torch("PyTorch compiled, 2 threads", "compiled", 2),
    llmc("llm.c, 2 threads", 2),
    nqd("nqd ddp, 2 ranks", ranks=2, mesh="engine: ddp, dp: 2"),
    torch("PyTorch DDP, Gloo, 2 ranks", "ddp"),
    nqd("nqd zero3, 2 ranks", ranks=2, mesh="engine: zero3, dp: 2"),
    torch("PyTorch FSDP2, Gloo, 2 ranks", "fsdp2"),
    nqd("nqd, 1 thread, two runs at once", copies=2),
    nqd("nqd zero1, 2 ranks", ranks=2, mesh="engine: zero1, dp: 2"),
    nqd("nqd zero2, 2 ranks", ranks=2, mesh="engine: zero2, dp: 2"),
    nqd("nqd tp 2, 2 ranks", ranks=2, mesh="engine: ddp, tp: 2", micro_batch=8),
    nqd("nqd tp 2 with sp, 2 ranks", ranks=2, micro_batch=8,
        mesh="engine: ddp, tp: 2, sequence_parallel: true"),
    nqd("nqd pp 2, 1f1b, 8 micro-batches, 2 ranks", ranks=2, micro_batch=1,
        mesh="engine: ddp, pp: 2, schedule: 1f1b"),
    nqd("nqd 85M, 1 thread", **LARGE),
)
# nqd's series, what it is compared with, and the least ratio wanted.
TARGETS = (
    ("nqd, 1 thread", "PyTorch eager, 1 thread", 1.15),
    ("nqd, 1 thread", "PyTorch compiled, 1 thread", 1.05),
    ("nqd, 2 threads", "PyTorch eager, 2 threads", 1.15),
    ("nqd, 2 threads", "PyTorch compiled, 2 threads", 1.05),
    ("nqd, 2 threads", "llm.c, 2 threads", 5),
    ("nqd ddp, 2 ranks", "PyTorch DDP, Gloo, 2 ranks", 1.3),
    ("nqd zero3, 2 ranks", "PyTorch FSDP2, Gloo, 2 ranks", 2),
    ("nqd canonical, 1 thread", "nqd, 1 thread", 0.85),
    ("nqd canonical, 2 threads", "nqd, 2 threads", 0.85),
    ("nqd ddp, 2 ranks", "nqd, 1 thread, two runs at once", 0.95),
    ("nqd zero1, 2 ranks", "nqd ddp, 2 ranks", 0.95),
    ("nqd zero2, 2 ranks", "nqd ddp, 2 ranks", 0.95),
    ("nqd zero3, 2 ranks", "nqd ddp, 2 ranks", 0.95),
    ("nqd tp 2, 2 ranks", "nqd ddp, 2 ranks", 0.85),
    ("nqd tp 2 with sp, 2 ranks", "nqd ddp, 2 ranks", 0.85),
    # 0.9 of what the bubble of 1 slot in 9 leaves.
    ("nqd pp 2, 1f1b, 8 micro-batches, 2 ranks", "nqd ddp, 2 ranks", 0.8),
)
# The share of the matrix products' rate that the model's floating-point operations reach.
SHARES = (("nqd, 1 thread", SMALL, 0.85), ("nqd 85M, 1 thread", LARGE, 0.9))


def run(command, stderr=False, folder=None, answered=lambda output: False):
    """Its output. `answered`: of a command that failed, whether it had said all by then."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True,
                          text=True, timeout=600, check=False, cwd=folder)
    if done.returncode != 0 and not answered(done.stdout):
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stderr if stderr else done.stdout


def prepare(args, folder):
    """A token file of random words."""
    source = random.Random(1)
    words = ["".join(source.choices(string.ascii_lowercase, k=6)) for _ in range(1000)]
    text = folder / "text.txt"
    text.write_text("\n".join(" ".join(source.choices(words, k=10)) for _ in range(4000)) + "\n",
                    encoding="utf-8")
    run([args.nqd, "data", "prepare", "--output", folder / "data", text])


def write_config(args, series, folder):
    batch = 4 * series["ranks"]
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(**series, batch=batch, steps=args.steps + WARMUP,
                                    data=folder / "data"), encoding="utf-8")
    return config


def measure_nqd(args, series, folder):
    train = [args.nqd, "train", write_config(args, series, folder), "--json"]
    if series["ranks"] > 1:
        return step_time(run(["mpirun", "--bind-to", "core", "-n", str(series["ranks"]), *train], folder=folder))
    if "copies" in series:
        return measure_copies(train, series["copies"], folder)
    return step_time(run(["taskset", "-c", f"0-{series['threads'] - 1}", *train], folder=folder))


def step_time(document):
    return {"step_s": statistics.median(step["step_s"] for step in json.loads(document)["steps"][WARMUP:])}


def measure_copies(train, copies, folder):
    """Runs that know nothing of one another, each on a core of its own; the slowest counts."""
    started = [subprocess.Popen([str(word) for word in
                                 ["taskset", "-c", core, *train, "--output-dir", folder / f"copy{core}"]],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
               for core in range(copies)]
    return max((step_time(one.communicate(timeout=600)[0]) for one in started), key=lambda found: found["step_s"])


def product_rate(args, model, folder):
    """FLOP/s of the library's products in a layer's forward and backward, from `nqd bench gemm`."""
    config = write_config(args, nqd("", **model), folder)
    rows = json.loads(run(["taskset", "-c", "0", args.nqd, "bench", "gemm", config, "--json"],
                          folder=folder))["gemm_rows"]
    rows = [row for row in rows if 256 not in (row["m"], row["n"], row["k"])]  # not the head's
    flops = [2 * row["m"] * row["n"] * row["k"] for row in rows]
    return sum(flops) / sum(row["p50_s"] for row in rows)


def model_flops(model, tokens=4 * 256, sequence=256, vocab=256):
    """Of a step: 6 a weight of a matrix and token, and the causal half of the scores."""
    layers, hidden = model["layers"], model["hidden"]
    return tokens * 6 * (layers * 12 * hidden ** 2 + vocab * hidden + layers * sequence * hidden)


def build_llmc(args, folder):
    """llm.c's trainer with its own flags, and a model file: a header of 256 integers, weights."""
    run(["cc", "-Ofast", "-march=native", "-fopenmp", "-DOMP", "-w", f"-I{args.llmc}",
         HERE / "llmc_train.c", "-o", folder / "llmc", "-lm"])
    layers, hidden, vocab, sequence = 6, 384, 256, 256
    header = array.array("i", [20240326, 3, sequence, vocab, layers, 6, hidden, vocab])
    header.extend([0] * (256 - len(header)))
    elements = (vocab + sequence) * hidden + layers * (12 * hidden * hidden + 13 * hidden) + 2 * hidden
    source = random.Random(1)
    weights = array.array("f", (source.gauss(0, 0.02) for _ in range(1 << 16)))
    with open(folder / "llmc.bin", "wb") as file:
        header.tofile(file)
        for begin in range(0, elements, len(weights)):
            weights[:elements - begin].tofile(file)


def measure_llmc(args, series, folder):
    times = run(["taskset", "-c", f"0-{series['threads'] - 1}", "env", f"OMP_NUM_THREADS={series['threads']}",
                 folder / "llmc", folder / "llmc.bin", "4", "256", str(args.steps // 2 + 1)], stderr=True)
    return {"step_s": statistics.median(map(float, times.split()[1:]))}


def measure_torch(args, series):
    # Gloo's threads now and then end the process after its result was printed.
    return json.loads(run([args.torch, HERE / "torch_train.py", "--mode", series["mode"], "--threads",
                           str(series["threads"]), "--steps", str(args.steps), "--warmup", str(WARMUP)],
                          answered=lambda output: '"step_s"' in output).splitlines()[-1])


def measure_one(args, series, folder):
    if "mode" in series:
        return measure_torch(args, series)
    return (measure_llmc if "llmc" in series else measure_nqd)(args, series, folder)


def measure(args):
    record = {"command": f"tests/bench/peers/train.py --repetitions {args.repetitions} --steps {args.steps}",
              "date": datetime.date.today().isoformat(), "load_before": os.getloadavg()[0],
              "cpu": next(line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                          if line.startswith("model name")),
              "cpus": os.cpu_count(), "times": {}, "product_flops": {}}
    begin = time.time()
    wanted = [series for series in SERIES
              if (args.llmc or "llmc" not in series)
              and (not args.only or any(part in series["name"] for part in args.only))]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(args, folder)
        if args.llmc:
            build_llmc(args, folder)
        for repetition in range(args.repetitions):
            for series in wanted:
                found = measure_one(args, series, folder)
                record["times"].setdefault(series["name"], []).append(found["step_s"])
                record["torch"] = found.get("torch", record.get("torch"))
                print(f"{repetition + 1}/{args.repetitions} {series['name']}: {found['step_s']:.4f} s",
                      file=sys.stderr)
            for name, model, _ in SHARES:
                if any(series["name"] == name for series in wanted):
                    record["product_flops"].setdefault(name, []).append(product_rate(args, model, folder))
    record["seconds"], record["load_after"] = round(time.time() - begin), os.getloadavg()[0]
    return record


def tokens_of(name):
    return 4 * 256 * (2 if "2 ranks" in name or "two runs" in name else 1)


def render(record):
    times = record["times"]
    lines = [f"Measured {record['date']} on {record['cpu']}, {record['cpus']} CPUs, in {record['seconds']} s, load "
             f"{record['load_before']:.2f} before and {record['load_after']:.2f} after; PyTorch {record['torch']}:",
             "", "```sh", record["command"], "```", "",
             "| run | step, median | lowest–highest of the repetitions | tokens/s |", "|---|---|---|---|"]
    for name, found in times.items():
        median = statistics.median(found)
        lines.append(f"| {name} | {median:.3f} s | {min(found):.3f}–{max(found):.3f} s | "
                     f"{tokens_of(name) / median:.0f} |")
    lines += ["", "| nqd | than | times as fast | target | attained |", "|---|---|---|---|---|"]
    for own, peer, least in TARGETS:
        if own not in times or peer not in times:
            continue
        ratio = statistics.median(b / a for a, b in zip(times[own], times[peer]))
        lines.append(f"| {own} | {peer} | {ratio:.2f} | ≥ {least} | {'yes' if ratio >= least else 'no'} |")
    lines += ["", "| nqd | FLOP/s of the model | of its matrix products alone | share | target | attained |",
              "|---|---|---|---|---|---|"]
    for name, model, least in SHARES:
        if name not in record.get("product_flops", {}):
            continue
        rates = [(model_flops(model) / step, products)
                 for step, products in zip(times[name], record["product_flops"][name])]
        share = statistics.median(own / products for own, products in rates)
        own, products = (statistics.median(column) / 1e9 for column in zip(*rates))
        lines.append(f"| {name} | {own:.1f} GFLOP/s | {products:.1f} GFLOP/s | {share:.2f} | ≥ {least} | "
                     f"{'yes' if share >= least else 'no'} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nqd", type=pathlib.Path, default=HERE.parents[2] / "build/release/cli/nqd")
    parser.add_argument("--torch", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="a Python that has PyTorch")
    parser.add_argument("--llmc", type=pathlib.Path, help="a checkout of llm.c; without, it is left out")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="timed steps a run")
    parser.add_argument("--only", nargs="+", help="series whose names contain one of these")
    parser.add_argument("--output", type=pathlib.Path, help="the tables, as Markdown")
    parser.add_argument("--raw", type=pathlib.Path, help="the record, as JSON")
    parser.add_argument("--from", dest="stored", type=pathlib.Path, help="render a record; measure nothing")
    parser.add_argument("--document", type=pathlib.Path, help="put the tables between its markers")
    args = parser.parse_args()
    args.nqd = args.nqd.resolve()
    record = json.loads(args.stored.read_text(encoding="utf-8")) if args.stored else measure(args)
    if args.raw:
        args.raw.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = render(record)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    if args.document:
        tables.replace_between_markers(args.document, text)
    if not args.output and not args.document:
        print(text)


if __name__ == "__main__":
    main()
