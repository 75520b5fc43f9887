"""[trainer] device = "cuda" on a host that has none: a mistake, said in one sentence."""

import os

import pytest
from local_jobs import make  # noqa: F401 (a fixture)


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this host has an NVIDIA driver")
def test_a_host_without_a_device_ends_the_job_with_65_and_says_what_to_do(make):
    job = make({"trainer": {"device": "cuda", "steps": 2}}, workers=(1,), name="cuda")
    code, output = job.run()
    assert code == 65, output
    assert 'device = "cuda": this host has no NVIDIA driver that CUDA' in output, output
    assert 'or set device = "cpu"' in output, output
