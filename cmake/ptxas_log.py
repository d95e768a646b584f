"""Runs a compiler and keeps what ptxas says of each kernel.

    ptxas_log.py OBJECT COMMAND ...

Writes the lines of `ptxas -v` to OBJECT.ptxas, from which a test reads registers, shared memory and
spills, and passes everything else on. Ends as the command ends.
"""

import re
import subprocess
import sys

PTXAS = re.compile(r"ptxas info|^\s+\d+ bytes stack frame|bytes gmem")


def main(arguments):
    done = subprocess.run(arguments[1:], stderr=subprocess.PIPE, text=True, check=False)
    lines = done.stderr.splitlines(keepends=True)
    kept = [line for line in lines if PTXAS.search(line)]
    sys.stderr.writelines(line for line in lines if not PTXAS.search(line))
    if kept:
        with open(arguments[0] + ".ptxas", "w", encoding="utf-8") as file:
            file.writelines(kept)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
