"""A controller that dies or hangs is followed by one that takes over what runs."""

import contextlib
import hashlib
import os
import signal
import subprocess

import pytest
from checkpoint_reader import read_checkpoint
from jobs import SECONDS, kill_local_host, merged, parent_of
from local_jobs import TRAINING, LocalJob, kill, make, program  # noqa: F401 (make is a fixture)
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


# The state directory.


@pytest.fixture
def small_disk(tmp_path):
    """A function that fills a small file system, and one that makes room there again."""
    place = tmp_path / "job" / "state"
    place.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "adoption", place],
                          capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr}")
    filler = place / "filler"

    def fill():
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    yield fill, filler.unlink
    wait_for(lambda: subprocess.run(["umount", place], capture_output=True).returncode == 0,
             "the small disk is unmounted", SECONDS)


def children_of(parent):
    found = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [pid for pid in found if parent_of(pid) == parent and is_running(pid)]


def test_a_full_disk_under_run_db_pauses_decisions_and_nothing_is_lost(tmp_path, small_disk):
    fill, make_room = small_disk
    with LocalJob(tmp_path / "job", TRAINING) as job:
        job.start()
        before = job.until_step(5)
        keeper, controller = job.keeper_and_controller()
        fill()
        # Started again, the controller waits for room; the agents train on.
        kill(controller)
        wait_for(lambda: [pid for pid in children_of(keeper) if pid != controller],
                 "the keeper has started another", SECONDS)
        assert all(is_running(pid) for pid in pids_of(before).values())
        make_room()
        after = until_adopted(job, controller, before["step"])
        nothing_was_started_again(job, before, after)
        # The abort waits for nothing, the next generation for the disk.
        fill()
        job.until(lambda s: "run.db" in s["reason"], "decisions wait")
        kill(pids_of(after)[1])
        wait_for(lambda: not any(is_running(pid) for pid in pids_of(after).values()),
                 "the abort went out", SECONDS)
        paused = job.until(lambda s: s["state"] == "recovering" and "run.db" in s["reason"],
                           "the next generation waits")
        assert not any(pids_of(paused).values())
        make_room()
        job.until_first_step(2)
        (incident,) = job.status()["incidents"]
        assert incident["cause"] == "worker_crashed" and incident["rank"] == 1
        assert job.stop() == 130
        job.nothing_left()


def test_of_two_controllers_of_one_job_the_newer_one_is_obeyed_and_the_older_one_ends(make):
    job = make(merged(TRAINING, {"recovery": {"readmit": "1 s"}}))
    job.start()
    job.until_step(25)
    older = job.keeper_and_controller()
    (run,) = job.state_directories()
    # As on a file system that keeps no locks between two login hosts.
    for name in ("keeper.lock", "controller.lock"):
        (run / name).unlink()
    done = job.call("resume", "--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    wait_for(lambda: not any(is_running(pid) for pid in older), "the older one has ended", SECONDS)
    after = job.until_step(26, generation=2)
    newer = job.keeper_and_controller()
    assert not set(newer) & set(older)
    assert job.host("here1", after)["state"] == job.host("here2", after)["state"] == "active"
    assert job.wait() == 64, job.output()
    job.process = None
    assert job.call("stop", "--now").returncode == 0
    job.nothing_left()
