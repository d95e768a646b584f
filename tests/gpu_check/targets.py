"""What was measured against what is wanted. A target that is missed, or that could not be measured, is
reported and fails nothing: whether the results are right is for the checks to say."""

import dataclasses
import re
import statistics

# The driver's name of a GPU, and the preset (configs/presets/gpus/) that has its dense bf16 peak and where
# that comes from. Other boards of the same chip have other clocks: no peak is guessed for them.
GPU_PRESETS = {
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80",
    "NVIDIA B200": "b200",
}
FASTER_THAN_LLMC, FASTER_THAN_TORCH, AS_FAST_AS_TORCH = 1.1, 1.1, 1.05
MFU, COPY_SHARE, HOST_SHARE, STEP_TIME_MISS = 0.55, 0.85, 0.02, 0.10
# Model, peer, least ratio of tokens a second.
PEERS = (("gpt2-124m", "llm.c", FASTER_THAN_LLMC), ("gpt2-124m", "PyTorch", FASTER_THAN_TORCH),
         ("gpt2-1.5b", "PyTorch", AS_FAST_AS_TORCH), ("llama-1b-2048", "PyTorch", AS_FAST_AS_TORCH),
         ("llama-1b-4096", "PyTorch", AS_FAST_AS_TORCH))
MFU_MODELS = ("gpt2-1.5b", "llama-1b-2048", "llama-1b-4096")
# Kernels of one pass over memory, by a part of their name.
FUSED_KERNELS = ("norm", "adamw", "cross_entropy")
PASS, MISSED, NOT_MEASURED = "pass", "missed", "not measured"


@dataclasses.dataclass
class Verdict:
    target: str
    result: str
    measured: float | None
    why: str  # of what was not measured

    def line(self):
        seen = self.why if self.measured is None else f"{self.measured:.3g}"
        return f"{self.result:<13} {self.target:<64} {seen}"


def judge(target, measured, holds, why):
    if measured is None:
        return Verdict(target, NOT_MEASURED, None, why or "nothing was measured")
    return Verdict(target, PASS if holds(measured) else MISSED, measured, "")


def at_least(target, measured, limit, why=""):
    return judge(target, measured, lambda value: value >= limit, why)


def below(target, measured, limit, why=""):
    return judge(target, measured, lambda value: value < limit, why)


def at_most(target, measured, limit, why=""):
    return judge(target, measured, lambda value: value <= limit, why)


def peak_flops(gpu, presets):
    """Dense bf16 FLOP/s of the GPU of that name, or None. `presets`: folder of the GPU presets."""
    preset = GPU_PRESETS.get(gpu)
    if preset is None:
        return None
    text = (presets / f"{preset}.yaml").read_text(encoding="utf-8")
    found = re.search(r"^peak_flops: ([\d.]+) TFLOP/s", text, re.MULTILINE)
    return float(found[1]) * 1e12 if found else None


def ratio(own, peer):
    """Median of the ratios within a round, over the rounds that both have."""
    rounds = [a / b for a, b in zip(own, peer)]
    return statistics.median(rounds) if rounds else None


def of_peers(throughput):
    for model, peer, least in PEERS:
        found = throughput.get(model, {})
        rates, whys = found.get("tokens_per_s", {}), found.get("why", {})
        why = whys.get("nqd") or whys.get(peer) or f"{model} was not run"
        yield at_least(f"{model}: >= {least} x {peer}, tokens/s", ratio(rates.get("nqd", []), rates.get(peer, [])),
                       least, why)


def of_mfu(throughput):
    for model in MFU_MODELS:
        found = throughput.get(model, {})
        why = found.get("why", {})
        yield at_least(f"{model}: MFU >= {MFU} of the dense bf16 peak", found.get("mfu"), MFU,
                       why.get("nqd") or why.get("mfu") or f"{model} was not run")


def of_kernels(kernels):
    for part in FUSED_KERNELS:
        shares = [share for name, share in kernels.get("shares_of_copy", {}).items() if part in name]
        yield at_least(f"{part} kernels: >= {COPY_SHARE} of the copy's bandwidth", min(shares, default=None),
                       COPY_SHARE, kernels.get("why", "no such kernel was timed"))


def of_graph(graph):
    yield below(f"step under graph capture: host overhead < {HOST_SHARE}", graph.get("host_share"), HOST_SHARE,
                graph.get("why", "no step was captured"))


def of_prediction(prediction):
    predicted, measured = prediction.get("predicted_s"), prediction.get("measured_s")
    miss = abs(predicted / measured - 1) if predicted and measured else None
    yield at_most(f"step time predicted within {STEP_TIME_MISS} after calibrate", miss, STEP_TIME_MISS,
                  prediction.get("why", "nothing was calibrated"))


def of_audits(audits):
    """Persistent, communicated and peak bytes of every run of `parity`: exact rows of exact rows."""
    rows, exact = audits.get("rows", 0), audits.get("ok", 0)
    yield at_least("audit: share of the exact rows that agree to the byte", exact / rows if rows else None, 1.0,
                   "nothing was trained")


def unmeasured(found, why):
    """The same targets, none of them measured."""
    return [Verdict(one.target, NOT_MEASURED, None, why) for one in found]


def verdicts(measured):
    """One verdict a target, whatever was measured."""
    throughput = measured.get("throughput", {})
    return [*of_peers(throughput), *of_mfu(throughput), *of_kernels(measured.get("kernels", {})),
            *of_graph(measured.get("graph", {})), *of_prediction(measured.get("prediction", {})),
            *of_audits(measured.get("audits", {}))]
