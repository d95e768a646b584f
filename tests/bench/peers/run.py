#!/usr/bin/env python3
"""nqd's collectives beside Open MPI, MPICH and Gloo of the distribution, in one session.

    scripts/setup --bench
    tests/bench/peers/run.py --output table.md --raw raw.json

Builds nqd, nqd over MPICH and the Gloo program in --build, then runs every series in turn, several
times over, so that a change of the machine meets all of them alike. A time is the median over calls
of the slowest rank's, each call after a barrier, with the same warm buffers; then the median over
repetitions. A ratio is the median over repetitions of the ratio within one. Peers run the blocking
call that their users would: `nqd bench --algorithm library`, which calls MPI, and of Gloo's
all-reduces (gloo_peer.cpp) the fastest at each size. Every result is checked; a wrong one ends the
run.

    tests/bench/peers/run.py --from raw.json --document docs/collectives.md

renders stored measurements between the markers of a page. Needs idle cores: the load at start and
end is part of the record.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import tables

ROOT = pathlib.Path(__file__).resolve().parents[3]
MALLOC_TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
GLOO_ALGORITHMS = ("ring", "bcube", "halving_doubling")
ALL_COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")
# Begin, end, factor, timed calls, calls before them.
SWEEPS = (("1K", "64K", 4, 400, 50), ("256K", "4M", 4, 50, 5), ("16M", "256M", 4, 7, 2))
QUICK_SWEEPS = (("1K", "64K", 4, 20, 5), ("256K", "4M", 4, 5, 2))
OVERSUBSCRIBED_SWEEPS = (("1K", "64K", 4, 200, 20), ("256K", "4M", 4, 20, 3), ("16M", "64M", 4, 5, 1))


class Series:
    """One way to run a collective: who, with which flags of `nqd bench`, on how many ranks."""

    def __init__(self, name, flags, collectives=ALL_COLLECTIVES, ranks=2, peer="openmpi", extra=None):
        self.name, self.flags, self.collectives = name, flags, collectives
        self.ranks, self.peer, self.extra = ranks, peer, extra or {}

    def command(self, args, collective, sweep):
        begin, end, factor, calls, warmup = sweep
        bench = ["bench", collective, "-b", begin, "-e", end, "-f", str(factor), "-n", str(calls),
                 "-w", str(warmup), *self.flags, "--json"]
        # More ranks than cores have no core of their own to be bound to.
        bound = self.ranks <= os.cpu_count()
        if self.peer == "mpich":
            return [args.mpiexec_mpich, *(["-bind-to", "core"] if bound else []), "-n",
                    str(self.ranks), args.build / "tests/mpi/nqd_mpich", *bench]
        binding = ["--bind-to", "core"] if bound else ["--bind-to", "none", "--oversubscribe"]
        if self.peer == "memory":
            bench = ["bench", "memory", "-b", begin, "-e", end, "-f", str(factor), "-n", "5", "--json"]
        return [args.mpirun, *binding, "-n", str(self.ranks), args.build / "cli/nqd", *bench]


LIBRARY = ["--algorithm", "library"]
DIRECT = ["--algorithm", "direct"]
SERIES = (
    Series("openmpi", LIBRARY),
    Series("registered", [*DIRECT, "-R"]),
    Series("openmpi_tuned", LIBRARY, extra=MALLOC_TUNED),
    Series("private", DIRECT),
    Series("mpich", LIBRARY, peer="mpich"),
    Series("ring", ["--algorithm", "ring"]),
    Series("gloo", [], ("all_reduce",), peer="gloo"),
    Series("limit", [], ("all_reduce",), peer="memory"),
    Series("openmpi_in_place", [*LIBRARY, "--in-place"], ("all_gather",)),
    Series("registered_in_place", [*DIRECT, "-R", "--in-place"], ("all_gather",)),
    Series("private_in_place", [*DIRECT, "--in-place"], ("all_gather",)),
)
OVERSUBSCRIBED = (
    Series("openmpi", LIBRARY, ("all_reduce",), ranks=4),
    Series("registered", [*DIRECT, "-R"], ("all_reduce",), ranks=4),
    Series("private", DIRECT, ("all_reduce",), ranks=4),
)


def run(command, extra=None):
    environment = dict(os.environ, **MPI_ENVIRONMENT, **(extra or {}))
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True,
                          text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def statistics(samples, wrong):
    if wrong:
        sys.exit(f"{wrong} wrong elements")
    ordered = sorted(samples)

    def at(share):
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {"calls": len(ordered), "min_s": ordered[0], "p50_s": at(0.5), "p95_s": at(0.95)}


def measure_bench(args, series, collective, sweep):
    """Statistics by size, and what the record says of the machine."""
    document = json.loads(run(series.command(args, collective, sweep), series.extra))
    if series.peer == "memory":
        return {limit["bytes"]: {"p50_s": limit["limit_s"]}
                for limit in document["all_reduce_limits"]}, document
    return {row["effective_bytes"]: statistics(row["samples_s"], row["wrong"])
            for row in document["rows"]}, document


def binary_size(text):
    return int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]


def gloo_samples(args, series, algorithm, calls, sizes):
    """What each rank printed, a line a size. Unbound: the threads that serve Gloo's sockets need
    the core on which their rank waits, and starve beside it where there is no other."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen(
            [args.build / "tests/bench/gloo_peer", str(rank), str(series.ranks), folder, algorithm,
             str(calls), *sizes], stdout=subprocess.PIPE, text=True)
            for rank in range(series.ranks)]
        lines = [rank.communicate(timeout=300)[0].splitlines() for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(f"gloo_peer {algorithm} failed")
    return lines


def measure_gloo(args, series, sweep):
    """The fastest of Gloo's algorithms at each size, and its name."""
    begin, end, factor, calls, _ = sweep
    sizes, size = [], binary_size(begin)
    while size <= binary_size(end):
        sizes.append(str(size))
        size *= factor
    found = {}
    for algorithm in GLOO_ALGORITHMS:
        for of_size in zip(*gloo_samples(args, series, algorithm, calls, sizes)):
            fields = [line.split() for line in of_size]
            samples = [max(map(float, times)) for times in zip(*(line[2:] for line in fields))]
            size, wrong = int(fields[0][0]), sum(int(line[1]) for line in fields)
            numbers = {**statistics(samples, wrong), "algorithm": algorithm}
            if size not in found or numbers["p50_s"] < found[size]["p50_s"]:
                found[size] = numbers
    return found


def measure(args, series_list, sweeps, rows, machine):
    for repetition in range(args.repetitions):
        for collective in args.collectives:
            for sweep in sweeps:
                for series in series_list:
                    if collective not in series.collectives:
                        continue
                    print(f"\r{repetition + 1}/{args.repetitions} {series.ranks} ranks {collective} "
                          f"{sweep[0]}-{sweep[1]} {series.name:20}", end="", file=sys.stderr)
                    if series.peer == "gloo":
                        found = measure_gloo(args, series, sweep)
                    else:
                        found, document = measure_bench(args, series, collective, sweep)
                        machine.setdefault(series.peer, document)
                    for size, numbers in found.items():
                        key = (series.ranks, collective, series.name, size)
                        rows.setdefault(key, []).append(numbers)
    print(file=sys.stderr)


def measure_canonical(args):
    """Canonical and fast sums of nqd_canonical_bench, one list of rows a repetition."""
    command = [args.mpirun, "--bind-to", "core", "-n", "2", args.build / "tests/bench/nqd_canonical_bench",
               "--json"]
    return [json.loads(run(command))["rows"] for _ in range(args.repetitions)]


def load():
    return os.getloadavg()[0]


def record(rows, machine, begin_load, seconds):
    document = machine["openmpi"]
    packages = run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", "libopenmpi3", "libmpich12",
                    "libgloo0"]).split("\n")
    return {
        "command": " ".join(["tests/bench/peers/run.py", *sys.argv[1:]]),
        "started_at": document["started_at"], "seconds": round(seconds),
        "commit": document["tool"]["git_commit"], "host": document["host"],
        "packages": [package for package in packages if package],
        "load_before": begin_load, "load_after": load(),
        "rows": [{"ranks": ranks, "collective": collective, "series": series, "bytes": size,
                  "repetitions": found}
                 for (ranks, collective, series, size), found in sorted(rows.items())],
    }


def build(args):
    run(["cmake", "-S", ROOT, "-B", args.build, "-DNQD_BUILD_BENCHMARKS=ON", "-DNQD_BUILD_TESTS=ON",
         "-DNQD_MPICH_TESTS=ON"] + ([] if (args.build / "CMakeCache.txt").exists()
                                    else ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                                          "-DNQD_GEMM=onednn"]))
    run(["cmake", "--build", args.build, "--target", "nqd", "nqd_mpich", "gloo_peer",
         "nqd_overlap_bench", "nqd_canonical_bench"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--collectives", nargs="+", choices=ALL_COLLECTIVES, default=ALL_COLLECTIVES)
    parser.add_argument("--quick", action="store_true", help="few calls, up to 4 MiB: shows that it runs")
    parser.add_argument("--output", type=pathlib.Path, help="the tables, as Markdown")
    parser.add_argument("--raw", type=pathlib.Path, help="the record, as JSON")
    parser.add_argument("--from", dest="stored", type=pathlib.Path, help="render a record; measure nothing")
    parser.add_argument("--document", type=pathlib.Path, help="put the tables between its markers")
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.mpirun = shutil.which("mpirun.openmpi") or "mpirun"
    args.mpiexec_mpich = shutil.which("mpiexec.mpich") or "mpiexec.hydra"

    if args.stored:
        result = json.loads(args.stored.read_text(encoding="utf-8"))
    else:
        build(args)
        rows, machine, begin_load, begin = {}, {}, load(), time.time()
        measure(args, SERIES, QUICK_SWEEPS if args.quick else SWEEPS, rows, machine)
        measure(args, OVERSUBSCRIBED, QUICK_SWEEPS if args.quick else OVERSUBSCRIBED_SWEEPS, rows, machine)
        result = record(rows, machine, begin_load, time.time() - begin)
        result["canonical"] = measure_canonical(args)
        result["overlap"] = json.loads(run([args.build / "tests/bench/nqd_overlap_bench"]))
    if args.raw:
        args.raw.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    text = tables.render(result)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    if args.document:
        tables.replace_between_markers(args.document, text)
    if not args.output and not args.document:
        print(text)


if __name__ == "__main__":
    main()
