#!/usr/bin/python3
"""Tokens per second of the trainer beside PyTorch's DDP and FSDP2 on the same LibTorch.

bench/training.py [--bin build/release/bin] [--repeats 5] [small] [middle] [large] [overlap]

Two ranks on this machine, one thread each, PyTorch over gloo with fused AdamW; all four run in
turns, and the medians of the repeats are compared. Sizes: 0.24, 1.07 and 11.1 million parameters.
`overlap`: which share of the collectives' time a rank of FSDP only waits, with and without
gathering a unit's values while the one before it runs, and the memory that the ranks needed.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

from measure import ROOT, free_port, python_with_torch, use

RANKS = 2
SECONDS = 600
# layers, width, heads, context, vocabulary, micro-batch, steps
SIZES = {"small": (2, 64, 2, 64, 1024, 8, 400), "middle": (4, 128, 4, 128, 1024, 8, 60),
         "large": (6, 384, 6, 256, 512, 4, 12)}
TARGETS = {"small": (1.3, 2.5), "middle": (1.15, 1.6), "large": (1.0, 1.2)}
TOKENS = re.compile(r"^step (\d+)/\d+ .*tokens/s (\d+)$", re.MULTILINE)


def pytorch(python, strategy, size):
    layers, width, heads, context, vocabulary, micro_batch, steps = SIZES[size]
    numbers = (layers, width, heads, context, vocabulary, micro_batch, 1, steps)
    port = free_port()
    ranks = []
    for rank in range(RANKS):
        environment = {"RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_RANK": rank, "MASTER_PORT": port,
                       "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "PATH": "/usr/bin:/bin",
                       "GLOO_SOCKET_IFNAME": "lo"}
        ranks.append(subprocess.Popen(
            [python, ROOT / "bench/peer/speed.py", strategy, *map(str, numbers)],
            env={key: str(value) for key, value in environment.items()}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    outputs = [rank.communicate(timeout=SECONDS) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), [text for _, text in outputs]
    return float(outputs[0][0])


def run_ours(size, trainer, look):
    """What `look(job, place)` sees of a job that has run to its end."""
    from local_jobs import LocalJob
    layers, width, heads, context, vocabulary, micro_batch, steps = SIZES[size]
    changes = {
        "trainer": {**trainer, "steps": steps, "logical_batches": RANKS,
                    "micro_batch": micro_batch,
                    "model": {"layers": layers, "width": width, "heads": heads,
                              "context": context, "vocabulary": vocabulary}},
        "checkpoint": {"every": "1000000 steps"},
    }
    with tempfile.TemporaryDirectory(prefix="dlaunch-bench-") as place:
        job = LocalJob(pathlib.Path(place), changes, workers=(RANKS,))
        try:
            code, output = job.run(seconds=SECONDS)
            assert code == 0, output
            return look(job, pathlib.Path(place))
        finally:
            job.end()


def ours(strategy, size):
    def rate(_, place):
        log, = place.glob("scratch/*/*/*/logs/generation-1/rank-0.log")
        rates = [int(rate) for _, rate in TOKENS.findall(log.read_text())]
        return statistics.median(rates[1:])  # the first line is the first step alone

    return run_ours(size, {"strategy": strategy}, rate)


def exposed(size, prefetch):
    """Waiting by the time of the collectives, the median of a run's steps; most bytes of a rank."""
    def shares(job, _):
        rows = job.metrics(
            f"waiting_seconds * bus_bytes_per_second * {RANKS} / bytes_sent, memory_peak_bytes",
            "bytes_sent > 0 AND bus_bytes_per_second > 0")
        return statistics.median(row[0] for row in rows), max(row[1] for row in rows)

    return run_ours(size, {"strategy": "fsdp", "prefetch": prefetch}, shares)


def measure_overlap(repeats):
    for size in SIZES:
        runs = {}
        for _ in range(repeats):
            for prefetch in (True, False):
                runs.setdefault(prefetch, []).append(exposed(size, prefetch))
        for prefetch, values in runs.items():
            share = statistics.median(share for share, _ in values)
            peak = max(memory for _, memory in values)
            print(f"{size:7s} fsdp, prefetch {'on ' if prefetch else 'off'}: waiting is "
                  f"{share:.2f} of the collectives' time, peak {peak / 2**20:.0f} MiB a rank",
                  flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("what", nargs="*", default=[*SIZES, "overlap"])
    options = parser.parse_args()
    use(options.bin)
    python = python_with_torch()
    for size in options.what:
        if size == "overlap":
            measure_overlap(options.repeats)
            continue
        rates = {}
        for _ in range(options.repeats):
            for strategy in ("ddp", "fsdp"):
                rates.setdefault((strategy, "ours"), []).append(ours(strategy, size))
                rates.setdefault((strategy, "PyTorch"), []).append(pytorch(python, strategy, size))
        middle = {key: statistics.median(values) for key, values in rates.items()}
        for strategy, target in zip(("ddp", "fsdp"), TARGETS[size]):
            own, peer = middle[strategy, "ours"], middle[strategy, "PyTorch"]
            print(f"{size:7s} {strategy:5s} {own:9.0f} tokens/s, PyTorch {peer:9.0f}: "
                  f"{own / peer:.2f} x (target {target})", flush=True)
        print(f"{size:7s} fsdp / ddp, ours: "
              f"{middle['fsdp', 'ours'] / middle['ddp', 'ours']:.2f} (target 0.85)", flush=True)


if __name__ == "__main__":
    main()
