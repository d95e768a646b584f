#!/usr/bin/env python3
"""One training of the benchmark's GPT with PyTorch on CPU cores: median step time as JSON.

    torch_train.py --mode eager --threads 2
    torch_train.py --mode ddp            # two processes of one thread, Gloo

The model is GPT-2's decoder as `nqd train` runs it: learned positions, layer norms before attention
and MLP, GELU (tanh), tied head, biases; float32, AdamW. Attention is
scaled_dot_product_attention(is_causal=True). A step is zero_grad, forward, backward, clipping by
the global norm and the update; data are random tokens made beforehand.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

MODES = ("eager", "compiled", "ddp", "fsdp2")


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc, self.back = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        shape = (batch, sequence, self.heads, hidden // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(hidden, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(attended.transpose(1, 2).reshape(x.shape))
        return x + self.back(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.hidden)
        self.positions = nn.Embedding(args.sequence, args.hidden)
        self.layers = nn.ModuleList(Layer(args.hidden, args.heads) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.hidden)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def sharded(model):
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def train(args, rank):
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    model = Gpt(args)
    if args.mode == "compiled":
        model = torch.compile(model)
    elif args.mode == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    elif args.mode == "fsdp2":
        model = sharded(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=args.fused)
    generator = torch.Generator().manual_seed(rank)
    data = torch.randint(args.vocab, (args.batch, args.sequence + 1), generator=generator)
    times = []
    for _ in range(args.warmup + args.steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(data[:, :-1], data[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - begin)
    return times[args.warmup:]


def worker(args):
    """A process of a group that `launch` started; rank 0 prints the slowest rank's median."""
    from torch import distributed

    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    os.sched_setaffinity(0, {rank})
    median = torch.tensor(statistics.median(train(args, rank)), dtype=torch.float64)
    distributed.all_reduce(median, distributed.ReduceOp.MAX)
    if rank == 0:
        show(args, float(median), distributed.get_world_size())
    distributed.destroy_process_group()


def show(args, median, ranks):
    tokens = args.batch * args.sequence * ranks
    print(json.dumps({"mode": args.mode, "threads": args.threads, "ranks": ranks, "torch": torch.__version__,
                      "step_s": median, "tokens_per_s": tokens / median}))


def launch(args):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen(
        [sys.executable, *sys.argv],
        env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(args.ranks), MASTER_ADDR="127.0.0.1",
                 MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo"))
             for rank in range(args.ranks)]
    return max(rank.wait() for rank in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--threads", type=int, default=1, help="a process")
    parser.add_argument("--ranks", type=int, default=2, help="of ddp and fsdp2")
    parser.add_argument("--no-fused", dest="fused", action="store_false", help="AdamW by the element")
    for name, value in (("layers", 6), ("hidden", 384), ("heads", 6), ("sequence", 256), ("batch", 4),
                        ("vocab", 256), ("warmup", 2), ("steps", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.mode not in ("ddp", "fsdp2"):
        os.sched_setaffinity(0, set(range(args.threads)))
        show(args, statistics.median(train(args, 0)), 1)
    elif "RANK" in os.environ:
        worker(args)
    else:
        sys.exit(launch(args))


if __name__ == "__main__":
    main()
