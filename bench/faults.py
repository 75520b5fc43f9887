#!/usr/bin/python3
"""How long dlaunch takes to notice and to go on, on real hosts of this machine; needs root.

bench/faults.py [--bin build/release/bin] [--faults 30] [worker] [silent] [launch]

  worker   kill -9 of a worker: until every agent has the abort, until the first new step
  silent   a host falls silent (packets dropped both ways): until it is lost, until the first
           new step on the spare
  launch   command to the last host_ready with 8, 16 and 32 SSH hosts, the agent's binary there
           and (8) not there, and to the first step (8), beside as many parallel
           `ssh -o KexAlgorithms=curve25519-sha256 host true`; wall and CPU time

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

SETTLE_SECONDS = 0.15
SETTLED_SECONDS = 4  # a file that has just been written is hashed again
POLL_SECONDS = 0.015

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


class CpuTime:
    """Of everything below this process, sshd included, where the cpuacct controller is there."""

    def __init__(self):
        self.group = pathlib.Path(f"/sys/fs/cgroup/cpuacct/dlaunch-bench-{os.getpid()}")
        try:
            self.group.mkdir()
            (self.group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            self.group = None

    def milliseconds(self):
        if self.group is None:
            return float("nan")
        return int((self.group / "cpuacct.usage").read_text()) / 1e6


def ssh_floor(bed, names, cpu):
    """All from one shell, as a person would write it."""
    line = " ".join(f"ssh -o KexAlgorithms=curve25519-sha256 {name} true </dev/null &"
                    for name in names)
    cpu_before, begun = cpu.milliseconds(), time.monotonic_ns()
    process = bed.popen_on_login(["sh", "-c", line + " wait"], stdin=subprocess.DEVNULL)
    assert process.wait(60) == 0
    took = (time.monotonic_ns() - begun) / 1e6
    time.sleep(SETTLE_SECONDS)  # sessions of sshd end after their clients
    return took, cpu.milliseconds() - cpu_before


def launch(bed, number, count, changes, cpu):
    """Until every host is ready, nobody asks anything: on two cores each question would count."""
    from jobs import Job
    with Job(bed.login, bed.directory / f"launch-{count}-{number}", changes,
             hostfile=bed.hosts_toml()) as job:
        job.state_home = bed.directory / "launch-state"  # one for all jobs, as a user has it
        earlier = set(job.state_home.glob("dlaunch/*/controller.log"))
        cpu_before, begun = cpu.milliseconds(), time.monotonic_ns()
        job.start("--detach")
        log = None
        while log is None or log.read_bytes().count(b"host_ready") < count:
            time.sleep(POLL_SECONDS)
            now = set(job.state_home.glob("dlaunch/*/controller.log"))
            log = log or next(iter(now - earlier), None)
            assert time.monotonic_ns() - begun < 120e9, job.output()
        spent = cpu.milliseconds() - cpu_before
        assert job.wait() == 0, job.output()
        first = milliseconds(job.until_first_step(1), begun) if count == 8 else None
        ready = max(milliseconds(event, begun) for event in job.events("host_ready"))
        job.call("stop", "--now")
        job.nothing_left()
    return ready, spent, first


def bench_launch(repeats, count, cpu):
    from testbed import TestBed
    floor, cold, warm, first, ratio, cpu_ratio = [], [], [], [], [], []
    with TestBed(count) as bed:
        names = [f"h{i + 1}" for i in range(count)]
        text = bed.directory / "text.txt"
        text.write_bytes(b"In the beginning God created the heaven and the earth.\n" * 80_000)
        # One rank: the others are spares, so that what is measured is not 32 starts of LibTorch.
        changes = {**STEP_100_MS, "job": {"hosts": 1},
                   "trainer": {**STEP_100_MS["trainer"], "data": {"text": str(text)}}}
        launch(bed, "first", count, changes, cpu)  # copies the binary
        time.sleep(SETTLED_SECONDS)
        launch(bed, "second", count, changes, cpu)  # keeps the hashes
        for number in range(repeats):
            took, spent = ssh_floor(bed, names, cpu)
            floor.append(took)
            ready, ready_cpu, first_step = launch(bed, number, count, changes, cpu)
            warm.append(ready)
            first += [first_step] if first_step else []
            ratio.append(ready / took)
            cpu_ratio.append(ready_cpu / spent)
        for number in range(max(2, repeats // 3) if count == 8 else 0):
            for name in names:
                bed[name].run(["sh", "-c", "rm -rf /var/tmp/dlaunch-*"])
            cold.append(launch(bed, f"cold-{number}", count, changes, cpu)[0])
    say(f"{count} parallel ssh true", floor)
    say(f"launch of {count}, binary there -> last host_ready", warm)
    if count == 8:
        say("launch of 8, binary not there -> last host_ready", cold)
        say("launch of 8, binary there -> first step", first)
    print(f"launch of {count}, binary there: {statistics.median(ratio):.2f} x the SSH floor, CPU "
          f"{statistics.median(cpu_ratio):.2f} x (medians of {repeats})", flush=True)


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
        cpu = CpuTime()
        for count in (8, 16, 32):
            bench_launch(max(2, options.faults), count, cpu)


if __name__ == "__main__":
    main()
