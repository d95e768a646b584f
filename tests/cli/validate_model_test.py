"""Predictions of published measurements: contract, robustness, and documentation that is current."""

import json
import pathlib
import tempfile
import unittest

from support import SOURCE, nqd

TABLE_FIELDS = {"file", "rows", "skipped", "quantity", "mean_abs_error_pct", "max_abs_error_pct",
                "null_mean_abs_error_pct", "kendall_tau"}
ROW_FIELDS = {"file", "id", "quantity", "predicted", "measured", "error_pct"}
SHIPPED = sorted(path.name for path in (SOURCE / "configs/published").glob("*.json")
                 if path.name != "leave-one-out.json")


class ValidateModel(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        code, out, err = nqd("validate-model", "--json")
        assert code == 0, err
        cls.report = json.loads(out)

    def test_json_holds_the_contract_fields_and_its_figures_agree(self):
        tables, rows = self.report["tables"], self.report["rows"]
        self.assertEqual(SHIPPED, sorted({table["file"] for table in tables}))
        for table in tables:
            self.assertLessEqual(TABLE_FIELDS, set(table))
            errors = [abs(row["error_pct"]) for row in rows
                      if (row["file"], row["quantity"]) == (table["file"], table["quantity"])]
            self.assertEqual(table["rows"], len(errors))
            if errors:
                self.assertAlmostEqual(table["mean_abs_error_pct"], sum(errors) / len(errors))
                self.assertAlmostEqual(table["max_abs_error_pct"], max(errors))
        for row in rows:
            self.assertLessEqual(ROW_FIELDS, set(row))
            error = 100 * (row["predicted"] / row["measured"] - 1)
            self.assertAlmostEqual(row["error_pct"], error)
        for skipped in self.report["skipped"]:
            self.assertTrue(skipped["reason"])

    def test_output_is_valid_under_the_schema(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads((SOURCE / "schemas/validate-model.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        report = dict(self.report, rows=self.report["rows"][:1000])
        jsonschema.Draft7Validator(schema).validate(report)

    def test_documentation_has_the_present_table(self):
        document = (SOURCE / "docs/accuracy.md").read_text()
        begin, end = "<!-- validate-model: begin -->\n", "<!-- validate-model: end -->\n"
        shown = document.split(begin, 1)[1].split(end, 1)[0]
        code, out, err = nqd("validate-model", "--markdown")
        self.assertEqual(0, code, err)
        self.assertEqual(out, shown, "run nqd validate-model --markdown and put it there")

    def test_a_table_given_by_path_is_named_as_given_and_judged_like_the_shipped_one(self):
        path = "configs/published/sc21_megatron.json"
        code, out, err = nqd("validate-model", path, "--json")
        self.assertEqual(0, code, err)
        report = json.loads(out)
        self.assertEqual({path}, {row["file"] for row in report["rows"]})
        ours = [row["predicted"] for row in self.report["rows"]
                if row["file"] == "sc21_megatron.json"]
        self.assertEqual(ours, [row["predicted"] for row in report["rows"]])

    def test_rows_in_text(self):
        code, out, err = nqd("validate-model", "configs/published/torchtitan.json", "--rows")
        self.assertEqual(0, code, err)
        self.assertRegex(out, r"(?m)^  tt_t1_1: predicted [\d.]+ GiB, measured 77.00 GiB, [+-]")
        self.assertRegex(out, r"(?m)^  tt_nv8_NVFP: skipped: 4-bit matrix products$")

    def test_unreadable_and_malformed_files_end_with_2_and_the_place(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "broken.json"
            broken.write_text('{"rows": [\n  {"id": }]}')
            code, _, err = nqd("validate-model", broken)
            self.assertEqual(2, code)
            self.assertIn(f"{broken}:2:10: this is not JSON", err)
            broken.write_text("{}")
            code, _, err = nqd("validate-model", broken)
            self.assertEqual(2, code)
            self.assertIn('has no "rows"', err)
            code, _, err = nqd("validate-model", pathlib.Path(folder) / "absent.json")
            self.assertEqual(2, code)

    def test_odd_rows_are_listed_never_dropped(self):
        rows = [None, 3, "text", [], {}, {"gpu": 7}, {"gpu": "H100", "arch": []},
                {"gpu": "H100", "arch": {"layers": 1e300, "hidden": -5, "heads": 0.5}},
                {"gpu": "A100", "arch": {"layers": 4, "hidden": 64, "heads": 4}, "tp": "x",
                 "seq": 64, "gpus": 1, "step_time_s": "fast", "peak_mem_gib": {"of": 1}},
                {"gpu": "A100", "arch": {"layers": 1 << 39, "hidden": 1 << 39, "heads": 1},
                 "tp": 1, "seq": 1 << 39, "gpus": 1 << 39, "gbs": 1 << 39, "step_time_s": 1}]
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "odd.json"
            table.write_text(json.dumps({"rows": rows}))
            code, out, err = nqd("validate-model", table, "--json")
            self.assertEqual(0, code, err)
            report = json.loads(out)
            self.assertEqual(len(rows), len(report["skipped"]) + len(report["rows"]))

    def test_fit_prints_constants_of_the_rows_presets(self):
        code, out, err = nqd("validate-model", "configs/published/sc21_megatron.json", "--fit",
                             "--free", "gpus.*.gemm_share", "--iterations", "2")
        self.assertEqual(0, code, err)
        self.assertRegex(out, r"(?m)^gpus/a100-sxm-80.yaml  gemm_share: 0\.\d+  # was 0\.\d+$")
        code, _, err = nqd("validate-model", "configs/published/sc21_megatron.json", "--fit",
                           "--free", "gpus.h100-sxm.gemm_share")
        self.assertEqual(2, code)
        self.assertIn("NQD2062", err)


if __name__ == "__main__":
    unittest.main()
