"""The fixture `torch_python`: an interpreter with PyTorch, for what is compared with it."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def torch_python():
    """An interpreter with PyTorch; only one that is there already or can be made here."""
    done = subprocess.run([ROOT / "scripts/setup-python-torch"], capture_output=True, text=True,
                          timeout=600)
    if done.returncode != 0:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip("no Python with PyTorch: " + done.stderr.strip()[-400:])
    python = done.stdout.strip().splitlines()[-1]
    # Read once, so that the ranks below do not wait for a cold disk.
    subprocess.run([python, "-c", "import torch"], check=True, timeout=300, capture_output=True)
    return python
