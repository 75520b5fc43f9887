#!/usr/bin/python3
"""All-reduce over tcp and through shared memory beside PyTorch's gloo, two ranks on this machine.

bench/collectives.py [--bin build/release/bin] [--repeats 7] [--ranks 2] [--limit MBIT]

One thread per rank; all run in turns with 0.25, 4 and 16 MiB of floats. A run is the median of its
operations; the medians of the runs are compared. tcp1 has one connection between two ranks, tcp4
four, as by default. `--limit`: no connection carries more in a second, as in many clouds; in a
network namespace of its own, which needs root. Needs
cmake --build --preset release --target collectives.
"""

import argparse
import ctypes
import pathlib
import statistics
import subprocess

from measure import ROOT, free_port, python_with_torch, use

SECONDS = 120
SIZES = {0.25: 200, 4: 60, 16: 30}  # MiB: operations of a run
TARGETS = {"tcp1": 1.0, "tcp4": 1.0, "shm": 2.0}
VALUES_PER_MIB = 2**18
# bench/collectives/main.cpp listens on these 16 ports; gloo's are below or above.
LISTENERS = ("20480", "0xfff0")
CLASSES = 64
CLONE_NEWNET = 0x40000000


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


def limit_each_connection(mbit):
    """Each direction of each connection, told apart by the port of its end that does not listen: 64
    classes for each direction, so that two connections share one now and then."""
    def tc(*words):
        subprocess.run(["tc", *words], check=True)

    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace: --limit needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    tc("qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "fff")
    rule = ["filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip"]
    tcp = ["u32", "match", "ip", "protocol", "6", "0xff", "match", "ip"]
    for number in range(CLASSES):
        there, back = f"1:{number + 1}", f"1:{number + 1 + CLASSES}"
        for flow in (there, back):
            tc("class", "add", "dev", "lo", "parent", "1:", "classid", flow, "htb", "rate",
               f"{mbit}mbit", "burst", "256k", "cburst", "256k", "quantum", "65536")
        tc(*rule, "prio", "1", *tcp, "sport", *LISTENERS, "match", "ip", "dport", str(number),
           "0x3f", "flowid", back)
        tc(*rule, "prio", "2", *tcp, "sport", str(number), "0x3f", "flowid", there)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--limit", type=int, metavar="MBIT")
    options = parser.parse_args()
    use(options.bin)
    binaries = pathlib.Path(options.bin).resolve()
    python = python_with_torch()
    if options.limit:
        limit_each_connection(options.limit)
    kinds = [kind for kind in TARGETS if kind != "shm" or not options.limit]
    for mib in SIZES:
        times = {kind: [] for kind in ("gloo", *kinds)}
        for _ in range(options.repeats):
            times["gloo"].append(gloo(python, options.ranks, mib))
            for kind in kinds:
                times[kind].append(ours(binaries, kind, options.ranks, mib))
        middle = {key: statistics.median(values) for key, values in times.items()}
        for kind in kinds:
            print(f"{mib:5} MiB {kind:4}: {middle[kind]:7.3f} ms, gloo {middle['gloo']:7.3f} ms: "
                  f"{middle['gloo'] / middle[kind]:.2f} x (target {TARGETS[kind]})", flush=True)


if __name__ == "__main__":
    main()
