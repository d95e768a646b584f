"""bench → calibrate → mesh-plan → train → report on this machine, each document against its schema."""

import json
import re
import subprocess
import sys
import unittest

import support
from support import (MPIRUN, SLOWNESS, SOURCE, NqdTestCase, TINY, mpi_nqd, needs_mpi, nqd,
                     read_json)


def validate(testcase, document, schema):
    done = subprocess.run([sys.executable, SOURCE / "tests/reports/validate_evidence.py", document,
                           SOURCE / "schemas" / schema], capture_output=True, text=True)
    testcase.assertEqual(0, done.returncode, done.stdout + done.stderr)


class Bench(NqdTestCase):
    @needs_mpi
    def test_the_sweep_under_mpirun_validates_and_counts_what_it_predicts(self):
        out, err = self.assertCode(0, mpi_nqd(2, "bench", "all_reduce", "-b", "4K", "-e", "64M",
                                              "-f", "4", "-n", "5", "--json"))
        path = self.scratch / "bench-mpi.json"
        path.write_text(out)
        validate(self, path, "evidence.schema.json")
        document = json.loads(out)
        self.assertEqual(2, document["world_size_actual"])
        self.assertEqual([4096 * 4**i for i in range(8)],
                         [row["requested_bytes"] for row in document["rows"]])
        for row in document["rows"]:
            self.assertEqual(0, row["wrong"])
            self.assertEqual(5, len(row["samples_s"]))
            self.assertEqual(row["predicted_bytes_per_rank"], row["bytes_sent_per_rank"])
            self.assertEqual(row["effective_bytes"], row["bytes_sent_per_rank"])  # 2(n−1)/n = 1
            self.assertAlmostEqual(row["algbw_gbps"], row["effective_bytes"] / row["p50_s"] / 1e9)
            self.assertAlmostEqual(row["busbw_gbps"], row["algbw_gbps"])
            ordered = sorted(row["samples_s"])
            self.assertEqual(ordered[0], row["min_s"])
            self.assertEqual(ordered[2], row["p50_s"])
            self.assertEqual(ordered[-1], row["max_s"])

    def test_one_rank_is_refused_with_an_explanation(self):
        _, err = self.assertCode(1, nqd("bench", "all_reduce", "-b", "4K", "-e", "4K"))
        self.assertIn("NQD3005", err)
        self.assertIn("mpirun", err)

    def test_more_ranks_than_cores_are_called_oversubscribed(self):
        path = self.scratch / "over.json"
        ranks = 1 + int(re.search(r"\d+", subprocess.check_output(["nproc"], text=True)).group())
        self.assertCode(0, nqd("bench", "all_reduce", "--ranks", ranks, "-b", "4K", "-e", "16K",
                               "-n", "3", "--output", path))
        codes = [verdict["code"] for verdict in read_json(path)["verdicts"]]
        self.assertIn("oversubscribed", codes)

    def test_a_sweep_beyond_the_memory_is_refused_before_it_allocates(self):
        _, err = self.assertCode(1, nqd("bench", "all_reduce", "--ranks", 2, "-b", "4K", "-e",
                                        "1024G", timeout=20 * SLOWNESS))
        self.assertIn("NQD1403", err)

    def test_a_result_that_cannot_be_printed_is_a_fault(self):
        for arguments in (("mesh-plan", "configs/quickstart.yaml", "--json"),
                          ("bench", "all_reduce", "--ranks", "2", "-b", "4K", "-e", "4K", "--json")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([support.NQD, *arguments], cwd=SOURCE, stdout=full,
                                      stderr=subprocess.PIPE, text=True)
            self.assertEqual(4, done.returncode, done.stderr)
            self.assertIn("NQD4003", done.stderr)

    def test_an_output_that_cannot_be_written_stops_before_the_run(self):
        arguments = ["bench", "all_reduce", "-b", "4K", "-e", "1G", "-n", "1000", "--output",
                     "/nonexistent/folder/x.json"]
        done = (mpi_nqd(2, *arguments, timeout=20 * SLOWNESS) if MPIRUN else
                nqd(*arguments, "--ranks", 2, timeout=20 * SLOWNESS))
        _, err = self.assertCode(2, done)
        self.assertIn("NQD2002", err)


class Loop(NqdTestCase):
    def test_the_loop_closes(self):
        bench, gemm = self.scratch / "bench.json", self.scratch / "gemm.json"
        cluster, page = self.scratch / "cluster.yaml", self.scratch / "report.html"
        run = self.scratch / "run"
        self.assertCode(0, nqd("bench", "all_reduce", "--ranks", 2, "-b", "1K", "-e", "4M", "-f",
                               "4", "-n", "10", "--output", bench))
        self.assertCode(0, nqd("bench", "gemm", "configs/quickstart.yaml", "-n", "3", "--output",
                               gemm))
        out, _ = self.assertCode(0, nqd("bench", "gemm", "configs/quickstart.yaml", "-n", "1",
                                        "--fixed", "--json"))
        self.assertEqual({"fixed"}, {row["library"] for row in json.loads(out)["gemm_rows"]})
        out, _ = self.assertCode(0, nqd("calibrate", bench, gemm, "--output", cluster))
        self.assertIn("residual", out)
        out, _ = self.assertCode(0, nqd("mesh-plan", "configs/quickstart.yaml", "--cluster",
                                        cluster, "--json"))
        plan = json.loads(out)["configs"][0]
        self.assertGreater(plan["time"]["step_s"], 0)
        self.assertGreater(plan["communication"][0]["time_s"], 0)
        arguments = self.train_arguments(run, *TINY, "--cluster", cluster, "--set",
                                         "train.steps=30", "--ranks", 2)
        out, err = self.assertCode(0, nqd(*arguments))
        self.assertIn("audit passed", err)
        evidence = run / "evidence.json"
        for document in (bench, gemm, evidence):
            validate(self, document, "evidence.schema.json")
        rows = {row["category"]: row for row in read_json(evidence)["audit"]}
        self.assertGreater(rows["step_time"]["predicted_s"], 0)
        self.assertGreater(rows["step_time"]["measured_s"], 0)
        self.assertCode(0, nqd("report", bench, gemm, evidence, "--output", page))
        html = page.read_text()
        self.assertIsNone(re.search(r"""(src|href)=["']?https?:""", html))
        for words in ("dp.all_reduce", "weights", "busbw"):
            self.assertIn(words, html)
        done = subprocess.run(["bash", SOURCE / "tests/reports/check_report.sh", page],
                              capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 77), done.stdout + done.stderr)

    def test_evidence_that_is_not_evidence_is_refused_by_name(self):
        bad = self.scratch / "bad.json"
        for text in ("", "{", "[1, 2]", '{"kind": "bench"}', '{"hello": "world"}'):
            bad.write_text(text)
            for command in ("calibrate", "report"):
                out = self.scratch / "never"
                _, err = self.assertCode(2, nqd(command, bad, "--output", out))
                self.assertIn("bad.json", err)
                self.assertFalse(out.exists())

    def test_doctor_speaks_and_prints_json(self):
        out, _ = self.assertCode(0, nqd("doctor"))
        self.assertIn("matrix products", out)
        out, _ = self.assertCode(0, nqd("doctor", "--json"))
        self.assertIsInstance(json.loads(out), dict)

    def test_usage_errors_exit_2(self):
        for arguments in ([], ["no-such-command"], ["bench"], ["mesh-plan"],
                          ["bench", "all_reduce", "-b", "banana"], ["train", "x", "--ranks", "0"]):
            code, _, err = nqd(*arguments)
            self.assertEqual(2, code, arguments)
            self.assertNotEqual("", err)


if __name__ == "__main__":
    unittest.main()
