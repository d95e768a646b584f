"""nqd supervise: a run that is killed over and over ends with the bits of one that never was."""

import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

import support
from support import MPIRUN, NQD, SOURCE, NqdTestCase, TINY, environment, nqd, read_json, wait_for


def processes(marker):
    """Those with `marker` on their command line, but for supervisors."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if marker.encode() in words and b"supervise" not in words:
            found.append(int(folder.name))
    return found


class Supervise(NqdTestCase):
    def line(self, run, *more):
        start = [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", 2] if MPIRUN else []
        ranks = [] if MPIRUN else ["--ranks", 2]
        return [*start, NQD, "train", "configs/quickstart.yaml", "--set", f"data.path={self.data}", "--output-dir", run,
                *TINY, *ranks, "--resume", "auto", *more]

    def start(self, *arguments):
        return subprocess.Popen([NQD, "supervise", *map(str, arguments)], cwd=SOURCE, env=environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_random_kills_of_ranks_and_launchers(self):
        settings = ["--set", "train.steps=2000", "--set", "checkpoint.every=7", "--set", "checkpoint.async=false",
                    "--set", "train.eval_every=0"]
        whole, run = self.scratch / "whole", self.scratch / "run"
        self.assertCode(0, nqd("train", "configs/quickstart.yaml", "--set", f"data.path={self.data}", "--output-dir",
                               whole, *TINY, "--ranks", 2, *settings))
        dice = random.Random(5)
        process = self.start("--max-restarts", 200, "--back-off", 0.05, "--give-up-after", 50, "--json", "--",
                             *self.line(run, *settings))
        kills = 0
        end = time.monotonic() + 12 * support.SLOWNESS
        while process.poll() is None:
            time.sleep(dice.uniform(0.1, 1.2) * support.SLOWNESS)
            victims = processes(str(run))
            if victims and time.monotonic() < end:
                try:
                    os.kill(dice.choice(victims), signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        out, err = process.communicate()
        self.assertEqual(0, process.returncode, err)
        attempts = json.loads(out)["attempts"]
        self.assertGreater(len(attempts), 2)
        self.assertGreater(kills, 1)
        lost = [one["lost_steps"] for one in attempts if one["lost_steps"] is not None]
        self.assertLessEqual(max(lost, default=0), 8, "a save every 7 steps, and the one that is under way")
        self.assertEqual(read_json(whole / "evidence.json")["weights_sha256"],
                         read_json(run / "evidence.json")["weights_sha256"])
        self.assertEqual(read_json(run / "attempts.json"), json.loads(out))
        self.assertEqual([], processes(str(run)), "nothing is left behind")

    def test_a_request_to_stop_reaches_the_run(self):
        run = self.scratch / "stopped"
        process = self.start("--", *self.line(run, "--set", "train.steps=1000000", "--set", "train.eval_every=0"))
        wait_for((run / "metrics.jsonl").exists, 30, "the run to start")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(75, process.returncode, err)
        self.assertTrue((run / "checkpoints/LATEST").exists())

    def endless(self, name, *wrapper):
        """A supervised run that has begun, and its folder."""
        run = self.scratch / name
        process = self.start("--", *wrapper, *self.line(run, "--set", "train.steps=1000000", "--set",
                                                        "train.eval_every=0"))
        wait_for((run / "metrics.jsonl").exists, 30, "the run to start")
        return process, run

    def test_a_shell_around_the_launcher_does_not_cost_the_save(self):
        script = self.scratch / "wrap.sh"
        script.write_text('#!/bin/bash\n"$@"\ncode=$?\necho "ended with $code" >&2\nexit $code\n')
        script.chmod(0o755)
        process, run = self.endless("wrapped", script)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertEqual(75, process.returncode, err)
        self.assertIn("ended with 75", err)
        self.assertTrue((run / "checkpoints/LATEST").exists())

    def test_interrupts_and_hang_ups_are_requests_too(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            process, run = self.endless(f"signal-{number}")
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
            self.assertEqual(75, process.returncode, err)
            self.assertTrue((run / "checkpoints/LATEST").exists())

    def test_a_second_request_ends_the_run_at_once(self):
        process, run = self.endless("twice")
        os.kill(processes(str(run))[-1], signal.SIGSTOP)  # so that the first cannot be followed
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        process.communicate(timeout=15)
        self.assertEqual(128 + signal.SIGTERM, process.returncode)
        self.assertEqual([], processes(str(run)), "nothing is left behind")
        self.assertEqual(1, len(read_json(run / "attempts.json")["attempts"]))

    def test_faults_that_do_not_pass(self):
        script = self.scratch / "fails.sh"
        script.write_text("#!/bin/sh\nexit 4\n")
        script.chmod(0o755)
        command = [script, "train", "x.yaml", "--output-dir", self.scratch / "none", "--resume", "auto"]
        begin = time.monotonic()
        _, err = self.assertCode(4, nqd("supervise", "--back-off", 0.01, "--give-up-after", 3, "--", *command))
        self.assertIn("came no further than step 0", err)
        self.assertLess(time.monotonic() - begin, 10)
        _, err = self.assertCode(4, nqd("supervise", "--back-off", 0.01, "--max-restarts", 1, "--", *command))
        self.assertIn("--max-restarts", err)

    def test_answers_are_not_restarted(self):
        for code in (0, 1, 2, 3, 75):
            script = self.scratch / f"ends-{code}.sh"
            script.write_text(f"#!/bin/sh\necho run >> {self.scratch}/count-{code}\nexit {code}\n")
            script.chmod(0o755)
            self.assertCode(code, nqd("supervise", "--", script, "train", "x.yaml", "--resume=auto"))
            self.assertEqual("run\n", (self.scratch / f"count-{code}").read_text())

    def test_refusals(self):
        _, err = self.assertCode(2, nqd("supervise", "--", NQD, "train", "x.yaml"))
        self.assertIn("NQD1404", err)
        self.assertIn("--resume auto", err)
        self.assertCode(2, nqd("supervise", "--", "true"))
        _, err = self.assertCode(2, nqd("supervise", "--", self.scratch / "absent", "train", "x.yaml", "--resume", "auto"))
        self.assertIn("cannot run", err)


if __name__ == "__main__":
    unittest.main()
