"""calibrate, report and doctor as a person runs them, on documents that nqd_reports_tests wrote."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCHEMAS = HERE.parent.parent / "schemas"
NQD = os.environ["NQD_BINARY"]
DOCUMENTS = pathlib.Path(os.environ["NQD_DOCUMENTS"])
BENCH, TRAIN = DOCUMENTS / "bench.json", DOCUMENTS / "train.json"


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.scratch = pathlib.Path(self.folder.name)

    def nqd(self, code, *arguments, environment=None, folder=None):
        done = subprocess.run([NQD, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, env={**os.environ, **(environment or {})}, cwd=folder)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done

    def validate(self, text):
        path = self.scratch / "document.json"
        path.write_text(text)
        done = subprocess.run([sys.executable, HERE / "validate_evidence.py", path,
                               SCHEMAS / "evidence.schema.json"], capture_output=True, text=True)
        if done.returncode == 77:
            self.skipTest(done.stdout)
        self.assertEqual(0, done.returncode, done.stdout)
        return json.loads(text)

    def raw_evidence(self):
        """A copy that a command may spoil."""
        raw = self.scratch / "raw.json"
        raw.write_bytes(BENCH.read_bytes())
        return raw

    def other_names(self, path):
        link = self.scratch / "link.json"
        link.symlink_to(path)
        return [path, link, path.parent / ".." / path.parent.name / path.name]

    def assert_nothing_written(self):
        self.assertEqual([], list(self.scratch.iterdir()))


class Calibrate(Commands):
    def test_prints_the_fit_and_writes_a_cluster_file(self):
        cluster = self.scratch / "cluster.yaml"
        done = self.nqd(0, "calibrate", BENCH, "--output", cluster)
        lines = done.stdout.splitlines()
        self.assertEqual(["curve", "ranks", "from", "to", "α", "us", "1/β", "GB/s", "residual"],
                         lines[0].split())
        ring = [line for line in lines if line.startswith("all_reduce ring")]
        # The samples are 5.5 us + 0.11 ns a byte, times 1.117 at the median.
        cells = ring[0].replace("KiB", "").replace("MiB", "").split()
        self.assertEqual(["all_reduce", "ring", "2", "1", "64"], cells[:5])
        self.assertAlmostEqual(5.5 * 1.117, float(cells[5]), delta=0.02)
        self.assertAlmostEqual(1 / 0.11 / 1.117, float(cells[6]), delta=0.02)
        self.assertIn("GFLOP/s", done.stdout)
        self.assertIn("all_reduce", cluster.read_text())
        self.assertEqual("", done.stderr)

    def test_json_is_evidence(self):
        done = self.nqd(0, "calibrate", BENCH, TRAIN, "-o", self.scratch / "c.yaml", "--json")
        document = self.validate(done.stdout)
        self.assertEqual("calibration", document["kind"])
        self.assertEqual({"ring", "tree", "library"},
                         {curve["algorithm"] for curve in document["curves"]})
        self.assertEqual(2, len(document["inputs"]))
        self.assertEqual(1, len(document["skipped"]))
        self.assertIn("left out: ", done.stderr)

    def test_a_poor_fit_is_warned_of(self):
        document = json.loads(BENCH.read_text())
        for index, row in enumerate(document["rows"]):
            factor = 2 if index // 3 % 2 else 1  # every second size takes twice as long
            row["samples_s"] = [factor * sample for sample in row["samples_s"]]
            for figure in ("min_s", "p50_s", "p95_s", "p99_s", "max_s"):
                row[figure] *= factor
        noisy = self.scratch / "noisy.json"
        noisy.write_text(json.dumps(document))
        done = self.nqd(0, "calibrate", noisy, "-o", self.scratch / "c.yaml")
        self.assertIn("the fit misses a sample by", done.stderr)

    def test_nothing_to_fit_leaves_no_file(self):
        done = self.nqd(2, "calibrate", TRAIN, "-o", self.scratch / "c.yaml")
        self.assertIn("NQD2201", done.stderr)
        self.assertIn("kind train", done.stderr)
        self.assert_nothing_written()

    def test_two_ways_are_refused(self):
        done = self.nqd(2, "calibrate", BENCH, DOCUMENTS / "bench-odd.json", "-o",
                        self.scratch / "c.yaml")
        self.assertIn("NQD2202", done.stderr)
        self.assert_nothing_written()

    def test_output_is_tried_before_the_documents_are_read(self):
        done = self.nqd(2, "calibrate", "/nonexistent.json", "-o", "/nonexistent/c.yaml")
        self.assertIn("NQD2002", done.stderr)

    def test_evidence_is_not_overwritten(self):
        raw = self.raw_evidence()
        for name in self.other_names(raw):
            done = self.nqd(2, "calibrate", BENCH, raw, "-o", name)
            self.assertIn("NQD2204", done.stderr)
            self.assertEqual(BENCH.read_bytes(), raw.read_bytes())

    def test_dash_is_no_file(self):
        done = self.nqd(2, "calibrate", BENCH, "-o", "-", folder=self.scratch)
        self.assertIn("--json prints the fit to stdout", done.stderr)
        self.assert_nothing_written()

    def test_usage(self):
        self.nqd(2, "calibrate", BENCH)
        self.nqd(2, "calibrate", "-o", self.scratch / "c.yaml")


class Report(Commands):
    def test_one_page_of_everything(self):
        cluster, doctor = self.scratch / "cluster.yaml", self.scratch / "doctor.json"
        page = self.scratch / "report.html"
        self.nqd(0, "calibrate", BENCH, "-o", cluster)
        doctor.write_text(self.nqd(0, "doctor", "--json").stdout)
        done = self.nqd(0, "report", BENCH, TRAIN, doctor, "--cluster", cluster, "-o", page)
        self.assertEqual(str(page), done.stdout.strip())
        html = page.read_text()
        for section in ("summary", "training", "audit", "fabric", "compute", "machine",
                        "provenance"):
            self.assertIn(f'<section id="{section}"', html)
        self.assertIn("ring, fitted α–β", html)
        checked = subprocess.run([HERE / "check_report.sh", page], capture_output=True, text=True)
        if checked.returncode != 77:
            self.assertEqual(0, checked.returncode, checked.stdout)

    def test_damage_and_emptiness_leave_no_page(self):
        page = self.scratch / "report.html"
        cut = DOCUMENTS / "cut.json"
        cut.write_text(BENCH.read_text()[:1000])
        done = self.nqd(2, "report", cut, "-o", page)
        self.assertIn("NQD2101", done.stderr)
        self.assertIn("truncated JSON: the text ends at byte ", done.stderr)
        done = self.nqd(2, "report", DOCUMENTS / "train-empty.json", "-o", page)
        self.assertIn("NQD2203", done.stderr)
        self.assertIn("NQD2001", self.nqd(2, "report", "/nonexistent.json", "-o", page).stderr)
        self.assertIn("NQD1011", self.nqd(2, "report", BENCH, "--cluster", BENCH, "-o", page).stderr)
        self.assert_nothing_written()

    def test_inputs_are_not_overwritten(self):
        raw = self.raw_evidence()
        for name in self.other_names(raw):
            self.assertIn("NQD2204", self.nqd(2, "report", BENCH, raw, "-o", name).stderr)
            self.assertEqual(BENCH.read_bytes(), raw.read_bytes())
        cluster = self.scratch / "cluster.yaml"
        self.nqd(0, "calibrate", BENCH, "-o", cluster)
        before = cluster.read_bytes()
        done = self.nqd(2, "report", BENCH, "--cluster", cluster, "-o", cluster)
        self.assertIn("NQD2204", done.stderr)
        self.assertEqual(before, cluster.read_bytes())

    def test_dash_is_no_file(self):
        done = self.nqd(2, "report", BENCH, "-o", "-", folder=self.scratch)
        self.assertIn("give the path of the page", done.stderr)
        self.assert_nothing_written()

    def test_evidence_as_cluster_file_is_told_apart(self):
        done = self.nqd(2, "report", BENCH, "--cluster", BENCH, "-o", self.scratch / "r.html")
        self.assertIn("this looks like evidence", done.stderr)
        self.assertIn(f"nqd calibrate {BENCH}", done.stderr)

    def test_an_old_page_survives_a_failure(self):
        page = self.scratch / "report.html"
        page.write_text("old")
        self.nqd(2, "report", "/nonexistent.json", "-o", page)
        self.assertEqual("old", page.read_text())

    def test_output_is_tried_first(self):
        done = self.nqd(2, "report", "/nonexistent.json", "-o", "/nonexistent/r.html")
        self.assertIn("NQD2002", done.stderr)


class Doctor(Commands):
    def test_every_line_has_a_status_and_warnings_say_what_to_do(self):
        document = self.validate(self.nqd(0, "doctor", "--json").stdout)
        checks = {check["name"]: check for check in document["checks"]}
        for name in ("build", "backend local", "matrix products", "launcher", "processor",
                     "memory", "huge pages", "/dev/shm", "process_vm_readv", "chart library"):
            self.assertIn(name, checks)
        self.assertEqual("ok", checks["backend local"]["status"])
        self.assertIn("Chart.js v", checks["chart library"]["detail"])
        for check in document["checks"]:
            self.assertEqual(check["status"] == "ok", check["advice"] is None, check)
        self.assertTrue(document["ok"])
        text = self.nqd(0, "doctor").stdout
        for name in checks:
            self.assertIn(name, text)

    def test_environment_is_an_allow_list(self):
        document = self.validate(self.nqd(0, "doctor", "--json", environment={
            "OMP_NUM_THREADS": "3", "NQD_SESSION_TOKEN": "hush", "UNRELATED": "hush"}).stdout)
        self.assertEqual("3", document["environment"]["OMP_NUM_THREADS"])
        self.assertNotIn("hush", json.dumps(document))

    def test_launchers_that_disagree_are_broken(self):
        done = self.nqd(3, "doctor", environment={
            "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"})
        self.assertIn("missing  launcher", done.stdout)
        self.assertIn("two launchers disagree", done.stdout)


if __name__ == "__main__":
    unittest.main()
