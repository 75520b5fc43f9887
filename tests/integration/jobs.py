"""Jobs for the tests: writes train.toml and its data, starts dlaunch, and asks it how things are.

A `Job` runs on the login host of a test bed or, with `ThisMachine`, without one. Every job has a
state directory of its own, so that no test sees another's jobs.
"""

import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess

from testbed_system import is_running, kill_pids, processes_of_job, read_bytes, wait_for

BIN = pathlib.Path(os.environ.get("DLAUNCH_BIN", "build/dev/bin")).resolve()
DLAUNCH = BIN / "dlaunch"
SECONDS = 60  # for anything to happen, on two busy cores
ENDED = ("finished", "stopped", "failed")

TINY = {
    "job": {"name": "tiny"},
    "trainer": {
        "strategy": "ddp", "steps": 40, "logical_batches": 4, "micro_batch": 2,
        "learning_rate": 0.003, "seed": 7,
        "model": {"layers": 1, "width": 32, "heads": 2, "context": 32},
        "data": {"text": "text.txt"},
    },
    "checkpoint": {"directory": "checkpoints", "every": "20 steps", "keep": 3},
    "health": {"heartbeat": "100 ms", "lost_after": "1500 ms"},
}
ENDLESS = {"trainer": {"steps": 1_000_000}}


class ThisMachine:
    """What `Job` needs of a login host, without namespaces."""

    def __init__(self, directory):
        self.home = pathlib.Path(directory) / "home"
        self.home.mkdir()

    def environment(self, extra=None):
        left_out = ("SSH_", "XDG_", "DLAUNCH")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        return {**kept, "HOME": str(self.home), **(extra or {})}

    def run(self, argv, *, seconds=60, env=None, **options):
        options = {"capture_output": True, "text": True, "cwd": self.home, **options}
        return subprocess.run(
            [str(a) for a in argv], env=self.environment(env), timeout=seconds, **options
        )

    def popen(self, argv, *, env=None, **options):
        options = {"start_new_session": True, "cwd": self.home, **options}
        return subprocess.Popen(
            [str(a) for a in argv], env=self.environment(env), **options
        )


def merged(base, changes):
    """Tables are merged key by key; None takes a key or a table away."""
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def toml_lines(table, name=""):
    """A TOML document; values are JSON, which TOML reads too."""
    plain = {k: v for k, v in table.items() if not isinstance(v, dict)}
    lines = [f"[{name}]\n"] if name and (plain or not table) else []
    lines += [f"{key} = {json.dumps(value)}\n" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += toml_lines(value, f"{name}.{key}" if name else key)
    return lines


def write_text(path, kibibytes=64):
    """A text that a tiny model can learn a little of, the same on each call."""
    words = ("in", "the", "beginning", "was", "a", "small", "file", "and", "it", "grew")
    state, parts, size = 12345, [], 0
    while size < kibibytes * 1024:
        state = (state * 1103515245 + 12345) % 2**31
        word = words[(state >> 16) % len(words)]
        parts.append(word)
        size += len(word) + 1
    pathlib.Path(path).write_text(" ".join(parts))


class Job:
    """One start of dlaunch; `with` it, and nothing of it is left behind a failed test."""

    def __init__(self, login, directory, changes=None, *, base=TINY, hostfile=None):
        self.login = login
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.state_home = self.directory / "state"
        self.hostfile = hostfile
        self.train_file = self.directory / "train.toml"
        self.train_file.write_text("".join(toml_lines(merged(base, changes or {}))))
        if not (self.directory / "text.txt").exists():
            write_text(self.directory / "text.txt")
        self.process = None
        self.known_id = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.explain()
        self.end()

    # Commands.

    def command(self, *words):
        return [DLAUNCH, *words]

    def env(self):
        return {"XDG_STATE_HOME": str(self.state_home)}

    def call(self, *words, seconds=SECONDS):
        return self.login.run(self.command(*words), env=self.env(), seconds=seconds)

    def start(self, *options):
        """In the foreground of a session of its own; output goes to `output()`."""
        hosts = ["--hostfile", self.hostfile] if self.hostfile else []
        with open(self.directory / "output.txt", "ab") as out:
            self.process = self.login.popen(
                self.command(*hosts, *options, self.train_file),
                env=self.env(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )
        return self

    def wait(self, seconds=SECONDS):
        """The exit code of the foreground command."""
        return self.process.wait(seconds)

    def output(self):
        return read_bytes(self.directory / "output.txt").decode(errors="replace")

    # What is known of it.

    @property
    def id(self):
        """Of the newest run in this state directory."""
        if self.known_id is None:
            wait_for(self.state_directories, "the job has a state directory", SECONDS)
            self.known_id = self.state_directories()[-1].name
        return self.known_id

    def state_directories(self):
        found = (self.state_home / "dlaunch").glob("*/job.toml")
        return sorted((path.parent for path in found), key=lambda path: path.stat().st_mtime_ns)

    def status(self):
        done = self.call("status", "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    def events(self, *names):
        """All events, or those of these names."""
        assert self.id, "before the run has its directory there is nothing to ask"
        done = self.call("events", "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [line for line in lines if not names or line["event"] in names]

    def metrics(self, columns, where="TRUE"):
        """What metrics.db has of the steps, a row each."""
        path = self.state_directories()[-1] / "metrics.db"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return database.execute(f"SELECT {columns} FROM steps WHERE {where}").fetchall()

    def until(self, condition, what, seconds=SECONDS):
        """The first status that fulfils `condition`; fails at once when the job is over."""
        def look():
            status = self.status()
            if status is None or "generation" not in status:  # it only begins
                self.must_live(what)
                return None
            if condition(status):
                return status
            if status["state"] in ENDED:
                raise AssertionError(f"the job {status['state']} before {what}: {status['reason']}")
            return None

        return wait_for(look, what, seconds)

    def must_live(self, what):
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"dlaunch ended with {self.process.returncode} before {what}:\n"
                                 + self.output())

    def until_step(self, step, generation=1, seconds=SECONDS):
        return self.until(
            lambda s: s["state"] == "running" and s["generation"] >= generation
            and (s["step"] or 0) >= step,
            f"step {step} of generation {generation}", seconds)

    def until_event(self, name, seconds=SECONDS, **keys):
        """The first event of this name with these values."""
        def look():
            for event in self.events(name):
                if all(event.get(key) == value for key, value in keys.items()):
                    return event
            return None

        return wait_for(look, f"event {name} {keys or ''}", seconds)

    def until_first_step(self, generation, seconds=SECONDS):
        return self.until_event("first_step", seconds, generation=generation)

    def rank(self, rank, status=None):
        return next(r for r in (status or self.status())["ranks"] if r["rank"] == rank)

    def pid_of(self, rank):
        """Of the living process of this rank, once a heartbeat has told it."""
        status = self.until(lambda s: s["ranks"] and self.rank(rank, s)["pid"],
                            f"the pid of rank {rank}")
        return self.rank(rank, status)["pid"]

    def host(self, name, status=None):
        return next(h for h in (status or self.status())["hosts"] if h["name"] == name)

    # The end.

    def stop(self, seconds=SECONDS):
        """Stops at once; the code of the foreground command."""
        done = self.call("stop", "--now", seconds=seconds)
        assert done.returncode == 0, done.stderr + done.stdout
        return self.wait(seconds) if self.process is not None else 0

    def nothing_left(self, seconds=SECONDS):
        wait_for(lambda: not processes_of_job(self.id),
                 f"no process of job {self.id} on any host", seconds)

    def end(self):
        """Kills what still runs, whatever the product thinks of it."""
        def none_left():
            left = [pid for run in self.state_directories() for pid in processes_of_job(run.name)]
            left += processes_below(self.state_home)
            kill_pids(left)
            return not left

        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(SECONDS)
        wait_for(none_left, "every process of the test's job is killed", SECONDS)

    def explain(self):
        """What a person needs to see why a test failed."""
        print("--- output\n" + self.output()[-6000:])
        with contextlib.suppress(Exception):
            print("--- status\n" + json.dumps(self.status(), indent=1)[-8000:])
        with contextlib.suppress(Exception):
            print("--- events\n" + "\n".join(map(json.dumps, self.events()[-60:])))
        for run in self.state_directories():
            log = read_bytes(run / "controller.log").decode(errors="replace")
            print(f"--- controller.log\n{log[-4000:]}")


def processes_below(state_home):
    """Keepers and controllers that keep their state below this directory."""
    wanted = os.fsencode(state_home)
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and is_running(entry)
            and wanted in read_bytes(f"/proc/{entry}/cmdline")]


def processes_of_host(job, host):
    """The living processes of the job that carry this host's name: its holder, agent, workers."""
    def is_there(pid):
        arguments = read_bytes(f"/proc/{pid}/cmdline").split(b"\0")
        environment = read_bytes(f"/proc/{pid}/environ").split(b"\0")
        named = (b"--host", host.encode()) in list(zip(arguments, arguments[1:]))
        return named or b"DLAUNCH_HOST=" + host.encode() in environment

    return [pid for pid in processes_of_job(job) if is_there(pid)]


def kill_local_host(job, host):
    """All that makes up a local host dies at once, its holder too."""
    def none_left():
        pids = processes_of_host(job, host)
        kill_pids(pids, signal.SIGSTOP)
        kill_pids(pids)
        return not pids

    wait_for(none_left, f"every process of {host} is killed", SECONDS)


def parent_of(pid):
    stat = read_bytes(f"/proc/{pid}/stat")
    return int(stat.rsplit(b")", 1)[1].split()[1]) if stat else None
