"""Every verdict of `nqd bench`, by making its cause under a real mpirun; and a healthy run that has none."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

ARGS = None
CPUS = sorted(os.sched_getaffinity(0))


def verdicts_of(document):
    return {verdict["code"]: verdict for verdict in document["verdicts"]}


class VerdictsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="nqd-verdicts-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def write(self, name, text):
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
        return str(path)

    def start(self, ranks, *flags, mca=(), wrapper=(), env=None):
        command = [ARGS.mpiexec, "-n", str(ranks), *mca, *wrapper, ARGS.nqd, "bench", *flags, "--json"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, **(env or {})))

    def finish(self, process, code=0):
        out, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, out + errors)
        document = json.loads(out)
        if jsonschema is not None:
            schema = json.loads((pathlib.Path(ARGS.source) / "schemas/evidence.schema.json").read_text())
            jsonschema.Draft7Validator(schema).validate(document)
        return document

    def bench(self, ranks, *flags, code=0, **how):
        return self.finish(self.start(ranks, *flags, **how), code)

    def bound(self):
        """mpirun's words for one rank a CPU; none where a test runs on one CPU."""
        return ["--bind-to", "core"] if len(CPUS) > 1 else ["--bind-to", "none"]

    @unittest.skipIf(len(CPUS) < 2, "two ranks need two CPUs to be healthy")
    def test_a_healthy_run_has_no_warning(self):
        for _ in range(3):
            document = self.bench(2, "all_reduce", "-b", "256K", "-e", "16M", "-f", "4", "-n", "20",
                                  "--algorithm", "direct,ring", mca=self.bound())
            # Other work on the machine, which its load shows, spreads the times: that is then right.
            busy = document["machine"]["hosts"][0]["load_1min_end"] > len(CPUS)
            found = [v for v in document["verdicts"] if v["severity"] != "info" and
                     not (busy and v["code"] in ("high-variance", "latency-bound"))]
            if not found:
                break
        self.assertEqual(found, [])
        machine = document["machine"]
        self.assertEqual([rank["process_vm_readv"] for rank in machine["ranks"]], ["allowed"] * 2)
        self.assertEqual([len(rank["cpus"]) for rank in machine["ranks"]], [1, 1])
        self.assertEqual(machine["hosts"][0]["ranks"], 2)
        self.assertTrue(any(i["name"] == "lo" for i in machine["hosts"][0]["interfaces"]))
        for row in document["rows"]:
            self.assertEqual([len(values) for values in row["usage"].values()], [2, 2, 2, 2])

    def test_page_faults_of_the_library(self):
        flags = ["all_reduce", "-b", "64M", "-e", "64M", "-n", "3", "-w", "1", "--algorithm", "library"]
        document = self.bench(2, *flags)
        verdict = verdicts_of(document)["page-fault-collapse"]
        self.assertIn("MALLOC_MMAP_MAX_=0", verdict["next_step"])
        self.assertGreater(max(document["rows"][0]["usage"]["minor_faults"]), 4096)
        # What it says to do helps.
        tuned = self.bench(2, *flags, env={"MALLOC_MMAP_MAX_": "0",
                                           "MALLOC_TRIM_THRESHOLD_": "8589934592"})
        self.assertNotIn("page-fault-collapse", verdicts_of(tuned))
        self.assertEqual(tuned["environment"]["MALLOC_MMAP_MAX_"], "0")

    def test_sockets_where_the_cluster_promises_rdma(self):
        cluster = self.write("cluster.yaml", "gpus_per_node: 8\ninter_node:\n  alpha_s: 5 us\n"
                                             "  bandwidth_bytes_per_s: 25 GB/s\n")
        flags = ["all_reduce", "-b", "1M", "-e", "1M", "-n", "3"]
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        for promise in (cluster, "dgx-h100"):
            found = verdicts_of(self.bench(2, *flags, "--cluster", promise, mca=tcp, code=1))
            self.assertEqual(found["socket-fallback"]["confidence"], "certain")
            self.assertIn("tcp,self", found["socket-fallback"]["evidence"])
        self.assertNotIn("socket-fallback", verdicts_of(self.bench(2, *flags, mca=tcp)))
        self.assertNotIn("socket-fallback", verdicts_of(self.bench(2, *flags, "--cluster", cluster)))

    def fake_sys(self, ports=(), interfaces=()):
        for name, state, rate in ports:
            port = f"sys/class/infiniband/{name}/ports/1/"
            self.write(port + "state", state + "\n")
            self.write(port + "rate", rate + "\n")
            self.write(port + "counters/port_xmit_data", "0\n")
        for name, speed in interfaces:
            self.write(f"sys/class/net/{name}/operstate", "up\n")
            self.write(f"sys/class/net/{name}/speed", f"{speed}\n")
            self.write(f"sys/class/net/{name}/statistics/tx_bytes", "0\n")
        return {"NQD_SYS_ROOT": str(self.scratch / "sys")}

    def bench_while_counting(self, counter, env):
        """A run during which one counter of the fixture grows as if the traffic had gone there."""
        path = self.scratch / "sys/class" / counter
        started = time.monotonic()
        process = self.start(2, "all_reduce", "-b", "1M", "-e", "1M", "-n", "2000", env=env)
        stop = threading.Event()

        def count():
            while not stop.wait(0.002):
                temporary = path.with_name("next")
                temporary.write_text(f"{int((time.monotonic() - started) * 1e12)}\n", encoding="ascii")
                temporary.rename(path)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            return verdicts_of(self.finish(process))
        finally:
            stop.set()
            thread.join()

    def test_sockets_beside_an_active_adapter(self):
        env = self.fake_sys([("mlx5_0", "4: ACTIVE", "100 Gb/sec (4X EDR)")])
        flags = ["all_reduce", "-b", "1M", "-e", "1M", "-n", "3"]
        document = self.bench(2, *flags, env=env, mca=["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"])
        verdict = verdicts_of(document)["socket-fallback"]
        self.assertEqual((verdict["severity"], verdict["confidence"]), ("warning", "certain"))
        self.assertIn("mlx5_0:1", verdict["evidence"])
        self.assertEqual(document["machine"]["hosts"][0]["hcas"][0]["rate_gbits"], 100)

    def test_the_slow_interface_carries_the_traffic(self):
        env = self.fake_sys(interfaces=[("eth0", 1000), ("eth1", 25000)])
        found = self.bench_while_counting("net/eth0/statistics/tx_bytes", env)
        self.assertIn("eth0 (1 Gb/s)", found["wrong-interface"]["evidence"])
        self.assertNotIn("one-rail", found)

    def test_one_rail_of_two_carries_everything(self):
        rate = "200 Gb/sec (4X HDR)"
        env = self.fake_sys([("mlx5_0", "4: ACTIVE", rate), ("mlx5_1", "4: ACTIVE", rate)])
        found = self.bench_while_counting("infiniband/mlx5_1/ports/1/counters/port_xmit_data", env)
        self.assertIn("mlx5_1:1 (200 Gb/s) carried", found["one-rail"]["evidence"])

    @unittest.skipIf(len(CPUS) < 2, "one CPU binds every rank")
    def test_unbound_ranks(self):
        flags = ["all_reduce", "-b", "4K", "-e", "4K", "-n", "3"]
        found = verdicts_of(self.bench(2, *flags, mca=["--bind-to", "none"]))
        self.assertEqual(found["unbound"]["severity"], "warning")
        self.assertNotIn("unbound", verdicts_of(self.bench(2, *flags, mca=["--bind-to", "core"])))

    def test_more_ranks_than_cpus(self):
        document = self.bench(len(CPUS) + 2, "all_reduce", "-b", "4K", "-e", "4K", "-n", "3")
        self.assertIn("oversubscribed", verdicts_of(document))

    def test_a_sweep_of_small_sizes_is_latency(self):
        found = verdicts_of(self.bench(2, "all_reduce", "-b", "4K", "-e", "64K", "-n", "5"))
        self.assertEqual(found["latency-bound"]["severity"], "info")

    def test_cross_memory_that_is_forbidden(self):
        flags = ["all_reduce", "-b", "64K", "-e", "64K", "-n", "3"]
        found = verdicts_of(self.bench(2, *flags, env={"NQD_CROSS_MEMORY": "off"}))
        self.assertIn("unset NQD_CROSS_MEMORY", found["cma-denied"]["next_step"])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_cross_memory_that_the_kernel_refuses(self):
        # A process may not read another that has capabilities which it lacks.
        lacks = ('[ "$OMPI_COMM_WORLD_RANK" = 1 ] || exec "$@"; '
                 'exec setpriv --bounding-set=-sys_ptrace,-sys_admin "$@"')
        document = self.bench(2, "all_reduce", "-b", "64K", "-e", "64K", "-n", "3",
                              mca=["--mca", "btl_vader_single_copy_mechanism", "none"],
                              wrapper=["bash", "-c", lacks, "rank"])
        self.assertIn("rank 1; 1 of 2 ranks", verdicts_of(document)["cma-denied"]["evidence"])

    def pulse(self, process, rank):
        """Lets the rank's process run a tenth of the time, until mpirun ends."""
        pids = []
        while process.poll() is None:
            if not pids:
                listing = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True,
                                         text=True, check=False).stdout.split()
                for pid in listing:
                    try:
                        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                    except OSError:
                        continue
                    if f"OMPI_COMM_WORLD_RANK={rank}\0".encode() in environ:
                        pids.append(int(pid))
            try:
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(0.045)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
                time.sleep(0.005)
            except ProcessLookupError:
                pids = []

    def slowed(self, ranks, slow, code, culprit, *flags):
        """A run with one rank held up, which must name it; other work may hide it, but not always."""
        for _ in range(3):
            process = self.start(ranks, *flags)
            thread = threading.Thread(target=self.pulse, args=(process, slow))
            thread.start()
            try:
                document = self.finish(process)
            finally:
                thread.join()
            if culprit in verdicts_of(document).get(code, {"evidence": ""})["evidence"]:
                return document
        self.fail(f"no {code} of {culprit}: {document['verdicts']} {document['pairs']} "
                  f"{document['stragglers']}")

    def test_a_rank_that_is_held_up_is_named(self):
        document = self.slowed(2, 1, "slow-rank", "rank 1 on host", "stragglers", "-n", "10",
                               "--compute-ms", "5")
        self.assertGreater(document["stragglers"][1]["last_share"], 0.75)

    def test_the_pairs_of_a_rank_that_is_held_up_are_named(self):
        document = self.slowed(3, 2, "slow-pair", "rank 2 on host", "pair-matrix", "--size", "1M",
                               "-n", "20")
        self.assertEqual([(p["a"], p["b"]) for p in document["pairs"]], [(0, 1), (0, 2), (1, 2)])

    def test_memory_and_the_limit_that_it_sets(self):
        document = self.bench(2, "memory", "-b", "64K", "-e", "1M", "-n", "5")
        rows = document["memory_rows"]
        self.assertEqual({row["kernel"] for row in rows}, {"copy", "read", "reduce", "nt_copy"})
        self.assertEqual([limit["bytes"] for limit in document["all_reduce_limits"]],
                         [65536, 262144, 1048576])
        for limit in document["all_reduce_limits"]:
            copies = [row["p50_s"] for row in rows if row["rank"] is None and
                      row["bytes"] == limit["bytes"] and row["kernel"] in ("copy", "nt_copy")]
            self.assertEqual(limit["limit_s"], min(copies))

    def test_processes_that_do_not_see_each_other(self):
        # Started without mpirun, though the environment says that a launcher started four.
        env = dict(os.environ, OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_RANK="0",
                   OMPI_COMM_WORLD_LOCAL_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE="4")
        done = subprocess.run([ARGS.nqd, "bench", "all_reduce", "--json"], env=env,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["rows"], [])
        self.assertEqual(verdicts_of(document)["singletons"]["severity"], "error")
        self.assertIn("NQD3001", done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("mpiexec", "nqd", "source"):
        parser.add_argument("--" + name, required=True)
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)
