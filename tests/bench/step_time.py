#!/usr/bin/env python3
"""Step times that the planner predicts after a calibration, beside those that `nqd train` takes.

    tests/bench/step_time.py --nqd build/release/cli/nqd --raw docs/evidence/step-time.json \\
        --document docs/engine.md

Calibrates with `nqd bench engine` on ONE model (the shapes of configs/quickstart.yaml) and sweeps of
the collectives on two ranks; then runs every case below in turn, several times over. A repetition's
time is the median of its steps; measured is the median of the repetitions, the spread is from the
lowest to the highest. A prediction holds when it is within 10 % of the measured median, or within
the spread where that is wider.

    tests/bench/step_time.py --from docs/evidence/step-time.json --document docs/engine.md

renders a stored record between the markers of a page. Needs two idle cores: the load is recorded.
--prefix puts a command before every measurement, such as one that makes the machine quiet.
"""

import argparse
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

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- step time: begin -->\n", "<!-- step time: end -->\n"
WARMUP = 2
CALIBRATED = "family: gpt, layers: 4, hidden: 192, heads: 6, vocab: 256, sequence: 128"
WIDER = "family: gpt, layers: 6, hidden: 384, heads: 6, vocab: 256, sequence: 256"
GROUPED = ("family: llama, layers: 4, hidden: 256, heads: 8, kv_heads: 2, ffn_hidden: 704, "
           "vocab: 512, sequence: 192")
CONFIG = """\
model: {{{model}}}
cluster: {{preset: cpu-host, gpus_per_node: {ranks}}}
parallel: {{engine: {engine}, dp: {dp}, tp: {tp}, pp: {pp}}}
numerics: {{mode: {numerics}}}
train:
  micro_batch_size: {micro_batch}
  global_batch_size: {batch}
  steps: {steps}
  threads: {threads}
  recompute: {recompute}
  precision: {precision}
  gradient_precision: float32
  bucket_bytes: 1 MiB
  eval_batches: 1
  optimizer: {{learning_rate: 1e-3, warmup_steps: 1}}
data: {{path: {data}}}
"""
DEFAULTS = {"model": CALIBRATED, "engine": "ddp", "dp": 1, "tp": 1, "pp": 1, "numerics": "canonical",
            "micro_batch": 8, "m": 1, "threads": 1, "recompute": "none", "precision": "float32"}
# What the kernels are measured in: numerics, precision, threads, ranks at once.
RATES = [{"numerics": "canonical"}, {"numerics": "fast"}, {"threads": 2}, {"numerics": "fast", "threads": 2},
         {"precision": "bfloat16"}, {"dp": 2}, {"numerics": "fast", "dp": 2}]
# all_reduce as tp calls it, on what a product has just written; gradients and weights are cold.
COLD = ["-R", "--cold", "--algorithm", "direct"]
SWEEPS = {"all_reduce": ["-R", "--algorithm", "direct"], "all_gather": COLD, "reduce_scatter": COLD,
          "all_to_all": COLD, "send_recv": []}
CASES = {
    "one rank": {},
    "one rank, fast": {"numerics": "fast"},
    "2 threads": {"threads": 2},
    "2 threads, fast": {"numerics": "fast", "threads": 2},
    "bfloat16": {"precision": "bfloat16"},
    "accumulation, m = 4": {"m": 4, "micro_batch": 4},
    "recompute full": {"recompute": "full"},
    "recompute selective": {"recompute": "selective"},
    "ddp, 2 ranks": {"dp": 2},
    "ddp, 2 ranks, fast": {"dp": 2, "numerics": "fast"},
    "zero1, 2 ranks": {"dp": 2, "engine": "zero1"},
    "zero2, 2 ranks": {"dp": 2, "engine": "zero2"},
    "zero3, 2 ranks": {"dp": 2, "engine": "zero3"},
    "zero3, 2 ranks, fast, m = 2": {"dp": 2, "engine": "zero3", "numerics": "fast", "m": 2, "micro_batch": 4},
    "tp 2": {"tp": 2},
    "pp 2, m = 4": {"pp": 2, "m": 4, "micro_batch": 4},
    "llama, grouped queries": {"model": GROUPED},
    "llama, grouped queries, tp 2, fast": {"model": GROUPED, "tp": 2, "numerics": "fast"},
    "6 layers x 384": {"model": WIDER, "micro_batch": 2},
}


def run(args, command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([*args.prefix, *map(str, command)], env=environment, capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def full(case):
    values = {**DEFAULTS, **case}
    ranks = values["dp"] * values["tp"] * values["pp"]
    return {**values, "ranks": ranks, "batch": values["micro_batch"] * values["m"] * values["dp"]}


def write_config(args, values, name):
    path = args.folder / f"{name}.yaml"
    path.write_text(CONFIG.format(**values, steps=args.steps + WARMUP, data=args.folder / "data"), encoding="utf-8")
    return path


def launched(ranks, command):
    return ["mpirun", "--bind-to", "core", "-n", str(ranks), *command] if ranks > 1 else command


def prepare(args):
    source = random.Random(1)
    words = ["".join(source.choices(string.ascii_lowercase, k=6)) for _ in range(1000)]
    text = args.folder / "text.txt"
    text.write_text("\n".join(" ".join(source.choices(words, k=10)) for _ in range(4000)) + "\n", encoding="utf-8")
    run(args, [args.nqd, "data", "prepare", "--output", args.folder / "data", text])


def calibrate(args):
    documents = []
    for index, case in enumerate(RATES):
        values = full(case)
        config = write_config(args, values, "bench")
        documents.append(args.folder / f"engine-{index}.json")
        run(args, launched(values["ranks"], [args.nqd, "bench", "engine", config, "-n", args.iterations, "--output",
                                             documents[-1]]))
    for collective, flags in SWEEPS.items():
        documents.append(args.folder / f"{collective}.json")
        run(args, launched(2, [args.nqd, "bench", collective, *flags, "-b", "4K", "-e", "8M", "-f", "2", "-n", "20",
                               "--output", documents[-1]]))
    run(args, [args.nqd, "calibrate", *documents, "--output", args.folder / "cluster.yaml"])


def measure_case(args, name):
    values = full(CASES[name])
    config = write_config(args, values, "case")
    document = json.loads(run(args, launched(values["ranks"], [args.nqd, "train", config, "--cluster",
                                                               args.folder / "cluster.yaml", "--json"])))
    row = next(row for row in document["audit"] if row["category"] == "step_time")
    steps = [step["step_s"] for step in document["steps"][WARMUP:]]
    return {"predicted_s": row["predicted_s"], "measured_s": statistics.median(steps), "load": os.getloadavg()[0]}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    return {"date": datetime.date.today().isoformat(), "cpu": cpu, "cpus": os.cpu_count()}


def measure(args, record):
    for name in CASES:
        if args.only and not any(part in name for part in args.only):
            continue
        found = measure_case(args, name)
        record["cases"].setdefault(name, []).append(found)
        print(f"{name}: predicted {found['predicted_s']:.4f} s, measured {found['measured_s']:.4f} s, "
              f"{100 * (found['predicted_s'] / found['measured_s'] - 1):+.1f} %", file=sys.stderr)


def verdict(runs):
    measured = [run["measured_s"] for run in runs]
    predicted = statistics.median(run["predicted_s"] for run in runs)
    median = statistics.median(measured)
    holds = abs(predicted / median - 1) <= 0.1 or min(measured) <= predicted <= max(measured)
    return predicted, median, measured, holds


def render(record):
    repetitions = max(len(runs) for runs in record["cases"].values())
    loads = [run["load"] for runs in record["cases"].values() for run in runs]
    lines = [f"Measured {record['date']} on {record['cpu']}, {record['cpus']} CPUs, {repetitions} repetitions of "
             f"{record['steps']} steps, load {min(loads):.1f} to {max(loads):.1f}:", "", "```sh",
             record["command"], "```", "",
             "| case | predicted | measured, median | lowest–highest | error | holds |", "|---|---|---|---|---|---|"]
    for name, runs in record["cases"].items():
        predicted, median, measured, holds = verdict(runs)
        lines.append(f"| {name} | {1e3 * predicted:.1f} ms | {1e3 * median:.1f} ms | {1e3 * min(measured):.1f}–"
                     f"{1e3 * max(measured):.1f} ms | {100 * (predicted / median - 1):+.1f} % | "
                     f"{'yes' if holds else 'no'} |")
    return "\n".join(lines) + "\n"


def put(document, text):
    page = document.read_text(encoding="utf-8")
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    document.write_text(page[:begin] + text + page[end:], encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nqd", type=pathlib.Path, default=HERE.parents[1] / "build/release/cli/nqd")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="timed steps a run")
    parser.add_argument("--iterations", type=int, default=10, help="timed calls of a kernel in each round")
    parser.add_argument("--only", nargs="+", help="cases whose names contain one of these")
    parser.add_argument("--prefix", nargs="+", default=[], help="a command before every measurement")
    parser.add_argument("--folder", type=pathlib.Path, help="keep the calibration here, and use one that is there")
    parser.add_argument("--raw", type=pathlib.Path, help="the record, as JSON")
    parser.add_argument("--from", dest="stored", type=pathlib.Path, help="render a record; measure nothing")
    parser.add_argument("--document", type=pathlib.Path, help="put the table between its markers")
    args = parser.parse_args()
    if args.stored:
        record = json.loads(args.stored.read_text(encoding="utf-8"))
    else:
        args.nqd = args.nqd.resolve()
        temporary = None if args.folder else tempfile.TemporaryDirectory()
        args.folder = (args.folder or pathlib.Path(temporary.name)).resolve()
        args.folder.mkdir(parents=True, exist_ok=True)
        if not (args.folder / "data").exists():
            prepare(args)
        if not (args.folder / "cluster.yaml").exists():
            calibrate(args)
        record = {**machine(), "steps": args.steps, "cases": {},
                  "command": f"tests/bench/step_time.py --repetitions {args.repetitions} --steps {args.steps}"}
        for _ in range(args.repetitions):
            measure(args, record)
        record["cluster"] = (args.folder / "cluster.yaml").read_text(encoding="utf-8").replace(f"{args.folder}/", "")
    if args.raw:
        args.raw.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = render(record)
    put(args.document, text) if args.document else print(text)


if __name__ == "__main__":
    main()
