#!/usr/bin/env python3
"""Checks of the source tree that no compiler makes.

    check_tree.py ROOT [CHECK ...]

Prints one line a violation and ends 1 if there is any. check_tree_test.py shows that each check can
fail.
"""

import re
import sys
from pathlib import Path

from cpp_text import blank_comments, blank_comments_and_strings, functions, line_of

LAYERS = {"base": 0, "collectives": 1, "planner": 2, "engine": 3, "reports": 4, "cli": 5}
# The planner builds without MPI: it sees the vendor-free core of the collectives alone.
PLANNER_MAY_INCLUDE = {"collectives/" + name for name in (
    "canonical/layout.h", "canonical/traffic.h", "canonical/tree.h", "cost.h",
    "cost_scratch.h", "numerics.h", "types.h")}

# Vendor header, and the places that may include it. tests/ may include all.
VENDORS = [
    (r"mpi\.h", ["collectives/mpi/"]),
    (r"nccl\.h", ["collectives/nccl/"]),
    (r"(cuda|cublas|cudnn|curand|nvml)\w*\.h", ["engine/cuda/", "collectives/nccl/"]),
    (r"yaml-cpp/.*", ["planner/config/"]),
    (r"nlohmann/.*", ["reports/", "planner/import/", "engine/io/"]),
    (r"toml\+\+/.*", ["planner/import/"]),
    (r"CLI/.*", ["cli/"]),
    (r"(Eigen/.*|cblas.*|openblas.*|dnnl.*|oneapi/.*|mkl.*)", ["engine/gemm/"]),
    (r"openssl/.*", ["base/file.cpp"]),
    (r"xxhash\.h", ["base/checksum.cpp"]),
    (r"(doctest|benchmark|gtest)/.*", []),
]

FEATURE = re.compile(r"NQD_|MPI|NCCL|CUDA|CUBLAS|OPENBLAS|DNNL|EIGEN|OPENMP|__has_include")
# A process ends in main, or in abort_process, which MPI's own abort hides behind.
ENDS_PROCESS = re.compile(
    r"(?<![\w.>:])(?:(?:std::|::)?(?:exit|_exit|_Exit|quick_exit|abort)|std::terminate|MPI_Abort)\s*\(")
MAY_END_PROCESS = {"cli/main.cpp"}
DEFINES_ABORT = re.compile(r"\bvoid\s+abort_\w+\(")

FILE_LINES, FILE_LINES_WARNING, FUNCTION_LINES = 600, 400, 80
PERSONAL_PATH = re.compile(r"(?<![\w.$}*)])/(?:home|root|work|Users)/[\w.-]")

CPP = {".h", ".cpp", ".cu", ".cuh"}
TEXT = CPP | {".py", ".cmake", ".txt", ".md", ".yaml", ".json", ".sh", ""}
SKIPPED = {".git", "build", "runs", "__pycache__", ".cache"}


class Tree:
    """The files of a source tree as root-relative names, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.names = sorted(self._walk(self.root))
        self._texts = {}

    def _walk(self, folder):
        for path in folder.iterdir():
            if path.is_dir():
                if path.name not in SKIPPED:
                    yield from self._walk(path)
            else:
                yield path.relative_to(self.root).as_posix()

    def text(self, name):
        if name not in self._texts:
            self._texts[name] = (self.root / name).read_text(encoding="utf-8", errors="replace")
        return self._texts[name]

    def cpp(self, tests=True):
        """C++ and CUDA files of the layers, and of tests."""
        tops = set(LAYERS) | ({"tests"} if tests else set())
        return [n for n in self.names if Path(n).suffix in CPP and top(n) in tops]

    def includes(self, name):
        """(line, header, quoted) of each #include."""
        for number, line in enumerate(self.text(name).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                yield number, match[2], match[1] == '"'


def top(name):
    return name.split("/")[0] if "/" in name else ""


def generated(tree, header):
    """Whether the CMakeLists.txt of its folder makes this header in the build tree."""
    lists = (Path(header).parent / "CMakeLists.txt").as_posix()
    return lists in tree.names and Path(header).name in uncommented(tree.text(lists))


def check_includes(tree):
    """A file includes only from its own layer or a lower one, by its path from the root."""
    for name in tree.cpp():
        for line, header, quoted in tree.includes(name):
            if not quoted:
                continue
            if header not in tree.names and not generated(tree, header):
                yield f'{name}:{line}: "{header}" is not a file of this tree, counted from its root'
            elif top(header) not in LAYERS:
                if top(name) in LAYERS:
                    yield f"{name}:{line}: no layer may include {header}"
            elif top(name) in LAYERS and LAYERS[top(header)] > LAYERS[top(name)]:
                yield f"{name}:{line}: {top(name)} must not include from {top(header)} ({header})"
            elif top(name) == "planner" and top(header) == "collectives":
                if header not in PLANNER_MAY_INCLUDE:
                    yield f"{name}:{line}: the planner sees only {sorted(PLANNER_MAY_INCLUDE)}"


def check_vendors(tree):
    """A vendor header appears only where its owner is, and in no header that others include."""
    includers = {}
    for name in tree.cpp():
        for _, header, quoted in tree.includes(name):
            if quoted:
                includers.setdefault(header, []).append(name)
    for name in tree.cpp(tests=False):
        for line, header, _ in tree.includes(name):
            for pattern, owners in VENDORS:
                if not re.fullmatch(pattern, header):
                    continue
                if not any(name.startswith(owner) for owner in owners):
                    yield f"{name}:{line}: <{header}> belongs only in {owners or 'tests/'}"
                elif name.endswith((".h", ".cuh")):
                    for other in includers.get(name, []):
                        if not any(other.startswith(owner) for owner in owners):
                            yield f"{name}:{line}: <{header}> reaches {other} through this header"


def check_features(tree):
    """A backend is x.cpp or no_x.cpp, chosen by CMake: no feature #if."""
    for name in tree.cpp():
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", line) and FEATURE.search(line):
                yield f"{name}:{number}: feature switch in code: {line.strip()}"


def check_exits(tree):
    """Libraries throw; only main and abort_process end the process."""
    for name in tree.cpp(tests=False):
        code = blank_comments_and_strings(tree.text(name))
        in_abort = top(name) == "collectives" and DEFINES_ABORT.search(code)
        if name in MAY_END_PROCESS or in_abort:
            continue
        for match in ENDS_PROCESS.finditer(code):
            yield f"{name}:{line_of(code, match.start())}: ends the process: {match[0]}...)"


def check_registered(tree):
    """Every test file is named in the CMakeLists.txt of its folder or of one above."""
    for name in tree.names:
        if not re.fullmatch(r"tests/.*_test\.(cpp|py|cu)", name):
            continue
        folder, found = Path(name).parent, False
        while folder != Path(".") and not found:
            lists = (folder / "CMakeLists.txt").as_posix()
            relative = Path(name).relative_to(folder).as_posix()
            stem = re.escape(re.sub(r"_test\.\w+$", "", relative))  # nqd_add_x_test(STEM)
            here = r"(?<![\w/])(?:\$\{CMAKE_CURRENT_SOURCE_DIR\}/)?"
            named = rf"{here}{re.escape(relative)}\b|nqd_add_\w*test\({stem}\s*[\s)]"
            found = lists in tree.names and re.search(named, uncommented(tree.text(lists)))
            folder = folder.parent
        if not found:
            yield f"{name}:1: no CMakeLists.txt names this test"


def uncommented(cmake):
    return re.sub(r"#.*", "", cmake)


def check_sizes(tree):
    """No file above 600 lines, no function above 80."""
    for name in tree.names:
        scripts = top(name) == "scripts" or Path(name).suffix == ".py"
        if name not in tree.cpp() and not scripts:
            continue
        lines = tree.text(name).count("\n")
        if lines > FILE_LINES:
            yield f"{name}:1: {lines} lines, at most {FILE_LINES}"
        elif lines > FILE_LINES_WARNING:
            print(f"{name}:1: warning: {lines} lines, better at most {FILE_LINES_WARNING}")
        if Path(name).suffix in CPP:
            for first, last in functions(tree.text(name)):
                if last - first + 1 > FUNCTION_LINES:
                    yield f"{name}:{first}: a function of {last - first + 1} lines"


def check_paths(tree):
    """No path of somebody's own machine."""
    for name in tree.names:
        if Path(name).suffix not in TEXT:
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            if PERSONAL_PATH.search(line):
                yield f"{name}:{number}: path of one machine: {line.strip()[:80]}"


def check_codes(tree):
    """Every error code that is thrown is explained, and every explained code is used."""
    tables = [name for name in tree.names if name.startswith("base/codes")]
    if not tables:
        return
    explained = set()
    for name in tables:
        explained |= set(re.findall(r'CodeInfo\{\s*"(NQD\d{4})"', tree.text(name)))
    used = set()
    for name in tree.cpp(tests=False):
        if name in tables:
            continue
        for number, line in enumerate(blank_comments(tree.text(name)).splitlines(), 1):
            quoted = set(re.findall(r'"(NQD\d{4})', line))
            used |= quoted
            for code in sorted(quoted - explained):
                yield f"{name}:{number}: {code} has no row in base/codes/"
    for code in sorted(explained - used):
        yield f"base/codes:1: nothing uses {code}"


CHECKS = {
    "includes": check_includes,
    "vendors": check_vendors,
    "features": check_features,
    "exits": check_exits,
    "registered": check_registered,
    "sizes": check_sizes,
    "paths": check_paths,
    "codes": check_codes,
}


def main(arguments):
    tree = Tree(arguments[0])
    names = arguments[1:] or list(CHECKS)
    violations = [f"{v}  [{name}]" for name in names for v in CHECKS[name](tree)]
    print("\n".join(violations))
    print(f"{len(violations)} violations in {len(tree.names)} files, checks: {', '.join(names)}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
