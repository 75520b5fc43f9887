#!/usr/bin/python3
"""How long a launch takes beside plain ssh, on real hosts of this machine; needs root.

bench/launch.py [--bin build/release/bin] [--repeats 10] [hosts] [one-server]

  hosts       command to the last host_ready with 8, 16 and 32 SSH hosts, the agent's binary there
              and (8) not there, and to the first step (8), beside as many parallel
              `ssh -o KexAlgorithms=curve25519-sha256 host true`; wall and CPU time
  one-server  128 logical hosts behind one sshd with the default MaxStartups: how many are ready,
              how many connections the server dropped, beside 128 parallel `ssh … true`

The launches and the SSH floor are interleaved. Printed: count, p50, p90, p99, max.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import time

from measure import STEP_100_MS, milliseconds, say, use

SETTLE_SECONDS = 0.15
SETTLED_SECONDS = 4  # a file that has just been written is hashed again
POLL_SECONDS = 0.015
LOGICAL_HOSTS = 128
DROPS = ("drop connection", "beginning MaxStartups throttling")  # what sshd says of it


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


def ssh_line(names):
    """All from one shell, as a person would write it."""
    line = " ".join(f"ssh -o KexAlgorithms=curve25519-sha256 {name} true </dev/null &"
                    for name in names)
    return ["sh", "-c", line + " wait"]


def ssh_floor(bed, names, cpu):
    cpu_before, begun = cpu.milliseconds(), time.monotonic_ns()
    process = bed.popen_on_login(ssh_line(names), stdin=subprocess.DEVNULL)
    assert process.wait(60) == 0
    took = (time.monotonic_ns() - begun) / 1e6
    time.sleep(SETTLE_SECONDS)  # sessions of sshd end after their clients
    return took, cpu.milliseconds() - cpu_before


def launch(bed, number, count, changes, cpu, hostfile=None):
    """Until every host is ready, nobody asks anything: on two cores each question would count."""
    from jobs import Job
    with Job(bed.login, bed.directory / f"launch-{count}-{number}", changes,
             hostfile=hostfile or bed.hosts_toml()) as job:
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
            assert job.process.poll() in (None, 0), job.output()
        spent = cpu.milliseconds() - cpu_before
        assert job.wait() == 0, job.output()
        first = milliseconds(job.until_first_step(1), begun) if count == 8 else None
        ready = max(milliseconds(event, begun) for event in job.events("host_ready"))
        job.call("stop", "--now")
        job.nothing_left()
    return ready, spent, first


def one_rank(bed):
    """The other hosts are spares, so that what is measured is not 32 starts of LibTorch."""
    text = bed.directory / "text.txt"
    text.write_bytes(b"In the beginning God created the heaven and the earth.\n" * 80_000)
    return {**STEP_100_MS, "job": {"hosts": 1},
            "trainer": {**STEP_100_MS["trainer"], "data": {"text": str(text)}}}


def bench_launch(repeats, count, cpu):
    from testbed import TestBed
    floor, cold, warm, first, ratio, cpu_ratio = [], [], [], [], [], []
    with TestBed(count) as bed:
        names = [f"h{i + 1}" for i in range(count)]
        changes = one_rank(bed)
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


def bench_one_server(repeats, cpu):
    """Every launch ends with all hosts ready, or it is an error here."""
    from testbed import TestBed
    ready, dropped, refused = [], [], []
    with TestBed(1) as bed:
        lines = []
        for number in range(1, LOGICAL_HOSTS + 1):
            bed["h1"].inside("mkdir", f"/var/tmp/g{number}")
            lines.append(f'[[host]]\nname = "g{number}"\naddress = "h1"\n'
                         f'scratch = "/var/tmp/g{number}"\n')
        hosts = bed.directory / "one-server.toml"
        hosts.write_text("".join(lines))
        changes = one_rank(bed)
        for number in range(repeats):
            process = bed.popen_on_login(ssh_line(["h1"] * LOGICAL_HOSTS),
                                         stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _, said = process.communicate(timeout=120)
            refused.append(said.count(b"kex_exchange_identification"))
            before = drops_of(bed["h1"])
            ready.append(launch(bed, number, LOGICAL_HOSTS, changes, cpu, hosts)[0])
            dropped.append(drops_of(bed["h1"]) - before)
    say(f"launch of {LOGICAL_HOSTS} behind one sshd -> last host_ready", ready)
    print(f"of {LOGICAL_HOSTS} hosts all were ready {len(ready)} times of {repeats}; the server "
          f"dropped {statistics.median(dropped):g} of our connections (median), and of "
          f"{LOGICAL_HOSTS} parallel ssh {statistics.median(refused):g} failed", flush=True)


def drops_of(host):
    log = host.sshd_log()
    return sum(log.count(line) for line in DROPS)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("what", nargs="*", default=["hosts", "one-server"])
    options = parser.parse_args()
    use(options.bin)
    cpu = CpuTime()
    if "hosts" in options.what:
        for count in (8, 16, 32):
            bench_launch(options.repeats, count, cpu)
    if "one-server" in options.what:
        bench_one_server(options.repeats, cpu)


if __name__ == "__main__":
    main()
