#!/usr/bin/env python3
"""PyTorch's side of real_text.py: one training with the settings that nqd resolved from its config.

    torch_real_text.py settings.json --data runs/kjv/data --output torch-1.json
    torch_real_text.py settings.json --data runs/kjv/data --weights model.safetensors --output same.json

Model, initial distribution, optimizer, schedule, clipping, order of samples and held-out samples are
those of nqd, written again from its documentation; the initial numbers are PyTorch's own, unless
--weights names an export of nqd. `settings.json` maps config paths to values, as text.
"""

import argparse
import datetime
import json
import math
import mmap
import os
import pathlib
import struct
import sys
import types

import torch
from torch import nn

import torch_train

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "engine"))
from sampler_golden import permute  # the order of samples, written a second time from its description

HEADER = struct.Struct("<8sIIQQ32s")  # docs/data.md, "The token file"
# nqd's Hugging Face names of a layer, and whether the matrix is stored transposed (docs/weights.md).
LAYER = {"norm1": ("ln_1", False), "qkv": ("attn.c_attn", True), "proj": ("attn.c_proj", True),
         "norm2": ("ln_2", False), "fc": ("mlp.c_fc", True), "back": ("mlp.c_proj", True)}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Tokens:
    """Sample i is `sequence` tokens from i · sequence on; its targets are the next ones."""

    def __init__(self, path, sequence):
        with open(path, "rb") as file:
            data = file.read()
        magic, _, width, _, count, _ = HEADER.unpack_from(data)
        if magic != b"NQDTOKEN" or width != 1 or len(data) != HEADER.size + count:
            sys.exit(f"{path} is no token file of bytes")
        self.tokens = torch.frombuffer(bytearray(data[HEADER.size:]), dtype=torch.uint8).long()
        self.sequence, self.samples = sequence, (count - 1) // sequence

    def batch(self, indices):
        rows = torch.stack([self.tokens[i * self.sequence:(i + 1) * self.sequence + 1] for i in indices])
        return rows[:, :-1], rows[:, 1:]


def draw(model, layers):
    """N(0, 0.02²); the projections onto the residual stream N(0, (0.02/√(2L))²); biases 0."""
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            back = name.endswith((".proj.weight", ".back.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if back else 0.02)
        elif name.endswith(".bias"):
            nn.init.zeros_(parameter)


def read_safetensors(path):
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = struct.unpack_from("<Q", data)[0]
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            yield name, values.view(entry["shape"])


def load(model, path):
    """Every parameter of the model from nqd's export, and every tensor of the export to a parameter."""
    stored = {name.removeprefix("transformer."): values for name, values in read_safetensors(path)}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            module, leaf = name.rsplit(".", 1)
            transposed = False
            if module.startswith("layers."):
                _, number, part = module.split(".")
                theirs, transposed = LAYER[part]
                module = f"h.{number}.{theirs}"
            else:
                module = {"tokens": "wte", "positions": "wpe", "norm": "ln_f"}[module]
            values = stored.pop(f"{module}.{leaf}")
            parameter.copy_(values.T if transposed and parameter.dim() > 1 else values)
    if set(stored) - {"lm_head.weight"}:
        sys.exit(f"{path} has tensors that the model has not: {', '.join(stored)}")


def learning_rate(settings, step):
    """engine/optimizer/schedule.cpp: linear warm-up, then a cosine to the least rate."""
    steps, warmup = int(settings["train.steps"]), int(settings["train.optimizer.warmup_steps"])
    most = float(settings["train.optimizer.learning_rate"])
    least = float(settings["train.optimizer.min_learning_rate"])
    if step < warmup:
        return most * step / warmup
    if step >= steps:
        return least
    return least + (most - least) * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(steps - warmup, 1)))


def make_optimizer(model, settings):
    """Matrices decay, vectors do not."""
    value = lambda key: float(settings["train.optimizer." + key])
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": value("weight_decay")},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(value("beta1"), value("beta2")), eps=value("epsilon"),
                             fused=True)


class Training:
    def __init__(self, settings, data, weights):
        number = lambda key: int(settings[key])
        self.settings = settings
        self.steps, self.seed = number("train.steps"), number("train.seed")
        self.batch, self.rows = number("train.global_batch_size"), number("train.micro_batch_size")
        self.train = Tokens(data / "train.tokens", number("model.sequence"))
        self.heldout = Tokens(data / "heldout.tokens", number("model.sequence"))
        self.wanted = min(self.heldout.samples, number("train.eval_batches") * self.rows)
        torch.manual_seed(self.seed)
        shape = {key: number("model." + key) for key in ("layers", "hidden", "heads", "vocab", "sequence")}
        self.model = torch_train.Gpt(types.SimpleNamespace(**shape))
        if weights:
            load(self.model, weights)
        else:
            draw(self.model, shape["layers"])
        self.optimizer = make_optimizer(self.model, settings)

    def sample(self, position):
        return permute(position % self.train.samples, self.train.samples, self.seed,
                       position // self.train.samples)

    def evaluate(self, step):
        total = 0.0
        spread = [i * self.heldout.samples // self.wanted for i in range(self.wanted)]
        with torch.no_grad():
            for first in range(0, self.wanted, self.rows):
                indices = spread[first:first + self.rows]
                total += len(indices) * float(self.model(*self.heldout.batch(indices)))
        return {"step": step, "heldout_loss": total / self.wanted, "tokens": self.wanted * self.heldout.sequence}

    def step(self, step):
        """Step numbers begin with 1. The loss is that before the update."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.settings, step)
        self.optimizer.zero_grad()
        first, total = (step - 1) * self.batch, 0.0
        for begin in range(first, first + self.batch, self.rows):
            indices = [self.sample(position) for position in range(begin, begin + self.rows)]
            loss = self.model(*self.train.batch(indices)) * (self.rows / self.batch)
            loss.backward()
            total += float(loss.detach())
        clip = float(self.settings["train.optimizer.grad_clip"])
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), clip if clip > 0 else math.inf)
        self.optimizer.step()
        return {"step": step, "loss": total, "grad_norm": float(norm)}

    def run(self):
        every, evals, steps = int(self.settings["train.eval_every"]), [self.evaluate(0)], []
        for step in range(1, self.steps + 1):
            steps.append(self.step(step))
            if step == self.steps or (every > 0 and step % every == 0):
                evals.append(self.evaluate(step))
                print(f"step {step}/{self.steps}: held-out loss {evals[-1]['heldout_loss']:.4f}",
                      file=sys.stderr, flush=True)
        return evals, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--weights", type=pathlib.Path, help="start from this export of nqd")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    training = Training(json.loads(args.settings.read_text(encoding="utf-8")), args.data, args.weights)
    started = now()
    evals, steps = training.run()
    document = {"torch": torch.__version__, "threads": args.threads, "cpus": sorted(os.sched_getaffinity(0)),
                "parameters": sum(p.numel() for p in training.model.parameters()),
                "started_at": started, "ended_at": now(), "evals": evals, "steps": steps}
    part = args.output.with_suffix(".part")
    part.write_text(json.dumps(document), encoding="utf-8")
    part.rename(args.output)


if __name__ == "__main__":
    main()
