"""nqd over several hosts: collectives, what they put on the cables, and faults on the other host."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import bed as beds

ARGS = None
# Each rank's exit code and time go to a file: mpirun reports one code for the job. The trap lets the
# shell outlive mpirun's SIGTERM. So does what it prints, which mpirun may lose when the job ends.
WRAPPER = ('trap : TERM; "$@" 2> "$NQD_TEST_FOLDER/errors.$OMPI_COMM_WORLD_RANK"; code=$?; '
           'echo "$code $EPOCHREALTIME" > "$NQD_TEST_FOLDER/exit.$OMPI_COMM_WORLD_RANK"; exit $code')


def make_bed(rate=None):
    return beds.Bed(["alpha", "beta"], rate=rate, mpiexec=ARGS.mpiexec)


def entered(add_cleanup, context):
    value = context.__enter__()
    add_cleanup(context.__exit__, None, None, None)
    return value


class OneBed(unittest.TestCase):
    """A bed for all tests of a class."""
    RATE = None

    @classmethod
    def setUpClass(cls):
        cls.bed = entered(cls.addClassCleanup, make_bed(rate=cls.RATE))

    def check_run(self, placement, program, *flags, **options):
        code, out, errors = self.bed.mpirun(placement, program, *flags, **options).finish()
        self.assertEqual(code, 0, out + errors)
        return out


class CollectivesTest(OneBed):
    def test_shared_cases(self):
        self.check_run("alpha:2,beta:2", [ARGS.cases, "4"], timeout_s=150)

    def test_shared_cases_with_hosts_that_alternate_and_differ_in_size(self):
        self.check_run("alpha:2,beta:1", [ARGS.cases, "3"], "--map-by", "node",
                       timeout_s=150)

    def test_bench_names_the_hosts_and_counts_what_it_sends(self):
        out = self.check_run("alpha:2,beta:2", [ARGS.nqd, "bench", "all_reduce", "-b", "1K", "-e", "64K",
                                                "-f", "8", "-n", "2", "-w", "1", "--algorithm", "all",
                                                "--json"])
        document = json.loads(out)
        self.assertEqual([rank["host"] for rank in document["ranks"]],
                         ["alpha", "alpha", "beta", "beta"])
        algorithms = {row["algorithm"] for row in document["rows"]}
        self.assertIn("hierarchical", algorithms)
        self.assertNotIn("direct", algorithms)
        for row in document["rows"]:
            self.assertEqual(row["wrong"], 0)
            self.assertEqual(row["bytes_sent_per_rank"], row["predicted_bytes_per_rank"])

    def test_doctor_names_its_host(self):
        for host in ("alpha", "beta"):
            document = json.loads(self.bed.inside(host, ARGS.nqd, "doctor", "--json"))
            self.assertEqual(document["host"]["hostname"], host)


class SlowLinkTest(OneBed):
    RATE = "300mbit"
    BYTES = 4 << 20
    CALLS = 4  # one that is verified, three timed

    def measure(self, algorithm, *flags):
        """Median seconds of a call, and bytes that alpha put on its cable for each."""
        before = self.bed.bytes_sent("alpha")
        out = self.check_run("alpha:2,beta:2", [
            ARGS.nqd, "bench", "all_reduce", "-b", str(self.BYTES), "-e", str(self.BYTES), "-w", "0",
            "-n", str(self.CALLS - 1), "--algorithm", algorithm, "--json"], *flags)
        row = json.loads(out)["rows"][0]
        self.assertEqual(row["wrong"], 0)
        return row["p50_s"], (self.bed.bytes_sent("alpha") - before) / self.CALLS

    def test_hierarchical_sends_least_and_is_fastest(self):
        # Shares of the vector that leave a host: 2(k-1)/k, and of a ring 2(n-1)/n for each rank whose
        # right neighbour is elsewhere.
        for flags, ring_share in (((), 1.5), (("--map-by", "node"), 3)):
            ring_s, ring_bytes = self.measure("ring", *flags)
            two_s, two_bytes = self.measure("hierarchical", *flags)
            print(f"4 MiB over {self.RATE} {' '.join(flags)}: ring {ring_s * 1e3:.0f} ms "
                  f"{ring_bytes / self.BYTES:.3f} S, hierarchical {two_s * 1e3:.0f} ms "
                  f"{two_bytes / self.BYTES:.3f} S, ratio {ring_s / two_s:.2f}", file=sys.stderr)
            # Headers are 66 of 1514 bytes; acknowledgements and the launcher's messages are less.
            for counted, share in ((ring_bytes, ring_share), (two_bytes, 1)):
                self.assertGreater(counted, share * self.BYTES)
                self.assertLess(counted, share * self.BYTES * 1.1)
            # On an idle machine the ratio is that of the shares, 1.5.
            self.assertGreater(ring_s, two_s)


# As the ranks beside it say, and those of the other host.
STANDS_STILL = "(no heartbeat|no answer, no sign of life) for"


class FaultTest(unittest.TestCase):
    """A rank is struck, or beta's cable is cut. A bed for each: what is cut stays cut."""

    def start(self, deadline_ms, placement="alpha:2,beta:2"):
        self.bed = entered(self.addCleanup, make_bed())
        self.folder = entered(self.addCleanup, tempfile.TemporaryDirectory())
        self.job = self.bed.mpirun(
            placement, ["bash", "-c", WRAPPER, "rank", ARGS.faults, "reduce", str(deadline_ms)],
            environment=dict(os.environ, NQD_TEST_FOLDER=self.folder), timeout_s=20)
        self.pids = {}
        ranks = sum(int(host.split(":")[1]) for host in placement.split(","))
        while len(self.pids) < ranks:
            line = self.job.readline()
            if not line:
                self.fail(self.job.finish()[2])
            _, rank, pid = line.split()
            self.pids[int(rank)] = int(pid)
        time.sleep(0.3)
        self.struck = time.time()

    def finish(self, survivors, within_s):
        """What each survivor printed, when all have written their exit code 4 in time."""
        paths = {rank: os.path.join(self.folder, f"exit.{rank}") for rank in survivors}
        while time.time() < self.struck + within_s + 1:
            if all(os.path.exists(path) and os.path.getsize(path) for path in paths.values()):
                break
            time.sleep(0.05)
        else:
            # mpirun may still wait for a daemon that it cannot reach.
            self.job.process.kill()
        if self.job.process.poll() is None:
            time.sleep(0.3)
            self.job.process.kill()
        job_errors = self.job.finish()[2]
        reports = {}
        for rank, path in paths.items():
            with open(os.path.join(self.folder, f"errors.{rank}"), encoding="utf-8") as file:
                reports[rank] = file.read()
            errors = reports[rank] + job_errors
            self.assertTrue(os.path.exists(path), f"rank {rank} did not end:\n{errors}")
            with open(path, encoding="ascii") as file:
                code, at = file.read().split()
            print(f"{self.id()}: rank {rank} ended with {code} after "
                  f"{float(at) - self.struck:.2f} s", file=sys.stderr)
            self.assertEqual(int(code), 4, f"rank {rank}:\n{errors}")
            self.assertLess(float(at) - self.struck, within_s)
            self.assertEqual(reports[rank].count("error: ["), 1, errors)
        return reports

    def test_killed_rank_of_the_other_host(self):
        self.start(10_000)
        self.bed.strike("beta", self.pids[3], signal.SIGKILL)
        for report in self.finish((0, 1, 2), 1).values():
            self.assertIn("NQD4001]: rank 3 on host beta was lost", report)

    def test_stopped_rank_of_the_other_host(self):
        self.start(2000)
        self.bed.strike("beta", self.pids[3], signal.SIGSTOP)
        for report in self.finish((0, 1, 2), 7).values():
            self.assertRegex(report, "for rank 3 on host beta: " + STANDS_STILL)

    def test_stopped_rank_that_is_alone_on_its_host(self):
        """The ranks of the other host wait for each other, and must not name each other."""
        for placement, host, stopped in (("alpha:2,beta:1", "beta", 2), ("alpha:1,beta:2", "alpha", 0)):
            with self.subTest(placement=placement):
                self.start(2000, placement)
                self.bed.strike(host, self.pids[stopped], signal.SIGSTOP)
                survivors = [rank for rank in range(3) if rank != stopped]
                for report in self.finish(survivors, 7).values():
                    self.assertRegex(report, f"NQD4002.* for rank {stopped} on host {host}: no answer, "
                                             "and its host has not been heard")

    def test_stopped_rank_that_heard_the_other_host(self):
        """What the stopped rank does not pass on must not make the other host look silent."""
        self.start(4000, "alpha:2,beta:1")
        self.bed.strike("alpha", self.pids[0], signal.SIGSTOP)
        for report in self.finish((1, 2), 9).values():
            self.assertRegex(report, "for rank 0 on host alpha: " + STANDS_STILL)
            self.assertNotIn("rank 2", report.split(" for ", 1)[1])

    def test_cut_cable(self):
        self.start(2000)
        self.bed.cut("beta")
        for report in self.finish((0, 1), 7).values():
            self.assertRegex(report, "NQD4002.*rank [23] on host beta: no answer, and its host has "
                                     "not been heard")


class BedTest(unittest.TestCase):
    def test_nothing_stays_behind_when_its_maker_is_killed(self):
        maker = ("import bed, sys, time\n"
                 "with bed.Bed(['alpha']) as b:\n"
                 "    print(b.pids['alpha'], b.pids[bed.HEAD], b.folder, flush=True)\n"
                 "    time.sleep(60)\n")
        process = subprocess.Popen([sys.executable, "-c", maker], stdout=subprocess.PIPE, text=True,
                                   cwd=os.path.dirname(os.path.abspath(__file__)))
        host, head, folder = process.stdout.readline().split()
        left = [f"/proc/{host}", f"/proc/{head}", folder]
        self.assertTrue(all(os.path.exists(path) for path in left), left)
        process.kill()
        process.wait()
        process.stdout.close()
        for _ in range(100):
            left = [path for path in left if os.path.exists(path)]
            if not left:
                return
            time.sleep(0.05)
        self.fail(f"outlived the process that made them: {left}")


def main():
    global ARGS
    parser = argparse.ArgumentParser()
    for name in ("mpiexec", "cases", "faults", "nqd"):
        parser.add_argument("--" + name, required=True)
    ARGS, rest = parser.parse_known_args()
    version = subprocess.run([ARGS.mpiexec, "--version"], capture_output=True, text=True, check=False)
    if "Open MPI" not in version.stdout and "OpenRTE" not in version.stdout:
        beds.skip(f"{ARGS.mpiexec} is not Open MPI's")
    beds.become_root()
    try:
        with beds.Bed(["alpha"], rate="100mbit"):
            pass
    except beds.Unavailable as reason:
        beds.skip(str(reason))
    unittest.main(argv=[sys.argv[0]] + rest)


if __name__ == "__main__":
    main()
