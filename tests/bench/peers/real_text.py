#!/usr/bin/env python3
"""nqd and PyTorch train one byte model on the King James Bible; their held-out losses are compared.

    apt-get install bible-kjv bible-kjv-text
    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    tests/bench/peers/real_text.py --nqd build/release/cli/nqd --torch /tmp/torch/bin/python \\
        --raw docs/evidence/real-text.json --document docs/real-text.md \\
        --picture docs/real-text.svg

Run in the root of the checkout. The text comes from the Debian package, a file a book; `nqd data
prepare` holds whole books out. Both sides read the same token files, the same samples in the same
order for a seed, and the settings that nqd resolved from the config. Each seed is trained on one CPU
by nqd, by PyTorch from weights of its own drawing, and, for the seeds of --same-weights, by PyTorch
from nqd's initial weights.

A run whose output lies in --folder is not repeated, so an interrupted comparison goes on. The record
is evidence of kind `curves`: `nqd report docs/evidence/real-text.json -o page.html` draws it.

    tests/bench/peers/real_text.py --from docs/evidence/real-text.json --document docs/real-text.md

renders a stored record between the markers of a page.
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import math
import pathlib
import queue
import re
import subprocess
import sys

import real_text_tables
import tables

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = ("bible-kjv", "bible-kjv-text")
VERSE = re.compile(r"(\d?[A-Za-z]+)\d+:\d+ (.*)")


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_books(folder):
    """A file a book, a line a verse, without the verses' numbers."""
    books = collections.OrderedDict()
    try:
        text = run(["bible", "-f", "gen1:1-rev22:21"])
    except FileNotFoundError:
        sys.exit(f"the text is not installed: apt-get install {' '.join(PACKAGES)}")
    for line in text.splitlines():
        found = VERSE.fullmatch(line)
        if not found:
            sys.exit(f"bible wrote a line that is no verse: {line}")
        books.setdefault(found[1], []).append(found[2] + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    for number, (book, verses) in enumerate(books.items(), 1):
        (folder / f"{number:02}-{book}.txt").write_text("".join(verses), encoding="utf-8")
    return len(books)


def bigram_loss(data):
    """Held-out nats a byte of a model that knows how often each byte follows another, 0.01 added to each."""
    train, heldout = ((data / f"{split}.tokens").read_bytes()[64:] for split in ("train", "heldout"))
    pairs, firsts = collections.Counter(zip(train, train[1:])), collections.Counter(train[:-1])
    return sum(-math.log((pairs[pair] + 0.01) / (firsts[pair[0]] + 2.56))
               for pair in zip(heldout, heldout[1:])) / (len(heldout) - 1)


def prepare(args):
    """The dataset, and what the record says of it."""
    count = write_books(args.folder / "books")
    data = args.folder / "data"
    prepared = json.loads(run([args.nqd, "data", "prepare", "--json", "--output", data, args.folder / "books"]))
    stats = json.loads(run([args.nqd, "data", "stats", "--json", data]))
    versions = run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *PACKAGES]).splitlines()
    return {"packages": versions, "books": count, "digest": prepared["digest"],
            "heldout_books": [pathlib.Path(document["path"]).stem for document in prepared["documents"]
                              if document["split"] == "heldout"],
            "splits": stats["splits"], "heldout_bigram_nats": bigram_loss(data)}


def overrides(args, seed):
    return dict(pair.split("=", 1) for pair in args.set) | {"train.seed": seed, "data.path": args.folder / "data"}


def train_command(args, values, output, *more):
    settings = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return [args.nqd, "train", args.config, *settings, "--output-dir", output, *more]


def resolved(args, seed):
    """Every value of the config as nqd resolves it, as text."""
    text = run([args.nqd, "train", args.config, "--explain-config",
                *(word for key, value in overrides(args, seed).items() for word in ("--set", f"{key}={value}"))])
    pairs = (line.split(" # ")[0].split(None, 1) for line in text.splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def initial_weights(args, seed, cpu):
    """One step with a learning rate of 0 leaves nqd's initial weights to be exported."""
    folder = args.folder / f"initial-{seed}"
    if not (folder / "model.safetensors").exists():
        values = overrides(args, seed) | {"train.steps": 1, "train.eval_batches": 1, "train.optimizer.warmup_steps": 0,
                                          "train.optimizer.min_learning_rate": 0}
        run(["taskset", "-c", cpu, *train_command(args, values, args.folder / f"initial-run-{seed}",
                                                  "--export-weights", folder)])
    return folder / "model.safetensors"


def train_nqd(args, seed, cpu):
    output = args.folder / f"nqd-{seed}"
    if not (output / "evidence.json").exists():
        run(["taskset", "-c", cpu, *train_command(args, overrides(args, seed), output)])
    return json.loads((output / "evidence.json").read_text(encoding="utf-8"))


def train_torch(args, seed, cpu, same_weights=False):
    name = f"torch-{'same' if same_weights else 'own'}-{seed}"
    output, settings = args.folder / f"{name}.json", args.folder / f"{name}.settings.json"
    if not output.exists():
        settings.write_text(json.dumps(resolved(args, seed), indent=1), encoding="utf-8")
        weights = ["--weights", initial_weights(args, seed, cpu)] if same_weights else []
        run(["taskset", "-c", cpu, args.torch, HERE / "torch_real_text.py", settings, "--data", args.folder / "data",
             "--output", output, *weights])
    return json.loads(output.read_text(encoding="utf-8"))


def curve(group, seed, document):
    """What the record keeps of a run: its held-out losses, and the training losses of all steps."""
    return {"label": f"{group}, seed {seed}", "group": group, "seed": seed, "evals": document["evals"],
            "training_losses": [step["loss"] for step in document["steps"]],
            "grad_norms": [step["grad_norm"] for step in document["steps"]]}


def run_all(args):
    """One job a CPU at a time, the seeds in turn, so that both sides meet the same machine."""
    jobs, found = queue.Queue(), {}
    for seed in args.seeds:
        jobs.put(("nqd", seed, train_nqd, {}))
        jobs.put(("torch", seed, train_torch, {}))
    for seed in args.same_weights:
        jobs.put(("same", seed, train_torch, {"same_weights": True}))

    def work(cpu):
        while True:
            try:
                what, seed, train, options = jobs.get_nowait()
            except queue.Empty:
                return
            print(f"{now()} {what} seed {seed} on CPU {cpu}", file=sys.stderr, flush=True)
            found[what, seed] = train(args, seed, cpu, **options)
            print(f"{now()} {what} seed {seed}: {found[what, seed]['evals'][-1]['heldout_loss']:.4f}",
                  file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(len(args.cpus)) as lanes:
        for lane in [lanes.submit(work, cpu) for cpu in args.cpus]:
            lane.result()
    return found


NAMES = {"nqd": "nqd", "torch": "PyTorch", "same": "PyTorch from nqd's initial weights"}


def measure(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    data = prepare(args)
    found = run_all(args)
    own, peer = found["nqd", args.seeds[0]], found["torch", args.seeds[0]]
    curves = [curve(NAMES[what], seed, found[what, seed]) for what in NAMES
              for seed in (args.same_weights if what == "same" else args.seeds)]
    record = {"schema_version": 1, "kind": "curves",
              "source": f"nqd {own['tool']['version']} ({own['gemm_library']}) and PyTorch {peer['torch']}, "
                        "one thread each",
              "argv": sys.argv, "started_at": min(document["started_at"] for document in found.values()),
              "ended_at": max(document["ended_at"] for document in found.values()),
              "nqd": own["tool"], "host": own["host"], "libraries": own["libraries"] | {"torch": peer["torch"]},
              "data": data, "parameters": own["parameters"],
              "settings": {value["path"]: value["value"] for value in own["config"]["resolved"]
                           if value["path"].startswith(("model.", "train.", "numerics."))
                           and value["path"] != "train.seed"},
              "verdict": real_text_tables.verdict(curves, NAMES), "curves": curves}
    if own["parameters"] != peer["parameters"]:
        sys.exit(f"the models differ: {own['parameters']} and {peer['parameters']} parameters")
    return record


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nqd", type=pathlib.Path, default=pathlib.Path("build/release/cli/nqd"))
    parser.add_argument("--torch", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="a Python that has PyTorch")
    parser.add_argument("--config", type=pathlib.Path, default=pathlib.Path("configs/kjv-byte-10m.yaml"))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/kjv"), help="of data and runs")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as nqd train takes it")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--same-weights", type=int, nargs="*", default=[1], metavar="SEED",
                        help="seeds that PyTorch trains from nqd's initial weights too")
    parser.add_argument("--cpus", nargs="+", default=["0", "1"], metavar="LIST",
                        help="one run on each list of CPUs (as taskset -c takes it) at a time")
    parser.add_argument("--text", action="store_true", help="prepare the text, and stop")
    parser.add_argument("--raw", type=pathlib.Path, help="the record, as JSON")
    parser.add_argument("--from", dest="stored", type=pathlib.Path, help="render a record; measure nothing")
    parser.add_argument("--document", type=pathlib.Path, help="put the tables between its markers")
    parser.add_argument("--picture", type=pathlib.Path, help="the curves, as SVG")
    return parser.parse_args(words)


def main():
    args = arguments()
    if args.text:
        args.folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(prepare(args), indent=1))
        return
    record = json.loads(args.stored.read_text(encoding="utf-8")) if args.stored else measure(args)
    if args.raw:
        args.raw.write_text(real_text_tables.as_json(record), encoding="utf-8")
    if args.picture:
        args.picture.write_text(real_text_tables.svg(record["curves"]), encoding="utf-8")
    text = real_text_tables.render(record)
    if args.document:
        tables.replace_between_markers(args.document, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
