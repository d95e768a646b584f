"""`nqd bench` under mpirun and on threads: the document, the exit codes, one message for one cause."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

ARGS = None

# mpirun reports one code for the job: every rank's own goes to a file. The trap lets the shell outlive
# the SIGTERM that mpirun sends when the first rank has failed.
WRAPPER = ('trap : TERM; "$@"; code=$?; '
           'echo "$code" > "$NQD_TEST_FOLDER/exit.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exit $code')
SMALL = ["-b", "4K", "-e", "64K", "-f", "4", "-n", "3", "-w", "1"]


class BenchTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def mpirun(self, ranks, *flags):
        """Exit codes by rank, stdout and stderr."""
        command = [ARGS.mpiexec, "-n", str(ranks), "bash", "-c", WRAPPER, "rank", ARGS.nqd, "bench"]
        done = subprocess.run(command + list(flags), capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, NQD_TEST_FOLDER=self.scratch.name), check=False)
        codes = []
        for rank in range(ranks):
            with open(os.path.join(self.scratch.name, f"exit.{rank}"), encoding="ascii") as file:
                codes.append(int(file.read()))
        return codes, done.stdout, done.stderr

    def check_rows(self, document, algorithms, ranks):
        rows = document["rows"]
        self.assertEqual([(row["algorithm"], row["effective_bytes"]) for row in rows],
                         [(a, size) for a in algorithms for size in (4096, 16384, 65536)])
        for row in rows:
            self.assertEqual(row["wrong"], 0)
            self.assertEqual(row["ranks"], ranks)
            self.assertEqual(len(row["samples_s"]), 3)
            self.assertEqual(row["bytes_sent_per_rank"], row["predicted_bytes_per_rank"])
            self.assertEqual(row["bytes_sent_per_rank"] is None, row["algorithm"] == "library")

    def test_json_on_stdout_is_the_document_alone(self):
        codes, out, errors = self.mpirun(3, "all_reduce", *SMALL, "--algorithm", "all", "--json")
        self.assertEqual(codes, [0, 0, 0], errors)
        document = json.loads(out)
        self.check_rows(document, ("ring", "tree", "recursive_doubling", "halving_doubling",
                                   "pairwise", "direct", "library"), 3)
        self.assertEqual(document["backend"], "mpi")
        self.assertEqual(document["world_size_actual"], 3)
        self.assertEqual({rank["launcher"] for rank in document["ranks"]}, {ARGS.launcher})

    def test_every_collective_verifies_with_registered_buffers(self):
        for collective, algorithms in (("all_gather", ("ring", "direct", "library")),
                                       ("reduce_scatter", ("ring", "pairwise", "direct", "library")),
                                       ("broadcast", ("tree", "direct", "library")),
                                       ("reduce", ("tree", "direct", "library")),
                                       ("gather", ("linear", "direct", "library")),
                                       ("scatter", ("linear", "direct", "library")),
                                       ("all_to_all", ("pairwise", "direct", "library"))):
            codes, out, errors = self.mpirun(3, collective, *SMALL, "--algorithm", "all", "-R",
                                             "--json")
            self.assertEqual(codes, [0, 0, 0], errors)
            document = json.loads(out)
            self.check_rows(document, algorithms, 3)
            self.assertTrue(all(row["registered"] for row in document["rows"]))

    def test_a_row_that_got_slower_is_an_error(self):
        path = os.path.join(self.scratch.name, "old.json")
        flags = ["-b", "4K", "-e", "16K", "-f", "4", "-n", "30"]
        codes, _, errors = self.mpirun(2, "all_reduce", *flags, "--output", path)
        self.assertEqual(codes, [0, 0], errors)
        # So tolerant that only a machine which stands still would fail.
        codes, out, errors = self.mpirun(2, "all_reduce", *flags, "--compare", path,
                                         "--tolerance", "100")
        self.assertEqual(codes, [0, 0], out + errors)
        self.assertIn("all_reduce direct", out)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        for row in document["rows"]:
            row["samples_s"] = [sample / 1000 for sample in row["samples_s"]]
            for name in ("min_s", "p50_s", "p95_s", "p99_s", "max_s"):
                row[name] /= 1000
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        codes, out, errors = self.mpirun(2, "all_reduce", *flags, "--compare", path, "--json")
        self.assertEqual(codes, [1, 1], out + errors)
        verdicts = {verdict["code"]: verdict for verdict in json.loads(out)["verdicts"]}
        self.assertEqual(verdicts["regression"]["severity"], "error")
        self.assertIn("2 of 2 rows slower", verdicts["regression"]["evidence"])
        codes, out, errors = self.mpirun(2, "all_reduce", *flags, "--compare", "/nowhere.json")
        self.assertEqual(codes, [2, 2])
        self.assertEqual(errors.count("NQD2001"), 1, errors)

    def test_threads_need_no_launcher(self):
        path = os.path.join(self.scratch.name, "bench.json")
        done = subprocess.run([ARGS.nqd, "bench", "reduce_scatter", *SMALL, "--ranks", "2",
                               "--output", path], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("#wrong", done.stdout)
        with open(path, encoding="utf-8") as file:
            self.check_rows(json.load(file), ("direct",), 2)

    def test_more_ranks_than_cpus_is_said(self):
        ranks = len(os.sched_getaffinity(0)) + 1
        done = subprocess.run([ARGS.nqd, "bench", "all_reduce", *SMALL, "--ranks", str(ranks),
                               "--json"], capture_output=True, text=True, check=True)
        verdicts = {verdict["code"] for verdict in json.loads(done.stdout)["verdicts"]}
        self.assertIn("oversubscribed", verdicts)

    def test_output_that_cannot_be_written_stops_all_ranks_with_one_message(self):
        for _ in range(3):
            codes, out, errors = self.mpirun(3, "all_reduce", *SMALL, "--output", "/nowhere/b.json")
            self.assertEqual(codes, [2, 2, 2], errors)
            self.assertEqual(errors.count("NQD2002"), 1, errors)
            self.assertEqual(errors.count("nqd [rank"), 1, errors)
            self.assertEqual(out, "")

    def test_options_that_make_no_sweep_are_refused_once(self):
        for flags in (["-b", "8K", "-e", "4K"], ["-b", "lots"], ["-f", "1"], ["-d", "float8"],
                      ["-b", "2"], ["-d", "bf16", "--algorithm", "library"]):
            codes, _, errors = self.mpirun(2, "all_reduce", *flags)
            self.assertEqual(codes, [2, 2], errors)
            self.assertEqual(errors.count("error: [NQD2"), 1, errors)

    def test_one_rank_has_nothing_to_measure(self):
        codes, _, errors = self.mpirun(1, "all_reduce", *SMALL)
        self.assertEqual(codes, [1])
        self.assertIn("NQD3005", errors)

    def test_ranks_asked_for_must_be_the_ranks_started(self):
        codes, _, errors = self.mpirun(2, "all_reduce", *SMALL, "--ranks", "4")
        self.assertEqual(codes, [3, 3])
        self.assertIn(f"asked for 4 ranks, but {ARGS.launcher} started 2", errors)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--nqd", required=True)
    parser.add_argument("--launcher", default="openmpi")
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)
