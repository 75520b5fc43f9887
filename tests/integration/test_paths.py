"""Cut paths on real hosts: to the controller, between the hosts, both, and what follows."""

import re
import time

import pytest
from jobs import ENDLESS, SECONDS, Job, merged, processes_of_host
from testbed import TestBed, require, wait_for

LOST_AFTER = 1.5
QUIET = merged(ENDLESS, {"checkpoint": {"every": "20 steps"},
                         "health": {"lost_after": f"{LOST_AFTER * 1000:g} ms"}})
# Two busy cores may add to the 0.4 s that bench/ holds.
SLACK = 1.5


@pytest.fixture(scope="module")
def whole_bed():
    require()
    with TestBed(4) as made:
        yield made


@pytest.fixture
def bed(whole_bed):
    yield whole_bed
    for host in whole_bed.hosts.values():
        host.heal()
        host.thaw()


@pytest.fixture
def make(bed, request):
    """Starts a job on some of the hosts; the others do not exist for it."""
    jobs = []

    def start(names, changes=None, spares=()):
        name = re.sub(r"\W+", "-", request.node.name)[:60]
        directory = bed.directory / f"{name}-{len(jobs)}"
        directory.mkdir()
        hostfile = bed.hosts_toml(directory / "hosts.toml", hosts=[bed[n] for n in names],
                                  spares=spares)
        job = Job(bed.login, directory, changes or QUIET, hostfile=hostfile)
        jobs.append(job)
        return job.start()

    yield start
    for job in jobs:
        if getattr(request.node, "failed", True):
            job.explain()
        job.end()


def cut_control(bed, *names):
    """Nothing passes between these hosts and the controller's; they still reach each other."""
    for name in names:
        bed[name].drop("in", what=f"ip saddr {bed.login.address}")
        bed[name].drop("out", what=f"ip daddr {bed.login.address}")


def cut_data(bed, *names):
    """Nothing passes between these hosts and the others but the controller's."""
    for name in names:
        bed[name].drop("in", what=f"ip saddr != {bed.login.address}")
        bed[name].drop("out", what=f"ip daddr != {bed.login.address}")


def unbroken(job, status):
    """Generation 1 still runs and nobody was given up."""
    assert status["generation"] == 1 and not status["incidents"], status["incidents"]
    assert not job.events("host_lost", "abort_ordered")


def test_a_host_whose_control_path_is_cut_is_relayed_and_goes_on_training(make, bed):
    job = make(["h1", "h2", "h3", "h4"], spares=["h4"])
    job.until_step(5)
    cut_control(bed, "h2")
    status = job.until(lambda s: "relays" in job.host("h2", s)["reason"], "h2 is relayed")
    assert job.host("h2", status)["state"] == "suspect"
    assert re.fullmatch(r"its control path is cut; h[134] relays",
                        job.host("h2", status)["reason"])
    relayed = job.until_step(status["step"] + 30)
    unbroken(job, relayed)
    assert job.host("h2", relayed)["last_heartbeat_seconds"] < LOST_AFTER
    assert job.host("h2", relayed)["ranks"] == [1]
    assert job.events("host_suspected")[0]["host"] == "h2"
    bed["h2"].heal()
    status = job.until(lambda s: job.host("h2", s)["state"] == "active", "h2 is back")
    assert job.host("h2", status)["reason"] == ""
    unbroken(job, job.until_step(relayed["step"] + 30))
    assert job.until_event("host_cleared", host="h2")


def test_a_relayed_host_obeys_and_its_checkpoint_counts(make, bed):
    job = make(["h1", "h2", "h3"])
    job.until_step(5)
    cut_control(bed, "h2")
    job.until(lambda s: "relays" in job.host("h2", s)["reason"], "h2 is relayed")
    assert job.call("stop").returncode == 0
    assert job.wait() == 75, job.output()
    job.nothing_left()
    status = job.status()
    assert status["checkpoint"]["disk_step"] == status["step"]


def test_a_host_that_the_others_do_not_reach_is_named_and_replaced(make, bed):
    job = make(["h1", "h2", "h3", "h4"], spares=["h4"])
    before = job.until(lambda s: (s["checkpoint"]["disk_step"] or 0) >= 20, "a checkpoint")
    cut_data(bed, "h2")
    job.until_first_step(2)
    status = job.until_step(before["step"], generation=2)
    incident = status["incidents"][0]
    assert incident["cause"] == "link_down" and incident["host"] == "h2", incident
    assert "data network" in incident["sentence"]
    assert job.host("h2", status)["state"] == "failed", job.host("h2", status)
    assert job.host("h4", status)["ranks"] == [1]
    assert not job.events("host_lost")
    bed["h2"].heal()
    job.until(lambda s: job.host("h2", s)["state"] == "spare", "h2 is a spare")


def test_a_host_that_is_cut_off_on_both_paths_is_lost_in_time(make, bed):
    job = make(["h1", "h2", "h3", "h4"], spares=["h4"])
    job.until_step(5)
    cut_at = time.monotonic()
    bed["h2"].drop("both")
    lost = job.until_event("host_lost", host="h2")
    took = lost["mono_ns"] / 1e9 - cut_at
    assert LOST_AFTER - 0.3 < took < LOST_AFTER + 0.4 + SLACK, took
    assert "to the probes of" in lost["detail"], lost
    job.until_first_step(2)


def test_a_controller_that_is_cut_off_from_everybody_convicts_nobody(make, bed):
    job = make(["h1", "h2", "h3"])
    before = job.until_step(5)
    cut_control(bed, "h1", "h2", "h3")
    job.until(lambda s: all(h["state"] == "suspect" for h in s["hosts"]), "all are suspect")
    wait_for(lambda: "the controller's own network is suspected" in job.output(), "it says so",
             SECONDS)
    until = time.monotonic() + 5
    wait_for(lambda: time.monotonic() > until, "five seconds of silence", SECONDS)
    for name in ("h1", "h2", "h3"):
        bed[name].heal()
    status = job.until(lambda s: all(h["state"] == "active" for h in s["hosts"]), "all are back")
    unbroken(job, status)
    unbroken(job, job.until_step(before["step"] + 30))
    assert not job.events("controller_restarted")


@pytest.mark.parametrize("wish", ["stop", "keep"])
def test_agents_cut_off_until_their_lease_ends(make, bed, wish):
    changes = merged(QUIET, {"recovery": {"lease": "5 s", "on_lease_end": wish,
                                          "stop_grace": "5 s"}})
    job = make(["h1", "h2"], changes)
    job.until_step(5)
    cut_control(bed, "h1", "h2")

    def left():
        return [pid for name in ("h1", "h2") for pid in processes_of_host(job.id, name)]

    if wish == "stop":
        wait_for(lambda: not left(), "nothing is left on the hosts", SECONDS)
        return
    before = left()
    until = time.monotonic() + 12
    wait_for(lambda: time.monotonic() > until, "the lease and the grace are over", SECONDS)
    assert set(before) <= set(left())
