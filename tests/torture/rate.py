"""Bytes a second of saves and loads, beside dd on the same disk with the same bytes, in turns."""

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


def dd(tools, *words):
    done = tools.run("dd", "bs=1M", "status=none", *words, timeout=600)
    if done.code != 0:
        raise Failure("dd: " + done.why())
    return done.seconds


def dd_rates(tools, source, target, size):
    """(bytes a second of a write with fsync, of a read from the disk)"""
    write_s = dd(tools, f"if={source}", f"of={target}", "conv=fsync")
    with open(target) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    read_s = dd(tools, f"if={target}", "of=/dev/null")
    target.unlink()
    return size / write_s, size / read_s


def nqd_rates(tools, folder, size):
    done = tools.run(tools.tool, "rate", folder, size, FILES, timeout=600)
    if done.code != 0:
        raise Failure("torture_tool rate: " + done.why())
    shutil.rmtree(folder)
    found = {name: float(value) for name, value in (line.split() for line in done.out.splitlines())}
    rates = {name: found["bytes"] / found[name + "_s"] for name in ("save", "read_back", "load")}
    return {**rates, "of_save_cpu": found["bytes"] / found["cpu_s"]}


def size_for(tools, source, seconds):
    """What the disk writes in about a second, so that several turns fit."""
    rate, _ = dd_rates(tools, source, tools.folder(fast=False), SMALLEST)
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
        write, read = dd_rates(tools, source, tools.folder(fast=False), size)
        turns.append({"dd_write": write, "dd_read": read,
                      **nqd_rates(tools, tools.folder(fast=False), size)})
    source.unlink()
    median = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
    return {
        "save_ratio": median["save"] / median["dd_write"],
        "load_ratio": median["load"] / median["dd_read"],
        "bytes": size,
        "files": FILES,
        "bytes_per_s": median,
        "turns_bytes_per_s": turns,
    }
