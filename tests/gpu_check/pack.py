"""`scripts/gpu_check --pack FOLDER`: a build to carry to a box that has a GPU's driver and Python, and perhaps
nothing else. Libraries that a bare box lacks go along; those of the driver and the C library must be its own,
and NCCL and cuBLASLt, which are too large, are looked for there (box.library_folders)."""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import checks
import report
from box import ROOT

LIMIT_BYTES = 64 << 20
PROGRAMS = ("cli/nqd", *checks.PROGRAMS.values(), "tests/engine/cuda/nqd_kernel_bench")
FILES = ("scripts/gpu_check", "configs/quickstart.yaml", checks.TINY, checks.LLAMA, "tests/bench/peers/torch_gpu.py",
         "tests/bench/peers/torch_train.py", "LICENSE")
FOLDERS = ("tests/gpu_check", "configs/presets/gpus")
# Where libraries lie in the packed build: the run-path of the preset cuda-carry names it.
LIBRARIES = "build/cuda/lib"
OF_THE_BOX = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libresolv|libcuda|libnvidia-.*)\.so")


class Refusal(Exception):
    """Why a build cannot be carried, and what to do."""


def parse_ldd(text):
    """{name: path} of what a program loads, as ldd prints it; None for what was not found."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(\S+) => (not found|\S+)", line)
        if match:
            found[match[1]] = None if match[2] == "not found" else match[2]
    return found


def to_carry(loaded):
    """Of what ldd found, the libraries that a bare box lacks."""
    missing = [name for name, path in loaded.items() if path is None]
    if missing:
        raise Refusal(f"{', '.join(missing)}: not found here either")
    if any(name.startswith("libmpi") for name in loaded):
        raise Refusal("this build needs MPI, which no folder can carry: build the preset cuda-carry, whose ranks are "
                      "threads (cmake --preset cuda-carry && cmake --build --preset cuda-carry)")
    return {name: path for name, path in loaded.items() if not OF_THE_BOX.match(name)}


def check_portable(build):
    cache = build / "CMakeCache.txt"
    if cache.exists() and re.search(r"^NQD_NATIVE:\w+=ON$", cache.read_text(encoding="utf-8"), re.MULTILINE):
        raise Refusal("this build is for this CPU alone (NQD_NATIVE=ON): build the preset cuda-carry "
                      "(cmake --preset cuda-carry && cmake --build --preset cuda-carry)")


def copy_program(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(target.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    if shutil.which("strip"):
        subprocess.run(["strip", str(target)], check=True)


def loaded_by(program, environment=None):
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False, env=environment)
    return parse_ldd(done.stdout)


def check_bundle(program, carried, folder):
    """With an empty environment the program finds what goes along in the folder, and not here."""
    for name, path in loaded_by(program, {"PATH": os.environ.get("PATH", "")}).items():
        if name in carried and pathlib.Path(path or "").resolve().parent != folder.resolve():
            raise Refusal(f"{program.name} would load {path or 'no'} {name}, not the one that goes along: its run-path "
                          "is not that of the preset cuda-carry")


def total_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def check_size(bytes_, limit=LIMIT_BYTES):
    if bytes_ > limit:
        raise Refusal(f"it takes {bytes_ / 2**20:.1f} MiB, and a box may take {limit / 2**20:.0f}: leave out "
                      "architectures (-DCMAKE_CUDA_ARCHITECTURES=90-real)")


def check_target(target):
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / "packed.json").exists())):
        raise Refusal(f"{target} holds something else: name a new folder")


def fill(build, target):
    """{library: path it came from}"""
    for name in FILES:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__", "*_test.py", "*.txt"))
    carried, programs = {}, [name for name in PROGRAMS if (build / name).exists()]
    for name in programs:
        copy_program(build / name, target / "build/cuda" / name)
        carried.update(to_carry(loaded_by(build / name)))
    folder = target / LIBRARIES
    folder.mkdir(parents=True)
    for name, path in carried.items():
        shutil.copyfile(path, folder / name)
    for name in programs:
        check_bundle(target / "build/cuda" / name, carried, folder)
    return carried


def pack(build, target):
    """Exit code: 0 packed, 1 it cannot be carried, 3 there is no such build."""
    if not (build / "cli/nqd").exists():
        print(f"gpu_check: {build / 'cli/nqd'} does not exist: cmake --preset cuda-carry && cmake --build --preset "
              "cuda-carry", file=sys.stderr)
        return 3
    part = target.with_name(target.name + ".part")
    try:
        check_target(target)
        check_portable(build)
        shutil.rmtree(part, ignore_errors=True)
        carried = fill(build, part)
        record = {"git_describe": report.describe(), "libraries": sorted(carried), "packed_at": report.now()}
        (part / "packed.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        check_size(total_bytes(part))
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    except Refusal as why:
        shutil.rmtree(part, ignore_errors=True)
        print(f"gpu_check: {build} cannot be carried: {why}", file=sys.stderr)
        return 1
    print(f"{total_bytes(target) / 2**20:.1f} MiB in {target}, with {', '.join(sorted(carried))}; on the box: "
          "scripts/gpu_check")
    return 0
