"""nqd diagnose on logs and tables of NCCL, and nqd calibrate on the latter."""

import json
import pathlib
import shutil
import tempfile
import unittest

from support import SOURCE, nqd

FIXTURES = SOURCE / "tests/fixtures/nccl"


def diagnose(*arguments):
    code, out, err = nqd("diagnose", *arguments, "--json")
    return code, json.loads(out), err


class Diagnose(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nqd-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def codes(self, document):
        return [verdict["code"] for verdict in document["verdicts"]]

    def test_exit_codes_are_the_contract(self):
        code, out, _ = nqd("diagnose", FIXTURES / "mixed.txt", "--cluster", "dgx-h100")
        self.assertEqual(0, code, out)
        self.assertIn("no verdict", out)
        code, out, _ = nqd("diagnose", FIXTURES / "no-gdr.log")
        self.assertEqual(0, code, out)
        self.assertIn("warning [gpudirect-off, certain]", out)
        code, out, _ = nqd("diagnose", FIXTURES / "efa-failed.log")
        self.assertEqual(1, code, out)
        self.assertIn("error [socket-fallback, certain]", out)
        for bad in (SOURCE / "LICENSE", FIXTURES / "all-reduce-cut.json", FIXTURES / "absent.txt"):
            code, _, err = nqd("diagnose", bad)
            self.assertEqual(2, code, bad)
            self.assertIn("error", err)
        code, help_text, _ = nqd("diagnose", "--help")
        self.assertEqual(0, code)
        self.assertIn("Exit status: 0", help_text)

    def test_json_is_a_document_of_its_schema(self):
        code, document, _ = diagnose(FIXTURES / "mixed-socket.txt", "--cluster", "dgx-h100")
        self.assertEqual(1, code)
        self.assertEqual("diagnosis", document["kind"])
        self.assertEqual(["socket-fallback", "below-expected"], self.codes(document))
        self.assertEqual("nccl-tests and NCCL log", document["inputs"][0]["kind"])
        self.assertEqual(62, len(document["rows"]))
        self.assertEqual(16, len(document["processes"]))
        self.assertEqual("Socket", document["processes"][0]["network"])
        self.assertEqual([], document["processes"][0]["adapters"])
        self.assertEqual({"code", "severity", "confidence", "evidence", "threshold", "cause", "next_step"},
                         set(document["verdicts"][0]))
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        schema = json.loads((SOURCE / "schemas/evidence.schema.json").read_text())
        for name in ("mixed-socket.txt", "efa-failed.log", "all-reduce-spread.json", "singletons.log"):
            jsonschema.validate(diagnose(FIXTURES / name)[1], schema)

    def test_a_job_in_several_files(self):
        """One log a process: the ranks that hang are known from all of them."""
        lines = (FIXTURES / "half-hang.log").read_text().splitlines()
        names = []
        for node in ("node1", "node2"):
            path = self.folder / f"nccl.{node}"
            path.write_text("".join(line + "\n" for line in lines if line.startswith(node)))
            names.append(path)
        code, document, _ = diagnose(*names)
        self.assertEqual(1, code)
        self.assertEqual(["init-hang"], self.codes(document))
        self.assertIn("ranks 3 (node1:4103), 12 (node2:4104) of 16", document["verdicts"][0]["evidence"])
        # With the table of the run beside it nothing hung.
        code, document, _ = diagnose(*names, FIXTURES / "all-reduce-healthy.txt")
        self.assertEqual((0, []), (code, self.codes(document)))

    def test_verdicts_of_bench_are_returned(self):
        document = self.folder / "bench.json"
        code, _, err = nqd("bench", "all_reduce", "--ranks", 2, "-b", "1K", "-e", "4K", "-n", 10,
                           "--output", document)
        self.assertEqual(0, code, err)
        evidence = json.loads(document.read_text())
        evidence["verdicts"].append({
            "code": "wrong-result", "severity": "error", "confidence": "certain", "evidence": "3",
            "threshold": "0", "cause": "c", "next_step": "n"})
        document.write_text(json.dumps(evidence))
        code, answer, _ = diagnose(document)
        self.assertEqual(1, code)
        self.assertEqual(evidence["verdicts"][-1], answer["verdicts"][0])

    def test_clusters(self):
        section = self.folder / "section.yaml"
        section.write_text("gpus_per_node: 8\ninter_node:\n  bandwidth_bytes_per_s: 50 GB/s\n")
        config = self.folder / "config.yaml"
        config.write_text("cluster: {preset: dgx-h100, nodes: 2}\n")
        for cluster in (section, config, SOURCE / "configs/llama3-8b-fp8.yaml"):
            code, document, _ = diagnose(FIXTURES / "no-device.log", "--cluster", cluster)
            self.assertEqual((1, ["socket-fallback"]), (code, self.codes(document)), cluster)
            self.assertEqual("certain", document["verdicts"][0]["confidence"])
        section.write_text("gpus_per_node: 8\ninter_nod: {}\n")
        code, _, err = nqd("diagnose", FIXTURES / "no-device.log", "--cluster", section)
        self.assertEqual(2, code)
        self.assertIn(f"{section}:2:1:", err)
        code, _, err = nqd("diagnose", FIXTURES / "no-device.log", "--cluster", "dgx-h10")
        self.assertEqual(2, code)
        self.assertIn("dgx-h100", err)

    def test_calibrate_reads_nccl_tests(self):
        for name in ("all-reduce-healthy.txt", "all-reduce-healthy.json"):
            cluster = self.folder / f"{name}.yaml"
            code, out, err = nqd("calibrate", FIXTURES / name, "--output", cluster)
            self.assertEqual(0, code, err)
            self.assertIn("all_reduce library", out)
            # A slower run against the calibration of a sound one.
            code, document, _ = diagnose(FIXTURES / "all-reduce-half.txt", "--cluster", cluster)
            self.assertEqual((0, ["below-expected"]), (code, self.codes(document)))
            self.assertIn("as calibrated in", document["verdicts"][0]["threshold"])
        code, _, err = nqd("calibrate", FIXTURES / "separate.txt", "--output", self.folder / "x")
        self.assertEqual(2, code)
        self.assertIn("NQD2108", err)


if __name__ == "__main__":
    unittest.main()
