"""The trainer's GPT-2 in PyTorch, for comparisons: same shapes and arithmetic, bytes as tokens."""

import torch
from torch import nn
from torch.nn import functional

BYTES = 256  # the data of both, whatever the vocabulary


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.width = heads, width
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, _ = x.shape
        heads = (part.view(rows, length, self.heads, -1).transpose(1, 2)
                 for part in self.attention(self.norm_1(x)).split(self.width, dim=2))
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(rows, length, self.width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary=BYTES):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x, y):
        hidden = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            hidden = block(hidden)
        logits = self.head(self.norm(hidden))
        return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def random_batch(micro_batch, context):
    batch = torch.randint(BYTES, (micro_batch, context + 1))
    return batch[:, :-1], batch[:, 1:]
