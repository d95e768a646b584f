#!/usr/bin/env python3
"""PyTorch training GPT-2 and Llama on a GPU, told what to do line by line: scripts/gpu_check runs it in
turns with nqd.

    {"load": {"family": "gpt", "layers": 12, "hidden": 768, "heads": 12, "vocab": 50304, "sequence": 1024,
              "batch": 32, "compile": "model"}}
    {"steps": 20}
    {"free": true}

Each line of standard input is answered by one line of JSON. Weights and AdamW's state are float32
and products bfloat16, by autocast: what PyTorch's users do in the place of nqd's bfloat16 weights
with a float32 master. What passes from layer to layer is bfloat16, as nqd's. Attention is
scaled_dot_product_attention, AdamW the fused one. `compile`: "model" (as a whole), "layers" (one
layer's code for all of them, and the head with its loss: quick to compile where there are many) or
"none". A step reads a batch from pinned memory, and is timed by events of the device.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
import types

import torch
import torch.nn.functional as F
from torch import nn

import torch_train

WARMUP = 3


class LlamaLayer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, self.heads, self.kv_heads = shape.hidden, shape.heads, shape.kv_heads
        self.head_dim = hidden // self.heads
        width = self.kv_heads * self.head_dim
        linear = lambda rows, columns: nn.Linear(rows, columns, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        self.q, self.k, self.v = linear(hidden, hidden), linear(hidden, width), linear(hidden, width)
        self.proj = linear(hidden, hidden)
        self.gate, self.up = linear(hidden, shape.ffn_hidden), linear(hidden, shape.ffn_hidden)
        self.back = linear(shape.ffn_hidden, hidden)

    def split(self, x, heads):
        return x.view(*x.shape[:2], heads, self.head_dim).transpose(1, 2)

    def forward(self, x, cos, sin):
        normed = self.norm1(x)
        q = rotate(self.split(self.q(normed), self.heads), cos, sin)
        k = rotate(self.split(self.k(normed), self.kv_heads), cos, sin)
        v = self.split(self.v(normed), self.kv_heads)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.proj(attended.transpose(1, 2).reshape(x.shape))
        normed = self.norm2(x)
        return x + self.back(F.silu(self.gate(normed)) * self.up(normed))


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(LlamaLayer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=1e-5)
        half = shape.hidden // shape.heads // 2
        frequencies = shape.rope_base ** (-torch.arange(half) / half)
        angles = torch.outer(torch.arange(shape.sequence), frequencies)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def loss(self, x, targets):
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).flatten(0, 1), targets.flatten())

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.loss(x, targets)


def build(shape, device):
    torch.manual_seed(1)
    with torch.device(device):
        model = {"gpt": torch_train.Gpt, "llama": Llama}[shape.family](shape)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.02)
    model.layers[0].register_forward_pre_hook(lambda _, given: (given[0].bfloat16(), *given[1:]))
    return model


def compiled(model, how):
    if how == "model":
        return torch.compile(model)
    if how == "layers":
        for layer in model.layers:
            layer.compile()
        model.loss = torch.compile(model.loss)
    return model


class Clock:
    """Marks between steps: events of a GPU, or the host's clock."""

    def __init__(self, device):
        self.gpu = device == "cuda"

    def mark(self):
        if not self.gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, marks):
        if not self.gpu:
            return [b - a for a, b in zip(marks, marks[1:])]
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]


class Training:
    def __init__(self, shape, device):
        self.shape, self.device, self.clock = shape, device, Clock(device)
        plain = build(shape, device)
        self.parameters = list(plain.parameters())
        self.model = compiled(plain, shape.compile)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4, fused=True)
        source = torch.Generator().manual_seed(1)
        self.data = torch.randint(min(shape.vocab, 50257), (8, shape.batch, shape.sequence + 1), generator=source)
        if device == "cuda":
            self.data = self.data.pin_memory()

    def step(self, number):
        batch = self.data[number % len(self.data)].to(self.device, non_blocking=True)
        self.optimizer.zero_grad()
        with torch.autocast(self.device, dtype=torch.bfloat16):
            loss = self.model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss

    def run(self, steps):
        """Seconds of each step, and the last loss."""
        marks = [self.clock.mark()]
        for number in range(steps):
            loss = self.step(number)
            marks.append(self.clock.mark())
        return self.clock.seconds(marks), float(loss.detach())


class Server:
    def __init__(self, device):
        self.device, self.training = device, None

    def free(self):
        self.training = None
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()
        return {"free": True}

    def load(self, **shape):
        self.free()
        begin = time.perf_counter()
        self.training = Training(types.SimpleNamespace(**shape), self.device)
        _, loss = self.training.run(WARMUP)
        return {"load_s": time.perf_counter() - begin, "loss": loss, "torch": torch.__version__,
                "parameters": sum(one.numel() for one in self.training.parameters), "weights": "float32, autocast"}

    def steps(self, count):
        if self.training is None:
            raise ValueError("no model is loaded")
        seconds, loss = self.training.run(count)
        shape = self.training.shape
        return {"step_s": seconds, "loss": loss,
                "tokens_per_s": shape.batch * shape.sequence / statistics.median(seconds)}

    def answer(self, command):
        if "load" in command:
            return self.load(**command["load"])
        return self.steps(command["steps"]) if "steps" in command else self.free()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers print must not be taken for an answer
    server = Server(args.device)
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:  # pylint: disable=broad-except  # the peer's fault ends its measurement alone
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
