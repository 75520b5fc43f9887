"""The worked example of docs/own_model.md: a model in one file."""

import math
import os
import pathlib

import pytest
from checkpoint_reader import read_checkpoint
from jobs import DLAUNCH
from local_jobs import make  # noqa: F401 (a fixture)

STEPS = 60
TRAINER = {"steps": STEPS, "logical_batches": 2, "micro_batch": 4, "learning_rate": 0.01,
           "model": {"layers": 2, "width": 32, "heads": 1, "context": 16}}


@pytest.fixture(scope="module")
def mixer():
    path = pathlib.Path(DLAUNCH).parent / "dlaunch-trainer-mixer"
    assert os.access(path, os.X_OK), f"{path} is not built"
    return str(path)


def trained(make, mixer, strategy, workers):
    names = [f"here{number}" for number in range(1, len(workers) + 1)]
    job = make({"trainer": {**TRAINER, "strategy": strategy}}, workers=workers,
               name=f"{strategy}-{len(workers)}",
               each={name: {"trainer": mixer} for name in names})
    code, output = job.run()
    assert code == 0, output
    return job, read_checkpoint(job.directory / "checkpoints" / f"step-{STEPS}")


def test_the_example_learns_and_ends_with_the_same_bits_on_any_ranks(make, mixer):
    job, alone = trained(make, mixer, "ddp", (1,))
    assert alone["blocks.1.mix.weight"][1] == [16, 16]
    assert job.status()["loss"] < math.log(256) - 1, "who knows nothing has ln 256"
    for strategy, workers in (("ddp", (1, 1)), ("fsdp", (1, 1))):
        assert trained(make, mixer, strategy, workers)[1] == alone, strategy
