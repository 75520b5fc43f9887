"""A PyTorch DDP script as it would be written for torchrun: nothing in it knows of dlaunch.

It fits a small network to a known function, writes a checkpoint every few steps and goes on from
it.
"""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=20)
    options = parser.parse_args()
    folder = pathlib.Path(os.environ.get("DLAUNCH_CHECKPOINT_DIR", "program-checkpoints"))
    checkpoint = folder / "newest.pt"

    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]

    for step in range(first + 1, options.steps + 1):
        # The data depends on the step and the rank alone, so that a restart repeats it.
        dice = torch.Generator().manual_seed(step * dist.get_world_size() + rank)
        inputs = torch.randn(32, 8, generator=dice).to(device)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True).sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            if step % options.save_every == 0 or step == options.steps:
                save(checkpoint, {"model": model.state_dict(), "step": step,
                                  "optimizer": optimizer.state_dict()})
    dist.destroy_process_group()


def save(path, state):
    """Whole or not at all: a failure in between leaves the previous checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.rename(path)


if __name__ == "__main__":
    main()
