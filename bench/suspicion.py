#!/usr/bin/python3
"""Are hosts given up that only cannot get at the processor? Counts false evictions: 0 are wanted.

bench/suspicion.py [--bin build/release/bin] [--heartbeats 1000000] [--hosts 24] [--interval 10]
                   [--lost-after 600] [--quiet]

A real job of real agents on this machine, with a shorter heartbeat than anybody would set, so that
many pass in a short time. Beside it, unless --quiet: twice as many busy loops as cores, two writers
that fsync each megabyte on the disk with the job's state, a loopback connection that is always
full, and an agent at a time that is stopped (SIGSTOP) for up to three quarters of lost_after.
Ends with 1 if any host was given up.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

STOP_SHARE = 0.75  # of lost_after: the longest time that an agent is stopped
START_SECONDS = 120
POLL_SECONDS = 2

WRITER = """
import os, sys
block = os.urandom(1 << 20)
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
while True:
    for _ in range(64):
        os.write(file, block)
        os.fsync(file)
    os.lseek(file, 0, os.SEEK_SET)
"""

SENDER = """
import os, socket, threading
server = socket.create_server(("127.0.0.1", 0))
def drain():
    connection, _ = server.accept()
    while connection.recv(1 << 20):
        pass
threading.Thread(target=drain, daemon=True).start()
client = socket.create_connection(server.getsockname())
block = bytes(1 << 20)
while True:
    client.sendall(block)
"""


def load(directory):
    """What gets in the way: one process and its children."""
    busy = "while :; do :; done & " * (2 * os.cpu_count())
    storm = "".join(f'"{sys.executable}" -c "$1" "{directory}/storm-{i}" & ' for i in range(2))
    script = f'{busy}{storm}"{sys.executable}" -c "$2"'
    return subprocess.Popen(["/bin/sh", "-c", script, "load", WRITER, SENDER],
                            start_new_session=True)


def hosts_toml(path, count):
    path.write_text(f'[[host]]\nname = "here[1-{count}]"\ntransport = "local"\nworkers = 1\n')
    return path


def config(options):
    return {
        "job": {"name": "suspicion"},
        "program": {"command": ["/bin/sleep", "1000000"]},
        "health": {"heartbeat": f"{options.interval} ms",
                   "lost_after": f"{options.lost_after} ms"},
        "recovery": {"quarantine": False},
    }


def stop_for_a_while(dice, agents, seconds_max, stops):
    """One agent does not run for a while: (host, begin, the time that it was really stopped). Not
    the one that was stopped just before: two stops in a row are one that is too long."""
    begin = time.monotonic()
    recent = {host for host, at, length in stops[-20:] if begin - at - length < 2 * seconds_max}
    host, pid = dice.choice([agent for agent in agents if agent[0] not in recent])
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(dice.uniform(0.1, 1.0) * seconds_max)
    finally:
        os.kill(pid, signal.SIGCONT)
    return host, begin, time.monotonic() - begin


def run(options, directory):
    from jobs import Job, ThisMachine
    dice = random.Random(options.seed)
    machine = ThisMachine(directory)
    hosts = hosts_toml(directory / "hosts.toml", options.hosts)
    stops, beats, interference = [], 0, None
    with Job(machine, directory / "job", config(options), base={}, hostfile=hosts) as job:
        job.start()
        job.until(lambda s: s["state"] == "running", "the job runs", START_SECONDS)
        begin = time.monotonic()
        try:
            if not options.quiet:
                interference = load(directory)
            agents, looked = [], 0.0
            while beats < options.heartbeats:
                if time.monotonic() >= looked + POLL_SECONDS:
                    status = job.status()
                    looked = time.monotonic()
                    agents = [(h["name"], h["agent_pid"]) for h in status["hosts"]
                              if h["agent_pid"]]
                    beats = sum(h["heartbeats"] for h in status["hosts"])
                    if status["state"] != "running" or status["generation"] > 1:
                        break
                    print(f"\r{beats:9d} heartbeats, {len(stops)} stops", end="", flush=True)
                if options.quiet:
                    time.sleep(POLL_SECONDS)
                    continue
                stops.append(stop_for_a_while(
                    dice, agents, STOP_SHARE * options.lost_after / 1000, stops))
            seconds = time.monotonic() - begin
        finally:
            if interference is not None:
                os.killpg(interference.pid, signal.SIGKILL)
                interference.wait()
        print()
        lost = job.events("host_lost", "agent_lost")
        report(options, job, beats, seconds, stops, lost)
        job.stop()
    return len(lost)


def report(options, job, beats, seconds, stops, lost):
    suspected = job.events("host_suspected")
    relayed = [event for event in suspected if "relays" in event.get("detail", "")]
    # The one who stops agents waits for the processor, too: such a stop is longer than meant.
    late = [s for s in stops if s[2] > STOP_SHARE * options.lost_after / 1000 + 0.02]
    print(f"host-heartbeats       {beats} in {seconds:.0f} s, {options.hosts} hosts, interval "
          f"{options.interval} ms, lost_after {options.lost_after} ms")
    print(f"agents stopped        {len(stops)} times, {len(late)} of them for longer than meant")
    print(f"suspected             {len(suspected)}, cleared {len(job.events('host_cleared'))}, "
          f"relayed {len(relayed)}")
    print(f"link_down             {len(job.events('link_down'))}")
    print(f"controllers           {1 + len(job.events('controller_restarted'))}")
    print(f"false evictions       {len(lost)}")
    for event in lost:
        at = event["mono_ns"] / 1e9
        near = [f"stopped {at - s[1]:.3f} s before for {s[2]:.3f} s" for s in stops
                if s[0] == event.get("host") and at - 2 < s[1] < at]
        print(f"  {event.get('host')}: {event.get('detail')}; {', '.join(near) or 'never stopped'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build" / "release" / "bin"))
    parser.add_argument("--heartbeats", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=24)
    parser.add_argument("--interval", type=int, default=10, help="milliseconds")
    parser.add_argument("--lost-after", type=int, default=600, help="milliseconds")
    parser.add_argument("--quiet", action="store_true", help="nothing gets in the way")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.environ["DLAUNCH_BIN"] = options.bin
    with tempfile.TemporaryDirectory(prefix="dlaunch-bench-") as directory:
        return 1 if run(options, pathlib.Path(directory)) else 0


if __name__ == "__main__":
    sys.exit(main())
