#!/usr/bin/env python3
"""The format check finds an unformatted file and leaves a formatted one alone."""

import tempfile
import unittest
from pathlib import Path

import check_format

ROOT = Path(__file__).resolve().parents[2]


class CheckFormatTest(unittest.TestCase):
    @unittest.skipIf(check_format.formatter()[0] is None, check_format.formatter()[1])
    def test_only_the_unformatted_file_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            base = Path(folder) / "base"
            base.mkdir()
            (Path(folder) / ".clang-format").write_text((ROOT / ".clang-format").read_text())
            (base / "good.cpp").write_text("int f() { return 1; }\n")
            self.assertEqual(check_format.main(folder), 0)
            (base / "bad.cpp").write_text("int  f( ){return 1;}\n")
            program = check_format.formatter()[0]
            names = ["base/bad.cpp", "base/good.cpp"]
            self.assertEqual(check_format.unformatted(folder, names, program), ["base/bad.cpp"])
            self.assertEqual(check_format.main(folder), 1)


if __name__ == "__main__":
    unittest.main()
