"""`nqd bench` as a measuring instrument, under mpirun: what its options promise."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = None
FAST = ["-b", "4K", "-e", "16K", "-f", "4", "-n", "3", "-w", "1"]
LIBRARY = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter",
           "all_to_all", "send_recv", "pingpong")
CONTRACT = {"collective", "backend", "transport", "algorithm", "in_place", "registered", "dtype",
            "requested_bytes", "effective_bytes", "ranks", "samples_s", "p50_s", "p95_s", "p99_s",
            "min_s", "max_s", "algbw_gbps", "busbw_gbps", "wrong"}


class BenchOptionsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def path(self, name):
        return os.path.join(self.scratch.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(text)
        return self.path(name)

    def command(self, *flags, ranks=2):
        return [ARGS.mpiexec, "-n", str(ranks), ARGS.nqd, "bench", *flags]

    def bench(self, *flags, ranks=2):
        """The document; every rank ended well."""
        done = subprocess.run(self.command(*flags, "--json", ranks=ranks), capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def on_threads(self, *flags):
        """The exit code, stdout and stderr: no launcher, so that the code is the command's own."""
        done = subprocess.run([ARGS.nqd, "bench", *flags, "--ranks", "2"], capture_output=True,
                              text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    def check_valid(self, *paths):
        done = subprocess.run([sys.executable, ARGS.validator, *paths, ARGS.schema],
                              capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 77), done.stdout + done.stderr)

    def test_the_library_beside_every_collective(self):
        paths = []
        for collective in LIBRARY:
            # A size that 3 ranks do not divide: the calls with counts.
            flags = ["-b", "4000", "-e", "4000", "-n", "3", "-w", "1", "--algorithm", "all"]
            document = self.bench(collective, *flags, "--output", self.path(collective), ranks=3)
            paths.append(self.path(collective))
            algorithms = [row["algorithm"] for row in document["rows"]]
            self.assertEqual(algorithms[-1], "library", collective)
            self.assertGreaterEqual(len(algorithms), 2)
            for row in document["rows"]:
                self.assertEqual(CONTRACT - set(row), set())
                self.assertEqual((row["collective"], row["wrong"]), (collective, 0))
                self.assertEqual(row["rank_reduction"], "max")
                self.assertEqual(row["bytes_sent_per_rank"], row["predicted_bytes_per_rank"])
        self.check_valid(*paths)

    def test_messages_are_counted_whole(self):
        ring = self.bench("send_recv", *FAST, ranks=3)["rows"]
        self.assertEqual([row["bytes_sent_per_rank"] for row in ring], [4096, 16384])
        self.assertEqual({row["ranks"] for row in ring}, {3})
        pair = self.bench("pingpong", *FAST, "--pair", "2,1", ranks=3)
        self.assertEqual([row["bytes_sent_per_rank"] for row in pair["rows"]], [4096, 16384])
        self.assertEqual({row["ranks"] for row in pair["rows"]}, {2})
        self.assertEqual(pair["options"]["pair"], [2, 1])

    def test_another_root(self):
        for collective in ("broadcast", "reduce", "gather", "scatter"):
            document = self.bench(collective, *FAST, "-r", "2", "--algorithm", "all", ranks=3)
            self.assertEqual({row["wrong"] for row in document["rows"]}, {0})
            self.assertEqual([v for v in document["verdicts"] if v["severity"] == "error"], [])
        code, _, errors = self.on_threads("broadcast", *FAST, "-r", "2")
        self.assertEqual(code, 2)
        self.assertIn("no rank 2 among 2", errors)

    def test_names_of_nccl_tests(self):
        document = self.bench("all_reduce", "--minbytes", "4K", "--maxbytes", "4K", "--iters", "2",
                              "--warmup_iters", "0", "--datatype", "float", "-o", "max", "-c", "1")
        self.assertEqual([(row["dtype"], row["op"]) for row in document["rows"]],
                         [("float32", "max")])

    def test_sizes_without_an_element_are_refused(self):
        code, out, errors = self.on_threads("all_reduce", "-b", "2", "-e", "8", "--json")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("no whole float32", errors)

    def test_repeats_are_pooled_in_an_order_of_the_seed(self):
        flags = ["all_reduce", "-b", "4", "-e", "1K", "-n", "4", "--algorithm", "ring,tree",
                 "--repeat", "3"]
        first = self.bench(*flags, "--seed", "11")
        order = [row["order"] for row in first["rows"]]
        self.assertEqual(sorted(sum(order, [])), list(range(3 * len(order))))
        self.assertEqual(order, [row["order"] for row in self.bench(*flags, "--seed", "11")["rows"]])
        other = self.bench(*flags, "--seed", "12")
        self.assertNotEqual(order, [row["order"] for row in other["rows"]])
        self.assertEqual((other["options"]["repeat"], other["options"]["seed"]), (3, 12))
        for row in first["rows"]:
            self.assertEqual(len(row["samples_s"]), 12)
            medians = sorted(row["repeat_p50_s"])
            self.assertEqual(len(medians), 3)
            self.assertAlmostEqual(row["repeat_spread"], (medians[2] - medians[0]) / medians[1])
            self.assertLessEqual(row["p50_ci95_s"][0], row["p50_s"])
            self.assertGreaterEqual(row["p50_ci95_s"][1], row["p50_s"])

    def test_time_bounds_a_row(self):
        begin = time.monotonic()
        document = self.bench("all_reduce", "-b", "1M", "-e", "2M", "-n", "1000", "--time", "400ms")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(document["options"]["time_s"], 0.4)
        for row in document["rows"]:
            # Barriers and the ranks' agreements take part of the time.
            self.assertLess(sum(row["samples_s"]), 0.8)
            low, high = row["p50_ci95_s"]
            spent = sum(row["samples_s"]) > 0.1
            self.assertTrue(spent or (high - low) / 2 <= 0.02 * row["p50_s"], row["p50_ci95_s"])

    def test_cold_copies_fill_the_cache_twice(self):
        flags = ["all_reduce", "-b", "64K", "-e", "1M", "-f", "16", "-n", "5", "--algorithm", "all"]
        for registered in ([], ["-R"]):
            document = self.bench(*flags, "--cold", *registered, "--output", self.path("cold"))
            cache = document["options"]["cache_bytes"]
            for row in document["rows"]:
                self.assertEqual(row["wrong"], 0)
                self.assertGreater(row["copies"] * 2 * (row["effective_bytes"] + 64), 2 * cache)
        self.check_valid(self.path("cold"))
        warm = self.bench(*flags)
        self.assertEqual({row["copies"] for row in warm["rows"]}, {1})

    def read_lines(self, path):
        with open(path, encoding="ascii") as file:
            return [json.loads(line) for line in file]

    def test_append_adds_a_line_for_each_row(self):
        path = self.path("rows.jsonl")
        old = self.path("old.json")
        self.bench("all_reduce", *FAST, "--append", path, "--output", old)
        header, *rows = self.read_lines(path)
        self.assertEqual((header["kind"], header["format"], len(header["ranks"])),
                         ("bench", "lines", 2))
        with open(old, encoding="ascii") as file:
            self.assertEqual(rows, json.load(file)["rows"])
        # A line that a killed run left unfinished goes; the next run comes behind.
        with open(path, "a", encoding="ascii") as file:
            file.write('{"collective": "all_red')
        self.bench("all_reduce", *FAST, "--append", path)
        self.assertEqual([len(line.get("samples_s", [])) for line in self.read_lines(path)],
                         [0, 3, 3, 0, 3, 3])
        # Lines are evidence.
        fitted = subprocess.run([ARGS.nqd, "calibrate", path, "-o", self.path("cluster.yaml")],
                                capture_output=True, text=True, check=False)
        self.assertEqual(fitted.returncode, 0, fitted.stderr)
        page = subprocess.run([ARGS.nqd, "report", path, "-o", self.path("page.html")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(page.returncode, 0, page.stderr)
        compared = self.bench("all_reduce", *FAST, "--compare", path, "--tolerance", "100")
        self.assertEqual([v for v in compared["verdicts"] if v["code"] == "not-compared"], [])

    def test_append_spares_a_file_of_something_else(self):
        path = self.write("notes.txt", "to do")
        code, _, errors = self.on_threads("all_reduce", *FAST, "--append", path)
        self.assertEqual(code, 2)
        self.assertIn("NQD2002", errors)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "to do")

    def test_a_killed_run_leaves_valid_lines(self):
        path = self.path("killed.jsonl")
        running = subprocess.Popen(
            self.command("all_reduce", "-b", "4", "-e", "1M", "-i", "64", "-n", "5", "--append",
                         path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if os.path.exists(path) and os.path.getsize(path) > 20_000:
                break
            time.sleep(0.01)
        header = self.read_lines(path)[0] if os.path.exists(path) else {"ranks": []}
        for rank in header["ranks"]:
            os.kill(rank["pid"], signal.SIGKILL)
        running.wait(timeout=30)
        header, *rows = self.read_lines(path)
        self.assertEqual(header["format"], "lines")
        self.assertGreater(len(rows), 3)
        for row in rows:
            self.assertEqual(CONTRACT - set(row), set())
        page = subprocess.run([ARGS.nqd, "report", path, "-o", self.path("page.html")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(page.returncode, 0, page.stderr)

    def expect(self, text, *flags):
        path = self.write("expect.yaml", text)
        code, out, errors = self.on_threads("all_reduce", *FAST, "--expect", path, "--json", *flags)
        verdicts = json.loads(out)["verdicts"] if out else []
        return code, [v for v in verdicts if v["severity"] == "error"], errors

    def test_expectations_that_hold(self):
        code, errors, _ = self.expect("expect:\n  - collective: all_reduce\n"
                                      "    min_busbw_gbps: 1.0e-9\n    max_p50_s: 1000\n"
                                      "  - {collective: broadcast, max_p50_s: 1.0e-12}\n")
        self.assertEqual((code, errors), (0, []))

    def test_expectations_that_do_not_hold(self):
        code, errors, _ = self.expect("expect:\n  - collective: all_reduce\n    algorithm: ring\n"
                                      "    min_bytes: 8K\n    min_busbw_gbps: 1.0e+9\n",
                                      "--algorithm", "ring,tree")
        self.assertEqual((code, [v["code"] for v in errors]), (1, ["below-expectation"]))
        self.assertIn("1 of 1 rows; all_reduce ring 16.00 KiB", errors[0]["evidence"])
        self.assertIn("expect.yaml:2:5", errors[0]["threshold"])
        code, errors, _ = self.expect('{"expect": [{"collective": "all_reduce", '
                                      '"max_p50_s": 1e-12}]}')
        self.assertEqual((code, [v["code"] for v in errors]), (1, ["below-expectation"]))

    def test_expectations_of_nothing(self):
        for text in ("expect: [{collective: broadcast, max_p50_s: 1}]",
                     "expect: [{collective: all_reduce, min_bytes: 1G, max_p50_s: 1}]",
                     "expect: [{collective: all_reduce, algorithm: library, max_p50_s: 1}]"):
            code, errors, _ = self.expect(text)
            self.assertEqual((code, [v["code"] for v in errors]), (1, ["expectation-unmatched"]))

    def test_expectations_that_cannot_be_read(self):
        for text, place in (("expect:\n  - collective: all_reduce\n    max_p50: 1\n", "3:5"),
                            ("expect:\n  - collective: all_reduse\n    max_p50_s: 1\n", "2:17"),
                            ("expect:\n  - {collective: all_reduce}\n", "2:5"),
                            ("expect:\n  - {collective: all_reduce, max_p50_s: fast}\n", "2:41"),
                            ("expect: {collective: all_reduce\n", "expect.yaml:"), ("", "1:1")):
            code, _, errors = self.expect(text)
            self.assertEqual(code, 2, text)
            self.assertIn("NQD2109", errors)
            self.assertIn(place if "yaml" in place else "expect.yaml:" + place, errors)
        code, _, errors = self.on_threads("all_reduce", *FAST, "--expect", self.path("absent"))
        self.assertEqual(code, 2)


def main():
    global ARGS
    parser = argparse.ArgumentParser()
    for flag in ("mpiexec", "nqd", "validator", "schema"):
        parser.add_argument("--" + flag, required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
