#!/usr/bin/python3
"""All-reduce over tcp and through shared memory beside PyTorch's gloo, two ranks on this machine.

bench/collectives.py [--bin build/release/bin] [--repeats 7] [--ranks 2]

One thread per rank; all three run in turns with 0.25, 4 and 16 MiB of floats. A run is the median
of its operations; the medians of the runs are compared. Needs
cmake --build --preset release --target collectives.
"""

import argparse
import pathlib
import statistics
import subprocess

from measure import ROOT, free_port, python_with_torch, use

SECONDS = 120
SIZES = {0.25: 200, 4: 60, 16: 30}  # MiB: operations of a run
TARGETS = {"tcp": 1.0, "shm": 2.0}
VALUES_PER_MIB = 2**18


def median_of(output):
    return statistics.median(map(float, output.split()))


def ours(binaries, kind, ranks, mib):
    command = [binaries / "collectives", kind, ranks, int(mib * VALUES_PER_MIB), SIZES[mib]]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                          timeout=SECONDS)
    return median_of(done.stdout)


def gloo(python, count, mib):
    port = free_port()
    ranks = []
    for rank in range(count):
        environment = {"RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port,
                       "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "PATH": "/usr/bin:/bin",
                       "GLOO_SOCKET_IFNAME": "lo"}
        ranks.append(subprocess.Popen(
            [python, "-W", "ignore", ROOT / "bench/peer/collectives.py",
             str(int(mib * VALUES_PER_MIB)), str(SIZES[mib])],
            env={key: str(value) for key, value in environment.items()}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    outputs = [rank.communicate(timeout=SECONDS) for rank in ranks]
    assert all(rank.returncode == 0 for rank in ranks), [text for _, text in outputs]
    return median_of(outputs[0][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    use(options.bin)
    binaries = pathlib.Path(options.bin).resolve()
    python = python_with_torch()
    for mib in SIZES:
        times = {"tcp": [], "shm": [], "gloo": []}
        for _ in range(options.repeats):
            times["gloo"].append(gloo(python, options.ranks, mib))
            for kind in ("tcp", "shm"):
                times[kind].append(ours(binaries, kind, options.ranks, mib))
        middle = {key: statistics.median(values) for key, values in times.items()}
        for kind, target in TARGETS.items():
            print(f"{mib:5} MiB {kind}: {middle[kind]:7.3f} ms, gloo {middle['gloo']:7.3f} ms: "
                  f"{middle['gloo'] / middle[kind]:.2f} x (target {target})", flush=True)


if __name__ == "__main__":
    main()
