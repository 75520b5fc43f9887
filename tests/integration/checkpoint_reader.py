"""Reads checkpoints with nothing but the standard library, from their documented format alone."""

import json
import math
import pathlib

BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "U8": 1}


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}"""
    whole = pathlib.Path(path).read_bytes()
    length = int.from_bytes(whole[:8], "little")
    head = json.loads(whole[8:8 + length])
    head.pop("__metadata__", None)
    data = whole[8 + length:]
    tensors = {}
    for name, entry in head.items():
        begin, end = entry["data_offsets"]
        size = BYTES[entry["dtype"]] * math.prod(entry["shape"])
        assert end - begin == size <= len(data), f"{path}: {name} has {end - begin} bytes"
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return tensors


def read_checkpoint(directory):
    """{name: (dtype, shape, bytes)} with the shards put together as the manifest says."""
    directory = pathlib.Path(directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    files = {}
    tensors = {}
    for name, entry in manifest["tensors"].items():
        parts, row = [], 0
        for shard in entry["shards"]:
            file = shard["file"]
            if file not in files:
                files[file] = read_safetensors(directory / file)
            dtype, shape, data = files[file][name]
            assert dtype == entry["dtype"]
            assert shape[1:] == entry["shape"][1:], f"{file}: {name} is {shape}"
            assert shard["first_row"] == row, f"{name} has a gap before row {row}"
            assert not shape or shape[0] == shard["rows"]
            row += shard["rows"]
            parts.append(data)
        data = b"".join(parts)
        assert len(data) == BYTES[entry["dtype"]] * math.prod(entry["shape"]), name
        tensors[name] = (entry["dtype"], entry["shape"], data)
    return tensors
