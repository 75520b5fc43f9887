"""Nothing of a job is left on any host, however it ends; nothing else is ever touched."""

import os
import signal

import pytest
from jobs import ENDLESS, SECONDS, Job, merged, parent_of
from testbed import wait_for
from testbed_system import is_running, namespace_pids, read_bytes

ESCAPING = """
import os, pathlib, subprocess, sys, time
mark = sys.argv[1]
# One that keeps its environment, and one that a scan of environments cannot find.
subprocess.Popen(["setsid", "sleep", mark])
subprocess.Popen(["setsid", "env", "-i", "/bin/sh", "-c", f"/bin/sleep {mark} & wait"])
print("step 1", flush=True)
pathlib.Path(sys.argv[2], "up-" + os.environ["RANK"]).touch()
if sys.argv[3] == "fail":
    while len(os.listdir(sys.argv[2])) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
    sys.exit(3)
if sys.argv[3] == "run":
    time.sleep(100_000)
"""


def sleepers(bed, mark):
    """The pids of `sleep mark` and its like on all hosts."""
    return [pid for host in bed.hosts.values() for pid in host.pids()
            if str(mark).encode() in read_bytes(f"/proc/{pid}/cmdline").split(b"\0")
            and b"sleep" in read_bytes(f"/proc/{pid}/cmdline") and is_running(pid)]


def escaping_job(bed, name, mark, how, changes=None):
    directory = bed.directory / name
    (directory / "marks").mkdir(parents=True)
    script = directory / "escaping.py"
    script.write_text(ESCAPING)
    command = ["/usr/bin/python3", str(script), str(mark), str(directory / "marks"), how]
    program = {"trainer": None, "checkpoint": None, "program": {"command": command}}
    return Job(bed.login, directory, merged(program, changes or {}),
               hostfile=bed.hosts_toml(directory / "hosts.toml")).start()


def all_up(job):
    return lambda: len(list((job.directory / "marks").iterdir())) >= 2


@pytest.mark.parametrize("how, code, changes", [
    ("end", 0, {}),
    ("fail", 3, {"recovery": {"restarts": {"process": 0, "window": "1 h"}}}),
])
def test_children_that_fled_are_gone_after_the_end(bed, how, code, changes):
    mark = 810_000 + code
    with escaping_job(bed, f"end-{how}", mark, how, changes) as job:
        assert job.wait() == code, job.output()
        job.nothing_left()
        wait_for(lambda: not sleepers(bed, mark), "no child is left", SECONDS)


@pytest.mark.parametrize("now", [False, True])
def test_children_that_fled_are_gone_after_a_stop(bed, now):
    mark = 820_000 + now
    with escaping_job(bed, f"stop-{now}", mark, "run", {"recovery": {"stop_grace": "2 s"}}) as job:
        wait_for(all_up(job), "both ranks run", SECONDS)
        wait_for(lambda: len(sleepers(bed, mark)) >= 4, "all children run", SECONDS)
        assert job.call("stop", *(["--now"] if now else [])).returncode == 0
        assert job.wait() == (130 if now else 75), job.output()
        job.nothing_left()
        wait_for(lambda: not sleepers(bed, mark), "no child is left", SECONDS)


def test_a_dead_controller_and_keeper_leave_nothing_after_the_lease(bed):
    mark = 830_000
    changes = {"recovery": {"lease": "3 s", "stop_grace": "1 s"}}
    with escaping_job(bed, "lease", mark, "run", changes) as job:
        wait_for(all_up(job), "both ranks run", SECONDS)
        wait_for(lambda: len(sleepers(bed, mark)) >= 4, "all children run", SECONDS)
        controller = job.status()["controller"]["pid"]
        keeper = parent_of(controller)
        assert keeper > 1 and b"dlaunch" in read_bytes(f"/proc/{keeper}/cmdline")
        os.kill(keeper, signal.SIGKILL)
        os.kill(controller, signal.SIGKILL)
        assert job.wait() == 70, job.output()
        job.nothing_left()
        wait_for(lambda: not sleepers(bed, mark), "no child is left", SECONDS)


def test_a_dead_controller_and_keeper_leave_no_trainer_after_the_lease(bed):
    directory = bed.directory / "lease-trainer"
    directory.mkdir()
    changes = merged(ENDLESS, {"recovery": {"lease": "3 s"}})
    hostfile = bed.hosts_toml(directory / "hosts.toml")
    with Job(bed.login, directory, changes, hostfile=hostfile).start() as job:
        controller = job.until_step(5)["controller"]["pid"]
        os.kill(parent_of(controller), signal.SIGKILL)
        os.kill(controller, signal.SIGKILL)
        assert job.wait() == 70, job.output()
        job.nothing_left()


def test_a_second_job_and_an_unrelated_process_are_untouched(bed):
    strangers = [host.popen(["sleep", "840000"]) for host in bed.hosts.values()]
    jobs = []
    try:
        for name in ("beside", "ending"):
            directory = bed.directory / name
            directory.mkdir()
            hostfile = bed.hosts_toml(directory / "hosts.toml")
            changes = merged(ENDLESS, {"job": {"name": name}})
            jobs.append(Job(bed.login, directory, changes, hostfile=hostfile).start())
        beside, ending = jobs
        before = beside.until_step(5)
        ending.until_step(5)
        victim = ending.pid_of(1)
        os.kill(victim, signal.SIGKILL)
        ending.until_first_step(2)
        ending.stop()
        ending.nothing_left()
        after = beside.until_step(before["step"] + 5)
        assert after["generation"] == 1 and not after["incidents"]
        assert [r["pid"] for r in after["ranks"]] == [r["pid"] for r in before["ranks"]]
        assert [h["agent_pid"] for h in after["hosts"]] == [
            h["agent_pid"] for h in before["hosts"]]
        assert all(stranger.poll() is None for stranger in strangers)
        assert beside.stop() == 130
        beside.nothing_left()
        assert all(stranger.poll() is None for stranger in strangers)
    finally:
        for job in jobs:
            job.end()
        for stranger in strangers:
            stranger.kill()
            stranger.wait(SECONDS)


def test_a_failed_start_leaves_nothing(bed):
    directory = bed.directory / "refused"
    directory.mkdir()
    hosts = bed.hosts_toml(directory / "hosts.toml", each={"h2": {"scratch": "/proc/none"}})
    with Job(bed.login, directory, ENDLESS, hostfile=hosts).start() as job:
        assert job.wait() == 69, job.output()
        assert "h2" in job.output()
        job.nothing_left()
        assert not [pid for pid in namespace_pids(bed["h1"].namespace)
                    if b"dlaunch" in read_bytes(f"/proc/{pid}/cmdline")]


def test_clean_ends_and_removes_what_an_ended_job_left_and_nothing_else(bed):
    mark = 860_000
    with escaping_job(bed, "clean", mark, "end") as job:
        assert job.wait() == 0, job.output()
        job.nothing_left()  # its own agents would end what pretends to be of the job
        host = next(iter(bed.hosts.values()))
        environment = {**os.environ, "DLAUNCH_JOB": job.id, "DLAUNCH_HOST": host.name}
        left = host.popen(["sleep", str(mark + 1)], env=environment)
        others = host.popen(["sleep", str(mark + 2)],
                            env={**environment, "DLAUNCH_JOB": job.id + "-other"})
        try:
            looked = job.call("clean", "--dry-run")
            assert looked.returncode == 0 and f"sleep {mark + 1}" in looked.stdout, looked
            assert left.poll() is None
            done = job.call("clean")
            assert done.returncode == 0 and "ended 1 process" in done.stdout, done
            assert "removed " in done.stdout and job.id in done.stdout
            assert left.wait(SECONDS) == -signal.SIGTERM
            assert others.poll() is None, "another job's process is not touched"
            again = job.call("clean")
            assert again.returncode == 0
            assert again.stdout.count("nothing is left") == len(bed.hosts), again.stdout
            assert job.call("clean", "no-such-host").returncode == 64
        finally:
            for process in (left, others):
                process.kill()
                process.wait()
