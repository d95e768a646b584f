"""Flipped bits and spoiled pages in every file of a generation: each is found, and named."""

import json
import random

from harness import Failure

FLIPS = 10000
PAGES = 1000
# Of nqd checkpoint verify itself, every one with a flip in each block of each file.
COMMANDS = 25
BLOCK = 1 << 20
LARGER = ["--set", "model.layers=2", "--set", "model.hidden=128", "--set", "model.ffn_hidden=512",
          "--set", "train.bucket_bytes=1000000", "--set", "train.steps=4"]


def make_generation(tools):
    """A folder with two generations of 5.6 MB that four ranks have written."""
    run = tools.folder()
    config = tools.config(engine="zero3", dp=4, keep_last=2)
    done = tools.run(*tools.train_line(config, run, "--ranks", 4, *LARGER))
    if done.code != 0:
        raise Failure("no generation to damage: " + done.why())
    return run / "checkpoints"


def by_reader(tools, root, budget, seed):
    """Flips one by one, each judged by nqd's reader in torture_tool."""
    done = tools.run(tools.tool, "rot", root, FLIPS, PAGES, seed, budget.left() * 0.8,
                     timeout=budget.left() + 120)
    if done.code != 0:
        raise Failure("torture_tool rot: " + done.why())
    found = {"flips": 0, "pages": 0, "file": [], "missed": []}
    for line in done.out.splitlines():
        name, value = line.split(" ", 1)
        if isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = int(value)
    return found


def by_command(tools, root, budget, seed):
    """Flips that `nqd checkpoint verify` names all at once. Returns (flips, failures)."""
    dice = random.Random(seed)
    latest = root / (root / "LATEST").read_text().split()[0]
    flips, failures = 0, []
    for _ in range(COMMANDS):
        if budget.left() <= 0:
            break
        places = [(path, dice.randrange(begin, min(begin + BLOCK, path.stat().st_size)))
                  for path in latest.glob("*.safetensors") for begin in range(0, path.stat().st_size, BLOCK)]
        bits = [(path, at, 1 << dice.randrange(8)) for path, at in places]
        flip(bits)
        done = tools.run(tools.nqd, "checkpoint", "verify", root, "--json")
        flip(bits)
        flips += len(bits)
        damage = json.loads(done.out)["damage"] if done.out else []
        named = {(one["file"], one["begin"] // BLOCK) for one in damage}
        if done.code != 1 or named != {(path.name, at // BLOCK) for path, at in places}:
            failures.append(f"nqd checkpoint verify ended with {done.code} and named {sorted(named)}")
    if tools.run(tools.nqd, "checkpoint", "verify", root).code != 0:
        failures.append("the generation is not whole once all is mended")
    return flips, failures


def flip(bits):
    for path, at, bit in bits:
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ bit]))


def run(tools, budget, seed):
    root = make_generation(tools)
    by_tool = by_reader(tools, root, budget, seed)
    flips, failures = by_command(tools, root, budget, seed)
    latest = root / (root / "LATEST").read_text().split()[0]
    return {
        "flips": by_tool["flips"] + flips,
        "flips_by_command": flips,
        "pages": by_tool["pages"],
        "files": by_tool["file"],
        "generation_bytes": sum(path.stat().st_size for path in latest.iterdir()),
        "failures": by_tool["missed"] + failures,
    }
