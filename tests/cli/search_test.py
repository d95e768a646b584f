"""nqd search: the JSON contract, plans that mesh-plan accepts, questions, sweeps, exit codes."""

import json
import pathlib
import tempfile
import unittest

from support import SOURCE, nqd

try:
    import jsonschema
except ImportError:
    jsonschema = None

# 13 billion parameters on two nodes: a search of milliseconds.
CONFIG = """\
model: {preset: gpt3-13b, vocab: 51200}
cluster: {preset: dgx-a100, nodes: 2}
train: {global_batch_size: 64}
"""


def search(*arguments):
    code, out, err = nqd("search", *arguments, "--json")
    return code, json.loads(out) if out else None, err


class Search(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="nqd-search-")
        cls.root = pathlib.Path(cls.folder.name)
        cls.config = cls.root / "job.yaml"
        cls.config.write_text(CONFIG)
        cls.code, cls.document, cls.err = search(cls.config)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def validate(self, document):
        if jsonschema is None:
            self.skipTest("install python3-jsonschema")
        schema = json.loads((SOURCE / "schemas/search.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.Draft7Validator(schema).validate(document)

    def test_json_holds_ranked_plans_and_counts_that_add_up(self):
        self.assertEqual(0, self.code, self.err)
        document = self.document
        self.validate(document)
        steps = [plan["step_s"] for plan in document["plans"]]
        self.assertGreater(len(steps), 5)
        self.assertEqual(sorted(steps), steps)
        self.assertEqual(document["considered"],
                         document["fitting"] + sum(document["rejected"].values()))
        meshes = [tuple(sorted((k, v) for k, v in plan["mesh"].items() if k != "vpp"))
                  for plan in document["plans"]]
        self.assertEqual(len(set(meshes)), len(meshes))
        for plan in document["plans"]:
            mesh, time = plan["mesh"], plan["time"]
            self.assertEqual(16, mesh["dp"] * mesh["tp"] * mesh["pp"] * mesh["cp"])
            self.assertEqual(64, mesh["dp"] * plan["micro_batch_size"] * plan["micro_batches"])
            self.assertLessEqual(plan["worst_total_bytes"], document["limit_bytes"])
            parts = sum(time[part] for part in ("compute_s", "exposed_communication_s", "bubble_s",
                                                "optimizer_s", "jitter_s"))
            self.assertAlmostEqual(1, parts / plan["step_s"], places=9)
            self.assertAlmostEqual(
                1, sum(plan["worst_categories"].values()) / plan["worst_total_bytes"], places=9)
        self.assertTrue(all(plan["simulated_step_s"] for plan in document["plans"][:5]))

    def test_the_front_is_a_front_with_the_best_plan_on_it(self):
        front = self.document["pareto"]
        self.assertEqual(self.document["plans"][0]["step_s"], front[0]["step_s"])
        for a, b in zip(front, front[1:]):
            self.assertLess(a["step_s"], b["step_s"])
            self.assertGreater(a["worst_total_bytes"], b["worst_total_bytes"])

    def test_two_runs_and_any_number_of_threads_agree(self):
        _, again, _ = search(self.config, "--threads", 3)
        for document in (again, self.document):
            document["elapsed_s"] = 0
        self.assertEqual(self.document, again)

    def test_mesh_plan_accepts_the_written_plan_with_the_same_bytes_and_seconds(self):
        for number, fix in enumerate((["--fix", "pp=4,tp=2"], ["--fix", "pp=16"],
                                      ["--objective", "gpus"], ["--fix", "engine=hsdp"])):
            output = self.root / f"best{number}.yaml"
            code, document, err = search(self.config, "--top", 1, *fix, "-o", output)
            self.assertEqual(0, code, err)
            best = document["plans"][0]
            code, out, err = nqd("mesh-plan", output, "--json")
            self.assertEqual(0, code, err)
            planned = json.loads(out)["configs"][0]
            for axis in ("dp", "tp", "pp", "vpp"):
                self.assertEqual(best["mesh"][axis], planned["mesh"][axis])
            self.assertEqual(best["engine"], planned["mesh"]["engine"])
            self.assertEqual(best["worst_total_bytes"], planned["memory"]["worst_total_bytes"])
            self.assertAlmostEqual(1, planned["time"]["step_s"] / best["step_s"], places=9)

    def test_search_and_mesh_plan_agree_on_every_kind_of_model_and_runtime(self):
        cases = [("custom-mixer", []), ("edsr-x4-single-v100", []), ("llama2-7b-single-nic", []),
                 ("llama2-13b-zero3", []), ("deepseek-v2-lite-ep8", []),
                 ("mixtral-8x7b-ep8", ["--objective", "memory"]),
                 ("llama3-70b-zero3", ["--fix", "engine=hsdp,cp=8,tp=2,dp=4"])]
        for name, flags in cases:
            output = self.root / f"{name}.yaml"
            code, document, err = search(SOURCE / f"configs/{name}.yaml", "--top", 1, *flags,
                                         "-o", output)
            self.assertEqual(0, code, f"{name}: {err}")
            best = document["plans"][0]
            code, out, err = nqd("mesh-plan", output, "--json")
            self.assertEqual(0, code, f"{name}: {err}")
            planned = json.loads(out)["configs"][0]
            self.assertEqual(best["worst_total_bytes"], planned["memory"]["worst_total_bytes"], name)
            self.assertAlmostEqual(1, planned["time"]["step_s"] / best["step_s"], 9, name)

    def test_why_ranks_a_plan_that_fits(self):
        code, document, err = search(self.config, "--top", 1, "--why", "tp=4,pp=2")
        self.assertEqual(0, code, err)
        self.validate(document)
        why = document["why"]
        self.assertTrue(why["fits"])
        self.assertEqual((4, 2), (why["plan"]["mesh"]["tp"], why["plan"]["mesh"]["pp"]))
        self.assertGreaterEqual(why["rank"], 1)
        self.assertEqual(document["fitting"], why["fitting"])
        self.assertGreaterEqual(why["plan"]["step_s"], why["best"]["step_s"])
        code, out, _ = nqd("search", self.config, "--top", 1, "--why", "tp=4,pp=2")
        self.assertEqual(0, code)
        self.assertRegex(out, r"why tp=4,pp=2: rank [0-9,]+ of [0-9,]+ that fit")
        best = document["plans"][0]["mesh"]
        _, first, _ = search(self.config, "--why", ",".join(f"{k}={v}" for k, v in best.items()))
        self.assertEqual(1, first["why"]["rank"])

    def test_why_names_the_rule_its_arithmetic_and_the_nearest_legal_change(self):
        code, document, _ = search(self.config, "--why", "tp=16")
        self.assertEqual(1, code)
        self.validate(document)
        why = document["why"]
        self.assertEqual("NQD1203 tp-domain", why["rule"])
        self.assertIn("16", why["reason"])
        self.assertEqual([("tp", "8")], [(c["key"], c["value"]) for c in why["changes"]])
        _, document, _ = search(self.config, "--why", "micro_batch_size=3,pp=4,tp=4,cp=1")
        why = document["why"]
        self.assertEqual("NQD1209 batch", why["rule"])
        self.assertIn("64 % (3·1) = 1", why["reason"])
        changes = {change["key"]: change["value"] for change in why["changes"]}
        self.assertIn(changes["micro_batch_size"], ("2", "4"))

    def test_why_says_how_many_bytes_are_missing(self):
        code, document, _ = search(self.config, "--why", "tp=1,pp=1,engine=ddp")
        self.assertEqual(1, code)
        why = document["why"]
        self.assertEqual("NQD1301 memory", why["rule"])
        self.assertGreater(why["nearest"]["worst_total_bytes"], document["limit_bytes"])
        self.assertIn("more than the limit", why["reason"])
        self.assertIn("engine", [change["key"] for change in why["changes"]])

    def test_nothing_fits_is_an_answer_with_the_nearest_miss(self):
        code, document, err = search(self.config, "--memory-limit", "1 GB")
        self.assertEqual(1, code, err)
        self.validate(document)
        self.assertEqual([], document["plans"])
        self.assertGreater(document["nearest"]["worst_total_bytes"], 1e9)
        code, out, _ = nqd("search", self.config, "--memory-limit", "1 GB")
        self.assertEqual(1, code)
        self.assertIn("nothing fits: the nearest", out)

    def test_sweeps_combine_into_a_table_of_best_plans(self):
        sweeps = ("--sweep", "nodes=1,2", "--sweep", "nic=100Gb/s,400Gb/s")
        code, document, err = search(self.config, *sweeps)
        self.assertEqual(0, code, err)
        self.validate(document)
        points = document["sweep"]
        self.assertEqual([8, 8, 16, 16], [point["devices"] for point in points])
        self.assertEqual({"cluster.nodes": "1",
                          "cluster.inter_node.bandwidth_bytes_per_s": "100Gb/s"},
                         points[0]["values"])
        steps = [point["plans"][0]["step_s"] for point in points]
        self.assertLess(steps[3], steps[0])
        self.assertLessEqual(steps[3], steps[2])
        code, out, _ = nqd("search", self.config, *sweeps)
        self.assertEqual(0, code)
        self.assertEqual(5, len(out.splitlines()))

    def test_objectives_agree_with_their_names(self):
        smallest = min(plan["worst_total_bytes"] for plan in self.document["pareto"])
        _, memory, _ = search(self.config, "--objective", "memory", "--top", 1)
        self.assertEqual(smallest, memory["plans"][0]["worst_total_bytes"])
        _, gpus, _ = search(self.config, "--objective", "gpus", "--top", 1)
        self.assertLess(gpus["plans"][0]["gpus"], 16)
        _, cost, _ = search(self.config, "--objective", "cost", "--top", 1)
        best = self.document["plans"][0]
        self.assertLessEqual(cost["plans"][0]["gpus"] * cost["plans"][0]["step_s"],
                             best["gpus"] * best["step_s"])

    def test_a_wrong_mesh_in_the_file_is_no_obstacle_and_a_wrong_key_is(self):
        wrong = self.root / "wrong.yaml"
        wrong.write_text(self.config.read_text() + "parallel: {tp: 3, pp: 7, dp: 5}\n")
        code, document, err = search(wrong)
        self.assertEqual(0, code, err)
        self.assertEqual(self.document["plans"][0]["mesh"], document["plans"][0]["mesh"])
        wrong.write_text(self.config.read_text() + "parallel: {banana: 3}\n")
        code, out, err = nqd("search", wrong)
        self.assertEqual((2, ""), (code, out))
        self.assertIn("NQD1006", err)

    def test_malformed_questions_are_refused_with_what_is_legal(self):
        for arguments, code_name in ((["--fix", "tensor=8"], "NQD1030"),
                                     (["--why", "engine=zero9"], "NQD1030"),
                                     (["--sweep", "nodes"], "NQD1034"),
                                     (["--sweep", "cluster.nod=3"], "NQD1016"),
                                     (["--memory-limit", "many"], "--memory-limit")):
            code, out, err = nqd("search", self.config, *arguments)
            self.assertEqual((2, ""), (code, out))
            self.assertIn(code_name, err)


    def test_a_plan_for_no_number_of_devices_says_so(self):
        code, out, _ = nqd("search", self.config, "--why", "tp=3")
        self.assertEqual(1, code)
        self.assertIn("why tp=3: rejected, NQD1202 devices: no dp uses every device: "
                      "tp·cp·pp = 3·1·1 = 3 does not divide 16", out)
        code, out, _ = nqd("search", self.config, "--fix", "tp=3")
        self.assertEqual(1, code)
        self.assertIn("nothing is legal: NQD1202 devices rejects", out)


class LargeSearch(unittest.TestCase):
    def test_llama_405b_on_16384_devices_has_the_published_mesh_among_its_plans(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "llama.yaml"
            config.write_text("model: {preset: llama3-405b}\n"
                              "cluster: {preset: dgx-h100, nodes: 2048}\n"
                              "train: {global_batch_size: 2048}\n")
            code, document, err = search(config)
        self.assertEqual(0, code, err)
        found = [plan for plan in document["plans"]
                 if (plan["mesh"]["tp"], plan["mesh"]["pp"], plan["mesh"]["dp"]) == (8, 16, 128)]
        self.assertEqual(1, len(found))
        if found[0]["mesh"]["vpp"] == 1:
            self.assertEqual([7] + 14 * [8] + [7], found[0]["pipeline_split"])


if __name__ == "__main__":
    unittest.main()
