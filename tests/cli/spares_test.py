"""nqd supervise --hosts --spares --elastic: who is left out when, and what the next attempt is told."""

import json
import sys
import time
import unittest

from support import NQD, NqdTestCase, TINY, nqd, read_json

# Stands in for mpirun and the run behind it: notes what it was started with, and leaves what a run
# leaves that ended as the next line of its script says.
LAUNCHER = """\
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
log = folder / "started.jsonl"
count = len(log.read_text().splitlines()) if log.exists() else 0
with log.open("a") as file:
    file.write(json.dumps(sys.argv[2:]) + "\\n")
plan = json.loads((folder / "plan.json").read_text())[count]
run = folder / "run"
run.mkdir(exist_ok=True)
if plan.get("step"):
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": plan["step"], "loss": 1}) + "\\n")
if "fault" in plan:
    evidence = json.loads((folder / "evidence.json").read_text())
    code, host = plan["fault"]
    evidence["fault"] = {"code": code, "message": f"a rank on host {host} was lost", "lost_rank": 1,
                         "lost_host": host, "at_step": 1, "detected_s": 1.5}
    evidence["audit_ok"] = None
    (run / "evidence.json").write_text(json.dumps(evidence))
if "straggler" in plan:
    evidence = json.loads((folder / "evidence.json").read_text())
    host, stops = plan["straggler"]
    evidence["stopped"] = True
    evidence["stragglers"] = [
        {"step": evidence["steps"][-1]["step"] - back, "rank": 1, "host": name, "phase": "backward",
         "seconds": 0.12, "median_s": 0.05, "score": 14.5} for name, back in (("early", 1), (host, 0))]
    for value in evidence["config"]["resolved"]:
        if value["path"] == "guard.straggler_stop":
            value["value"] = stops
    (run / "evidence.json").write_text(json.dumps(evidence))
if "slow" in plan:
    (run / "canary.json").write_text(json.dumps({"slow_hosts": plan["slow"]}))
sys.exit(plan["exit"])
"""

DIED, SILENT = "NQD4001", "NQD4002"


class Spares(NqdTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        code, _, err = nqd("train", "configs/quickstart.yaml", "--set", f"data.path={cls.data}", "--output-dir",
                           cls.scratch / "base", *TINY, "--set", "train.steps=2", "--ranks", 1)
        assert code == 0, err

    def supervise(self, name, attempts, *flags, code):
        """The hosts and ranks of each attempt, the words behind them, the document, and stderr."""
        folder = self.folder(name)
        (folder / "plan.json").write_text(json.dumps(attempts))
        (folder / "evidence.json").write_text((self.scratch / "base/evidence.json").read_text())
        (folder / "launcher.py").write_text(LAUNCHER)
        wait = [] if "--back-off" in flags else ["--back-off", 0]
        done = nqd("supervise", *wait, *flags, "--json", "--", sys.executable, folder / "launcher.py",
                   folder, "{hosts}", "{ranks}", NQD, "train", "configs/quickstart.yaml", "--set",
                   f"data.path={self.data}", *TINY, "--set", "train.global_batch_size=12", "--output-dir",
                   folder / "run", "--resume", "auto")
        out, err = self.assertCode(code, done)
        words = [json.loads(line) for line in (folder / "started.jsonl").read_text().splitlines()]
        self.assertEqual(len(words), len(json.loads(out)["attempts"]))
        self.assertEqual(read_json(folder / "run/attempts.json"), json.loads(out))
        return [tuple(line[:2]) for line in words], words, json.loads(out)["attempts"], err

    HOSTS = ["--hosts", "a:1,b:1", "--spares", "c:1"]

    def test_a_host_that_does_not_answer_is_left_out_at_once(self):
        started, _, attempts, err = self.supervise(
            "silent", [{"step": 3, "fault": [SILENT, "b"], "exit": 4}, {"step": 9, "exit": 0}], *self.HOSTS, code=0)
        self.assertEqual([("a:1,b:1", "2"), ("a:1,c:1", "2")], started)
        self.assertEqual([["a", "b"], ["a", "c"]], [one["hosts"] for one in attempts])
        self.assertEqual([[], ["b"]], [one["left_out"] for one in attempts])
        self.assertEqual([None, None], [one["mesh"] for one in attempts])
        self.assertIn("host b is left out: a rank on host b was lost", err)

    def test_a_host_whose_process_died_has_a_second_chance(self):
        died = {"step": 3, "fault": [DIED, "b.example.org"], "exit": 4}
        started, _, _, err = self.supervise("died", [died, {**died, "step": 6}, {"step": 9, "exit": 0}],
                                            *self.HOSTS, code=0)
        self.assertEqual(["a:1,b:1", "a:1,b:1", "a:1,c:1"], [hosts for hosts, _ in started])
        self.assertIn("died a second time", err)

    def test_a_host_with_which_the_run_no_longer_starts(self):
        started, _, _, err = self.supervise(
            "gone", [{"step": 3, "fault": [DIED, "b"], "exit": 4}, {"exit": 1}, {"step": 9, "exit": 0}],
            *self.HOSTS, code=0)
        self.assertEqual(["a:1,b:1", "a:1,b:1", "a:1,c:1"], [hosts for hosts, _ in started])
        self.assertIn("the run no longer starts", err)

    def test_what_the_canary_names_is_left_out(self):
        started, _, _, err = self.supervise("slow", [{"slow": ["a"], "exit": 1}, {"step": 9, "exit": 0}],
                                            *self.HOSTS, code=0)
        self.assertEqual(["a:1,b:1", "b:1,c:1"], [hosts for hosts, _ in started])
        self.assertIn("the canary found it slow", err)

    def test_a_host_that_a_run_stopped_for_is_left_out_at_once(self):
        begin = time.monotonic()
        started, _, attempts, err = self.supervise(
            "straggler", [{"step": 2, "straggler": ["b", "true"], "exit": 75}, {"step": 9, "exit": 0}], *self.HOSTS,
            "--back-off", 60, code=0)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(["a:1,b:1", "a:1,c:1"], [hosts for hosts, _ in started])
        self.assertEqual([75, 0], [one["exit_code"] for one in attempts])
        self.assertIn("host b is left out: step 2: rank 1 on host b is slow in backward", err)
        self.assertNotIn("early", err)

    def test_a_run_that_stopped_for_a_host_ends_where_none_is_left_out(self):
        stops = {"step": 2, "straggler": ["b", "true"], "exit": 75}
        _, _, _, err = self.supervise("no-spare", [stops], "--hosts", "a:1,b:1", code=75)
        self.assertIn("there is no spare for it", err)
        _, _, _, err = self.supervise("no-hosts", [stops], code=75)
        self.assertIn("the run stopped for host b: step 2: rank 1 on host b is slow", err)
        self.assertIn("without --hosts", err)
        # Stopped for something else, by chance at the step that named it.
        _, _, _, err = self.supervise("asked", [{**stops, "straggler": ["b", "false"]}], *self.HOSTS, code=75)
        self.assertNotIn("host b", err)

    def test_an_answer_of_no_that_names_nobody_is_an_end(self):
        started, _, _, _ = self.supervise("no", [{"exit": 1}], *self.HOSTS, code=1)
        self.assertEqual(1, len(started))

    def test_without_a_spare_the_host_stays(self):
        silent = {"fault": [SILENT, "b"], "exit": 4}
        started, _, _, err = self.supervise("stays", [{"step": 3, **silent}, {"step": 9, "exit": 0}], "--hosts",
                                            "a:1,b:1", code=0)
        self.assertEqual(["a:1,b:1"] * 2, [hosts for hosts, _ in started])
        self.assertIn("there is no spare for it (--elastic", err)
        _, _, _, err = self.supervise("slow-stays", [{"slow": ["b"], "exit": 1}], "--hosts", "a:1,b:1", code=1)
        self.assertIn("there is no spare for it", err)

    def test_elastic_goes_on_with_the_mesh_that_the_planner_proposes(self):
        started, words, attempts, err = self.supervise(
            "elastic", [{"step": 3, "fault": [SILENT, "b"], "exit": 4}, {"step": 5, "fault": [SILENT, "c"], "exit": 4},
                        {"step": 7, "fault": [SILENT, "a"], "exit": 4}, {"step": 9, "exit": 0}],
            "--hosts", "a:2,b:1", "--spares", "c:1", "--elastic", code=0)
        self.assertEqual([("a:2,b:1", "3"), ("a:2,c:1", "3"), ("a:2", "2")], started[:3])
        # Nobody is left but the host at fault.
        self.assertEqual(started[2], started[3])
        changes = dict(word.split("=", 1) for word in words[2][words[2].index("auto") + 1:] if word != "--set")
        self.assertEqual("12", changes["train.global_batch_size"])
        self.assertEqual("2", changes["train.micro_batch_size"])
        self.assertEqual(2, int(changes["parallel.dp"]) * int(changes["parallel.tp"]) * int(changes["parallel.pp"]))
        self.assertEqual([None, None], [one["mesh"] for one in attempts[:2]])
        self.assertIn("dp", attempts[2]["mesh"])
        self.assertIn("with 2 ranks: " + attempts[2]["mesh"], err)
        # The run loads it.
        self.assertCode(0, nqd("mesh-plan", "configs/quickstart.yaml", *TINY,
                               *[word for pair in changes.items() for word in ("--set", "=".join(pair))]))

    def test_a_number_of_ranks_that_no_mesh_has_is_not_used(self):
        """Batches of 12 sequences by 2 are for 1, 2, 3 or 6 ranks, two heads and layers for 2 and 4 more."""
        started, _, attempts, _ = self.supervise(
            "seven", [{"step": 3, "fault": [SILENT, "b"], "exit": 4}, {"step": 9, "exit": 0}],
            "--hosts", "a:7,b:5", "--elastic", code=0)
        self.assertEqual(("a:7", "6"), started[1])
        self.assertEqual(["a"], attempts[1]["hosts"])

    def test_refusals(self):
        command = ["--", NQD, "train", "configs/quickstart.yaml", "--resume", "auto"]
        for flags in (["--spares", "c"], ["--elastic"], ["--hosts", "a:1"], ["--hosts", "a:0"],
                      ["--hosts", "a:x"], ["--hosts", "a,a"], ["--hosts", "a,"]):
            with self.subTest(flags=flags):
                _, err = self.assertCode(2, nqd("supervise", *flags, *command))
                self.assertIn("NQD1405", err)
        _, err = self.assertCode(2, nqd("supervise", "--hosts", "a", "--spares", "a", "--", "mpirun", "-host",
                                        "{hosts}", *command[1:]))
        self.assertIn("is in --hosts and in --spares", err)
        _, err = self.assertCode(2, nqd("supervise", "--hosts", "a", "--elastic", "--", "mpirun", "-host",
                                        "{hosts}", *command[1:]))
        self.assertIn("no {ranks}", err)


if __name__ == "__main__":
    unittest.main()
