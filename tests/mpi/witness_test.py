"""nqd's traffic counters against the PMPI witness, byte for byte and message for message."""

import argparse
import os
import subprocess
import sys
import tempfile


def read_counts(prefix, rank):
    with open(f"{prefix}.{rank}", encoding="ascii") as file:
        return tuple(int(field) for field in file.read().split())


def main():
    parser = argparse.ArgumentParser()
    for name in ("mpiexec", "program", "witness"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    failures = 0
    for ranks in (2, 3, 5):
        with tempfile.TemporaryDirectory() as folder:
            witness, counters = os.path.join(folder, "witness"), os.path.join(folder, "counters")
            # The preload is for the ranks alone: mpirun itself does not link MPI.
            launch = ["env", f"LD_PRELOAD={args.witness}", f"NQD_PMPI_WITNESS={witness}",
                      f"NQD_COUNTERS={counters}", args.program]
            subprocess.run([args.mpiexec, "-n", str(ranks)] + launch, check=True, timeout=120)
            for rank in range(ranks):
                seen, counted = read_counts(witness, rank), read_counts(counters, rank)
                print(f"{ranks} ranks: witness {seen}, counters {counted}")
                failures += seen != counted or seen[1] == 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
