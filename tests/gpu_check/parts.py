"""What lies behind a step: messages, memory, kernels, graphs, and whether its time was predicted."""

import json
import statistics

import measure
from box import Check, skipped

KERNEL_BENCH = "tests/engine/cuda/nqd_kernel_bench"


def messages(box):
    """Collectives: over NCCL, a rank a GPU; on the trial, ranks as threads."""
    where, end = ["--ranks", 2], "64K"
    if box.device == "cuda":
        where, end = ["--backend", "nccl", "--ranks", box.gpus], "256M"
    document, why = box.document("bench-all_reduce.json", "bench", "all_reduce", *where, "-b", "4K", "-e", end,
                                 "-f", 8, "-n", 20, limit=60)
    if document is None:
        yield Check("bench all_reduce", "skipped" if "NQD3064" in why else "fail", why)
        return
    wrong = sum(row["wrong"] for row in document["rows"])
    last = document["rows"][-1]
    yield Check("bench all_reduce", "fail" if wrong else "pass",
                f"{len(document['rows'])} sizes on {document['world_size_actual']} ranks, {wrong} wrong elements; "
                f"{last['effective_bytes']} bytes in {1e3 * statistics.median(last['samples_s']):.3f} ms")


def memory(box):
    """The host's memory, through which staged messages go."""
    document, why = box.document("bench-memory.json", "bench", "memory", "--ranks", 1, "-b", "1M", "-e", "4M", "-n", 3,
                                 limit=30)
    yield Check("bench memory", "pass" if document else "fail", "bench-memory.json" if document else why)


def timed_model(box):
    return measure.models(box)[0]


def kernel_words(box, model):
    """The config of a model for `nqd bench engine`."""
    words = ["configs/quickstart.yaml", "--ranks", 1]
    for one in ["parallel.dp=1", *model.sets, "train.precision=bfloat16", "numerics.mode=fast",
                "cluster.gpus_per_node=1"]:
        words += ["--set", one]
    return words


def bench_engine(box):
    """(document, "") of the engine's kernels on this device, or (None, why)."""
    device = []
    if box.device == "cuda":
        if not box.offers("--device", "bench", "engine"):
            return None, "this nqd times kernels on CPUs alone (bench engine has no --device)"
        device = ["--device", "cuda"]
    return box.document("bench-engine.json", "bench", "engine", *kernel_words(box, timed_model(box)), *device, "-n", 3,
                        "--rounds", 3, limit=90)


def prediction(box):
    """Calibrated on the kernels of the first model, is its step as long as was planned?"""
    seen = box.measured.setdefault("prediction", {})
    document, seen["why"] = bench_engine(box)
    if document is None:
        unable = box.device == "cuda" and "no --device" in seen["why"]
        yield Check("calibrate", "skipped" if unable else "fail", seen["why"])
        return
    cluster = box.output / "cluster.yaml"
    code, text = box.run(box.nqd, "calibrate", box.output / "bench-engine.json", "--output", cluster, limit=30)
    if code != 0:
        seen["why"] = text.strip()[-200:]
        yield Check("calibrate", "fail", seen["why"])
        return
    evidence, why = measure.train_timed(box, timed_model(box), "predicted", "--cluster", cluster)
    if evidence is None:
        seen["why"] = why
        yield Check("predicted step time", "fail", why)
        return
    seen["predicted_s"] = evidence["predicted_plan"]["time"]["step_s"]
    _, seen["measured_s"] = measure.steps_of(evidence)
    if seen["predicted_s"] is None:
        seen["why"] = "the plan predicts no time for this device"
        yield skipped("predicted step time", seen["why"])
        return
    yield Check("predicted step time", "pass",
                f"{1e3 * seen['predicted_s']:.2f} ms predicted, {1e3 * seen['measured_s']:.2f} ms measured")


def kernels(box):
    """Bandwidth of each fused kernel beside a copy's, from the build's own program."""
    seen = box.measured.setdefault("kernels", {})
    program = box.build / KERNEL_BENCH
    if not program.exists():
        seen["why"] = f"this build has no {KERNEL_BENCH}"
        yield skipped("bandwidth of kernels", seen["why"])
        return
    code, text = box.run(program, "--device", box.device, "--json", limit=60)
    (box.output / "kernels.json").write_text(text, encoding="utf-8")
    if code != 0:
        seen["why"] = f"exit code {code}: {text.strip()[-200:]}"
        yield Check("bandwidth of kernels", "skipped" if code == 77 else "fail", seen["why"])
        return
    document = json.loads(text)
    seen["copy_bytes_per_s"] = document["copy_bytes_per_s"]
    seen["shares_of_copy"] = {row["name"]: row["share_of_copy"] for row in document["passes"]}
    seen["operations_per_s"] = {f"{row['name']} {row['shape']}": row["operations_per_s"]
                                for row in document["products"]}
    slowest = min(seen["shares_of_copy"], key=seen["shares_of_copy"].get)
    yield Check("bandwidth of kernels", "pass",
                f"copy {seen['copy_bytes_per_s'] / 1e9:.0f} GB/s; the slowest pass, {slowest}, has "
                f"{seen['shares_of_copy'][slowest]:.2f} of that; products up to "
                f"{max(seen['operations_per_s'].values()) / 1e12:.0f} TFLOP/s")


def graph(box):
    """A step that is launched as one recorded graph: the host's share of it."""
    seen = box.measured.setdefault("graph", {})
    evidence, why = measure.train_timed(box, timed_model(box), "graph")
    if evidence is None:
        seen["why"] = why
        yield Check("step graph", "fail", why)
        return
    recorded = evidence.get("step_graph") or {}
    if not recorded.get("steps"):
        seen["why"] = recorded.get("reason") or "steps on this device are not recorded"
        yield skipped("step graph", seen["why"])
        return
    seen["host_share"] = measure.host_share(evidence)
    plain, why = measure.train_timed(box, timed_model(box), "no graph", "--no-graph")
    if plain is None:
        yield Check("step graph", "fail", why)
        return
    seen["host_share_without"] = measure.host_share(plain)
    seen["step_s"], seen["step_s_without"] = measure.steps_of(evidence)[1], measure.steps_of(plain)[1]
    yield Check("step graph", "pass", f"{recorded['steps']} of {len(evidence['steps'])} steps launched as graphs, the "
                f"host at work {seen['host_share']:.2%} of a step, which takes "
                f"{seen['step_s'] / seen['step_s_without']:.3f} of one without graphs")
