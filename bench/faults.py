#!/usr/bin/python3
"""How long dlaunch takes to notice and to go on, on real hosts of this machine; needs root.

bench/faults.py [--bin build/release/bin] [--faults 30] [worker] [silent] [launch]

  worker   kill -9 of a worker: until every agent has the abort, until the first new step
  silent   a host falls silent (packets dropped both ways): until it is lost, until the first
           new step on the spare
  launch   command to the last host_ready with 8 SSH hosts, the agent's binary not there and
           there, and to the first step, beside 8 parallel
           `ssh -o KexAlgorithms=curve25519-sha256 host true`

Each fault is one sample of the same running job; the launches and the SSH floor are interleaved.
Printed: count, p50, p90, max in milliseconds. CLOCK_MONOTONIC is shared by all namespaces, so that
the time of the fault and the times of the events compare directly.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

STEP_100_MS = {  # about 0.1 s a step with two ranks on two cores
    "trainer": {"steps": 1_000_000, "logical_batches": 4, "micro_batch": 8,
                "model": {"layers": 2, "width": 128, "heads": 4, "context": 64}},
    "checkpoint": {"every": "20 steps"},
    "health": {"lost_after": "600 ms"},
    "recovery": {"restarts": {"process": 100_000}, "quarantine": False},
}


def say(name, samples):
    ordered = sorted(samples)
    if not ordered:
        print(f"{name:48s} no sample")
        return
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    print(f"{name:48s} n {len(ordered):3d}   p50 {at(0.5):8.1f}   p90 {at(0.9):8.1f}   "
          f"max {ordered[-1]:8.1f} ms", flush=True)


def milliseconds(event, since_ns):
    return (event["mono_ns"] - since_ns) / 1e6


def next_event(job, name, after_id):
    return next((e for e in job.events(name) if e["id"] > after_id), None)


def await_event(job, name, after_id):
    from testbed import wait_for
    return wait_for(lambda: next_event(job, name, after_id), f"the next {name}", 60)


def bench_worker(bed, faults):
    from jobs import Job
    hosts = bed.hosts_toml(bed.directory / "worker.toml", hosts=[bed["h1"], bed["h2"]])
    aborts, steps = [], []
    with Job(bed.login, bed.directory / "worker", STEP_100_MS, hostfile=hosts).start() as job:
        job.until_step(10)
        for number in range(faults):
            status = job.until_step(1, generation=number + 1)
            last = job.events()[-1]["id"]
            killed = time.monotonic_ns()
            os.kill(job.rank(number % 2, status)["pid"], signal.SIGKILL)
            aborts.append(milliseconds(await_event(job, "aborted", last), killed))
            steps.append(milliseconds(await_event(job, "first_step", last), killed))
        job.stop()
    say("worker killed -> every agent has the abort", aborts)
    say("worker killed -> first new step", steps)


def bench_silent(bed, faults):
    from jobs import Job
    from testbed import wait_for
    hosts = bed.hosts_toml(bed.directory / "silent.toml", spares=["h3"],
                           hosts=[bed["h1"], bed["h2"], bed["h3"]])
    lost, steps = [], []
    with Job(bed.login, bed.directory / "silent", STEP_100_MS, hostfile=hosts).start() as job:
        job.until_step(10)
        for number in range(faults):
            status = job.until_step(1, generation=number + 1)
            victim = [h["name"] for h in status["hosts"] if h["state"] == "active"][-1]
            last = job.events()[-1]["id"]
            silenced = time.monotonic_ns()
            bed[victim].drop("both")
            lost.append(milliseconds(await_event(job, "host_lost", last), silenced))
            steps.append(milliseconds(await_event(job, "first_step", last), silenced))
            bed[victim].heal()
            wait_for(lambda: job.host(victim)["state"] == "spare", f"{victim} is a spare", 90)
        job.stop()
    say("silent host -> lost (lost_after is 600 ms)", lost)
    say("silent host -> first new step on the spare", steps)


def ssh_floor(bed, names):
    begun = time.monotonic_ns()
    running = [bed.popen_on_login(
        ["ssh", "-o", "KexAlgorithms=curve25519-sha256", name, "true"],
        stdin=subprocess.DEVNULL) for name in names]
    for process in running:
        assert process.wait(60) == 0
    return (time.monotonic_ns() - begun) / 1e6


def bench_launch(repeats):
    from jobs import Job
    from testbed import TestBed
    floor, cold, warm, first, ratio = [], [], [], [], []
    with TestBed(8) as bed:
        names = [f"h{i + 1}" for i in range(8)]
        changes = {**STEP_100_MS, "trainer": {**STEP_100_MS["trainer"], "logical_batches": 8}}
        for number in range(repeats * 2):
            present = number % 2 == 1  # every other launch finds the binary of the one before
            if not present:
                for name in names:
                    bed[name].run(["sh", "-c", "rm -rf /var/tmp/dlaunch-*"])
            floor.append(ssh_floor(bed, names))
            begun = time.monotonic_ns()
            directory = bed.directory / f"launch-{number}"
            with Job(bed.login, directory, changes, hostfile=bed.hosts_toml()).start() as job:
                job.until_step(1)
                ready = milliseconds(job.events("host_ready")[-1], begun)
                (warm if present else cold).append(ready)
                first.append(milliseconds(job.events("first_step")[0], begun))
                ratio.append(ready / floor[-1])
                job.stop()
    say("8 parallel ssh true", floor)
    say("launch of 8, binary not there -> last host_ready", cold)
    say("launch of 8, binary there -> last host_ready", warm)
    say("launch of 8 -> first step", first)
    times = statistics.median(ratio[1::2])
    print(f"launch of 8, binary there: {times:.2f} x the SSH floor (median)")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("what", nargs="*", default=["worker", "silent", "launch"])
    options = parser.parse_args()
    os.environ["DLAUNCH_BIN"] = str(pathlib.Path(options.bin).resolve())
    from testbed import TestBed
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, "
          f"{tempfile.gettempdir()} for state", flush=True)
    if "worker" in options.what or "silent" in options.what:
        with TestBed(3) as bed:
            if "worker" in options.what:
                bench_worker(bed, options.faults)
            if "silent" in options.what:
                bench_silent(bed, options.faults)
    if "launch" in options.what:
        bench_launch(max(2, options.faults // 6))


if __name__ == "__main__":
    main()
