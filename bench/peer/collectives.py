"""All-reduce of PyTorch on gloo: collectives.py VALUES REPEATS, with the environment of a rank.
Rank 0 prints the milliseconds of each repeat."""

import sys
import time

import torch
import torch.distributed as dist

WARM_UPS = 3


def main():
    values, repeats = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    buffer = torch.ones(values)
    for repeat in range(repeats + WARM_UPS):
        buffer.fill_(1.0)
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(buffer)
        took = time.perf_counter() - begun
        assert buffer[0] == buffer[-1] == dist.get_world_size()
        if dist.get_rank() == 0 and repeat >= WARM_UPS:
            print(f"{took * 1e3:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
