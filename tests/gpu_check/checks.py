"""Whether what the GPU computes is right: the build's own programs, training beside the CPU, and memory
errors."""

import shutil

import tokens
from box import NO_TIME, Check, skipped

TINY = "configs/parity/gpt-tied.yaml"
LLAMA = "configs/parity/llama-gqa.yaml"
# Name, config, sets.
MESHES = (("ddp x1", TINY, []), ("llama x1", LLAMA, []), ("ddp x2", TINY, ["parallel.dp=2"]),
          ("zero1 x2", TINY, ["parallel.dp=2", "parallel.engine=zero1"]),
          ("zero2 x2", TINY, ["parallel.dp=2", "parallel.engine=zero2"]),
          ("zero3 x2", TINY, ["parallel.dp=2", "parallel.engine=zero3"]),
          ("zero3 x4", TINY, ["parallel.dp=4", "parallel.engine=zero3"]),
          ("tp x2", TINY, ["parallel.tp=2"]), ("pp x2", TINY, ["parallel.pp=2"]),
          ("tp x2, pp x2", TINY, ["parallel.tp=2", "parallel.pp=2"]), ("llama tp x2", LLAMA, ["parallel.tp=2"]))
# Of the trial on CPU ranks, which shows that the script works and no more.
TRIAL = ("ddp x2", "llama tp x2")
# Relative differences of losses over three steps that other sums and another exponential may make.
ENVELOPES = {"float32": 1e-4, "bfloat16": 2e-2}
# Where there is one GPU, ranks share it by staged messages in float32, and by NCCL in bfloat16 if it is new
# enough (2.30): both ways are run.
SHARED_GPU = {"float32": {}, "bfloat16": {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}}
PROGRAMS = {"nqd_cuda_device_tests": "tests/engine/cuda/nqd_cuda_device_tests",
            "nccl_gpu_cases": "tests/collectives/nccl/nccl_gpu_cases"}


def programs(box):
    """The test programs of the cuda preset that need a device."""
    for name, path in PROGRAMS.items():
        if not (box.build / path).exists():
            yield skipped(name, "not in this build")
            continue
        code, text = box.run(box.build / path, limit=90)
        (box.output / f"{name}.txt").write_text(text, encoding="utf-8")
        result = {0: "pass", 77: "skipped"}.get(code, "fail")
        last = (text.strip().splitlines() or [f"exit code {code}"])[-1]
        yield Check(name, result, "it took too long" if code == 124 else last[:120])


def count_audit(box, evidence):
    """Exact rows of the audit, for the target on them."""
    exact = [row for row in evidence.get("audit", []) if row["exact"]]
    seen = box.measured.setdefault("audits", {"rows": 0, "ok": 0})
    seen["rows"] += len(exact)
    seen["ok"] += sum(row["ok"] for row in exact)


def compare(name, reference, found, limit):
    """The check that `found` trained as `reference` did, and that its plan was exact."""
    pairs = list(zip(found["steps"], reference["steps"], strict=True))
    worst = max(abs(one["loss"] / other["loss"] - 1) for one, other in pairs)
    audit = bool(found["audit_ok"])
    good = worst <= limit and audit
    seen = (f"losses within {worst:.1e} of the CPU's (allowed {limit:.0e}), audit {'ok' if audit else 'NOT ok'}, "
            f"messages: {found['backend']}")
    return Check(name, "pass" if good else "fail", seen, {"max_rel_loss_diff": worst, "backend": found["backend"]})


def parity(box):
    """The engine on the GPU against one rank on the CPU."""
    data = box.output / "data/text"
    tokens.write_dataset(data, 256, tokens.words(1 << 18, 1), tokens.words(1 << 14, 2))
    for precision, limit in ENVELOPES.items():
        base = ["numerics.mode=fast", f"train.precision={precision}", f"data.path={data}"]
        references = {}
        for name, config, mesh in (one for one in MESHES if box.device == "cuda" or one[0] in TRIAL):
            label = f"{name} {precision}"
            if box.left() < 5:
                yield skipped(label, NO_TIME)
                continue
            if config not in references:
                references[config], why = box.train(f"reference {len(references)} {precision}", config, "cpu", base)
                if references[config] is None:
                    yield Check(f"reference of {config}, {precision}", "fail", why)
            if references[config] is None:
                continue
            found, why = box.train(label, config, box.device, base + mesh, extra=SHARED_GPU[precision])
            if found is None:
                yield Check(label, "fail", why)
                continue
            count_audit(box, found)
            yield compare(label, references[config], found, limit)


def sanitizer(box):
    tool = shutil.which("compute-sanitizer")
    if tool is None or box.device != "cuda":
        yield skipped("compute-sanitizer", "it is not on the path" if tool is None else "there is no GPU")
        return
    data = box.output / "data/text"
    for kind in ("memcheck", "racecheck"):
        if box.left() < 15:
            yield skipped(f"compute-sanitizer {kind}", NO_TIME)
            continue
        _, words = box.train_words(f"sanitizer {kind}", TINY, box.device,
                                   ["numerics.mode=fast", "train.steps=1", f"data.path={data}"])
        code, text = box.run(tool, "--tool", kind, "--error-exitcode", "9", *words)
        (box.output / f"compute-sanitizer-{kind}.txt").write_text(text, encoding="utf-8")
        refused = "Device not supported" in text
        result = "skipped" if refused or code == 124 else "pass" if code == 0 else "fail"
        yield Check(f"compute-sanitizer {kind}", result, "it took too long" if code == 124 else text.strip()[-120:])
