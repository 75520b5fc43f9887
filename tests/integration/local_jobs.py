"""Jobs on "local" hosts, without SSH: the fixture `make`, small programs, and what they left.

Every test has its own state directory and its own scratch directory for the agents.
"""

import json
import os
import pathlib
import signal
import subprocess

import pytest
from jobs import ENDLESS, SECONDS, TINY, Job, ThisMachine, merged, toml_lines
from testbed_system import wait_for

PYTHON = "/usr/bin/python3"
# Nothing here is about lost hosts, and a busy machine is no lost one.
CALM = {"health": {"lost_after": "20 s"}}
TRAINING = merged(ENDLESS, {"checkpoint": {"every": "20 steps"}})


def hosts_toml(directory, workers=(1, 1), each=None, network=None, spares=()):
    """Local hosts here1, here2, …; `workers` of each; `each`: {name: more keys}."""
    directory = pathlib.Path(directory)
    (directory / "scratch").mkdir(exist_ok=True)
    lines = []
    for number, count in enumerate(workers, 1):
        name = f"here{number}"
        keys = {"name": name, "transport": "local", "workers": count,
                "scratch": str(directory / "scratch"), **(each or {}).get(name, {})}
        if name in spares:
            keys["spare"] = True
        lines += ["[[host]]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())]
    path = directory / "hosts.toml"
    path.write_text("".join(lines + toml_lines(network or {}, "network" if network else "")))
    return path


class LocalJob(Job):
    """A `Job` on local hosts."""

    def __init__(self, directory, changes=None, *, workers=(1, 1), each=None, spares=(),
                 network=None):
        directory.mkdir(parents=True, exist_ok=True)
        hostfile = hosts_toml(directory, workers, each, network, spares)
        super().__init__(ThisMachine(directory), directory, changes,
                         base=merged(TINY, CALM), hostfile=hostfile)

    def env(self):
        return {**super().env(), **getattr(self, "extra_env", {})}

    def run(self, *options, seconds=SECONDS):
        """To its end: the code and the output."""
        self.start(*options)
        code = self.wait(seconds)
        return code, self.output()

    def popen(self, *words, **options):
        """Another dlaunch beside it, whose output is read."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        return self.login.popen(self.command(*words), env=self.env(), **options)

    def keeper_and_controller(self):
        controller = self.status()["controller"]["pid"]
        stat = pathlib.Path(f"/proc/{controller}/stat").read_text()
        return int(stat.rsplit(")", 1)[1].split()[1]), controller

    def until_ended(self, seconds=SECONDS):
        return self.until(lambda s: s["state"] in ("finished", "stopped", "failed"),
                          "the job has ended", seconds)


def program(script, *arguments, **more):
    """Changes that run this Python text's file instead of the trainer."""
    command = [PYTHON, "program.py", *map(str, arguments)]
    return {"trainer": None, "checkpoint": None, "program": {"command": command, **more},
            "_script": script}


@pytest.fixture
def make(tmp_path, request):
    """`make(changes, workers=…)`: a job that is not started yet; ended and explained for us."""
    jobs = []

    def new(changes=None, name="job", **options):
        changes = dict(changes or {})
        script = changes.pop("_script", None)
        job = LocalJob(tmp_path / name, changes, **options)
        if script:
            (job.directory / "program.py").write_text(script)
        jobs.append(job)
        return job

    yield new
    for job in jobs:
        if getattr(request.node, "failed", True):
            job.explain()
        job.end()


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)


def files(directory, pattern, count, seconds=SECONDS):
    """Waits until so many files are there; sorted."""
    def look():
        found = sorted(pathlib.Path(directory).glob(pattern))
        return found if len(found) >= count else None

    return wait_for(look, f"{count} files {pattern} in {directory}", seconds)
