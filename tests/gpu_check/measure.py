"""How fast nqd is on this GPU: training in turns with peers, kernels, messages, graphs and predictions. Leaves
what targets.py judges in box.measured."""

import re
import statistics

import peers
import targets
import tokens
from box import NO_TIME, ROOT, Check, skipped

# Text of 50,257 tokens; the tables have 50,304 rows, as those of peers, for the sake of whole tiles.
TEXT_VOCAB, PADDED_VOCAB = 50257, 50304
STEPS, WARM = 24, 4


class Model:
    """One training: nqd's config keys, and the same shape for peers."""

    def __init__(self, name, preset, batch, sequence, rounds, compiled, depth=None, sets=(), **shape):
        self.name, self.preset, self.batch, self.sequence = name, preset, batch, sequence
        self.rounds, self.depth = rounds, depth
        self.sets = [f"model.preset={preset}", f"model.sequence={sequence}", f"train.micro_batch_size={batch}",
                     f"train.global_batch_size={batch}", *sets]
        self.shape = {"sequence": sequence, "batch": batch, "compile": compiled, **shape}

    @property
    def vocab(self):
        return self.shape["vocab"]


def gpt2(name, batch, rounds, compiled, layers, hidden, heads):
    return Model(name, name, batch, 1024, rounds, compiled, depth=layers, sets=[f"model.vocab={PADDED_VOCAB}"],
                 family="gpt", layers=layers, hidden=hidden, heads=heads, vocab=PADDED_VOCAB)


def llama(batch, sequence):
    return Model(f"llama-1b-{sequence}", "llama3.2-1b", batch, sequence, 1, "layers", family="llama", layers=16,
                 hidden=2048, heads=32, kv_heads=8, ffn_hidden=8192, rope_base=500000.0, vocab=128256)


# By worth: those with targets first. Both of a pair lie in the GPU's memory together.
MODELS = (gpt2("gpt2-124m", 32, 3, "model", 12, 768, 12), llama(8, 2048),
          gpt2("gpt2-1.5b", 8, 1, "layers", 48, 1600, 25), llama(4, 4096),
          gpt2("gpt2-350m", 16, 1, "layers", 24, 1024, 16), gpt2("gpt2-774m", 8, 1, "layers", 36, 1280, 20))
TRIAL = (Model("byte-gpt-small", "byte-gpt-small", 4, 64, 2, "none", sets=["model.layers=2", "model.hidden=64",
               "model.heads=2", "model.ffn_hidden=256"], family="gpt", layers=2, hidden=64, heads=2, vocab=256),)
WITH_TARGETS = {model for model, _, _ in targets.PEERS}


def models(box):
    return MODELS if box.device == "cuda" else TRIAL


def text_data(box):
    """Random tokens for all trainings that are timed: (folder for nqd, file for llm.c)."""
    folder, file = box.output / "data/tokens", box.output / "data/llmc.bin"
    if not (folder / "dataset.json").exists():
        vocab, count = (TEXT_VOCAB, 1 << 20) if box.device == "cuda" else (256, 1 << 14)
        train = tokens.uniform(count, vocab)
        heldout = tokens.uniform(count >> 4, vocab, 2)
        if vocab <= 256:
            train, heldout = (tokens.array.array("B", one) for one in (train, heldout))
        tokens.write_dataset(folder, vocab, train, heldout)
        if vocab > 256:
            tokens.write_llmc(file, train)
    return folder, file


def train_timed(box, model, label, *more, steps=STEPS):
    data, _ = text_data(box)
    return box.train(label, "configs/quickstart.yaml", box.device, [
        "parallel.dp=1", *model.sets, "train.precision=bfloat16", "train.eval_every=0", "train.eval_batches=1",
        f"train.steps={steps}", "train.optimizer.warmup_steps=2", "numerics.mode=fast", f"data.path={data}"], *more)


def steps_of(evidence):
    """(tokens of a step, median seconds) behind the first steps."""
    steps = evidence["steps"][WARM:]
    return steps[0]["tokens"], statistics.median(one["step_s"] for one in steps)


def host_share(evidence):
    """The host's share of a step that it asks the device for, or None where the record has none."""
    shares = [one["host_s"] / one["step_s"] for one in evidence["steps"][WARM:] if one.get("host_s") is not None]
    return statistics.median(shares) if shares else None


def flops_per_token(box, model):
    code, text = box.run(box.nqd, "calc", "flops", "--model", model.preset, "--vocab", model.vocab, "--sequence",
                         model.sequence, "--json", limit=20)
    found = re.search(r'"model_flops_per_token": ([\d.e+]+)', text)
    return float(found[1]) if code == 0 and found else None


def mfu(box, model, tokens_per_s):
    """(share of the dense bf16 peak, "") by the planner's operations a token, or (None, why)."""
    peak = targets.peak_flops(box.gpu, ROOT / "configs/presets/gpus")
    if peak is None:
        return None, f"no peak is known for {box.gpu or 'this device'}"
    flops = flops_per_token(box, model)
    if flops is None:
        return None, "nqd calc flops gave no figure"
    return tokens_per_s * flops / peak, ""


class Throughput:
    """Trainings of one model in turns."""

    def __init__(self, box, torch, llmc):
        self.box, self.torch, self.llmc = box, torch, llmc
        self.asked = None  # the model that PyTorch was told to load

    def prefetch(self, model):
        """Lets PyTorch compile beside what is not timed."""
        if self.torch.why or self.asked == model.name:
            return
        self.asked = model.name
        self.torch.tell(load=model.shape)

    def nqd(self, model, turn, found):
        evidence, why = train_timed(self.box, model, f"speed {model.name} {turn}")
        if evidence is None:
            raise peers.Unavailable(why)
        found["audit_ok"] = found.get("audit_ok", True) and bool(evidence["audit_ok"])
        found["host_share"] = host_share(evidence)
        count, seconds = steps_of(evidence)
        return count / seconds

    def settle(self, model, found):
        """Until PyTorch has loaded what it was told to: it would share the device with what is timed."""
        if self.torch.why or self.asked != model.name:
            return
        try:
            found["torch"] = self.torch.hear(self.box.left() / 2)
        except peers.Unavailable as why:
            found["why"]["PyTorch"] = str(why)

    def pytorch(self, model, _, found):
        if "torch" not in found:
            self.prefetch(model)
            found["torch"] = self.torch.hear(self.box.left())
        self.torch.tell(steps=STEPS)
        return self.torch.hear(self.box.left())["tokens_per_s"]

    def llm_c(self, model, _, __):
        program, why = self.llmc
        if program is None or model.depth is None:
            raise peers.Unavailable(why or "llm.c trains GPT-2 alone")
        _, data = text_data(self.box)
        seconds = peers.run_llmc(self.box, program, model.depth, model.batch, model.sequence, STEPS, data)
        return model.batch * model.sequence / statistics.median(seconds[WARM:])

    def run(self, model):
        """What was measured of the model: rates by trainer, a figure a round, and why some have none."""
        found = {"tokens_per_s": {}, "why": {}, "batch": model.batch, "sequence": model.sequence, "vocab": model.vocab}
        self.settle(model, found)
        trainers = {"nqd": self.nqd, "PyTorch": self.pytorch, "llm.c": self.llm_c}
        for turn in range(model.rounds):
            for name, trainer in trainers.items():
                if name in found["why"]:
                    continue
                if self.box.left() < 5:
                    found["why"][name] = NO_TIME
                    continue
                try:
                    rate = trainer(model, turn, found)
                    found["tokens_per_s"].setdefault(name, []).append(rate)
                except peers.Unavailable as why:
                    found["why"][name] = str(why)
        if not self.torch.why:
            self.release()
        return found

    def release(self):
        try:
            self.torch.tell(free=True)
            self.torch.hear(30)
        except peers.Unavailable:
            pass  # it will say so again when it is next asked
        self.asked = None


def throughput_check(box, model, found):
    rates = found["tokens_per_s"]
    if not rates.get("nqd"):
        why = found["why"].get("nqd", NO_TIME)
        return Check(f"tokens/s {model.name}", "skipped" if why == NO_TIME else "fail", why)
    own = statistics.median(rates["nqd"])
    found["mfu"], no_mfu = mfu(box, model, own)
    if no_mfu:
        found["why"]["mfu"] = no_mfu
    seen = [f"{own:,.0f} tokens/s"] + ([f"MFU {100 * found['mfu']:.1f} %"] if found["mfu"] is not None else [])
    for peer in ("PyTorch", "llm.c"):
        if rates.get(peer):
            seen.append(f"{targets.ratio(rates['nqd'], rates[peer]):.2f} x {peer}")
    return Check(f"tokens/s {model.name}", "pass" if found["audit_ok"] else "fail", ", ".join(seen), found)


def throughput(box, runs):
    """Each model in turns with its peers."""
    results = box.measured.setdefault("throughput", {})
    for model in models(box):
        if box.left() < (30 if box.device == "cuda" else 1):
            yield skipped(f"tokens/s {model.name}", NO_TIME)
            results[model.name] = {"why": {"nqd": NO_TIME}}
            continue
        found = results[model.name] = runs.run(model)
        yield throughput_check(box, model, found)
