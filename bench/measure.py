"""What the measurements share: where the product lies, one size of job, how figures are said."""

import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

# About 0.1 s a step with two ranks on two cores; bench/peer/train_gpt.py is the same model.
STEP_100_MS = {
    "trainer": {"steps": 1_000_000, "logical_batches": 4, "micro_batch": 8,
                "model": {"layers": 2, "width": 128, "heads": 4, "context": 64}},
    "checkpoint": {"every": "20 steps"},
    "health": {"lost_after": "600 ms"},
    "recovery": {"restarts": {"process": 100_000}, "quarantine": False},
}


def use(binaries):
    """Before anything of tests/integration is imported."""
    os.environ["DLAUNCH_BIN"] = str(pathlib.Path(binaries).resolve())
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, "
          f"{tempfile.gettempdir()} for state", flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def python_with_torch():
    """An interpreter that has PyTorch; made here the first time."""
    done = subprocess.run([ROOT / "scripts/setup-python-torch"], check=True, capture_output=True,
                          text=True)
    return done.stdout.splitlines()[-1]


def say(name, samples):
    ordered = sorted(samples)
    if not ordered:
        print(f"{name:52s} no sample")
        return
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    print(f"{name:52s} n {len(ordered):3d}   p50 {at(0.5):8.1f}   p90 {at(0.9):8.1f}   "
          f"p99 {at(0.99):8.1f}   max {ordered[-1]:8.1f} ms", flush=True)


def say_ratio(name, ours, theirs):
    print(f"{name:52s} {statistics.median(ours) / statistics.median(theirs):.3f} x (medians)",
          flush=True)


def milliseconds(event, since_ns):
    return (event["mono_ns"] - since_ns) / 1e6


def await_event(job, name, after_id):
    """The first event of this name with a number above `after_id`."""
    from testbed import wait_for
    return wait_for(lambda: next((e for e in job.events(name) if e["id"] > after_id), None),
                    f"the next {name}", 60)
