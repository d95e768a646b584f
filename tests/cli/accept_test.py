"""nqd accept: canary, sweeps, configs and parity in one go; the first failure stops it and says what to do."""

import hashlib
import json
import shutil
import subprocess
import sys
import unittest

from support import SOURCE, NqdTestCase, TINY, nqd, read_json

STEPS = ["canary", "all_reduce", "all_gather", "reduce_scatter", "configs", "parity"]
# A workload of a second instead of the crop model's minutes.
QUICK = ["--launcher", "threads", "--end", "64K", "--workload", "configs/quickstart.yaml", *TINY, "--set",
         "train.steps=4", "--set", "train.eval_every=0"]


class Accept(NqdTestCase):
    def accept(self, name, *arguments):
        """Until the canary is not disturbed by other work of this machine."""
        folder = self.scratch / name
        for _ in range(5):
            done = nqd("accept", *QUICK, "--output", folder, *arguments, timeout=300)
            document = read_json(folder / "accept.json")
            if document["steps"][0]["passed"]:
                break
        return folder, document, done

    def test_a_healthy_machine_is_accepted(self):
        folder, document, done = self.accept("healthy", "--configs", "configs")
        out, _ = self.assertCode(0, done)
        self.assertEqual(STEPS, document["planned"])
        self.assertEqual(STEPS, [step["name"] for step in document["steps"]])
        self.assertTrue(document["accepted"])
        for step in document["steps"]:
            self.assertTrue(step["passed"], step)
            raw = (folder / step["document"]).read_bytes()
            self.assertEqual(hashlib.sha256(raw).hexdigest(), step["sha256"])
            self.assertIn(step["name"], out)
        self.assertTrue(out.splitlines()[-2] == "accepted", out)
        rejected = [one for one in document["configs"] if not one["passed"]]
        self.assertEqual(sorted(f"configs/invalid/{path.name}" for path in (SOURCE / "configs/invalid").glob("*.yaml")),
                         sorted(one["path"] for one in rejected))
        page = (folder / "accept.md").read_text()
        for one in rejected:
            expected = (SOURCE / one["path"]).with_suffix(".expected").read_text().split("\n", 1)[1]
            self.assertEqual(expected, one["messages"])
            self.assertIn(expected, page)
        cases = read_json(folder / "parity.json")["cases"]
        self.assertEqual({"2x1x1"}, {case["mesh"] for case in cases})
        self.validate(folder / "accept.json", folder / "canary.json", folder / "all_reduce.json",
                      folder / "parity.json")

    def validate(self, *documents):
        done = subprocess.run([sys.executable, SOURCE / "tests/reports/validate_evidence.py", *documents,
                               SOURCE / "schemas/evidence.schema.json"], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 77), done.stdout)

    def test_a_slow_device_ends_it_at_the_canary(self):
        fast = self.scratch / "fast.yaml"
        fast.write_text('version: 1\nsource: "by hand"\ngemm_flops: 1e16\ncurves: []\n')
        folder = self.scratch / "slow"
        out, _ = self.assertCode(1, nqd("accept", fast, *QUICK, "--output", folder))
        self.assertIn("not accepted: canary failed", out)
        self.assertIn("matrix products of rank 0", out)
        self.assertIn("do: ", out)
        document = read_json(folder / "accept.json")
        self.assertEqual(1, len(document["steps"]))
        self.assertFalse(document["accepted"])
        self.assertFalse((folder / "all_reduce.json").exists())
        self.assertEqual(out.count("not run"), len(STEPS) - 1)

    def test_a_config_that_does_not_plan_ends_it_there(self):
        configs = self.folder("configs")
        shutil.copy(SOURCE / "configs/quickstart.yaml", configs / "good.yaml")
        shutil.copy(SOURCE / "configs/invalid/mesh-too-large.yaml", configs / "bad.yaml")
        _, document, done = self.accept("configs-run", "--configs", configs)
        out, _ = self.assertCode(1, done)
        self.assertEqual("configs", document["steps"][-1]["name"])
        self.assertIn("bad.yaml is rejected", document["steps"][-1]["seen"])
        self.assertIn("error[NQD12", document["steps"][-1]["seen"])
        self.assertIn("not accepted: configs failed", out)

    def test_refusals(self):
        _, err = self.assertCode(2, nqd("accept", *QUICK, "--configs", self.scratch / "absent", "--output",
                                        self.scratch / "absent-run"))
        self.assertIn("absent", err)
        _, err = self.assertCode(2, nqd("accept", *QUICK, "--hosts", "a:0", "--output", self.scratch / "hosts"))
        self.assertIn("NQD1405", err)


if __name__ == "__main__":
    unittest.main()
