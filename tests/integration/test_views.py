"""Looking at jobs, stopping and resuming them, and who may die without the job noticing."""

import contextlib
import json
import os
import re
import signal
import sqlite3

import pytest
from jobs import SECONDS, merged, parent_of
from local_jobs import TRAINING, kill, make, program  # noqa: F401 (make is a fixture)
from testbed_system import is_running, read_bytes, wait_for

STATUS_KEYS = {"schema", "job", "id", "state", "reason", "generation", "world_size", "step",
               "steps", "loss", "tokens_per_second", "checkpoint", "hosts", "ranks", "incidents"}
TALKING = """
import os, time, pathlib, sys
rank, generation = os.environ["RANK"], os.environ["DLAUNCH_GENERATION"]
print("hello of", rank, "in generation", generation, flush=True)
print("trouble of", rank, file=sys.stderr, flush=True)
go = pathlib.Path("go")
while not go.exists():
    time.sleep(0.05)
print("bye of", rank, flush=True)
"""


# No job at all.


def test_without_a_job_every_view_says_so(make):
    job = make()
    done = job.call("status")
    assert done.returncode == 0 and "no job" in done.stdout
    done = job.call("status", "--json")
    assert done.returncode == 0 and json.loads(done.stdout) is None
    done = job.call("list")
    assert done.returncode == 0 and "no job" in done.stdout
    assert json.loads(job.call("list", "--json").stdout) == []


# Status.


def test_status_has_everything_while_the_job_runs(make):
    job = make(TRAINING, workers=(2, 1))
    job.start()
    job.until_step(25)
    status = job.until(lambda s: s["checkpoint"]["disk_step"], "a checkpoint")
    assert STATUS_KEYS <= status.keys()
    assert status["schema"] == 1 and status["job"] == "tiny" and status["id"] == job.id
    assert status["state"] == "running" and status["generation"] == 1
    assert status["world_size"] == 3 and status["steps"] == 1_000_000
    assert 0 < status["loss"] < 8 and status["tokens_per_second"] > 0
    assert status["checkpoint"]["disk_step"] % 20 == 0
    assert status["checkpoint"]["memory_step"] is None
    assert status["checkpoint"]["every"] == "20 steps"
    assert status["incidents"] == []
    assert [(h["name"], h["state"], h["ranks"]) for h in status["hosts"]] == [
        ("here1", "active", [0, 1]), ("here2", "active", [2])]
    for host in status["hosts"]:
        assert {"reason", "blind_sensors"} <= host.keys()
        assert 0 <= host["last_heartbeat_seconds"] < 20, host
        assert is_running(host["agent_pid"])
    assert [(r["rank"], r["host"], r["group"]) for r in status["ranks"]] == [
        (0, "here1", "main"), (1, "here1", "main"), (2, "here2", "main")]
    for rank in status["ranks"]:
        assert rank["state"] == "running" and rank["phase"] and is_running(rank["pid"])
        assert rank["step"] >= status["step"], "the job's step is the least of all ranks"
    table = job.call("status").stdout
    for word in ("tiny", job.id, "running", "here1", "here2", "0-1", "RANK", "HOST", "20 steps"):
        assert word in table, (word, table)
    assert "\x1b" not in table


def test_a_job_is_found_by_name_and_by_id(make):
    job = make(TRAINING)
    job.start()
    job.until_step(1)
    for name in ("tiny", job.id):
        assert json.loads(job.call("status", name, "--json").stdout)["id"] == job.id
    listed = json.loads(job.call("list", "--json").stdout)
    assert [(one["job"], one["id"], one["state"]) for one in listed] == [
        ("tiny", job.id, "running")]
    table = job.call("list").stdout
    assert job.id in table and "running" in table


def test_status_waits_for_a_state(make):
    job = make(TRAINING)
    job.start()
    job.until_step(1)
    assert job.call("status", "--wait", "running").returncode == 0
    done = job.call("status", "--wait", "finished", "--timeout", "300 ms")
    assert done.returncode == 1 and "running" in done.stderr
    waiting = job.popen("status", "--wait", "stopped")
    hopeless = job.popen("status", "--wait", "finished")
    assert job.stop() == 130
    assert waiting.wait(SECONDS) == 0
    assert hopeless.wait(SECONDS) == 1


def test_status_watch_repeats_until_the_end(make):
    job = make({"trainer": {"steps": 1_000_000}})
    job.start()
    job.until_step(1)
    watching = job.popen("status", "--watch", "--json")
    first, second = (json.loads(next_line(watching)) for _ in range(2))
    assert first["state"] == second["state"] == "running" and second["step"] >= first["step"]
    job.stop()
    last = watching.communicate(timeout=SECONDS)[0].strip().splitlines()[-1]
    assert watching.returncode == 0 and json.loads(last)["state"] == "stopped"


def next_line(process):
    """The next line that is not empty."""
    while True:
        line = process.stdout.readline()
        assert line, "the output has ended"
        if line.strip():
            return line


def test_waiting_for_a_state_that_cannot_come_is_no_success(make):
    job = make(program('print("done")'))
    done = job.call("status", "--wait", "running")
    assert done.returncode == 1 and "no job" in done.stderr
    assert job.call("status", "--timeout", "3 s").returncode == 64
    job.start()
    assert job.id
    finished = job.popen("status", "--wait", "finished")
    assert job.wait() == 0, job.output()
    assert finished.wait(SECONDS) == 0, "reached at the very end of its controller"
    for rank in job.status()["ranks"]:
        assert rank["pid"] is None and rank["phase"] == ""


# On a network file system, which DLAUNCH_NETWORK_STATE stands for.


def test_on_a_network_file_system_the_views_work_too(make):
    job = make(TRAINING)
    job.extra_env = {"DLAUNCH_NETWORK_STATE": "1"}
    job.start()
    job.until_step(25)
    assert "network file system" in job.output()
    names = [event["event"] for event in job.events()]
    assert "first_step" in names, "events come from the controller"
    (run,) = job.state_directories()
    wait_for(lambda: json.loads((run / "status.json").read_text())["step"],
             "the copy of the status, written once a second, has a step", SECONDS)
    # What another login host sees: the same files, but nobody behind the socket.
    (run / "control.sock").rename(run / "moved.sock")
    other = ["unshare", "--uts", "sh", "-c", 'hostname login2 && exec "$0" "$@"']
    pid = json.loads((run / "status.json").read_text())["controller"]["pid"]

    def there(*words):
        return job.login.run([*other, *job.command(*words)], env=job.env(), seconds=SECONDS)

    status = json.loads(there("status", "--json").stdout)
    assert f"(pid {pid})" in status["reason"] and "controller runs on" in status["reason"]
    assert status["state"] == "running" and status["generation"] == 1 and status["step"]
    for words in (["events"], ["logs"], ["stop"], ["attach"]):
        done = there(*words)
        assert done.returncode == 1 and "controller runs on" in done.stderr, (words, done)
    assert there("resume").returncode == 64
    (run / "moved.sock").rename(run / "control.sock")
    assert job.stop() == 130
    assert job.status()["state"] == "stopped"


# Events and logs.


def test_events_come_as_lines_and_as_json_and_follow_until_the_end(make):
    job = make({"trainer": {"steps": 40}})
    job.start()
    assert job.id  # it has a state directory
    following = job.popen("events", "--json", "--follow")
    assert job.wait() == 0, job.output()
    followed = following.communicate(timeout=SECONDS)[0]
    assert following.returncode == 0
    events = job.events()
    assert [json.loads(line) for line in followed.splitlines()] == events
    names = [event["event"] for event in events]
    for name in ("host_ready", "generation_formed", "worker_started", "restored", "first_step",
                 "checkpoint_committed", "worker_exited", "job_finished"):
        assert name in names, (name, names)
    assert names[-1] == "job_finished"
    assert [e["mono_ns"] for e in events] == sorted(e["mono_ns"] for e in events)
    for event in events:
        assert {"time", "mono_ns", "event", "generation"} <= event.keys()
    for event in events:
        if event["event"] == "host_ready":
            assert event["generation"] == 0, "before the first generation"
    lines = job.call("events").stdout.splitlines()
    assert len(lines) == len(events) and "generation_formed" in "".join(lines)


def test_logs_are_shown_by_rank_host_and_generation_and_followed(make):
    job = make(program(TALKING))
    job.start()
    assert job.id  # it has a state directory
    following = job.popen("logs", "--rank", "1", "--follow")
    first = {next_line(following), next_line(following)}
    assert first == {"hello of 1 in generation 1\n", "trouble of 1\n"}
    job.until(lambda s: s["state"] == "running", "running")
    every = wait_for(lambda: all_lines(job, 4), "all lines", SECONDS)
    assert sorted(every) == sorted([
        "here1:0 hello of 0 in generation 1", "here1:0 trouble of 0",
        "here2:1 hello of 1 in generation 1", "here2:1 trouble of 1"])
    of_host = job.call("logs", "--host", "here2").stdout
    assert "hello of 1" in of_host and "hello of 0" not in of_host
    kill(job.pid_of(1))
    job.until(lambda s: s["generation"] == 2 and s["state"] == "running", "generation 2")
    second = {next_line(following), next_line(following)}
    assert second == {"hello of 1 in generation 2\n", "trouble of 1\n"}
    first = job.call("logs", "--rank", "0", "--generation", "1").stdout
    assert "in generation 1" in first and "in generation 2" not in first
    (job.directory / "go").touch()
    assert job.wait() == 0, job.output()
    rest = following.communicate(timeout=SECONDS)[0]
    assert "bye of 1" in rest and following.returncode == 0


def all_lines(job, count):
    lines = job.call("logs").stdout.splitlines()
    return lines if len(lines) >= count else None


def test_logs_of_an_ended_job_say_where_they_are(make):
    job = make(program('print("done")'))
    code, output = job.run()
    assert code == 0, output
    done = job.call("logs")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["here1:0 done", "here2:1 done"]
    assert str(job.directory / "scratch") in done.stderr, "where the whole logs are"
    assert job.call("logs", "--rank", "1").stdout == "done\n"
    assert job.call("logs", "--host", "here1").stdout == "here1:0 done\n"


def test_logs_of_a_generation_that_broke_outlive_the_job(make):
    job = make(program(TALKING))
    job.start()
    job.until(lambda s: s["state"] == "running", "running")
    wait_for(lambda: all_lines(job, 4), "every rank has printed", SECONDS)
    kill(job.pid_of(1))
    job.until(lambda s: s["generation"] == 2 and s["state"] == "running", "generation 2")
    shown = wait_for(lambda: (lambda text: text if "of 1 in generation 2" in text else None)(
        job.call("logs").stdout), "the newest generation has printed", SECONDS)
    assert "in generation 1" not in shown, "the newest is the default"
    assert job.stop() == 130
    for generation in (1, 2):
        lines = job.call("logs", "--generation", str(generation)).stdout
        assert f"here2:1 hello of 1 in generation {generation}\n" in lines


# Starting detached, and watching again.


def test_detach_prints_name_and_id_and_the_job_goes_on(make):
    job = make(TRAINING)
    done = job.call("run", "--detach", "--hostfile", str(job.hostfile), str(job.train_file))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"tiny {job.id}\n"
    status = job.until_step(1)
    assert status["state"] == "running"
    viewer = job.popen("attach")
    wait_for(lambda: "running" in viewer.stdout.readline(), "attach shows the job", SECONDS)
    viewer.send_signal(signal.SIGINT)
    out = viewer.communicate(timeout=SECONDS)[0]
    assert viewer.returncode == 0 and "dlaunch stop" in out
    job.until_step(job.status()["step"] + 1)
    viewer = job.popen("attach", "tiny")
    job.stop()
    viewer.communicate(timeout=SECONDS)
    assert viewer.returncode == 130


def test_detach_gives_the_code_of_a_start_that_fails(make):
    job = make({"trainer": {"data": {"text": "nowhere.txt"}}})
    done = job.call("run", "--detach", "--hostfile", str(job.hostfile), str(job.train_file))
    assert done.returncode == 65 and "nowhere.txt" in done.stdout + done.stderr


def test_a_dry_run_prints_the_plan(make):
    job = make(TRAINING, workers=(2, 3), spares=("here2",))
    words = ["--hostfile", str(job.hostfile), "--dry-run", str(job.train_file)]
    done = job.call(*words)
    assert done.returncode == 0
    for word in ("tiny", "here1", "here2", "0-1", "spare", "local"):
        assert word in done.stdout, (word, done.stdout)
    plan = json.loads(job.call(*words, "--json").stdout)
    assert [(h["name"], h["ranks"], h["spare"]) for h in plan["hosts"]] == [
        ("here1", [0, 1], False), ("here2", [], True)]
    assert not job.state_directories()


def test_without_a_hostfile_the_job_runs_on_this_machine(make):
    job = make({"trainer": {"steps": 4}})
    job.hostfile = None
    code, output = job.run()
    assert code == 0, output
    assert len(job.status()["hosts"]) == 1


# Stopping and resuming.


def test_stop_writes_a_checkpoint_and_the_same_command_goes_on(make):
    job = make(TRAINING)
    job.start()
    job.until_step(3)
    done = job.call("stop")
    assert done.returncode == 0, done.stderr
    assert job.wait() == 75, job.output()
    stopped = job.status()
    assert stopped["state"] == "stopped"
    at = stopped["checkpoint"]["disk_step"]
    assert at >= 3 and (job.directory / f"checkpoints/step-{at}/manifest.json").exists()
    first = job.id
    job.known_id = None
    job.start("--set", f"trainer.steps={at + 20}")
    assert job.wait() == 0, job.output()
    job.known_id = None
    assert job.id != first
    assert job.events("restored")[0]["step"] == at
    assert job.status()["step"] == at + 20


def test_resume_keeps_id_and_history(make):
    job = make(TRAINING)
    job.start()
    job.until_step(3)
    assert job.call("stop").returncode == 0
    assert job.wait() == 75, job.output()
    at = job.status()["checkpoint"]["disk_step"]
    done = job.call("resume", "--detach")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"tiny {job.id}\n"
    status = job.until_step(at + 1, generation=2)
    assert status["id"] == job.id and status["generation"] == 2
    assert [e["generation"] for e in job.events("generation_formed")] == [1, 2]
    assert [e["step"] for e in job.events("restored")] == [0, at]
    job.process = None
    assert job.call("resume").returncode == 64
    job.stop()


def test_stop_before_the_first_step_still_writes_a_checkpoint(make):
    job = make(TRAINING)
    job.start()
    assert job.id  # it has a state directory
    job.until_event("generation_formed")
    assert job.call("stop").returncode == 0
    assert job.wait() == 75, job.output()
    assert list((job.directory / "checkpoints").glob("step-*/manifest.json"))


def test_stop_now_writes_none_and_gives_130(make):
    job = make(merged(TRAINING, {"checkpoint": {"every": "100000 steps"}}))
    job.start()
    job.until_step(3)
    assert job.call("stop", "--now").returncode == 0
    assert job.wait() == 130, job.output()
    assert not list((job.directory / "checkpoints").glob("step-*/manifest.json"))
    assert job.status()["state"] == "stopped"
    assert job.call("stop").returncode == 0  # nothing to stop is no error
    job.nothing_left()


def test_stop_waits_for_a_controller_that_is_being_restarted(make):
    job = make(TRAINING)
    job.start()
    job.until_step(3)
    _, controller = job.keeper_and_controller()
    kill(controller)
    assert job.call("stop", "--now").returncode == 0
    assert job.wait() == 130, job.output()


def test_a_host_is_drained_at_a_step_boundary_and_let_in_again(make):
    job = make(merged(TRAINING, {"job": {"hosts": "1..2"}}), workers=(1, 1))
    job.start()
    job.until_step(5)
    refused = job.call("drain", "nobody")
    assert refused.returncode == 64 and "nobody" in refused.stderr
    done = job.call("drain", "tiny", "here2")
    assert done.returncode == 0 and "drained" in done.stdout, done.stderr
    status = job.until(lambda s: s["state"] == "running" and s["world_size"] == 1, "one host")
    assert status["incidents"] == [] and status["generation"] == 2
    refused = job.call("drain", "here1")
    assert refused.returncode == 64 and "minimum" in refused.stderr
    assert job.call("add", "here2").returncode == 0
    status = job.until(lambda s: s["state"] == "running" and s["world_size"] == 2, "both hosts")
    assert status["incidents"] == [] and status["generation"] == 3
    assert {h["name"]: h["state"] for h in status["hosts"]} == {"here1": "active",
                                                               "here2": "active"}


def test_the_viewer_shows_the_start_and_each_step_once(make):
    job = make({"trainer": {"steps": 40}}, workers=(2, 1))
    code, output = job.run()
    assert code == 0, output
    assert f"id {job.id}  generation 1  world size 3\n" in output
    assert "here1  0-1\nhere2  2\n" in output
    assert not re.search(r"tokens/s \d", output), "the trainer's own lines: " + output


def test_a_viewer_whose_reader_is_gone_detaches(make):
    job = make(TRAINING)
    job.start()
    job.until_step(1)
    viewer = job.popen("attach")
    viewer.stdout.close()
    assert viewer.wait(SECONDS) != 0
    viewer.stderr.close()
    job.until_step(job.status()["step"] + 1)
    assert job.stop() == 130


def test_ctrl_c_stops_with_a_checkpoint(make):
    job = make(TRAINING)
    job.start()
    job.until_step(3)
    kill(job.process.pid, signal.SIGINT)
    assert job.wait() == 75, job.output()
    assert "Ctrl-C" in job.output()
    assert job.status()["checkpoint"]["disk_step"] >= 3


def test_a_second_ctrl_c_stops_at_once(make):
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + TALKING
    job = make({**program(script), "recovery": {"stop_grace": "10 min"}})
    job.start()
    wait_for(lambda: "hello of 0" in job.output(), "the program runs", SECONDS)
    kill(job.process.pid, signal.SIGINT)
    wait_for(lambda: "again to stop at once" in job.output(), "the first is answered", SECONDS)
    kill(job.process.pid, signal.SIGINT)
    assert job.wait() == 130, job.output()
    job.nothing_left()


# Who may die.


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_the_job_goes_on_without_its_viewer(make, number):
    job = make(TRAINING)
    job.start()
    before = job.until_step(2)
    kill(job.process.pid, number)
    code = job.wait()
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    job.process = None
    after = job.until_step(before["step"] + 5)
    assert after["generation"] == 1 and not after["incidents"]


def test_an_attached_job_ends_as_preempted_with_its_viewer(make):
    job = make(TRAINING)
    job.start("--attached")
    job.until_step(2)
    kill(job.process.pid, signal.SIGTERM)
    assert job.wait() == 75, job.output()
    assert job.status()["state"] == "stopped" and job.status()["checkpoint"]["disk_step"] >= 2


def test_the_keeper_restarts_a_killed_controller(make):
    job = make(merged(TRAINING, {"recovery": {"readmit": "2 s"}}))
    job.start()
    before = job.until_step(25)
    keeper, controller = job.keeper_and_controller()
    kill(controller)
    event = job.until_event("controller_restarted")
    assert event
    after = job.until(lambda s: s["state"] == "running" and s["step"] > before["step"]
                      and s["controller"]["pid"] != controller, "training goes on")
    assert parent_of(after["controller"]["pid"]) == keeper
    assert job.process.poll() is None, job.output()
    assert job.stop() == 130
    job.nothing_left()


def step_on_disk(job):
    """The status is written there once a second."""
    (run,) = job.state_directories()
    with contextlib.closing(sqlite3.connect(f"file:{run}/run.db?mode=ro", uri=True)) as database:
        row = database.execute("SELECT json FROM status").fetchone()
    return row and json.loads(row[0])["step"]


def test_without_keeper_and_controller_the_viewer_says_so_and_status_reads_the_disk(make):
    job = make(merged(TRAINING, {"recovery": {"lease": "3 s"}}))
    job.start()
    job.until_step(25)
    kept = wait_for(lambda: step_on_disk(job), "a step stands in run.db", SECONDS)
    for pid in job.keeper_and_controller():
        kill(pid)
    assert job.wait() == 70, job.output()
    assert "gone" in job.output()
    status = job.status()
    assert status["id"] == job.id and "controller" in status["reason"]
    assert status["step"] >= kept
    assert job.id in job.call("list").stdout
    assert job.events("generation_formed")
    job.nothing_left()
    # Nobody was there to commit what the workers wrote at the end of their lease.
    directory = job.directory / "checkpoints"
    written = max(int(path.name.split(".")[0][5:]) for path in directory.glob("step-*.g1.partial"))
    assert written >= kept
    done = job.call("resume", "--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    job.process = None
    assert job.until(lambda s: s["state"] == "running" and s["generation"] >= 2, "running again")
    assert job.events("restored")[-1]["step"] == written
    wait_for(lambda: not list(directory.glob("*.g1.partial")), "the others are deleted", SECONDS)
    job.stop()


def test_a_killed_keeper_alone_does_not_stop_the_job(make):
    job = make(TRAINING)
    job.start()
    before = job.until_step(2)
    keeper, controller = job.keeper_and_controller()
    kill(keeper)
    after = job.until(lambda s: s["step"] > before["step"] + 5, "training goes on")
    assert after["controller"]["pid"] == controller
    assert job.stop() == 130


# Files.


def test_what_a_run_leaves_is_private(make):
    job = make({"trainer": {"steps": 4}})
    code, output = job.run()
    assert code == 0, output
    (run,) = job.state_directories()
    for name in ("run.db", "job.toml", "controller.log"):
        assert (run / name).stat().st_mode & 0o777 == 0o600, name
    assert run.stat().st_mode & 0o777 == 0o700
    scratch = job.directory / "scratch" / f"dlaunch-{os.getuid()}"
    assert scratch.stat().st_mode & 0o777 == 0o700
    for host in ("here1", "here2"):
        place = scratch / job.id / host
        assert read_bytes(place / "agent.log")
        assert (place / "logs/generation-1").is_dir()
