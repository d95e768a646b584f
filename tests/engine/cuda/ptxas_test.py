"""What ptxas says of every kernel: registers and shared memory within budgets, and no spills.

NQD_KERNEL_OBJECTS names the folder of the kernels' library; beside each object cmake/ptxas_log.py
has left a file of `ptxas -v` lines.
"""

import os
import re
import unittest
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[3]
ARCHITECTURES = {"sm_80", "sm_90"}

# A multiprocessor has 65536 registers: 64 a thread let 1024 threads run, enough for kernels that
# wait for memory; 128 two blocks of 256; 168 the three blocks of 128 whose shared memory fits sm_80;
# 255, all that a thread can have, two blocks of 128 whose accumulators stay in registers.
REGISTERS = 64
REGISTERS_OF = {"FixedProductBody": 128, "AttentionMma": 255, "Attention": 168}
# Static shared memory that needs no opt-in: 48 KiB; less where several blocks share a processor.
SHARED = 17 * 1024
SHARED_OF = {"Attention": 48 * 1024}

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SMEM = re.compile(r"(\d+) bytes smem")


def kernels(text):
    """Of each kernel: (name, architecture, stack, spills, registers, shared bytes)."""
    entry = frame = None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
        elif match := SPILLS.search(line):
            frame = [int(number) for number in match.groups()]
        elif match := USED.search(line):
            shared = SMEM.search(line)
            yield (*entry, frame[0], frame[1] + frame[2], int(match[1]),
                   int(shared[1]) if shared else 0)


def budget(name, of, usual):
    return next((limit for part, limit in of.items() if part in name), usual)


class Ptxas(unittest.TestCase):
    def setUp(self):
        folder = Path(os.environ["NQD_KERNEL_OBJECTS"])
        files = sorted(folder.rglob("*.cu.o.ptxas"))
        sources = sorted((SOURCES / "engine/cuda/kernels").glob("*.cu"))
        self.assertEqual([f.name for f in files], [s.name + ".o.ptxas" for s in sources])
        self.kernels = [k for f in files for k in kernels(f.read_text(encoding="utf-8"))]

    def test_every_kernel_is_there_for_every_architecture(self):
        names = {name for name, *_ in self.kernels}
        self.assertGreater(len(names), 100)
        for architecture in ARCHITECTURES:
            self.assertEqual(names, {k[0] for k in self.kernels if k[1] == architecture})

    def test_nothing_spills(self):
        self.assertEqual([k for k in self.kernels if k[2] or k[3]], [])

    def test_registers_and_shared_memory_are_within_budgets(self):
        for name, architecture, _, _, registers, shared in self.kernels:
            with self.subTest(kernel=name, architecture=architecture):
                self.assertLessEqual(registers, budget(name, REGISTERS_OF, REGISTERS))
                self.assertLessEqual(shared, budget(name, SHARED_OF, SHARED))

    def test_kernels_are_launched_with_bounds(self):
        found = []
        for path in (SOURCES / "engine/cuda").rglob("*.cu*"):
            for line in path.read_text(encoding="utf-8").splitlines():
                if "__global__" in line:
                    found.append((path.name, "__launch_bounds__(Body::kThreads)" in line))
        self.assertEqual(found, [("launch.cuh", True)])


if __name__ == "__main__":
    unittest.main()
