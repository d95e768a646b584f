"""Runs that stop, save and go on, on their own mesh or another, against a run without a pause."""

import json

from harness import Failure, Unavailable

CONFIG = "configs/parity/gpt-tied.yaml"
LEAST_S = 60


def allowed(case):
    exact = case["numerics"] == "canonical"
    return ["bit-identical"] if exact else ["bit-identical", "within-envelope"]


def run(tools, budget, seed):
    if budget.seconds < LEAST_S:
        raise Unavailable(f"needs a share of {LEAST_S} s or more")
    output = tools.folder()
    done = tools.run(tools.nqd, "parity", CONFIG, "--launcher", "threads", "--output", output,
                     timeout=max(600, 3 * budget.seconds))
    if done.code not in (0, 1):
        raise Failure(f"nqd parity ends with {done.code}: {done.why()}")
    paused = [case for case in json.loads(output.read_text())["cases"] if case["resumed_from"]]
    if not paused:
        raise Failure("nqd parity has no case that stops and goes on")
    return {"config": CONFIG,
            "runs": len(paused),
            "bit_identical": sum(case["verdict"] == "bit-identical" for case in paused),
            "failures": [f"{case['engine']} {case['mesh']} from {case['resumed_from']}: {case['verdict']}"
                         for case in paused if case["verdict"] not in allowed(case)]}
