"""What a program finds on real hosts: what a login there sets, and the user's shell over it."""

import json
import os
import pathlib

import pytest
from jobs import SECONDS, Job, processes_of_host
from testbed import wait_for
from testbed_host import USER_ID

REPORT = """
import json, os, pathlib, sys, time
target = pathlib.Path(sys.argv[1]) / os.environ["RANK"]
target.with_suffix(".part").write_text(json.dumps(dict(os.environ)))
target.with_suffix(".part").rename(target)
while len(sys.argv) > 2:
    time.sleep(0.1)
"""


@pytest.fixture
def make(bed, request):
    jobs = []

    def new(*arguments, **options):
        directory = bed.directory / request.node.name
        (directory / "seen").mkdir(parents=True)
        (directory / "seen").chmod(0o777)
        (directory / "report.py").write_text(REPORT)
        hostfile = bed.hosts_toml(directory / "hosts.toml", **options)
        changes = {"trainer": None, "checkpoint": None, "health": {"lost_after": "20 s"},
                   "program": {"command": ["/usr/bin/python3", "report.py", "seen", *arguments]}}
        jobs.append(Job(bed.login, directory, changes, hostfile=hostfile))
        return jobs[-1]

    yield new
    for job in jobs:
        if getattr(request.node, "failed", True):
            job.explain()
        job.end()


def seen(job, rank):
    path = job.directory / "seen" / str(rank)
    wait_for(path.exists, f"rank {rank} has reported", SECONDS)
    return json.loads(path.read_text())


def test_a_program_has_what_its_hosts_profile_sets_and_the_shells_own_over_it(bed, make):
    for name in ("h1", "h2"):
        (bed[name].home / ".profile").write_text(
            f"echo hello; export SITE='of {name}' PYTHONPATH=/profile\nexport VIRTUAL_ENV=/no\n")
    job = make()
    with_shell = job.env()
    job.env = lambda: {**with_shell, "VIRTUAL_ENV": "/venv", "SITE": "of the login host"}
    job.start()
    assert job.wait() == 0, job.output()
    for rank, name in enumerate(("h1", "h2")):
        found = seen(job, rank)
        assert found["SITE"] == f"of {name}"
        assert found["PYTHONPATH"] == "/profile"
        assert found["VIRTUAL_ENV"] == "/venv"
        assert found["HOME"] == str(bed[name].home)
        assert found["DLAUNCH_HOST"] == name


def test_a_profile_that_never_ends_is_said_and_does_not_hold_the_job_up(bed, make):
    (bed["h1"].home / ".profile").write_text("sleep 1000\n")
    (bed["h2"].home / ".profile").write_text("export SITE=fine\n")
    job = make()
    job.start()
    assert job.wait() == 0, job.output()
    assert "SITE" not in seen(job, 0) and seen(job, 1)["SITE"] == "fine"
    assert "h1" in job.output() and "login shell" in job.output()


def test_what_holds_the_secret_leaves_no_core_file_and_workers_may(bed, make):
    for host in bed.hosts.values():
        host.directory.chmod(0o755)
    bed.directory.chmod(0o755)
    job = make("stay", defaults={"user": "ann"})
    job.start()
    seen(job, 0)
    owners = {}
    for pid in processes_of_host(job.id, "h1"):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        # The kernel gives what may not be dumped to root.
        owners[words[1].decode()] = os.stat(f"/proc/{pid}/environ").st_uid
    assert owners == {"holder": 0, "agent": 0, "report.py": USER_ID}
    assert job.stop() == 130
