"""`nqd simulate pipeline`: the contract of its JSON, text, trace and refusals."""

import json
import pathlib
import tempfile
import unittest

from support import SOURCE, nqd

try:
    import jsonschema
except ImportError:
    jsonschema = None

# Bubble with F = B = W and the peak in chunks, p = 4 and m = 8.
EXPECTED = {
    "gpipe": (3 / 11, [8, 8, 8, 8]),
    "1f1b": (3 / 11, [4, 3, 2, 1]),
    "interleaved": (3 / 19, [11, 9, 7, 5]),
    "zb-h1": (3 / 27, [4, 4, 4, 4]),
    "zb-h2": (0, [7, 7, 7, 7]),
    "zb-v": (0, [8, 8, 8, 8]),
}


class SimulatePipeline(unittest.TestCase):
    maxDiff = None

    def simulate(self, *arguments):
        code, out, err = nqd("simulate", "pipeline", *arguments)
        self.assertEqual(0, code, err)
        return out

    def test_json_of_every_schedule(self):
        for schedule, (bubble, peak) in EXPECTED.items():
            with self.subTest(schedule):
                result = json.loads(self.simulate("--schedule", schedule, "-p", 4, "-m", 8, "--json"))
                self.assertEqual(bubble, result["bubble_fraction"])
                self.assertEqual(bubble, result["closed_form_bubble_fraction"])
                self.assertEqual(peak, result["peak_in_flight"])
                chunks = 4 * result["virtual_stages"]
                actions = [(a["kind"], a["micro_batch"], a["chunk"]) for a in result["timeline"]]
                kinds = ({"forward", "backward_input", "backward_weight"} if "zb" in schedule
                         else {"forward", "backward"})
                self.assertEqual(
                    sorted((k, m, c) for k in kinds for m in range(8) for c in range(chunks)),
                    sorted(actions))
                self.assertEqual(result["makespan_s"], max(a["end_s"] for a in result["timeline"]))
                if jsonschema:
                    schema = json.loads(
                        (SOURCE / "schemas/simulate-pipeline.schema.json").read_text())
                    jsonschema.validate(result, schema, jsonschema.Draft7Validator)

    def test_text_keeps_to_the_width_and_needs_no_colour(self):
        out = self.simulate("--schedule", "1f1b", "-p", 4, "-m", 8, "--width", 80)
        self.assertIn("stage 3 |......0>0<<<1>1<<<2>2<<<3>3<<<4>4<<<5>5<<<6>6<<<7>7<<<............|", out)
        self.assertIn("bubble  27.3 % simulated, 27.3 % in closed form", out)
        self.assertNotIn("\x1b", out)
        for schedule in EXPECTED:
            out = self.simulate("--schedule", schedule, "-p", 12, "-m", 24, "--width", 80)
            self.assertLessEqual(max(map(len, out.splitlines())), 80)
            self.assertEqual(12, out.count("|\n"))

    def test_unequal_stages_from_a_list_and_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            times = pathlib.Path(folder) / "times"
            times.write_text("1:2  # embeddings\n1:2\n1000ms:2:1\n2:4\n")
            listed = self.simulate("-p", 4, "-m", 8, "--stage-times", "1:2,1:2,1:2,2:4", "--json")
            self.assertEqual(listed, self.simulate("-p", 4, "-m", 8, "--stage-times", times, "--json"))
        result = json.loads(listed)
        self.assertEqual(8 * 6 + 3 * 3, result["step_s"])
        self.assertEqual(result["step_s"], result["closed_form_step_s"])
        self.assertEqual([24, 24, 24, 48], result["busy_s"])

    def test_messages_take_their_time(self):
        arguments = ["--schedule", "gpipe", "-p", 4, "-m", 8, "--forward", "8ms", "--json"]
        free = json.loads(self.simulate(*arguments))["step_s"]
        paid = json.loads(self.simulate(*arguments, "--p2p", "250us"))["step_s"]
        self.assertAlmostEqual(11 * 24e-3, free)
        self.assertAlmostEqual(6 * 250e-6, paid - free)

    def test_the_trace_has_a_slice_an_action_and_a_thread_a_stage(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            self.simulate("--schedule", "zb-v", "-p", 3, "-m", 5, "--trace", path)
            events = json.loads(path.read_text())["traceEvents"]
            self.assertEqual([path], list(pathlib.Path(folder).iterdir()))
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual(3 * 2 * 3 * 5, len(slices))
        self.assertEqual(["stage 0", "stage 1", "stage 2"],
                         [e["args"]["name"] for e in events if e["name"] == "thread_name"])
        for thread in range(3):
            mine = sorted((e["ts"], e["dur"]) for e in slices if e["tid"] == thread)
            for (start, duration), (following, _) in zip(mine, mine[1:]):
                self.assertLessEqual(start + duration, following + 1e-6)
        held = [e["args"]["chunks"] for e in events if e["ph"] == "C"]
        self.assertEqual(6, max(held))
        self.assertEqual(3, held.count(0))

    def test_refusals_name_the_nearest_legal_value(self):
        for arguments, wanted, text in (
                (["--schedule", "interleaved", "-p", 4, "-m", 10], 1, "the nearest legal m is 8 or 12"),
                (["--schedule", "gpipe", "-p", 4, "-m", 8, "-v", 2], 1, "use v = 1"),
                (["--schedule", "interleaved", "-p", 1, "-m", 8], 1, "use p = 2 or more"),
                (["--schedule", "zb-v", "-p", 4, "-m", 8, "-v", 3], 1, "use v = 2"),
                (["-p", 0, "-m", 8], 2, "the smallest is 1"),
                (["-p", 4, "-m", 10_000_000], 2, "m is at most 1250000"),
                (["-p", 2, "-m", 2, "--forward", "soon"], 2, "3ms"),
                (["-p", 2, "-m", 2, "--backward", 1, "--backward-weight", 2], 2, "part of the backward"),
                (["-p", 2, "-m", 2, "--stage-times", "1:2"], 2, "each of the 2 stages"),
                (["-p", 2, "-m", 2, "--stage-times", "1:2,3"], 2, "FORWARD:BACKWARD"),
                (["-p", 2, "-m", 2, "--trace", "/nowhere/trace.json"], 2, "/nowhere"),
                (["-p", 2, "-m", 2, "--trace", "-"], 2, "--trace takes a file")):
            with self.subTest(arguments=arguments):
                code, out, err = nqd("simulate", "pipeline", *arguments)
                self.assertEqual((wanted, ""), (code, out))
                self.assertIn(text, err)


if __name__ == "__main__":
    unittest.main()
