"""Trains on from a checkpoint of the trainer, in PyTorch alone: what its losses should be.

reference_training.py ddp|fsdp SETTINGS.json CHECKPOINT LAST_CHECKPOINT, with RANK, WORLD_SIZE and
MEETING, a file where the ranks meet, in the environment. Rank 0 prints {"losses": {step: loss},
"apart": the largest difference of a weight from LAST_CHECKPOINT}.

Written from docs/trainer.md and docs/protocol.md, not from the trainer's code: the order of the
data, the names and shapes of the tensors, and AdamW as PyTorch has it.
"""

import json
import math
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from checkpoint_reader import read_checkpoint  # noqa: E402

MASK = 2**64 - 1


class Conv1D(nn.Module):
    """Hugging Face's: the weight is [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(width, 3 * width),
                                   "c_proj": Conv1D(width, width)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, 4 * width),
                                  "c_proj": Conv1D(4 * width, width)})

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.attn["c_attn"](self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(hidden, float("-inf")).softmax(3) @ v
        x = x + self.attn["c_proj"](mixed.transpose(1, 2).reshape(rows, length, width))
        raised = functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](raised)


class Gpt(nn.Module):
    def __init__(self, model):
        super().__init__()
        width = model["width"]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(256, width), "wpe": nn.Embedding(model["context"], width),
            "h": nn.ModuleList(Block(width, model["heads"]) for _ in range(model["layers"])),
            "ln_f": nn.LayerNorm(width)})

    def forward(self, x, y):
        parts = self.transformer
        stream = parts["wte"](x) + parts["wpe"].weight[: x.shape[1]]
        for block in parts["h"]:
            stream = block(stream)
        logits = parts["ln_f"](stream) @ parts["wte"].weight.T
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def mix(value):
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


class Order:
    """Windows of the text, dealt in a new order in each pass: a Feistel permutation."""

    def __init__(self, settings, length):
        self.seed, self.context = mix(settings["seed"]), settings["model"]["context"]
        self.windows = (length - 1) // self.context
        self.half = (self.windows.bit_length() + 1) // 2
        self.batches, self.rows = settings["logical_batches"], settings["micro_batch"]

    def first_byte(self, step, micro_batch, row):
        dealt = (step * self.batches + micro_batch) * self.rows + row
        turn, index = divmod(dealt, self.windows)
        mask = 2**self.half - 1
        while True:
            left, right = index >> self.half, index & mask
            for number in range(4):
                scrambled = mix(self.seed ^ mix(turn * 4 + number) ^ right) & mask
                left, right = right, left ^ scrambled
            index = left << self.half | right
            if index < self.windows:
                return index * self.context


def batch(settings, order, text, step, micro_batch):
    context = settings["model"]["context"]
    starts = [order.first_byte(step, micro_batch, row) for row in range(settings["micro_batch"])]
    windows = torch.tensor([list(text[start:start + context + 1]) for start in starts])
    return windows[:, :-1], windows[:, 1:]


def tensor_of(entry):
    _, shape, data = entry
    return torch.frombuffer(bytearray(data), dtype=torch.float32).view(shape)


def main():
    strategy, settings_path, checkpoint, last_checkpoint = sys.argv[1:]
    settings = json.loads(pathlib.Path(settings_path).read_text())
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"],
                            rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    tensors = read_checkpoint(checkpoint)
    first, end = (json.loads((pathlib.Path(path) / "manifest.json").read_text())["step"]
                  for path in (checkpoint, last_checkpoint))
    model = Gpt(settings["model"])
    named = dict(model.named_parameters())
    assert set(named) == {name for name in tensors if not name.startswith("optimizer.")}
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(tensor_of(tensors[name]))
    if strategy == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for block in model.transformer["h"]:
            fully_shard(block)
        fully_shard(model)
        named = dict(model.named_parameters())
        run = model
    else:
        run = nn.parallel.DistributedDataParallel(model)

    def group(decays):
        return [named[name] for name in named if (len(tensors[name][1]) == 2) == decays]

    optimizer = torch.optim.AdamW(
        [{"params": group(True), "weight_decay": settings["weight_decay"]},
         {"params": group(False), "weight_decay": 0.0}],
        lr=settings["learning_rate"], betas=tuple(settings["betas"]), eps=1e-8)
    for name, parameter in named.items():
        kept = {"step": torch.tensor(float(first))}
        for key in ("exp_avg", "exp_avg_sq"):
            whole = tensor_of(tensors[f"optimizer.{key}.{name}"])
            if strategy == "fsdp":
                from torch.distributed.tensor import distribute_tensor
                whole = distribute_tensor(whole, parameter.device_mesh, parameter.placements)
            kept[key] = whole
        optimizer.state[parameter] = kept

    text = pathlib.Path(settings["data"]["text"]).read_bytes()
    order = Order(settings, len(text))
    share = settings["logical_batches"] // world_size
    losses = {}
    for step in range(first, end):
        total = torch.zeros((), dtype=torch.float64)
        for number in range(share):
            last = number + 1 == share
            if strategy == "fsdp":
                run.set_requires_gradient_sync(last)
            else:
                run.require_backward_grad_sync = last
            loss = run(*batch(settings, order, text, step, rank * share + number))
            (loss / share).backward()
            total += loss.detach().double()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        losses[step + 1] = total.item() / settings["logical_batches"]
    apart, wanted = 0.0, read_checkpoint(last_checkpoint)
    for name, parameter in named.items():
        whole = parameter.full_tensor() if strategy == "fsdp" else parameter
        apart = max(apart, (whole.detach() - tensor_of(wanted[name])).abs().max().item())
    if rank == 0:
        print(json.dumps({"losses": losses, "apart": apart}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
