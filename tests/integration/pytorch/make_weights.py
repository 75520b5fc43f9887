"""Makes a GPT-2 in PyTorch and saves it as Hugging Face does.

make_weights.py SETTINGS.json WEIGHTS.safetensors prints the loss of its first step on the
trainer's data.
"""

import json
import pathlib
import struct
import sys

import torch
from reference_training import Gpt, Order, batch


def save(path, tensors):
    """The safetensors format: the length of the head, the head, the tensors' bytes."""
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = struct.pack(f"<{tensor.numel()}f", *tensor.flatten().tolist())
        head[name] = {"dtype": "F32", "shape": list(tensor.shape),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    settings_path, weights = (pathlib.Path(word) for word in sys.argv[1:])
    settings = json.loads(settings_path.read_text())
    torch.set_num_threads(1)
    torch.manual_seed(11)
    model = Gpt(settings["model"])
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if name.endswith("ln_f.weight") else 0.0, 0.05)
    # As GPT2Model saves itself, and with what older ones have beside their weights.
    tensors = {name.removeprefix("transformer."): parameter.detach()
               for name, parameter in model.named_parameters()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 4, 4)
    save(weights, tensors)
    text = pathlib.Path(settings["data"]["text"]).read_bytes()
    order = Order(settings, len(text))
    with torch.no_grad():
        losses = [model(*batch(settings, order, text, 0, number)).item()
                  for number in range(settings["logical_batches"])]
    print(json.dumps(sum(losses) / len(losses)))


main()
