"""Hosts that cannot dial the controller: their frames go over the SSH connection."""

import re
import signal

import pytest
from jobs import ENDLESS, SECONDS, Job, merged
from testbed import wait_for
from testbed_system import kill_pids

OVER_SSH = "its control runs over the SSH connection"
CHANGES = merged(ENDLESS, {"checkpoint": {"every": "20 steps"}})


@pytest.fixture
def make(bed, request):
    jobs = []

    def start(control, changes=CHANGES):
        # The host answers over SSH and reaches its peers, but dials the controller in vain.
        bed["h2"].drop("out", what=f"ip daddr {bed.login.address} tcp sport != 22")
        name = re.sub(r"\W+", "-", request.node.name)[-60:]
        directory = bed.directory / f"{name}-{len(jobs)}"
        directory.mkdir()
        hostfile = bed.hosts_toml(directory / "hosts.toml", network={"control": control})
        job = Job(bed.login, directory, changes, hostfile=hostfile)
        jobs.append(job)
        return job.start()

    yield start
    for job in jobs:
        if getattr(request.node, "failed", True):
            job.explain()
        job.end()
    bed["h2"].heal()


def over_ssh(job, status):
    return [job.host(name, status)["over_ssh"] for name in ("h1", "h2")]


def test_a_host_that_cannot_dial_back_trains_over_ssh_and_recovers(make):
    job = make("auto")
    status = job.until_step(5)
    assert over_ssh(job, status) == [False, True]
    assert job.host("h2", status)["reason"] == OVER_SSH
    assert job.host("h2", status)["state"] == "active"
    assert "h2: it cannot dial this machine" in job.output()
    kill_pids([job.pid_of(1)], signal.SIGKILL)
    status = job.until_step(status["step"] + 10, generation=2)
    assert len(status["incidents"]) == 1
    assert over_ssh(job, status) == [False, True]
    assert job.call("stop").returncode == 0
    assert job.wait() == 75, job.output()
    job.nothing_left()


def test_with_control_ssh_nobody_dials_and_a_job_ends_well(make):
    job = make("ssh", {})
    assert job.wait() == 0, job.output()
    job.nothing_left()


@pytest.mark.parametrize("control", ["ssh", "auto"])
def test_a_restarted_controller_adopts_agents_over_ssh(make, control):
    job = make(control)
    before = job.until_step(10)
    assert over_ssh(job, before) == [control == "ssh", True]
    controller = before["controller"]["pid"]
    kill_pids([controller], signal.SIGKILL)
    after = job.until(
        lambda s: s["state"] == "running" and s["controller"]["pid"] != controller
        and (s["step"] or 0) > before["step"], "the next controller sees training go on")
    assert after["generation"] == 1 and not after["incidents"]
    assert over_ssh(job, after) == [control == "ssh", True]
    for host in ("h1", "h2"):
        assert job.host(host, after)["agent_pid"] == job.host(host, before)["agent_pid"]


@pytest.mark.parametrize("control", ["ssh", "auto"])
def test_a_tunnel_that_breaks_is_replaced_and_costs_no_generation(make, bed, control):
    job = make(control)
    before = job.until_step(10)
    plants = [pid for pid in bed["h2"].pids() if is_plant(pid)]
    assert len(plants) == 1
    kill_pids(plants, signal.SIGKILL)
    wait_for(lambda: [p for p in bed["h2"].pids() if is_plant(p)] not in ([], plants),
             "another connection serves h2", SECONDS)
    after = job.until_step(before["step"] + 100)
    assert after["generation"] == 1 and not after["incidents"]
    assert over_ssh(job, after) == [control == "ssh", True]


def is_plant(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            return b"plant" in text.read().split(b"\0")
    except OSError:
        return False
