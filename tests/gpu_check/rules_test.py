#!/usr/bin/env python3
"""The rules of scripts/gpu_check on made-up evidence: verdicts just met and just missed, budgets, arguments,
what peers print, and what is carried."""

import argparse
import array
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import box as boxes  # noqa: E402
import checks  # noqa: E402
import measure  # noqa: E402
import pack  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import targets  # noqa: E402
import tokens  # noqa: E402

PRESETS = boxes.ROOT / "configs/presets/gpus"


def script():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(boxes.ROOT / "scripts/gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def new_box(folder, budget=100.0, device="cpu"):
    options = argparse.Namespace(build=pathlib.Path(folder), output=pathlib.Path(folder), budget=budget, device=device,
                                 python="", sections=["parity"])
    return boxes.Box(options, clock=Clock())


def result_of(verdicts, part):
    found = [one for one in verdicts if part in one.target]
    assert len(found) == 1, [one.target for one in found]
    return found[0]


class Verdicts(unittest.TestCase):
    def test_ratios_meet_their_limit_exactly_and_miss_it_by_little(self):
        for model, peer, least in targets.PEERS:
            part = f"{model}: >= {least} x {peer}"
            for factor, expected in ((1.0, targets.PASS), (0.999, targets.MISSED)):
                rates = {"nqd": [100 * least * factor], peer: [100.0]}
                found = targets.verdicts({"throughput": {model: {"tokens_per_s": rates}}})
                self.assertEqual(result_of(found, part).result, expected, part)

    def test_a_ratio_is_the_median_of_rounds(self):
        self.assertEqual(targets.ratio([11, 30, 12], [10, 10, 10]), 1.2)
        self.assertEqual(targets.ratio([11, 30], [10]), 1.1)
        self.assertIsNone(targets.ratio([1], []))

    def test_mfu(self):
        for mfu, expected in ((0.55, targets.PASS), (0.5499, targets.MISSED)):
            found = targets.verdicts({"throughput": {"gpt2-1.5b": {"mfu": mfu}}})
            self.assertEqual(result_of(found, "gpt2-1.5b: MFU").result, expected)

    def test_the_slowest_kernel_of_a_kind_counts(self):
        def judged(share):
            shares = {"copy": 1.0, "rms_norm": 0.99, "layer_norm_backward": share}
            return result_of(targets.verdicts({"kernels": {"shares_of_copy": shares}}), "norm kernels").result
        self.assertEqual(judged(0.85), targets.PASS)
        self.assertEqual(judged(0.849), targets.MISSED)

    def test_host_overhead_and_predicted_time(self):
        for share, expected in ((0.0199, targets.PASS), (0.02, targets.MISSED)):
            found = targets.verdicts({"graph": {"host_share": share}})
            self.assertEqual(result_of(found, "graph capture").result, expected)
        for predicted, expected in ((1.09, targets.PASS), (0.91, targets.PASS), (1.11, targets.MISSED),
                                    (0.89, targets.MISSED)):
            found = targets.verdicts({"prediction": {"predicted_s": predicted, "measured_s": 1.0}})
            self.assertEqual(result_of(found, "predicted within").result, expected)

    def test_one_wrong_row_misses_the_audit(self):
        for ok, expected in ((70, targets.PASS), (69, targets.MISSED)):
            found = targets.verdicts({"audits": {"rows": 70, "ok": ok}})
            self.assertEqual(result_of(found, "audit").result, expected)

    def test_what_was_not_measured_says_why_and_has_no_figure(self):
        found = targets.verdicts({"throughput": {"gpt2-124m": {"why": {"llm.c": "no --llmc FOLDER was given"}}}})
        self.assertTrue(all(one.result == targets.NOT_MEASURED and one.measured is None and one.why for one in found))
        self.assertEqual(result_of(found, "gpt2-124m: >= 1.1 x llm.c").why, "no --llmc FOLDER was given")

    def test_peaks_come_from_the_presets_and_are_not_guessed(self):
        self.assertEqual(targets.peak_flops("NVIDIA H200", PRESETS), 989e12)
        self.assertIsNone(targets.peak_flops("NVIDIA H200 NVL", PRESETS))
        for gpu in targets.GPU_PRESETS:
            self.assertGreater(targets.peak_flops(gpu, PRESETS), 1e14, gpu)


class Budgets(unittest.TestCase):
    def test_what_a_section_leaves_goes_to_the_next(self):
        with tempfile.TemporaryDirectory() as folder:
            box = new_box(folder, budget=100)
            box.open_section(0.25)
            self.assertEqual(box.left(), 25)
            box.clock.now += 5
            box.open_section(0.5)
            self.assertEqual(box.left(), 47.5)
            box.clock.now += 200
            box.open_section(1.0)
            self.assertEqual(box.left(), 0)

    def test_a_used_up_budget_skips_and_runs_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            box = new_box(folder)
            box.clock.now += 1000
            box.open_section(1.0)
            runs = measure.Throughput(box, argparse.Namespace(why="no PyTorch"), (None, "no llm.c"))
            found = [*checks.parity(box), *measure.throughput(box, runs)]
            self.assertTrue(found)
            self.assertEqual({(one.result, one.seen) for one in found}, {("skipped", boxes.NO_TIME)})
            self.assertFalse((box.output / "runs").exists())

    def test_nothing_is_timed_while_pytorch_still_loads(self):
        order = []

        class Torch:
            why = ""

            def tell(self, **command):
                order.extend(command)

            def hear(self, _):
                order.append("heard")
                return {"tokens_per_s": 1.0}

        with tempfile.TemporaryDirectory() as folder:
            box = new_box(folder, budget=100)
            box.open_section(1.0)
            runs = measure.Throughput(box, Torch(), (None, "no llm.c"))
            runs.nqd = lambda *_: order.append("nqd") or 1.0
            model = measure.models(box)[0]
            runs.prefetch(model)
            runs.run(model)
        self.assertEqual(order[:5], ["load", "heard", "nqd", "steps", "heard"])

    def test_a_program_that_takes_too_long_or_is_not_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            box = new_box(folder)
            self.assertEqual(box.run("sh", "-c", "echo begun; sleep 30", limit=0.1), (124, "begun\n"))
            self.assertEqual(box.run(pathlib.Path(folder) / "nowhere")[0], 127)
            document, why = box.document("x.json", "bench")
            self.assertIsNone(document)
            self.assertIn("exit code 127", why)


class Libraries(unittest.TestCase):
    def test_those_of_python_packages_are_found_where_the_loader_knows_none(self):
        with tempfile.TemporaryDirectory() as name:
            packages = pathlib.Path(name)
            for package, library in (("nccl", "libnccl.so.2"), ("cu13", "libcublasLt.so.13"), ("other", "libx.so.1")):
                (packages / "nvidia" / package / "lib").mkdir(parents=True)
                (packages / "nvidia" / package / "lib" / library).write_text("")
            python = packages / "python"
            python.write_text(f"#!/bin/sh\necho {name}\n", encoding="utf-8")
            python.chmod(0o755)

            def found(known):
                folders = boxes.library_folders(str(python), known)
                return [one.split("/")[-2] for one in folders if one.startswith(name)]
            self.assertEqual(found(""), ["cu13", "nccl"])
            self.assertEqual(found("\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\n"), ["cu13"])


class Parity(unittest.TestCase):
    def evidence(self, losses, audit_ok=True):
        return {"steps": [{"loss": loss} for loss in losses], "audit_ok": audit_ok, "backend": "local"}

    def test_losses_at_the_envelope_and_beyond(self):
        reference = self.evidence([4.0, 2.0])
        for loss, audit, expected in ((2.0 * 1.0099, True, "pass"), (2.0 * 1.0101, True, "fail"), (2.0, False, "fail")):
            found = checks.compare("x", reference, self.evidence([4.0, loss], audit), 0.01)
            self.assertEqual(found.result, expected)

    def test_a_run_of_another_length_is_refused(self):
        with self.assertRaises(ValueError):
            checks.compare("x", self.evidence([1.0, 2.0]), self.evidence([1.0]), 0.1)

    def test_exact_rows_are_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            box = new_box(folder)
            rows = [{"exact": True, "ok": True}, {"exact": True, "ok": False}, {"exact": False, "ok": False}]
            checks.count_audit(box, {"audit": rows})
            self.assertEqual(box.measured["audits"], {"rows": 2, "ok": 1})


class Report(unittest.TestCase):
    def test_a_missed_target_fails_nothing_and_a_failed_check_does(self):
        verdicts = targets.verdicts({"graph": {"host_share": 0.5}})
        good, bad = boxes.Check("a", "pass", "fine"), boxes.Check("b", "fail", "a | b\nc")
        self.assertEqual(report.failed([good]), [])
        self.assertEqual(report.failed([good, bad]), [bad])
        text = report.summary([good, bad], verdicts, "here")
        self.assertIn("FAILED   b", text)
        self.assertIn("1 missed", text)
        self.assertIn("| b | fail | a \\| b c |", report.markdown([good, bad], verdicts))


class Arguments(unittest.TestCase):
    def refused(self, *words):
        with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()):
            script().arguments(words)
        self.assertEqual(ended.exception.code, 2)

    def test_bad_ones_are_refused(self):
        self.refused("--budget", "0")
        self.refused("--budget", "nan")
        self.refused("--sections", "parity,speed")
        self.refused("--sections", ",")
        self.refused("--device", "tpu")

    def test_the_build_of_a_pack_is_another(self):
        arguments = script().arguments
        self.assertEqual(arguments([]).build, boxes.ROOT / "build/cuda")
        self.assertEqual(arguments(["--pack", "x"]).build, boxes.ROOT / "build/cuda-carry")
        self.assertEqual(arguments(["--build", "/x", "--pack", "y"]).build, pathlib.Path("/x"))


class Peers(unittest.TestCase):
    def test_steps_of_llmc(self):
        line = "step {:4d}/3 | loss 11.0 (+nanz)| norm 18.6 (+nanz)| lr 3.00e-04 | {} ms | 45.1% bf16 MFU | 297 tok/s\n"
        text = "| max_steps | 3 |\nval loss 11.0\n" + line.format(1, "90.00") + line.format(2, "62.50")
        self.assertEqual(peers.llmc_steps(text), [0.09, 0.0625])

    def test_llmc_is_run_for_the_steps_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "train_gpt2cu"
            program.write_text("#!/bin/sh\necho \"$@\" > arguments\n"
                               "for i in 1 2 3; do echo \"step $i/3 | loss 11.0 | 12.50 ms | 1 tok/s\"; done\n")
            program.chmod(0o755)
            box = new_box(folder)
            self.assertEqual(peers.run_llmc(box, program, 12, 4, 1024, 3, "data.bin"), [0.0125] * 3)
            words = (program.parent / "arguments").read_text().split()
            self.assertEqual(words[words.index("-d") + 1], "4096")
            self.assertEqual(words[words.index("-e") + 1], "d12")
            with self.assertRaisesRegex(peers.Unavailable, "3 of 4 steps"):
                peers.run_llmc(box, program, 12, 4, 1024, 4, "data.bin")

    def test_a_peer_that_is_not_there_says_why(self):
        self.assertIn("--llmc", peers.llmc_program(None)[1])
        self.assertIn("make train_gpt2cu", peers.llmc_program(HERE)[1])
        self.assertIn("--python", peers.Torch.look("", "cpu"))
        self.assertIn("nowhere", peers.Torch.look("/nowhere/python", "cpu"))

    def test_a_peer_that_ends_is_given_up(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"
            python.write_text("#!/bin/sh\nif [ \"$1\" = -c ]; then echo True; else exit 7; fi\n", encoding="utf-8")
            python.chmod(0o755)
            torch = peers.Torch(str(python), "cuda", pathlib.Path(folder) / "torch.log")
            self.assertEqual(torch.why, "")
            with self.assertRaises(peers.Unavailable):
                torch.tell(steps=1)
                torch.hear(10)
            self.assertIn("PyTorch", torch.why)
            torch.log.close()


class Tokens(unittest.TestCase):
    def test_both_formats_hold_the_same_numbers(self):
        drawn = tokens.uniform(1000, 50257)
        self.assertLess(max(drawn), 50257)
        self.assertGreater(max(drawn), 40000)
        self.assertEqual(drawn, tokens.uniform(1000, 50257))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            tokens.write_dataset(folder / "data", 50257, drawn, drawn[:10])
            tokens.write_llmc(folder / "llmc.bin", drawn)
            own = (folder / "data/train.tokens").read_bytes()
            theirs = (folder / "llmc.bin").read_bytes()
            self.assertEqual(own[64:], theirs[1024:])
            self.assertEqual(array.array("i", theirs[:12]).tolist(), [20240520, 1, 1000])
            index = json.loads((folder / "data/dataset.json").read_text())
            self.assertEqual(index["files"]["heldout"]["tokens"], 10)

    def test_words_are_bytes_of_the_length_asked_for(self):
        self.assertEqual(len(tokens.words(5000)), 5000)
        self.assertNotEqual(tokens.words(5000, 1), tokens.words(5000, 2))


class Pack(unittest.TestCase):
    LDD = ("\tlinux-vdso.so.1 (0x1)\n\tlibyaml-cpp.so.0.7 => /usr/lib/libyaml-cpp.so.0.7 (0x2)\n"
           "\tlibc.so.6 => /lib/libc.so.6 (0x3)\n\tlibcuda.so.1 => /lib/libcuda.so.1 (0x4)\n"
           "\tlibstdc++.so.6 => /lib/libstdc++.so.6 (0x5)\n\t/lib64/ld-linux-x86-64.so.2 (0x6)\n")

    def test_what_a_bare_box_lacks_is_carried(self):
        self.assertEqual(sorted(pack.to_carry(pack.parse_ldd(self.LDD))), ["libstdc++.so.6", "libyaml-cpp.so.0.7"])

    def test_mpi_and_missing_libraries_are_refused(self):
        for line in ("\tlibmpi.so.40 => /usr/lib/libmpi.so.40 (0x1)\n", "\tlibx.so => not found\n"):
            with self.assertRaises(pack.Refusal):
                pack.to_carry(pack.parse_ldd(self.LDD + line))

    def test_the_size_just_fits_or_does_not(self):
        pack.check_size(64 << 20)
        with self.assertRaises(pack.Refusal):
            pack.check_size((64 << 20) + 1)

    def test_a_folder_of_something_else_is_left_alone(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            pack.check_target(folder)
            (folder / "mine.txt").write_text("x")
            with self.assertRaises(pack.Refusal):
                pack.check_target(folder)
            (folder / "packed.json").write_text("{}")
            pack.check_target(folder)

    def test_a_build_for_this_cpu_alone_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            cache = pathlib.Path(name) / "CMakeCache.txt"
            cache.write_text("NQD_NATIVE:BOOL=OFF\n")
            pack.check_portable(pathlib.Path(name))
            cache.write_text("NQD_NATIVE:BOOL=ON\n")
            with self.assertRaises(pack.Refusal):
                pack.check_portable(pathlib.Path(name))

    def test_a_pack_that_is_refused_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as name:
            build, target = pathlib.Path(name) / "build", pathlib.Path(name) / "pack"
            (build / "cli").mkdir(parents=True)
            (build / "CMakeCache.txt").write_text("NQD_NATIVE:BOOL=ON\n")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(pack.pack(build, target), 3)
                (build / "cli/nqd").write_text("")
                self.assertEqual(pack.pack(build, target), 1)
            self.assertIn("NQD_NATIVE=ON", said.getvalue())
            self.assertEqual([one.name for one in pathlib.Path(name).iterdir()], ["build"])

    def test_files_that_go_along_exist(self):
        for name in (*pack.FILES, *pack.FOLDERS):
            self.assertTrue((boxes.ROOT / name).exists(), name)


if __name__ == "__main__":
    unittest.main()
