#!/usr/bin/env python3
"""check_format.py ROOT: every C++ file is as clang-format with the tree's .clang-format leaves it.

Another major version formats differently, so the check is skipped (exit 77) without version 14.
"""

import re
import shutil
import subprocess
import sys

from check_tree import Tree

MAJOR = "14"
SKIP = 77


def formatter():
    """The program and, when there is none of the version, why."""
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        program = shutil.which(name)
        if not program:
            continue
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if re.search(rf"version {MAJOR}\.", version):
            return program, ""
    return None, f"clang-format {MAJOR} is not installed"


def unformatted(root, names, program):
    """The files that clang-format would change."""
    command = [program, "--dry-run", "--style=file", *names]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: warning", done.stderr, re.MULTILINE)))


def main(root):
    program, missing = formatter()
    if not program:
        print(f"skipped: {missing}")
        return SKIP
    names = Tree(root).cpp()
    changed = unformatted(root, names, program)
    for name in changed:
        print(f"{name}: run `clang-format -i {name}`")
    print(f"{len(changed)} of {len(names)} files are not formatted")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
