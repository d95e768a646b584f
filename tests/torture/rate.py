"""Bytes a second of saves and loads, beside dd on the same disk with the same bytes, in turns. What
counts is the better of as many dd side by side as a save has files, through the page cache or past
it; a single dd is in the figures too."""

import concurrent.futures
import os
import shutil
import statistics
import time

from harness import Failure, Unavailable

TARGET = 0.8
FILES = 2
MEBIBYTE = 1 << 20
LARGEST, SMALLEST = 1024 * MEBIBYTE, 64 * MEBIBYTE
LEAST_S = 20
# Through the page cache or past it.
WRITES = {"cached": [], "direct": ["oflag=direct"]}
READS = {"cached": [], "direct": ["iflag=direct"]}


def dd(tools, lines):
    """Seconds of that many dd at the same time."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(lines)) as pool:
        ends = list(pool.map(lambda words: tools.run("dd", "bs=1M", "status=none", *words, timeout=600), lines))
    for done in ends:
        if done.code != 0:
            raise Failure("dd: " + done.why())
    return time.monotonic() - begin


def dd_write(tools, source, size, streams=1, flags=()):
    """Bytes a second, with fsync, by so many dd side by side."""
    targets = [tools.folder(fast=False) for _ in range(streams)]
    each = size // streams // MEBIBYTE
    lines = [[f"if={source}", f"of={target}", f"count={each}", f"skip={i * each}", "conv=fsync", *flags]
             for i, target in enumerate(targets)]
    seconds = dd(tools, lines)
    for target in targets:
        target.unlink()
    return each * streams * MEBIBYTE / seconds


def dd_read(tools, files, flags=()):
    """Bytes a second of files that are on the disk alone, by a dd each."""
    for path in files:
        with open(path) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    seconds = dd(tools, [[f"if={path}", "of=/dev/null", *flags] for path in files])
    return sum(path.stat().st_size for path in files) / seconds


def tool(tools, *words):
    done = tools.run(tools.tool, *words, timeout=600)
    if done.code != 0:
        raise Failure("torture_tool: " + done.why())
    return {name: float(value) for name, value in (line.split() for line in done.out.splitlines())}


def one_turn(tools, source, size, nqd_first):
    """What reads the files first finds other memory than the second: they take turns."""
    folder = tools.folder(fast=False)
    saved = {}
    found = {}
    for nqd in (nqd_first, not nqd_first):
        if nqd:
            saved = tool(tools, "save", folder, size, FILES)
        else:
            for streams in (1, FILES):
                for name, flags in WRITES.items():
                    found[f"dd_write_{streams}_{name}"] = dd_write(tools, source, size, streams, flags)
    found |= {name: saved["bytes"] / saved[name + "_s"] for name in ("save", "read_back")}
    found["save_and_read_back"] = saved["bytes"] / (saved["save_s"] + saved["read_back_s"])
    found["of_save_cpu"] = saved["bytes"] / saved["cpu_s"]
    shards = sorted(folder.glob("*/*.safetensors"))
    for nqd in (nqd_first, not nqd_first):
        if nqd:
            found["load"] = saved["bytes"] / tool(tools, "load", folder)["load_s"]
        else:
            for name, flags in READS.items():
                found[f"dd_read_{FILES}_{name}"] = dd_read(tools, shards, flags)
                found[f"dd_read_1_{name}"] = dd_read(tools, shards[:1], flags)
    shutil.rmtree(folder)
    return found


def size_for(tools, source, seconds):
    """What the disk writes in about a second, so that several turns fit."""
    rate = dd_write(tools, source, SMALLEST)
    size = int(min(rate * min(seconds / 20, 5), LARGEST))
    return max(size // MEBIBYTE * MEBIBYTE, SMALLEST)


def run(tools, budget, seed):
    if budget.seconds < LEAST_S:
        raise Unavailable(f"needs a share of {LEAST_S} s or more, and an idle machine")
    source = tools.folder()
    source.write_bytes(os.urandom(SMALLEST))
    size = size_for(tools, source, budget.left())
    source.write_bytes(os.urandom(MEBIBYTE) * (size // MEBIBYTE))
    turns = []
    begin = time.monotonic()
    while not turns or budget.left() > (time.monotonic() - begin) / len(turns):
        turns.append(one_turn(tools, source, size, len(turns) % 2 == 0))
    source.unlink()
    median = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
    best = {kind: max(value for name, value in median.items() if name.startswith(f"{kind}_{FILES}_"))
            for kind in ("dd_write", "dd_read")}
    return {
        "save_ratio": median["save"] / best["dd_write"],
        "load_ratio": median["load"] / best["dd_read"],
        "bytes": size,
        "files": FILES,
        "bytes_per_s": median,
        "turns_bytes_per_s": turns,
    }
