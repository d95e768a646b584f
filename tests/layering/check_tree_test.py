#!/usr/bin/env python3
"""Seeds one violation for each check of check_tree.py, so that no check can pass by being broken."""

import tempfile
import unittest
from pathlib import Path

import check_tree
from cpp_text import blank_comments_and_strings, functions

CLEAN = {
    "base/error.h": "#pragma once\n",
    "base/codes/files.cpp": 'CodeInfo{"NQD2001", "t", "e."},\n',
    "base/file.cpp": '#include <openssl/evp.h>\nthrow Error("NQD2001");\n',
    "collectives/cost.h": '#include "base/error.h"\n',
    "collectives/communicator.h": "",
    "collectives/mpi/mpi.cpp": "#include <mpi.h>\nvoid abort_process(int c) { MPI_Abort(w, c); }\n",
    "planner/plan.cpp": '#include "collectives/cost.h"\n',
    "engine/trainer.cpp": '#include "collectives/communicator.h"\n#include "planner/plan.h"\n',
    "planner/plan.h": "",
    "reports/json.cpp": "#include <nlohmann/json.hpp>\n",
    "cli/main.cpp": "int main() { std::exit(1); }\n",
    "tests/base/CMakeLists.txt": "nqd_add_unit_test(t SOURCES error_test.cpp)\n",
    "tests/base/error_test.cpp": '#include "base/error.h"\n#include <doctest/doctest.h>\n',
}


def violations(changes, check):
    with tempfile.TemporaryDirectory() as root:
        for name, text in {**CLEAN, **changes}.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return list(check_tree.CHECKS[check](check_tree.Tree(root)))


class CheckTreeTest(unittest.TestCase):
    def assert_found(self, check, name, text, line=1):
        found = violations({name: text}, check)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:{line}: "), found)

    def assert_clean(self, check, name, text):
        self.assertEqual(violations({name: text}, check), [])

    def test_clean_tree_passes_every_check(self):
        for check in check_tree.CHECKS:
            self.assertEqual(violations({}, check), [], check)

    def test_includes(self):
        self.assert_found("includes", "base/x.cpp", '\n#include "planner/plan.h"\n', 2)
        self.assert_found("includes", "engine/x.cpp", '#include "cli/main.cpp"\n')
        self.assert_found("includes", "planner/x.cpp", '#include "collectives/communicator.h"\n')
        self.assert_found("includes", "base/x.cpp", '#include "error.h"\n')
        self.assert_found("includes", "cli/x.cpp", '#include "tests/base/error_test.cpp"\n')
        self.assert_clean("includes", "cli/x.cpp", '#include "base/error.h"\n#include <vector>\n')
        made = {"reports/x.cpp": '#include "reports/made.h"\n'}
        self.assertEqual(len(violations(made, "includes")), 1)
        made["reports/CMakeLists.txt"] = "configure_file(made.h.in made.h)\n"
        self.assertEqual(violations(made, "includes"), [])

    def test_vendors(self):
        self.assert_found("vendors", "engine/x.cpp", "#include <mpi.h>\n")
        self.assert_found("vendors", "collectives/x.cpp", "# include <nccl.h>\n")
        self.assert_found("vendors", "planner/x.cpp", "#include <cuda_runtime.h>\n")
        self.assert_found("vendors", "planner/x.cpp", "#include <nlohmann/json.hpp>\n")
        self.assert_found("vendors", "planner/x.cpp", "#include <yaml-cpp/yaml.h>\n")
        self.assert_found("vendors", "reports/x.cpp", "#include <CLI/CLI.hpp>\n")
        self.assert_found("vendors", "engine/x.cpp", "#include <cblas.h>\n")
        self.assert_found("vendors", "base/x.cpp", "#include <openssl/sha.h>\n")
        self.assert_found("vendors", "base/x.cpp", "#include <doctest/doctest.h>\n")

    def test_vendor_header_that_reaches_another_layer(self):
        leak = {"reports/x.h": "#include <nlohmann/json.hpp>\n"}
        self.assertEqual(violations(leak, "vendors"), [])
        leak["cli/y.cpp"] = '#include "reports/x.h"\n'
        found = violations(leak, "vendors")
        self.assertEqual(len(found), 1)
        self.assertIn("cli/y.cpp", found[0])

    def test_features(self):
        self.assert_found("features", "engine/x.cpp", "#ifdef NQD_WITH_MPI\n#endif\n")
        self.assert_found("features", "base/x.h", "\n# if defined(HAVE_CUDA)\n#endif\n", 2)
        self.assert_found("features", "base/x.h", "#if __has_include(<mpi.h>)\n#endif\n")
        self.assert_clean("features", "base/x.h", "#ifdef __AVX2__\n#endif\n")

    def test_exits(self):
        self.assert_found("exits", "engine/x.cpp", "void f() {\n  std::exit(1);\n}\n", 2)
        self.assert_found("exits", "collectives/x.cpp", "void f() { MPI_Abort(w, 1); }\n")
        self.assert_found("exits", "base/x.cpp", "void f() { ::_exit(1); }\n")
        self.assert_found("exits", "cli/x.cpp", "void f() { abort(); }\n")
        text = '// exit(1)\n/* abort() */ const char* s = "exit(1)"; app.exit(e); on_exit(f); Watch::abort(w);\n'
        self.assert_clean("exits", "cli/x.cpp", text)

    def test_registered(self):
        self.assert_found("registered", "tests/base/lost_test.cpp", "")
        self.assert_found("registered", "tests/new/lost_test.py", "")
        self.assert_found("registered", "tests/base/r_test.cpp", "")  # a suffix of error_test.cpp
        both = {"tests/base/CMakeLists.txt": "# lost_test.cpp\n t(error_test.cpp)\n",
                "tests/base/lost_test.cpp": ""}
        self.assertEqual(len(violations(both, "registered")), 1)
        both["tests/base/CMakeLists.txt"] = "nqd_add_x_test(lost)\nt(error_test.cpp)\n"
        self.assertEqual(violations(both, "registered"), [])
        both["tests/base/CMakeLists.txt"] = (
            "add_test(NAME x COMMAND y ${CMAKE_CURRENT_SOURCE_DIR}/lost_test.cpp)\nt(error_test.cpp)\n")
        self.assertEqual(violations(both, "registered"), [])

    def test_sizes(self):
        self.assert_clean("sizes", "base/x.cpp", "\n" * 600)
        self.assert_found("sizes", "base/x.cpp", "\n" * 601)
        self.assert_found("sizes", "scripts/x", "\n" * 601)
        long = "int f(int a) {\n" + "  ++a;\n" * 79 + "}\n"
        self.assert_found("sizes", "base/x.cpp", "\n" + long, 2)
        self.assert_clean("sizes", "base/x.cpp", long.replace("  ++a;\n", "", 1))
        self.assert_clean("sizes", "base/x.cpp", "constexpr int kX[] = {\n" + "1,\n" * 90 + "};\n")

    def test_paths(self):
        self.assert_found("paths", "README.md", "see /" + "home/me/nqd\n")
        self.assert_found("paths", "scripts/x", "\ncd /" + "work/main\n", 2)
        self.assert_clean("paths", "README.md", "a frame" + "work/x and $HOME/work/x\n")

    def test_codes(self):
        self.assert_found("codes", "cli/x.cpp", '\nthrow Error(k, "NQD9999", "m");\n', 2)
        self.assert_clean("codes", "cli/x.cpp", '// such as "NQD9999"\n')
        rows = {"base/codes/files.cpp": 'CodeInfo{"NQD2001", "t"}, CodeInfo{"NQD2002", "t"}\n'}
        found = violations(rows, "codes")
        self.assertEqual(len(found), 1)
        self.assertIn("nothing uses NQD2002", found[0])


class CppTextTest(unittest.TestCase):
    def test_comments_and_strings_are_blanked_in_place(self):
        text = "a /* { \n */ \"}\\\"{\" '{' 1'000 R\"x(}\n)\")x\" // {\nb"
        blank = blank_comments_and_strings(text)
        self.assertEqual(len(blank), len(text))
        self.assertEqual(blank.count("\n"), text.count("\n"))
        self.assertNotIn("{", blank)
        self.assertNotIn("}", blank)
        self.assertIn("1'000", blank)

    def test_functions(self):
        text = """namespace a {
struct S {
  S() : x_{1}, y_(2) {
    f();
  }
  int x_ = 3;
};
constexpr int kX[] = {1, 2};
template <typename T>
auto f(T t)
    -> int {
  if (t) { g(); }
  return [] { return 1; }();
}
TEST_CASE("{") {
}
}
"""
        self.assertEqual([r for r in functions(text) if r[1] > r[0]], [(4 - 1, 5), (9, 14), (15, 16)])


if __name__ == "__main__":
    unittest.main()
