"""A controller that dies or hangs is followed by one that takes over what runs."""

import contextlib
import hashlib
import os
import pathlib
import signal

import pytest
from checkpoint_reader import read_checkpoint
from jobs import SECONDS, kill_local_host, merged
from local_jobs import TRAINING, kill, make, program  # noqa: F401 (make is a fixture)
from testbed_system import is_running, wait_for

STEPS = 800
FINITE = merged(TRAINING, {"trainer": {"steps": STEPS}})


def pids_of(status):
    return {rank["rank"]: rank["pid"] for rank in status["ranks"]}


def agents_of(status):
    return {host["name"]: host["agent_pid"] for host in status["hosts"]}


def final_digest(job):
    """Of every byte of the last checkpoint's tensors."""
    tensors = read_checkpoint(job.directory / "checkpoints" / f"step-{STEPS}")
    return {name: (dtype, shape, hashlib.sha256(data).hexdigest())
            for name, (dtype, shape, data) in tensors.items()}


def until_adopted(job, controller, step):
    return job.until(
        lambda s: s["state"] == "running" and s["controller"]["pid"] != controller
        and (s["step"] or 0) > step, "the next controller sees training go on")


def nothing_was_started_again(job, before, after):
    assert after["generation"] == before["generation"]
    assert pids_of(after) == pids_of(before)
    assert agents_of(after) == agents_of(before)
    assert not after["incidents"] and not job.events("incident_opened", "abort_ordered")
    assert len(job.events("generation_formed")) == 1 and len(job.events("first_step")) == 1


@contextlib.contextmanager
def without_controller(job):
    """Controller killed, its keeper stopped: agents and workers are on their own meanwhile."""
    keeper, controller = job.keeper_and_controller()
    kill(keeper, signal.SIGSTOP)
    kill(controller)
    wait_for(lambda: not is_running(controller), "the controller is dead", SECONDS)
    try:
        yield controller
    finally:
        kill(keeper, signal.SIGCONT)


def test_a_killed_controller_costs_no_step_and_no_process(make):
    undisturbed = make(FINITE, "undisturbed")
    assert undisturbed.run()[0] == 0
    job = make(FINITE)
    job.start()
    before = job.until_step(30)
    for _ in range(2):
        _, controller = job.keeper_and_controller()
        kill(controller)
        after = until_adopted(job, controller, before["step"])
        nothing_was_started_again(job, before, after)
        before = after
    assert [e["detail"] for e in job.events("controller_restarted")] == [
        "generation 1 was running"] * 2
    assert len(job.events("generation_adopted")) == 2
    assert job.wait() == 0, job.output()
    assert job.status()["step"] == STEPS
    assert final_digest(job) == final_digest(undisturbed)
    assert sorted(path.name for path in (job.directory / "checkpoints").glob("step-*")) == sorted(
        f"step-{step}" for step in (STEPS - 40, STEPS - 20, STEPS))
    job.nothing_left()


def test_a_controller_that_hangs_is_replaced_and_its_generation_adopted(make):
    job = make(TRAINING)
    job.start()
    before = job.until_step(5)
    _, controller = job.keeper_and_controller()
    kill(controller, signal.SIGSTOP)
    wait_for(lambda: not is_running(controller), "the keeper has ended it", SECONDS)
    after = until_adopted(job, controller, before["step"])
    nothing_was_started_again(job, before, after)
    assert job.stop() == 130
    job.nothing_left()


def test_a_worker_that_dies_without_a_controller_is_an_incident_with_its_cause(make):
    job = make(TRAINING)
    job.start()
    before = job.until(lambda s: (s["checkpoint"]["disk_step"] or 0) >= 20, "a checkpoint")
    with without_controller(job):
        kill(pids_of(before)[1])
    job.until_first_step(2)
    (incident,) = job.status()["incidents"]
    assert incident["cause"] == "worker_crashed" and incident["rank"] == 1
    assert "SIGKILL" in incident["sentence"] and incident["host"] == "here2"
    assert job.stop() == 130


def test_a_host_that_dies_without_a_controller_is_lost_after_readmit(make):
    job = make(merged(TRAINING, {"job": {"hosts": "1..2"}, "recovery": {"readmit": "1500 ms"}}))
    job.start()
    job.until(lambda s: (s["checkpoint"]["disk_step"] or 0) >= 20, "a checkpoint")
    with without_controller(job):
        kill_local_host(job.id, "here2")
    job.until_first_step(2)
    incident = job.status()["incidents"][0]
    assert incident["cause"] == "host_lost" and incident["host"] == "here2", incident
    assert job.stop() == 130


PATIENT = """
import os, pathlib, time
pathlib.Path(f"started-{os.environ['RANK']}-{os.environ['DLAUNCH_GENERATION']}").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


def test_a_program_is_adopted_too_and_one_that_ended_well_meanwhile_counts(make):
    job = make(program(PATIENT))
    job.start()
    before = job.until(lambda s: s["state"] == "running" and all(pids_of(s).values()), "running")
    with without_controller(job):
        (job.directory / "go").touch()
        wait_for(lambda: not any(is_running(pid) for pid in pids_of(before).values()),
                 "the program has ended", SECONDS)
    assert job.wait() == 0, job.output()
    assert sorted(path.name for path in job.directory.glob("started-*")) == [
        "started-0-1", "started-1-1"]
    assert not job.status()["incidents"]


def test_resume_adopts_what_lives_after_keeper_and_controller_were_killed(make):
    job = make(TRAINING)
    job.start()
    before = job.until_step(5)
    keeper, controller = job.keeper_and_controller()
    kill(keeper)
    kill(controller)
    assert job.wait() == 70, job.output()
    job.process = None
    done = job.call("resume", "--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    after = until_adopted(job, controller, before["step"])
    nothing_was_started_again(job, before, after)
    job.stop()
    job.nothing_left()
