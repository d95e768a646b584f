"""The sections of scripts/torture: how each measures its target, and its share of the budget."""

import time

import bit_rot
import crash_points
import failing_disk
import lost_rank
import rate
import replay
import reshard
import resume
import stall
from harness import Budget, Failure, Unavailable
from verdicts import Verdict, of_count


def crash(tools, budget, seed):
    figures = crash_points.run(tools, budget, seed)
    failures = figures.pop("failures")
    count = figures["injected_points"]
    return Verdict(
        "crash-points",
        f"kill -9 of one rank or all at every operation of saves, prunes and resumes, {crash_points.TARGET:,} "
        "points: a complete generation, the same losses and weights",
        of_count(count, crash_points.TARGET, failures),
        f"{count:,} points in {len(figures['scenarios'])} scenarios, {len(failures)} failures",
        figures=figures, failures=failures)


def power_cut(tools, budget, seed):
    figures = replay.run(tools, budget, seed)
    failures = figures.pop("failures")
    states = figures["states"]
    return Verdict(
        "power-cut",
        f"every prefix of the operations of saves with unsynced ones done, lost or torn, {replay.TARGET:,} states of "
        "one folder and of two: a complete generation",
        of_count(min(states.values()), replay.TARGET, failures),
        ", ".join(f"{count:,} states of {what}" for what, count in states.items()) + f", {len(failures)} failures",
        figures=figures, failures=failures)


def resumed(tools, budget, seed):
    figures = resume.run(tools, budget, seed)
    failures = figures.pop("failures")
    return Verdict(
        "resume",
        "stop, save and go on, on the same mesh or resharded across dp, zero, tp and pp: the bits of a run without a "
        "pause in canonical numerics",
        "fail" if failures else "pass",
        f"{figures['runs']} runs, {figures['bit_identical']} of them bit-identical, {len(failures)} failures",
        figures=figures, failures=failures)


def disk(tools, budget, seed):
    figures = failing_disk.run(tools, budget, seed)
    failures = figures.pop("failures")
    return Verdict(
        "failing-disk",
        f"{failing_disk.TARGET:,} times EIO, ENOSPC, EROFS or EACCES at any operation; a full, a read-only and a slow "
        "disk, a clock that jumps: the right end, never a damaged newest save",
        of_count(figures["injected_faults"], failing_disk.TARGET, failures),
        f"{figures['injected_faults']:,} of {figures['distinct_faults']:,} faults, {len(failures)} failures",
        figures=figures, failures=failures)


def rot(tools, budget, seed):
    figures = bit_rot.run(tools, budget, seed)
    failures = figures.pop("failures")
    return Verdict(
        "bit-rot",
        f"{bit_rot.FLIPS:,} single-bit flips over every file of a generation: all found and named",
        of_count(figures["flips"], bit_rot.FLIPS, failures),
        f"{figures['flips']:,} flips and {figures['pages']:,} pages of {len(figures['files'])} files, "
        f"{figures['generation_bytes'] / 1e6:.1f} MB; {len(failures)} not found or not named",
        figures=figures, failures=failures)


def lost(tools, budget, seed):
    figures = lost_rank.run(tools, budget, seed)
    failures = figures.pop("failures")
    worst = max((one["max"] for one in figures["others_ended_s"].values() if one), default=0)
    recovery, lost_steps = figures["recovery_s"], figures["lost_steps"]
    return Verdict(
        "lost-rank",
        f"{lost_rank.TARGET} random kills of a supervised run: others end within {lost_rank.LIMIT_S:.0f} s with 4 and "
        "name the rank; the same final weights",
        of_count(figures["kills"], lost_rank.TARGET, failures),
        f"{figures['kills']} kills, the others ended within {worst:.2f} s"
        + (f"; recovery median {recovery['median']:.2f} s, at most {recovery['max']:.2f} s; lost steps median "
           f"{lost_steps['median']:.0f}, at most {lost_steps['max']}" if recovery else "")
        + f"; {len(failures)} failures",
        figures=figures, failures=failures)


def beside(tools, budget, seed):
    figures = stall.run(tools, budget, seed)
    low, high = min(figures["ratios"]), max(figures["ratios"])
    result = "pass" if figures["ratio"] <= stall.TARGET else "fail"
    if len(figures["ratios"]) < stall.PAIRS:
        result = "incomplete"
    return Verdict(
        "stall",
        f"{stall.STEPS} steps with one save in at most {stall.TARGET} times the time without, 85M parameters, 2 ranks, "
        f"{stall.PAIRS} pairs",
        result,
        f"{figures['ratio']:.4f}, median of {len(figures['ratios'])} pairs from {low:.4f} to {high:.4f}; training stood "
        f"still for {figures['stall_share']:.4f} of the time",
        figures=figures)


def rates(tools, budget, seed):
    figures = rate.run(tools, budget, seed)
    mine = figures["bytes_per_s"]
    return Verdict(
        "rate",
        f"saves and loads at {rate.TARGET:.0%} or more of what as many dd side by side reach on the same disk, through "
        "the page cache or past it, fsync included",
        "pass" if min(figures["save_ratio"], figures["load_ratio"]) >= rate.TARGET else "fail",
        f"save {mine['save'] / 1e6:.0f} MB/s ({figures['save_ratio']:.0%} of dd), with the reading back "
        f"{mine['save_and_read_back'] / 1e6:.0f} MB/s, load {mine['load'] / 1e6:.0f} MB/s "
        f"({figures['load_ratio']:.0%}); {figures['bytes'] / 1e6:.0f} MB, median of "
        f"{len(figures['turns_bytes_per_s'])} turns",
        figures=figures)


def memory(tools, budget, seed):
    figures = reshard.run(tools, budget, seed)
    beyond = figures["reshard_beyond_largest_tensor_bytes"], figures["resumed_beyond_fresh_bytes"]
    return Verdict(
        "reshard-memory",
        f"at most {reshard.LIMIT_BYTES >> 20} MiB above the largest tensor; a resuming rank as much above one that "
        "begins",
        "pass" if max(beyond) <= reshard.LIMIT_BYTES else "fail",
        f"resharding {beyond[0] / 2**20:.0f} MiB above the largest tensor of 85M parameters, resuming "
        f"{beyond[1] / 2**20:.0f} MiB",
        figures=figures)


# Name: (function, share of the budget).
ALL = {"crash-points": (crash, 0.3), "power-cut": (power_cut, 0.02), "resume": (resumed, 0.03),
       "failing-disk": (disk, 0.15), "bit-rot": (rot, 0.1), "lost-rank": (lost, 0.2), "stall": (beside, 0.2),
       "rate": (rates, 0.05), "reshard-memory": (memory, 0.05)}


def run(tools, names, budget_s, seed):
    """Yields the verdict of each section as it ends. What one leaves of its share, the next have."""
    end = time.monotonic() + budget_s
    shares = {name: ALL[name][1] for name in names}
    for name in names:
        left = end - time.monotonic()
        budget = Budget(left * shares[name] / sum(list(shares.values())[names.index(name):]))
        begin = time.monotonic()
        try:
            verdict = ALL[name][0](tools, budget, seed)
        except Unavailable as why:
            verdict = Verdict(name, "-", "skipped", str(why))
        except Failure as failure:
            verdict = Verdict(name, "-", "fail", "ended early", failures=[str(failure)])
        verdict.seconds = round(time.monotonic() - begin, 3)
        yield verdict
