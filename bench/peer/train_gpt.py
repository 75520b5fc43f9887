"""The model and the loop of bench/measure.py's job for torchrun: PyTorch DDP over gloo.

train_gpt.py DIRECTORY: resumes from DIRECTORY/model.pt, which rank 0 writes every 20 steps, and
appends "step monotonic_ns pid" to DIRECTORY/rank-N.txt after each step.
"""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 2, 128, 4, 64, 256
MICRO_BATCH, MICRO_BATCHES, CHECKPOINT_EVERY = 8, 2, 20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        heads = (part.view(rows, length, HEADS, -1).transpose(1, 2)
                 for part in self.attention(self.norm_1(x)).split(WIDTH, dim=2))
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x, y):
        hidden = self.tokens(x) + self.places.weight[: x.shape[1]]
        logits = self.head(self.norm(self.blocks(hidden)))
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def main():
    directory = pathlib.Path(sys.argv[1])
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Gpt(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    kept, step = directory / "model.pt", 0
    if kept.exists():
        saved = torch.load(kept)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    stamps = open(directory / f"rank-{rank}.txt", "a", buffering=1)
    while True:
        step += 1
        for number in range(MICRO_BATCHES):
            batch = torch.randint(VOCABULARY, (MICRO_BATCH, CONTEXT + 1))
            model.require_backward_grad_sync = number + 1 == MICRO_BATCHES
            model(batch[:, :-1], batch[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
        stamps.write(f"{step} {time.monotonic_ns()} {os.getpid()}\n")
        if step % CHECKPOINT_EVERY == 0 and rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                     "step": step}
            torch.save(state, directory / "model.tmp")
            (directory / "model.tmp").rename(kept)


main()
