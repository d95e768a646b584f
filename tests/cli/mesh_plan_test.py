"""Shipped configs pass; each invalid one fails with its documented exit code and stored message."""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from support import MPIRUN, SLOWNESS, SOURCE, environment, needs_mpi, nqd

VALID = sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("configs/*.yaml"))
INVALID = sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("configs/invalid/*.yaml"))


class MeshPlan(unittest.TestCase):
    maxDiff = None

    def test_all_shipped_configs_pass_in_one_table(self):
        self.assertGreaterEqual(len(VALID), 40)
        code, out, err = nqd("mesh-plan", *VALID)
        self.assertEqual(0, code, err)
        for path in VALID:
            self.assertRegex(out, rf"(?m)^.*{path}.*pass.*$")

    def test_each_invalid_config_fails_as_stored(self):
        self.assertGreaterEqual(len(INVALID), 45)
        codes = set()
        for path in INVALID:
            with self.subTest(path):
                expected = (SOURCE / path).with_suffix(".expected").read_text()
                head, _, message = expected.partition("\n")
                code, _, err = nqd("mesh-plan", path)
                self.assertEqual(message.rstrip("\n"), err.rstrip("\n"))
                self.assertEqual(int(head.removeprefix("exit: ")), code)
                primary = message.split("error[", 1)[1].split("]", 1)[0]
                codes.add(primary)
        self.assertEqual(len(codes), len(INVALID))

    def test_one_bad_config_among_good_ones_decides_the_exit_code(self):
        code, out, _ = nqd("mesh-plan", VALID[0], INVALID[0], VALID[1])
        self.assertIn(code, (1, 2))
        self.assertRegex(out, rf"(?m)^.*{INVALID[0]}.*fail.*$")
        self.assertRegex(out, rf"(?m)^.*{VALID[0]}.*pass.*$")

    def test_json_holds_the_contract_fields(self):
        code, out, _ = nqd("mesh-plan", *VALID, "--json")
        self.assertEqual(0, code)
        configs = json.loads(out)["configs"]
        self.assertEqual(VALID, [config["path"] for config in configs])
        for config in configs:
            self.assertTrue(config["valid"])
            memory = config["memory"]
            worst = 0
            for stage in memory["stages"]:
                total = sum(stage["categories"].values())
                self.assertAlmostEqual(total, stage["total_bytes"], delta=1)
                self.assertAlmostEqual(stage["persistent_bytes"] + stage["transient_bytes"],
                                       stage["total_bytes"], delta=1)
                worst = max(worst, stage["total_bytes"])
            self.assertEqual(worst, memory["worst_total_bytes"])
            self.assertIsNot(False, memory["fits"])
            self.assertGreaterEqual(config["pipeline"]["bubble_fraction"], 0)
            mesh = config["mesh"]
            self.assertEqual(mesh["dp"] * mesh["tp"] * mesh["cp"] * mesh["pp"], mesh["ranks"])
            self.assertNotIn("rank_map", config)

    def test_a_hundred_configs_take_half_a_second(self):
        paths = (VALID * 100)[:100]
        start = time.monotonic()
        code, _, err = nqd("mesh-plan", *paths)
        self.assertEqual(0, code, err)
        # Ten times the target: the machine may have other work.
        self.assertLess(time.monotonic() - start, 5 * SLOWNESS)

    def test_fits_is_null_when_the_limit_is_unknown(self):
        _, out, _ = nqd("mesh-plan", "configs/gpt2-124m-ddp.yaml", "--set", "cluster.memory_bytes=0",
                        "--json")
        memory = json.loads(out)["configs"][0]["memory"]
        self.assertIsNone(memory["limit_bytes"])
        self.assertIsNone(memory["fits"])

    def test_explaining_has_no_json_form(self):
        arguments = ["mesh-plan", VALID[0], "--explain-config"]
        code, out, err = nqd(*arguments, "--format", "json")
        self.assertEqual((2, ""), (code, out))
        self.assertIn("--explain-config", err)
        code, out, err = nqd(*arguments, "--json")
        self.assertEqual(2, code)
        self.assertIn("--explain-config", json.loads(out)["diagnostics"][0]["message"])
        self.assertIn("--explain-config", err)

    def test_explaining_several_configs_heads_each_with_its_path(self):
        code, out, _ = nqd("mesh-plan", VALID[0], VALID[1], "--explain-config")
        self.assertEqual(0, code)
        heads = [line for line in out.splitlines() if line.startswith("# ")]
        self.assertEqual([f"# {VALID[0]}", f"# {VALID[1]}"], heads)
        _, out, _ = nqd("mesh-plan", VALID[0], "--explain-config")
        self.assertFalse(out.startswith("# "))

    def test_any_bucket_size_is_priced_at_once(self):
        for overrides in (["train.bucket_bytes=1"],
                          ["parallel.engine=zero1", "model.layers=4096"]):
            start = time.monotonic()
            flags = [part for override in overrides for part in ("--set", override)]
            code, _, err = nqd("mesh-plan", "configs/llama3-8b-zero3-node.yaml", *flags)
            self.assertIn(code, (0, 1), err)
            self.assertLess(time.monotonic() - start, SLOWNESS)

    def test_diagnostics_in_json_carry_the_place(self):
        code, out, _ = nqd("mesh-plan", "configs/invalid/quickstart-wrong.yaml", "--json")
        self.assertIn(code, (1, 2))
        config = json.loads(out)["configs"][0]
        self.assertFalse(config["valid"])
        for diagnostic in config["diagnostics"]:
            self.assertRegex(diagnostic["code"], r"^NQD\d{4}$")
            self.assertGreater(diagnostic["line"], 0)
            self.assertGreater(diagnostic["column"], 0)

    def test_bad_configs_fail_within_milliseconds(self):
        start = time.monotonic()
        for path in INVALID[:10]:
            nqd("mesh-plan", path)
        self.assertLess((time.monotonic() - start) / 10, 0.25 * SLOWNESS)

    def test_explain_knows_every_code_that_a_stored_message_shows(self):
        for path in SOURCE.glob("configs/invalid/*.expected"):
            text = path.read_text()
            for part in text.split("[NQD")[1:]:
                code, out, _ = nqd("explain", "NQD" + part[:4])
                self.assertEqual(0, code)
                self.assertGreater(len(out), 60)


def unescaped(text, is_property):
    """As the runner reads a workflow command."""
    if is_property:
        text = text.replace("%3A", ":").replace("%2C", ",")
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


class Formats(unittest.TestCase):
    """The same findings for each reader; json is above."""

    @classmethod
    def setUpClass(cls):
        _, out, _ = nqd("mesh-plan", *VALID, *INVALID, "--json")
        cls.configs = json.loads(out)["configs"]
        cls.findings = [(config["path"], finding) for config in cls.configs
                        for finding in config["diagnostics"]]

    def planned(self, form):
        code, out, _ = nqd("mesh-plan", *VALID, *INVALID, "--format", form)
        self.assertEqual(2, code)
        return out

    def test_github_annotates_each_finding_at_its_line(self):
        lines = self.planned("github").splitlines()
        summary = lines.pop()
        self.assertRegex(summary, rf"^::notice .*::{len(VALID)} of {len(self.configs)} configs pass$")
        self.assertEqual(len(self.findings), len(lines))
        commands = {"error": "error", "warning": "warning", "note": "notice"}
        for line, (path, finding) in zip(lines, self.findings):
            match = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line)
            self.assertIsNotNone(match, line)
            self.assertEqual(commands[finding["severity"]], match[1])
            fields = dict(part.split("=", 1) for part in match[2].split(","))
            fields = {key: unescaped(value, True) for key, value in fields.items()}
            self.assertEqual(finding["file"] if finding["line"] else path, fields["file"])
            self.assertEqual(finding["line"], int(fields.get("line", 0)) or None)
            self.assertEqual(finding["column"], int(fields.get("col", 0)) or None)
            self.assertTrue(fields["title"].startswith(finding["code"] + " "), fields)
            self.assertEqual(finding["message"], unescaped(match[3], False).split("\n")[0])

    def test_sarif_has_a_rule_a_place_and_an_explanation_for_each_result(self):
        document = json.loads(self.planned("sarif"))
        self.assertEqual("2.1.0", document["version"])
        self.assertIn("sarif-schema-2.1.0", document["$schema"])
        run, = document["runs"]
        driver = run["tool"]["driver"]
        self.assertEqual("nqd", driver["name"])
        rules = driver["rules"]
        self.assertEqual(sorted({f["code"] for _, f in self.findings}), [r["id"] for r in rules])
        for rule in rules:
            self.assertGreater(len(rule["fullDescription"]["text"]), 20)
            self.assertGreater(len(rule["shortDescription"]["text"]), 5)
        self.assertEqual("unicodeCodePoints", run["columnKind"])
        self.assertEqual(len(self.findings), len(run["results"]))
        for result, (path, finding) in zip(run["results"], self.findings):
            self.assertEqual(finding["code"], result["ruleId"])
            self.assertEqual(finding["code"], rules[result["ruleIndex"]]["id"])
            self.assertEqual(finding["severity"], result["level"])
            self.assertTrue(result["message"]["text"].startswith(finding["message"]))
            place = result["locations"][0]["physicalLocation"]
            self.assertNotIn(" ", place["artifactLocation"]["uri"])
            if finding["line"]:
                self.assertEqual(finding["line"], place["region"]["startLine"])
                start = place["region"].get("startColumn", 1)
                self.assertLess(start, place["region"].get("endColumn", start + 1))
            for related in result["relatedLocations"]:
                self.assertGreater(related["physicalLocation"]["region"]["startLine"], 0)

    def test_sarif_counts_code_points(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a b.yaml"
            path.write_text('model: {preset: "é", vocab: x}\n', encoding="utf-8")
            _, out, _ = nqd("mesh-plan", path, "--format", "sarif")
        results = json.loads(out)["runs"][0]["results"]
        regions = [r["locations"][0]["physicalLocation"] for r in results]
        self.assertEqual([17, 29], sorted(r["region"]["startColumn"] for r in regions))
        self.assertTrue(regions[0]["artifactLocation"]["uri"].endswith("a%20b.yaml"))

    def test_junit_has_a_case_for_each_config(self):
        root = xml.etree.ElementTree.fromstring(self.planned("junit"))
        self.assertEqual("testsuites", root.tag)
        suite, = root
        cases = suite.findall("testcase")
        self.assertEqual([c["path"] for c in self.configs], [case.get("name") for case in cases])
        self.assertEqual(str(len(cases)), suite.get("tests"))
        self.assertEqual(str(len(suite.findall("*/failure"))), suite.get("failures"))
        self.assertEqual(str(len(suite.findall("*/error"))), suite.get("errors"))
        for case, config in zip(cases, self.configs):
            bad = case.find("failure") if case.find("error") is None else case.find("error")
            self.assertEqual(config["valid"], bad is None)
            if bad is not None:
                first = next(f for f in config["diagnostics"] if f["severity"] == "error")
                self.assertEqual(first["code"], bad.get("type"))
                self.assertEqual(first["message"], bad.get("message"))
                malformed = any(f["code"].startswith("NQD10") and f["severity"] == "error"
                                for f in config["diagnostics"])
                self.assertEqual("error" if malformed else "failure", bad.tag)

    def test_a_document_goes_to_the_output_that_is_given(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan.sarif"
            code, out, _ = nqd("mesh-plan", VALID[0], "--format", "sarif", "--output", path)
            self.assertEqual((0, ""), (code, out))
            self.assertEqual("2.1.0", json.loads(path.read_text())["version"])
        code, _, err = nqd("mesh-plan", VALID[0], "--output", VALID[0])
        self.assertEqual(2, code)
        self.assertIn("NQD2204", err)


class RankMap(unittest.TestCase):
    CONFIG = "configs/gpt3-175b-interleaved-a100.yaml"

    def test_text_and_json_agree(self):
        _, out, _ = nqd("mesh-plan", self.CONFIG, "--map", "--json")
        rank_map = json.loads(out)["configs"][0]["rank_map"]
        self.assertEqual(64, len(rank_map["ranks"]))
        self.assertEqual([[*range(8 * i, 8 * i + 8)] for i in range(8)], rank_map["groups"]["tp"])
        self.assertEqual([*range(0, 64, 8)], rank_map["groups"]["pp"][0])
        self.assertEqual([0, 56], rank_map["groups"]["embedding"][0])
        _, out, _ = nqd("mesh-plan", self.CONFIG, "--map")
        self.assertIn("rank map, order tp-cp-dp-pp: 64 ranks on 8 nodes of 8", out)
        self.assertIn("    0, 8, …, 56 (every 8)\n", out)

    def test_maps_of_several_configs_or_of_other_formats_are_refused(self):
        for arguments in ([*VALID[:2], "--map"], [VALID[0], "--map", "--format", "junit"],
                          [*VALID[:2], "--rankfile", "x"], [VALID[0], "--hosts", "a"]):
            code, out, _ = nqd("mesh-plan", *arguments)
            self.assertEqual((2, ""), (code, out), arguments)

    def test_hosts_are_as_many_as_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ranks"
            code, _, err = nqd("mesh-plan", self.CONFIG, "--rankfile", path, "--hosts", "a,b")
            self.assertEqual(2, code)
            self.assertIn("8 nodes", err)
            code, _, _ = nqd("mesh-plan", self.CONFIG, "--rankfile", path, "--hosts",
                             ",".join(f"host{i}" for i in range(8)))
            self.assertEqual(0, code)
            self.assertIn("rank 17=host2 slot=1\n", path.read_text())

    @needs_mpi
    def test_open_mpi_takes_the_rankfile(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ranks"
            nqd("mesh-plan", "configs/quickstart.yaml", "--rankfile", path,
                "--set", "parallel.dp=1", "--set", "cluster.gpus_per_node=1")
            done = subprocess.run([MPIRUN, "-n", "1", "--rankfile", path, "true"],
                                  env=environment(), capture_output=True, text=True, timeout=60)
        if "rankfile" in done.stderr and "nrecognized" in done.stderr:
            self.skipTest("this mpirun has no rankfiles")
        self.assertEqual(0, done.returncode, done.stderr)


class Hooks(unittest.TestCase):
    """What docs/ci.md offers runs on the shipped configs."""

    def test_the_pre_commit_hook_takes_the_shipped_configs(self):
        text = (SOURCE / ".pre-commit-hooks.yaml").read_text()
        hook = dict(re.findall(r"(?m)^(?:- |  )(\w+): (.*)$", text))
        self.assertEqual("system", hook["language"])
        tracked = sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("configs/**/*")
                         if p.is_file())
        chosen = [path for path in tracked if re.search(hook["files"], path)]
        self.assertEqual(VALID, chosen)
        program, *arguments = shlex.split(hook["entry"])
        self.assertEqual("nqd", program)
        code, _, err = nqd(*arguments, *chosen)
        self.assertEqual(0, code, err)

    def test_the_workflow_s_commands_run(self):
        text = (SOURCE / "configs/ci/github-workflow.yaml").read_text()
        commands = re.findall(r"(?m)^ +(?:run: )?(nqd mesh-plan .*)$", text)
        self.assertEqual(3, len(commands))
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "configs").mkdir()
            for path in VALID[:3]:
                shutil.copy(SOURCE / path, folder / "configs")
            for command in commands:
                words = shlex.split(command.removesuffix(" || true"))
                self.assertEqual("configs/*.yaml", words.pop())
                paths = sorted(f"configs/{p.name}" for p in (folder / "configs").iterdir())
                code, _, err = nqd(*words[1:], *paths, cwd=folder)
                self.assertEqual(0, code, err)
            written = sorted(p.name for p in folder.iterdir() if p.is_file())
            self.assertEqual(["mesh-plan.sarif", "mesh-plan.xml"], written)
            self.assertIn("sarif_file: mesh-plan.sarif", text)
            self.assertIn("path: mesh-plan.xml", text)


if __name__ == "__main__":
    unittest.main()
