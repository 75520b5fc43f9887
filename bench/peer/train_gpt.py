"""The job of bench/faults.py for torchrun: PyTorch DDP over gloo.

train_gpt.py DIRECTORY: resumes from DIRECTORY/model.pt, which rank 0 writes every 20 steps, and
appends "step monotonic_ns pid" to DIRECTORY/rank-N.txt after each step.
"""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from gpt import Gpt, random_batch
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, HEADS, CONTEXT = 2, 128, 4, 64  # as bench/measure.py has them
MICRO_BATCH, MICRO_BATCHES, CHECKPOINT_EVERY = 8, 2, 20


def main():
    directory = pathlib.Path(sys.argv[1])
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(Gpt(LAYERS, WIDTH, HEADS, CONTEXT),
                                    gradient_as_bucket_view=True)
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
            model.require_backward_grad_sync = number + 1 == MICRO_BATCHES
            model(*random_batch(MICRO_BATCH, CONTEXT)).backward()
        optimizer.step()
        optimizer.zero_grad()
        stamps.write(f"{step} {time.monotonic_ns()} {os.getpid()}\n")
        if step % CHECKPOINT_EVERY == 0 and rank == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                     "step": step}
            torch.save(state, directory / "model.tmp")
            (directory / "model.tmp").rename(kept)


main()
