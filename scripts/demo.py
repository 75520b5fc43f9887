"""Runs one job on three local hosts, kills a worker, then a host, and shows how it ends.

Usage: demo.py DIRECTORY_OF_THE_PROGRAMS. Exit code: the job's, or 1 if it did not go as told.
Everything is kept in one temporary directory, which is removed at the end.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

JOB = "demo"
STEPS = 600
KILL_WORKER_AT = 60     # steps
KILL_HOST_AFTER = 120   # steps beyond the recovery from the first failure
RUN_SECONDS_MAX = 300
COMMAND_SECONDS_MAX = 20
STEADY_STATES = {"running"}

HOSTS = """\
[defaults]
transport = "local"      # no SSH: these hosts are this machine
workers = 1
scratch = "{scratch}"
[[host]]
name = "here[1-2]"
[[host]]
name = "here3"
spare = true             # kept ready, used only to replace
"""

TRAIN = """\
[job]
name = "{job}"
hosts = "1..2"
[trainer]
strategy = "ddp"
steps = {steps}
logical_batches = 2
micro_batch = 8
learning_rate = 1e-3
seed = 1
[trainer.model]
layers = 2
width = 64
heads = 2
context = 64
[trainer.data]
text = "{text}"
[checkpoint]
directory = "checkpoints"
every = "20 steps"
"""


class Demo:
    """One run of the job; owns the temporary directory and every process of the run."""

    def __init__(self, programs):
        self.dlaunch = str(pathlib.Path(programs).resolve() / "dlaunch")
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="dlaunch-demo-"))
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / "state")}
        self.deadline = time.monotonic() + RUN_SECONDS_MAX
        self.viewer = None
        self.job_id = None

    def prepare(self):
        (self.directory / "scratch").mkdir(mode=0o700)
        text = self.directory / "text.txt"
        text.write_bytes(training_text())
        self.write("hosts.toml", HOSTS.format(scratch=self.directory / "scratch"))
        self.write("train.toml", TRAIN.format(job=JOB, steps=STEPS, text=text.name))

    def write(self, name, text):
        (self.directory / name).write_text(text)
        say(name)
        print(text, end="")

    def start(self):
        say("dlaunch --hostfile hosts.toml train.toml")
        self.viewer = subprocess.Popen(
            [self.dlaunch, "--hostfile", "hosts.toml", "train.toml"], cwd=self.directory,
            env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        threading.Thread(target=self.copy_output, daemon=True).start()

    def copy_output(self):
        for line in self.viewer.stdout:
            print(f"  | {line}", end="", flush=True)

    def command(self, *arguments):
        return subprocess.run([self.dlaunch, *arguments], cwd=self.directory, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=COMMAND_SECONDS_MAX)

    def status(self):
        """None while there is no job yet."""
        answer = self.command("status", JOB, "--json")
        try:
            status = json.loads(answer.stdout) if answer.returncode == 0 else None
        except json.JSONDecodeError:
            return None
        if status:
            self.job_id = status["id"]
        return status

    def wait_for(self, what, condition):
        """The first status for which the condition holds; the viewer's end or the deadline fail."""
        while True:
            status = self.status()
            if status and condition(status):
                return status
            if self.viewer.poll() is not None:
                raise Failed(f"the job ended (code {self.viewer.returncode}) before {what}")
            if time.monotonic() > self.deadline:
                raise Failed(f"after {RUN_SECONDS_MAX} s still not: {what}; status: {status}")
            time.sleep(0.1)

    def kill_a_worker(self):
        status = self.wait_for(f"step {KILL_WORKER_AT}", lambda status: (
            status["state"] in STEADY_STATES and (status["step"] or 0) >= KILL_WORKER_AT))
        victim = next(rank for rank in status["ranks"] if rank["rank"] == 1)
        say(f"step {status['step']}: kill -9 {victim['pid']}, the worker of rank 1 on "
            f"{victim['host']}")
        os.kill(victim["pid"], signal.SIGKILL)
        return status["generation"]

    def kill_a_host(self, generation):
        status = self.wait_for("a generation after the killed worker's", lambda status: (
            status["generation"] > generation and status["state"] in STEADY_STATES
            and status["step"] is not None))
        wanted = min(max(status["step"], KILL_WORKER_AT) + KILL_HOST_AFTER, STEPS - 100)
        status = self.wait_for(f"step {wanted}", lambda status: (
            status["state"] in STEADY_STATES and (status["step"] or 0) >= wanted))
        host = next(rank["host"] for rank in status["ranks"] if rank["rank"] == 1)
        say(f"step {status['step']}: host {host} dies: kill -9 of its holder, agent and workers")
        killed = 0
        while pids := processes_of(self.job_id, host):
            killed += len(pids)
            for pid in pids:
                kill(pid)
        print(f"  killed {killed} processes")
        return status["generation"]

    def finish(self, generation):
        self.wait_for("a generation without the dead host", lambda status: (
            status["generation"] > generation and status["state"] in STEADY_STATES))
        try:
            code = self.viewer.wait(max(1.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(f"not finished after {RUN_SECONDS_MAX} s") from None
        say(f"the job ended with code {code}: dlaunch status")
        print(self.command("status", JOB).stdout, end="")
        status = self.status() or {"incidents": [], "state": "unknown"}
        say("where the time went: dlaunch report")
        print(self.command("report", JOB).stdout, end="")
        say("what happened")
        for incident in status["incidents"]:
            print(f"  {incident['sentence']}")
        return code, status

    def judge(self, code, status):
        if code != 0:
            return code
        causes = [incident["cause"] for incident in status["incidents"]]
        for wanted in ("worker_crashed", "host_lost"):
            if wanted not in causes:
                raise Failed(f"no incident {wanted} among {causes}")
        if status["state"] != "finished":
            raise Failed(f"the state is {status['state']}, not finished")
        settled = time.monotonic() + COMMAND_SECONDS_MAX
        while left := processes_of(self.job_id):
            if time.monotonic() > settled:
                raise Failed(f"processes of the job are left: {left}")
            time.sleep(0.1)
        say("the job finished, nothing of it is left running")
        return 0

    def clean_up(self):
        if self.viewer and self.viewer.poll() is None:
            try:
                self.command("stop", JOB, "--now")
            except subprocess.TimeoutExpired:
                pass
            self.viewer.kill()
            self.viewer.wait()
        if self.job_id:
            for _ in range(50):
                left = processes_of(self.job_id)
                if not left:
                    break
                for pid in left:
                    kill(pid)
                time.sleep(0.1)
        shutil.rmtree(self.directory, ignore_errors=True)


class Failed(Exception):
    """The demo did not go as told; the sentence says where."""


def training_text():
    """The King James Bible as Debian packages it, else bytes that are as dull but learnable."""
    program = shutil.which("bible")
    if program:
        text = subprocess.run([program, "-f", "gen1:1-rev22:21"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False).stdout
        if len(text) > 1_000_000:
            return text
    return b" ".join(b"%d times %d is %d." % (a, b, a * b) for a in range(300) for b in range(99))


def processes_of(job, host=None):
    """Ids of the job's processes (of one host): by environment, or by an agent's command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            words = [word.decode(errors="replace")
                     for word in (entry / "cmdline").read_bytes().split(b"\0")]
        except OSError:
            continue
        if not words[0]:
            continue  # a zombie: dead already
        by_environment = f"DLAUNCH_JOB={job}".encode() in environment and (
            host is None or f"DLAUNCH_HOST={host}".encode() in environment)
        by_words = option(words, "--job") == job and host in (None, option(words, "--host"))
        if by_environment or by_words:
            found.append(int(entry.name))
    return found


def option(words, name):
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            return words[at + 1]
        if word.startswith(f"{name}="):
            return word.split("=", 1)[1]
    return None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def say(sentence):
    print(f"\n=== {sentence}", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    demo = Demo(sys.argv[1])
    try:
        demo.prepare()
        demo.start()
        generation = demo.kill_a_worker()
        generation = demo.kill_a_host(generation)
        return demo.judge(*demo.finish(generation))
    except (Failed, subprocess.TimeoutExpired) as failure:
        print(f"scripts/demo: {failure}", file=sys.stderr)
        return 1
    finally:
        demo.clean_up()


if __name__ == "__main__":
    sys.exit(main())
