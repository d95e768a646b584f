#!/usr/bin/env python3
"""readme_commands.py ROOT NQD: the commands in README.md run as printed.

A fenced block that follows a line `<!-- run -->` is executed with bash in a scratch copy of the tree,
line by line, with NQD's folder first in PATH. In a ```console block the lines that begin with `$ ` are
the commands. A line that ends in `# exit N` has to end with that status, any other with 0. The
commands of LONG, which other tests run, are only checked to exist.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LONG = ("scripts/quickstart", "scripts/test")
SKIPPED = shutil.ignore_patterns("build", "runs", ".git", "__pycache__")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def marked_commands(markdown):
    """(command, expected status) of every marked block; raises when a mark has no block."""
    for part in markdown.split("<!-- run -->\n")[1:]:
        block = BLOCK.match(part)
        if not block:
            raise ValueError(f"<!-- run --> without a block: {part[:60]!r}")
        lines = block[2].splitlines()
        if block[1] == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            expected = re.search(r"#\s*exit (\d+)\s*$", line)
            yield line, int(expected[1]) if expected else 0


def run(command, expected, folder, environment):
    """An error text, or nothing."""
    script = command.split()[0]
    if script in LONG:
        runnable = os.access(folder / script, os.X_OK)
        return None if runnable else f"{script} is not an executable file"
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=300)
    if done.returncode == expected:
        return None
    return f"`{command}` ended {done.returncode}, expected {expected}\n{done.stdout}{done.stderr}"


def failures(root, path_prefix):
    commands = list(marked_commands((root / "README.md").read_text()))
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "nqd"
        shutil.copytree(root, copy, ignore=SKIPPED)
        environment = {**os.environ, "PATH": f"{path_prefix}:{os.environ['PATH']}"}
        errors = [run(command, status, copy, environment) for command, status in commands]
    return [error for error in errors if error], [command for command, _ in commands]


def main(root, nqd):
    root = Path(root)
    errors, commands = failures(root, Path(nqd).parent)
    missing = [script for script in LONG if not any(c.startswith(script) for c in commands)]
    errors += [f"README.md does not run {script}" for script in missing]
    print("\n".join(errors))
    print(f"{len(commands)} commands of README.md, {len(errors)} failures")
    return 1 if errors or not commands else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
