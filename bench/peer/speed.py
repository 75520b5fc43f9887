"""Tokens per second of PyTorch on gloo: speed.py ddp|fsdp LAYERS WIDTH HEADS CONTEXT VOCABULARY
MICRO_BATCH MICRO_BATCHES STEPS, with the environment of a rank. Rank 0 prints tokens/s of the
median step."""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from gpt import Gpt, random_batch
from torch.nn.parallel import DistributedDataParallel

SKIPPED_STEPS = 3  # allocations and connections of the first ones


def sharded(model):
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def main():
    strategy = sys.argv[1]
    layers, width, heads, context, vocabulary, *rest = map(int, sys.argv[2:])
    micro_batch, micro_batches, steps = rest
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group("gloo")
    model = Gpt(layers, width, heads, context, vocabulary)
    if strategy == "fsdp":
        model = sharded(model)
    else:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    took = []
    for _ in range(steps):
        begun = time.monotonic()
        for number in range(micro_batches):
            last = number + 1 == micro_batches
            if strategy == "fsdp":
                model.set_requires_gradient_sync(last)
            else:
                model.require_backward_grad_sync = last
            (model(*random_batch(micro_batch, context)) / micro_batches).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        took.append(time.monotonic() - begun)
    if dist.get_rank() == 0:
        tokens = dist.get_world_size() * micro_batches * micro_batch * context
        print(tokens / statistics.median(took[SKIPPED_STEPS:]), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
