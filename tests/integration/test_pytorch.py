"""The trainer against PyTorch: the same model, data and weights give the same losses."""

import json
import os
import pathlib
import subprocess

import pytest
from checkpoint_reader import read_checkpoint, read_safetensors
from jobs import SECONDS
from local_jobs import make  # noqa: F401 (a fixture)
from torch_python import torch_python  # noqa: F401 (a fixture)

REFERENCE = pathlib.Path(__file__).parent / "pytorch" / "reference_training.py"
MAKE_WEIGHTS = REFERENCE.with_name("make_weights.py")
RANKS = 2
FIRST, LAST = 20, 120
SETTINGS = {
    "logical_batches": 4, "micro_batch": 4, "learning_rate": 1e-3, "seed": 5,
    "weight_decay": 0.1, "clip": 1.0, "betas": [0.9, 0.95],
    "model": {"layers": 2, "width": 64, "heads": 4, "context": 64},
}


def losses_of(job):
    """{step: loss}, of those that the controller kept."""
    return dict(job.metrics("step, loss", "loss IS NOT NULL"))


def reference(python, strategy, settings, checkpoints):
    meeting = settings.parent / "meeting"
    command = [python, REFERENCE, strategy, settings, *checkpoints]
    ranks = []
    for rank in range(RANKS):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS),
                       "MEETING": str(meeting), "GLOO_SOCKET_IFNAME": "lo",
                       "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([str(word) for word in command], env=environment, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    try:
        outputs = [rank.communicate(timeout=3 * SECONDS) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert all(rank.returncode == 0 for rank in ranks), outputs
    answer = json.loads(outputs[0][0])
    return {int(step): loss for step, loss in answer["losses"].items()}, answer["apart"]


def test_training_starts_from_weights_that_pytorch_saved(make, torch_python):
    job = make({"trainer": {**SETTINGS, "steps": 1, "learning_rate": 0.0, "strategy": "fsdp",
                            "weights": "weights.safetensors"}}, workers=(1, 1))
    settings, weights = job.directory / "settings.json", job.directory / "weights.safetensors"
    settings.write_text(json.dumps({**SETTINGS, "data": {"text": str(job.directory / "text.txt")}}))
    made = subprocess.run([torch_python, MAKE_WEIGHTS, settings, weights], capture_output=True,
                          text=True, timeout=3 * SECONDS)
    assert made.returncode == 0, made.stderr
    code, output = job.run()
    assert code == 0, output
    assert abs(losses_of(job)[1] - json.loads(made.stdout)) <= 1e-5
    kept = read_checkpoint(job.directory / "checkpoints" / "step-1")
    given = read_safetensors(weights)
    for name, (dtype, shape, data) in kept.items():
        if not name.startswith("optimizer."):
            assert given[name.removeprefix("transformer.")] == (dtype, shape, data), name


def test_weights_of_another_model_are_refused_before_the_first_step(make, torch_python):
    job = make({"trainer": {**SETTINGS, "weights": "weights.safetensors",
                            "model": {**SETTINGS["model"], "width": 128}}})
    settings, weights = job.directory / "settings.json", job.directory / "weights.safetensors"
    settings.write_text(json.dumps({**SETTINGS, "data": {"text": str(job.directory / "text.txt")}}))
    subprocess.run([torch_python, MAKE_WEIGHTS, settings, weights], check=True,
                   capture_output=True, timeout=3 * SECONDS)
    code, output = job.run()
    assert code == 65, output
    assert "weights.safetensors" in output and "wte.weight is [256, 64]" in output, output


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_losses_and_weights_are_those_of_pytorch(make, torch_python, strategy):
    trainer = {**SETTINGS, "strategy": strategy}
    job = make({"trainer": {**trainer, "steps": FIRST}, "checkpoint": {"keep": 10}},
               workers=(1, 1))
    code, output = job.run()
    assert code == 0, output
    job.train_file.write_text(job.train_file.read_text().replace(f"steps = {FIRST}",
                                                                 f"steps = {LAST}"))
    job.known_id = None
    code, output = job.run()
    assert code == 0, output

    settings = job.directory / "settings.json"
    settings.write_text(json.dumps({**trainer, "data": {"text": str(job.directory / "text.txt")}}))
    checkpoints = [job.directory / "checkpoints" / f"step-{step}" for step in (FIRST, LAST)]
    expected, apart = reference(torch_python, strategy, settings, checkpoints)
    losses = losses_of(job)
    assert len(losses) >= 3 and LAST in losses and expected.keys() >= losses.keys(), losses
    for step, loss in losses.items():
        assert abs(loss - expected[step]) <= 1e-5, (step, loss, expected[step])
    # Where a gradient is almost nothing its rounding decides which way AdamW steps.
    assert apart <= 2 * SETTINGS["learning_rate"], "the weights after the last step"
