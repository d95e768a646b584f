"""How much longer training takes with a save beside it: 50 steps of 85 million parameters."""

import json
import shutil
import statistics

from harness import Failure, Unavailable

TARGET = 1.02
STEPS = 50
SAVED_AT = 26  # one save within the steps, behind which 24 are left for its writers
RANKS = 2
# 12 layers of 768: 85.2 million parameters, 1.02 GB of weights and moments a save.
MODEL = ["--set", "model.layers=12", "--set", "model.hidden=768", "--set", "model.heads=12",
         "--set", "model.ffn_hidden=3072", "--set", "model.sequence=64",
         "--set", "train.micro_batch_size=4", "--set", "train.global_batch_size=8",
         "--set", "train.bucket_bytes=16777216"]
PAIRS = 5
LEAST_S = 300


def train(tools, saves):
    """(seconds of the steps, with what training stood still for the save; the save's own record)"""
    run = tools.folder(fast=False)
    # The last step saves too, as that of every run: that save is not in the time.
    every = SAVED_AT if saves else 0
    line = tools.train_line(tools.config(every=every), run, *MODEL, "--set", f"train.steps={STEPS}",
                            mpi=RANKS if tools.mpirun else 0)
    if not tools.mpirun:
        line += ["--ranks", RANKS]
    done = tools.run(*line, timeout=3600)
    if done.code != 0:
        raise Failure(f"training ends with {done.code}: {done.why()}")
    evidence = json.loads((run / "evidence.json").read_text())
    shutil.rmtree(run)
    steps = sum(one["step_s"] for one in evidence["steps"])
    record = next((one for one in evidence.get("checkpoints", []) if one["step"] == SAVED_AT), None)
    stall = record["stall_s"] if record else 0.0
    left = sum(one["step_s"] for one in evidence["steps"][SAVED_AT:])
    if saves and (record is None or record["write_s"] > left):
        raise Failure(f"the save was not through after the {left:.1f} s of the steps behind it")
    return {"seconds": steps + stall, "stall_s": stall, "save": record, "parameters": evidence["parameters"],
            "step_s": [one["step_s"] for one in evidence["steps"]]}


def run(tools, budget, seed):
    """PAIRS pairs of runs in turns, or as many as the budget has room for."""
    if budget.seconds < LEAST_S:
        raise Unavailable(f"needs a share of {LEAST_S} s or more, and an idle machine")
    pairs = []
    begin = budget.left()
    while not pairs or (len(pairs) < PAIRS and budget.left() > (begin - budget.left()) / len(pairs)):
        order = [False, True] if len(pairs) % 2 == 0 else [True, False]
        found = {saves: train(tools, saves) for saves in order}
        pairs.append((found[False], found[True]))
    ratios = [with_save["seconds"] / without["seconds"] for without, with_save in pairs]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "stall_share": statistics.median(one["stall_s"] / one["seconds"] for _, one in pairs),
        "parameters": pairs[0][0]["parameters"],
        "save_steps": STEPS,
        "without_s": [without["seconds"] for without, _ in pairs],
        "with_s": [with_save["seconds"] for _, with_save in pairs],
        "saves": [with_save["save"] for _, with_save in pairs],
        "step_s": {"without": [without["step_s"] for without, _ in pairs],
                   "with": [with_save["step_s"] for _, with_save in pairs]},
    }
