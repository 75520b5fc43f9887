#!/usr/bin/python3
"""How long dlaunch takes to notice and to go on, on real hosts of this machine; needs root.

bench/faults.py [--bin build/release/bin] [--faults 30] [worker] [write] [silent] [torchrun]

  worker    kill -9 of a worker: until every agent has the abort, until the first new step
  write     the same while a checkpoint of 40 MB is being written
  silent    a host falls silent (packets dropped both ways): until it is lost, until the first
            new step on the spare
  torchrun  kill -9 of a worker under dlaunch and under torchrun in turns, the same model in both
            (bench/peer/train_gpt.py with PyTorch DDP): until the old workers are gone, until the
            first new step

Each fault is one sample of a running job. Printed: count, p50, p90, p99, max in milliseconds, and
how far the phases of the incidents are from what was measured from outside, together.
CLOCK_MONOTONIC is shared by all namespaces, so that the time of the fault and the times of the
events compare directly.
"""

import argparse
import os
import pathlib
import signal
import time

import measure
from measure import STEP_100_MS, await_event, milliseconds, say, say_ratio

PHASES = ("detect", "abort", "replace", "regroup", "restore", "first_step")
WRITE_EVERY_STEP = {  # 3.2 million parameters and their two moments: 40 MB
    **STEP_100_MS, "checkpoint": {"every": "1 steps", "keep": 2},
    "trainer": {"steps": 1_000_000, "logical_batches": 2, "micro_batch": 1,
                "model": {"layers": 4, "width": 256, "heads": 4, "context": 32}},
}
TORCHRUN_FAULTS = 5  # of one start, then dlaunch has its turn


class Faults:
    """The times of the faults of one kind."""

    def __init__(self, name):
        self.name = name
        self.aborts, self.steps, self.phases, self.measured, self.off = [], [], [], [], []

    def kill(self, job, rank, status, moment=lambda: None):
        """One worker, at this moment."""
        pid = job.rank(rank, status)["pid"]
        last = job.events()[-1]["id"]
        moment()
        killed = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        self.aborts.append(milliseconds(await_event(job, "aborted", last), killed))
        self.went_on(job, last, killed)

    def went_on(self, job, last, since_ns):
        took = milliseconds(await_event(job, "first_step", last), since_ns)
        seconds = job.status()["incidents"][-1]["seconds"]
        total = sum(seconds[phase] for phase in PHASES) * 1000
        self.steps.append(took)
        self.phases.append(total)
        self.off.append(abs(total - took) / took)

    def say(self, what):
        say(f"{self.name} -> {what}", self.aborts)
        say(f"{self.name} -> first new step", self.steps)
        self.say_phases()

    def say_phases(self):
        if not self.steps:
            return
        together = abs(sum(self.phases) / sum(self.steps) - 1)
        print(f"{self.name}: the phases differ from the measured total by {together:.1%} together, "
              f"{max(self.off):.1%} at most", flush=True)


def two_ranks(bed, name, changes):
    from jobs import Job
    hosts = bed.hosts_toml(bed.directory / f"{name}.toml", hosts=[bed["h1"], bed["h2"]])
    return Job(bed.login, bed.directory / name, changes, hostfile=hosts).start()


def bench_worker(bed, faults):
    found = Faults("worker killed")
    with two_ranks(bed, "worker", STEP_100_MS) as job:
        job.until_step(10)
        for number in range(faults):
            found.kill(job, number % 2, job.until_step(1, generation=number + 1))
        job.stop()
    found.say("every agent has the abort")


def bench_write(bed, faults):
    found = Faults("worker killed during a write")
    with two_ranks(bed, "write", WRITE_EVERY_STEP) as job:
        checkpoints = job.directory / "checkpoints"

        def a_write_begins():
            limit = time.monotonic() + 60
            before = {path.name for path in checkpoints.glob("*.partial")}
            while not {path.name for path in checkpoints.glob("*.partial")} - before:
                assert time.monotonic() < limit, "no checkpoint is written"

        job.until_step(3)
        for number in range(faults):
            status = job.until_step(1, generation=number + 1)
            found.kill(job, number % 2, status, a_write_begins)
        job.stop()
    found.say("every agent has the abort")


def bench_silent(bed, faults):
    from jobs import Job
    from testbed import wait_for
    hosts = bed.hosts_toml(bed.directory / "silent.toml", spares=["h3"],
                           hosts=[bed["h1"], bed["h2"], bed["h3"]])
    found = Faults("silent host")
    with Job(bed.login, bed.directory / "silent", STEP_100_MS, hostfile=hosts).start() as job:
        job.until_step(10)
        for number in range(faults):
            status = job.until_step(1, generation=number + 1)
            victim = [h["name"] for h in status["hosts"] if h["state"] == "active"][-1]
            last = job.events()[-1]["id"]
            silenced = time.monotonic_ns()
            bed[victim].drop("both")
            found.aborts.append(milliseconds(await_event(job, "host_lost", last), silenced))
            found.went_on(job, last, silenced)
            bed[victim].heal()
            wait_for(lambda: job.host(victim)["state"] == "spare", f"{victim} is a spare", 90)
        job.stop()
    found.say("lost (lost_after is 600 ms)")


def bench_torchrun(bed, faults):
    from peer.torchrun import Torchrun
    python = measure.python_with_torch()
    ours, gone, stepped = Faults("dlaunch: worker killed"), [], []
    for turn in range((faults + TORCHRUN_FAULTS - 1) // TORCHRUN_FAULTS):
        with Torchrun(bed, bed.directory / f"torchrun-{turn}", python) as peer:
            for number in range(TORCHRUN_FAULTS):
                peer.until_steps(25)
                times = peer.kill_worker(number % 2)
                gone.append(times[0])
                stepped.append(times[1])
        with two_ranks(bed, f"beside-torchrun-{turn}", STEP_100_MS) as job:
            for number in range(TORCHRUN_FAULTS):
                status = job.until_step(25, generation=number + 1)
                ours.kill(job, number % 2, status)
            job.stop()
    ours.say("every agent has the abort")
    say("torchrun: worker killed -> the old workers are gone", gone)
    say("torchrun: worker killed -> first new step", stepped)
    say_ratio("first new step, dlaunch / torchrun", ours.steps, stepped)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--faults", type=int, default=30)
    kinds = {"worker": bench_worker, "write": bench_write, "silent": bench_silent,
             "torchrun": bench_torchrun}
    parser.add_argument("what", nargs="*", default=list(kinds))
    options = parser.parse_args()
    measure.use(options.bin)
    from testbed import TestBed
    with TestBed(3) as bed:
        for kind in options.what:
            kinds[kind](bed, options.faults)


if __name__ == "__main__":
    main()
