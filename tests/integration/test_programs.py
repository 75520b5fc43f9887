"""Any program under [program]: torchrun's environment, restarts, and the exit codes of failures."""

import contextlib
import json
import os
import pathlib
import signal

import pytest
from jobs import SECONDS, merged
from local_jobs import PYTHON, files, kill, make, program  # noqa: F401 (make is a fixture)
from testbed_system import wait_for
from torch_python import torch_python  # noqa: F401 (a fixture)

# Writes what it sees to <generation>-<rank>.json, then does what it is told.
REPORT = """
import json, os, pathlib, sys, time
rank, generation = os.environ["RANK"], os.environ["DLAUNCH_GENERATION"]
seen = {"environment": dict(os.environ), "arguments": sys.argv[1:], "directory": os.getcwd(),
        "pid": os.getpid(), "parent_arguments": open(f"/proc/{os.getppid()}/cmdline").read()}
here = pathlib.Path(__file__).parent
(here / f".{generation}-{rank}").write_text(json.dumps(seen))
(here / f".{generation}-{rank}").rename(here / f"{generation}-{rank}.json")
"""
WAIT_IN_FIRST = REPORT + """
while generation == "1":
    time.sleep(0.05)
"""
WAIT = REPORT + """
while True:
    time.sleep(0.05)
"""


def report(job, generation, rank):
    path = job.directory / f"{generation}-{rank}.json"
    wait_for(path.exists, f"rank {rank} of generation {generation} has started", SECONDS)
    return json.loads(path.read_text())


def incident(job, *causes):
    found = [i for i in job.status()["incidents"] if not causes or i["cause"] in causes]
    assert found, job.status()["incidents"]
    return found[-1]


# Says that it was asked to end, then takes a moment to write down where it is.
SAVES = REPORT + """
import signal
def save(number, frame):
    time.sleep(0.5)
    (here / f"saved-{generation}-{rank}").write_text("x")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
(here / f"waits-{generation}-{rank}").write_text("x")
while True:
    time.sleep(0.05)
"""


def test_a_program_has_its_grace_when_a_host_is_taken_out(make):
    job = make(merged(program(SAVES), {"job": {"hosts": "1..2"}}))
    job.start()
    for rank in (0, 1):
        wait_for((job.directory / f"waits-1-{rank}").exists, f"rank {rank} waits", SECONDS)
    job.until(lambda s: s["state"] == "running", "it runs")
    done = job.call("drain", "here2")
    assert done.returncode == 0, done.stderr
    status = job.until(lambda s: s["state"] == "running" and s["world_size"] == 1, "one host")
    assert status["generation"] == 2 and not status["incidents"]
    for rank in (0, 1):
        assert (job.directory / f"saved-1-{rank}").exists(), f"rank {rank} was killed"
    report(job, 2, 0)
    assert job.stop() == 130
    job.nothing_left()


# What a program sees.


def test_every_rank_has_the_whole_environment_of_torchrun(make):
    job = make(program(REPORT), workers=(2, 1))
    code, output = job.run()
    assert code == 0, output
    seen = [report(job, 1, rank)["environment"] for rank in range(3)]
    for rank, (local, group, local_world) in enumerate([(0, 0, 2), (1, 0, 2), (0, 1, 1)]):
        expected = {
            "RANK": rank, "LOCAL_RANK": local, "GROUP_RANK": group, "ROLE_RANK": rank,
            "ROLE_NAME": "default", "WORLD_SIZE": 3, "LOCAL_WORLD_SIZE": local_world,
            "GROUP_WORLD_SIZE": 2, "ROLE_WORLD_SIZE": 3, "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 10, "TORCHELASTIC_RUN_ID": job.id,
            "TORCHELASTIC_USE_AGENT_STORE": "False", "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
            "DLAUNCH_JOB": job.id, "DLAUNCH_HOST": f"here{group + 1}", "DLAUNCH_GENERATION": 1,
            "MASTER_ADDR": "127.0.0.1",
        }
        assert {key: seen[rank].get(key) for key in expected} == {
            key: str(value) for key, value in expected.items()}
        assert seen[rank].get("OMP_NUM_THREADS") == ("1" if local_world == 2 else None)
        assert seen[rank]["DLAUNCH_DATA_ADDRESS"].startswith("127.")
    assert len({one["MASTER_PORT"] for one in seen}) == 1
    assert 1024 <= int(seen[0]["MASTER_PORT"]) < 65536
    assert len({one["TORCHELASTIC_ERROR_FILE"] for one in seen}) == 3
    assert len({one["DLAUNCH_SOCKET"] for one in seen}) >= 2


def listening_ports(pid):
    sockets = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed: no listener
            sockets.add(os.readlink(entry))
    ports = set()
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            ports.add(int(fields[1].split(":")[1], 16))
    return ports


def test_what_listens_anywhere_listens_within_the_ports_of_the_hosts_file(make):
    ports = {"network": {"ports": "31600-31663"}}
    job = make(program(REPORT), **ports)
    code, output = job.run()
    assert code == 0, output
    assert 31600 <= int(report(job, 1, 1)["environment"]["MASTER_PORT"]) <= 31663
    trainer = make({"trainer": {"steps": 1_000_000}}, name="trainer", **ports)
    trainer.start()
    trainer.until_step(1)
    found = [listening_ports(trainer.pid_of(rank)) for rank in range(2)]
    found.append(listening_ports(trainer.keeper_and_controller()[1]))
    assert all(len(each) == 1 for each in found), found
    assert len(set.union(*found)) == 3 and set.union(*found) <= set(range(31600, 31664)), found


def test_placeholders_are_replaced_in_the_command_and_in_the_wrapper(make):
    wrap = ["/usr/bin/env", "WRAPPED=${host}-${rank}"]
    words = ["--rank=${rank}", "${local_rank}/${local_world_size}", "${world_size}",
             "${generation} ${job}", "$HOME", "a b;c"]
    job = make(program(REPORT, *words, wrap=wrap), workers=(1, 2))
    code, output = job.run()
    assert code == 0, output
    for rank, (host, local, local_world) in enumerate(
            [("here1", 0, 1), ("here2", 0, 2), ("here2", 1, 2)]):
        seen = report(job, 1, rank)
        assert seen["arguments"] == [f"--rank={rank}", f"{local}/{local_world}", "3",
                                     f"1 {job.id}", "$HOME", "a b;c"]
        assert seen["environment"]["WRAPPED"] == f"{host}-{rank}"


def test_the_environment_is_inherited_as_listed_and_overridden_as_given(make):
    changes = program(REPORT, inherit=["PATH", "SHOWN_*"],
                      environment={"GIVEN": "1", "SHOWN_B": "b"})
    job = make(changes, workers=(1,))
    job.extra_env = {"SHOWN_A": "a", "SHOWN_B": "no", "HIDDEN": "x", "VIRTUAL_ENV": "/venv"}
    code, output = job.run()
    assert code == 0, output
    seen = report(job, 1, 0)["environment"]
    assert seen["SHOWN_A"] == "a" and seen["SHOWN_B"] == "b" and seen["GIVEN"] == "1"
    assert seen["PATH"] == os.environ["PATH"]
    assert "HIDDEN" not in seen and "VIRTUAL_ENV" not in seen


def test_the_default_inherits_the_python_of_the_shell(make):
    job = make(program(REPORT), workers=(1,))
    job.extra_env = {"VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda", "PYTHONPATH": "/p",
                     "SECRET": "x"}
    code, output = job.run()
    assert code == 0, output
    seen = report(job, 1, 0)["environment"]
    assert (seen["VIRTUAL_ENV"], seen["CONDA_PREFIX"], seen["PYTHONPATH"]) == (
        "/venv", "/conda", "/p")
    assert "SECRET" not in seen


def test_the_directory_counts_from_train_toml_and_is_there_by_default(make, tmp_path):
    job = make(program(REPORT), workers=(1,))
    code, output = job.run()
    assert code == 0, output
    assert report(job, 1, 0)["directory"] == str(job.directory)
    changes = program(REPORT, directory="deep/er")
    changes["program"]["command"][1] = "../../program.py"
    other = make(changes, name="other", workers=(1,))
    (other.directory / "deep/er").mkdir(parents=True)
    code, output = other.run()
    assert code == 0, output
    assert report(other, 1, 0)["directory"] == str(other.directory / "deep/er")


def test_the_output_of_rank_0_is_shown_and_that_of_all_is_kept(make):
    job = make(program('import os; print("hello of", os.environ["RANK"])'))
    code, output = job.run()
    assert code == 0
    assert "hello of 0" in output and "hello of 1" not in output
    logs = [path.read_text() for path in files(job.directory / "scratch", "**/rank-*.log", 2)]
    assert sorted(log.strip()[-10:] for log in logs) == ["hello of 0", "hello of 1"]


def test_a_program_of_any_language_runs(make):
    changes = {"trainer": None, "checkpoint": None,
               "program": {"command": ["/bin/sh", "-c", "echo $RANK > out-${rank}"]}}
    job = make(changes)
    code, output = job.run()
    assert code == 0, output
    assert (job.directory / "out-1").read_text() == "1\n"


def test_a_program_that_ends_at_once_is_said_to_have_started(make):
    job = make({"trainer": None, "checkpoint": None, "program": {"command": ["/bin/true"]}})
    code, output = job.run()
    assert code == 0, output
    events = [e for e in job.events("worker_started", "worker_exited") if e["rank"] == 1]
    assert [e["event"] for e in events] == ["worker_started", "worker_exited"]
    assert events[0]["host"] == "here2" and events[0]["detail"].startswith("pid ")


# Failures that are worth another try.


def test_a_killed_program_is_restarted_with_a_new_generation_and_a_fresh_port(make):
    job = make(program(WAIT_IN_FIRST))
    job.start()
    first = [report(job, 1, rank) for rank in range(2)]
    kill(first[1]["pid"])
    assert job.wait() == 0, job.output()
    second = [report(job, 2, rank)["environment"] for rank in range(2)]
    assert second[0]["MASTER_PORT"] == second[1]["MASTER_PORT"]
    assert second[0]["MASTER_PORT"] != first[0]["environment"]["MASTER_PORT"]
    assert {one["TORCHELASTIC_RESTART_COUNT"] for one in second} == {"1"}
    assert not pathlib.Path(f"/proc/{first[0]['pid']}").exists()
    found = incident(job, "worker_crashed")
    assert found["rank"] == 1 and found["host"] == "here2"
    assert "SIGKILL" in found["sentence"] or "signal 9" in found["sentence"]
    assert [e["generation"] for e in job.events("generation_formed")] == [1, 2]


def test_what_a_script_wrote_to_its_error_file_stands_in_the_incident(make):
    script = REPORT + """
if generation == "1" and rank == "1":
    error = {"message": {"message": "RuntimeError: the pump is dry",
                         "extraInfo": {"py_callstack": "Traceback: pump.py line 3"}}}
    pathlib.Path(os.environ["TORCHELASTIC_ERROR_FILE"]).write_text(json.dumps(error))
    sys.exit(5)
while generation == "1":
    time.sleep(0.05)
"""
    job = make(program(script))
    code, output = job.run()
    assert code == 0, output
    found = incident(job)
    assert found["rank"] == 1
    assert "the pump is dry" in json.dumps(found) and "the pump is dry" in output


def test_rank_0_may_fail_before_anything_else_has_started(make):
    script = REPORT + """
if generation == "1" and rank == "0":
    sys.exit("too early " + generation)
"""
    job = make(program(script))
    code, output = job.run()
    assert code == 0, output
    assert job.status()["generation"] == 2


SPIN = REPORT + """
step = 0
while not (generation == "2" and step == 50):
    step += 1
    print("step", step, flush=True)
    time.sleep(0.02)
    while generation == "1" and rank == "1" and step == 20:
        pass
"""


def test_a_program_that_spins_without_a_step_is_noticed_and_restarted(make):
    job = make({**program(SPIN, step_pattern=r"step (\d+)"),
                "health": {"lost_after": "20 s", "hang_floor": "2 s"}})
    code, output = job.run()
    assert code == 0, output
    found = incident(job, "worker_hung")
    assert found["rank"] == 1 and found["host"] == "here2", found
    assert found["verdict"] == "restart_workers" and "step 20" in found["sentence"]
    assert found["seconds"]["detect"] >= 2
    assert not pathlib.Path(f"/proc/{report(job, 1, 1)['pid']}").exists()
    assert job.status()["generation"] == 2


# A trainer of a few lines: what a program needs to take part as dlaunch's own does.
SPINNING_TRAINER = """#!/usr/bin/python3
import json, os, socket, threading, time
rank, generation = int(os.environ["RANK"]), int(os.environ["DLAUNCH_GENERATION"])
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["DLAUNCH_SOCKET"])

def say(kind, **keys):
    line = {"type": kind, "generation": generation, **keys}
    link.sendall((json.dumps(line) + "\\n").encode())

def train():
    for step in range(1, 1_000_000):
        while generation == 1 and rank == 1 and step == 25:
            pass
        say("progress", step=step, phase="forward", seconds=0.02, waiting=0, loss=3.0, tokens=1,
            sequence=step, entered=False)
        time.sleep(0.02)

say("hello", protocol=1, rank=rank, local_rank=0, pid=os.getpid())
say("ready", address=os.environ["DLAUNCH_DATA_ADDRESS"], port=4711)
for line in link.makefile():
    kind = json.loads(line)["type"]
    if kind == "assign":
        say("connected")
        say("restored", step=0)
    elif kind == "go":
        threading.Thread(target=train, daemon=True).start()
"""


def test_a_trainer_that_spins_within_a_step_is_noticed_and_restarted(make, tmp_path):
    trainer = tmp_path / "trainer"
    trainer.write_text(SPINNING_TRAINER)
    trainer.chmod(0o755)
    each = {name: {"trainer": str(trainer)} for name in ("here1", "here2")}
    job = make({"trainer": {"steps": 1_000_000},
                "health": {"lost_after": "20 s", "hang_floor": "2 s"}}, each=each)
    job.start()
    job.until_first_step(2)
    found = incident(job, "worker_hung")
    assert found["rank"] == 1 and found["host"] == "here2", found
    assert "step 24" in found["sentence"]
    assert job.stop() == 130


# Failures that are not.


def failing(code, line="ValueError: the valve is stuck"):
    return REPORT + f"""
if rank == "1":
    print({line!r}, file=sys.stderr, flush=True)
    sys.exit({code})
while True:
    time.sleep(0.05)
"""


def test_the_same_error_twice_ends_the_job_with_the_programs_own_code(make):
    job = make(program(failing(7)))
    code, output = job.run()
    assert code == 7, output
    status = job.status()
    assert status["state"] == "failed" and status["generation"] == 2
    found = incident(job, "user_error")
    assert found["rank"] == 1 and found["host"] == "here2"
    assert "here2" in output and "the valve is stuck" in output and "rank 1" in output
    job.nothing_left()


def test_different_errors_are_no_user_error_and_end_by_lack_of_progress(make):
    script = REPORT + """
if rank == "1":
    print("error number", generation, file=sys.stderr, flush=True)
    sys.exit(7)
while True:
    time.sleep(0.05)
"""
    job = make({**program(script), "recovery": {"no_progress_generations": 3}})
    code, output = job.run()
    assert code == 76, output
    assert job.status()["generation"] == 3
    assert "progress" in job.status()["reason"]


NO_RESTARTS = {"recovery": {"restarts": {"process": 0, "window": "1 h"}}}


def test_without_restarts_the_first_failure_gives_its_own_code(make):
    job = make({**program(failing(23)), **NO_RESTARTS})
    code, output = job.run()
    assert code == 23, output
    assert job.status()["generation"] == 1


def test_last_words_that_are_no_text_are_shown_and_harm_no_connection(make):
    script = REPORT + """
if rank == "1":
    for line in (b"\\xff", "Größe".encode("latin-1"), ("█" * 200).encode()):
        sys.stdout.buffer.write(line + b"\\n")
    sys.stdout.flush()
    sys.exit(3)
while True:
    time.sleep(0.05)
"""
    job = make({**program(script), **NO_RESTARTS})
    code, output = job.run()
    assert code == 3, output
    lines = incident(job)["last_lines"]
    assert lines == ["\ufffd", "Gr\ufffd\ufffde", "█" * 170]
    log, = (job.directory / "scratch").glob("**/rank-1.log")
    assert log.read_bytes().startswith("\xff\nGröße\n".encode("latin-1"))
    names = [event["event"] for event in job.events()]
    assert "host_lost" not in names and names.count("host_ready") == 2, names
    job.nothing_left()


@pytest.mark.parametrize("own", [64, 70, 100, 127])
def test_a_programs_code_that_means_something_else_here_becomes_1(make, own):
    job = make({**program(failing(own)), **NO_RESTARTS})
    code, output = job.run()
    assert code == 1, output
    assert str(own) in job.status()["reason"] and str(own) in output


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE])
def test_a_programs_own_signal_gives_128_and_its_number(make, number):
    script = REPORT + f"""
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if rank == "1":
    print("dying", file=sys.stderr, flush=True)
    os.kill(os.getpid(), {int(number)})
while True:
    time.sleep(0.05)
"""
    job = make(program(script))
    code, output = job.run()
    assert code == 128 + number, output
    assert job.status()["generation"] == 2
    assert signal.Signals(number).name in output


def test_a_signal_without_restarts_gives_128_and_its_number(make):
    job = make({**program(WAIT), **NO_RESTARTS})
    job.start()
    kill(report(job, 1, 1)["pid"], signal.SIGKILL)
    assert job.wait() == 137, job.output()


def test_a_program_killed_from_outside_until_the_budget_is_spent_gives_76(make):
    recovery = {"restarts": {"process": 2, "window": "1 h"}, "no_progress_generations": 50}
    job = make({**program(WAIT), "recovery": recovery})
    job.start()
    for generation in (1, 2, 3):
        kill(report(job, generation, 0)["pid"])
    assert job.wait() == 76, job.output()
    assert job.status()["generation"] == 3
    assert "restart" in job.status()["reason"]
    job.nothing_left()


def test_a_program_that_cannot_be_executed_is_refused_before_anything_starts(make):
    job = make({"trainer": None, "checkpoint": None, "program": {"command": ["/no/such/program"]}})
    code, output = job.run()
    assert code == 65, output
    assert "/no/such/program" in output and "here1" in output and "here2" in output
    assert not list((job.directory / "scratch").glob("**/rank-*.log"))


# Stops.


def test_a_stopped_program_gets_sigterm_and_time_to_leave(make):
    script = REPORT + """
import signal
def leave(*_):
    (here / f"left-{rank}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
(here / f"ready-{rank}").touch()
while True:
    time.sleep(0.05)
"""
    job = make(program(script))
    job.start()
    files(job.directory, "ready-*", 2)
    done = job.call("stop")
    assert done.returncode == 0, done.stderr
    assert job.wait() == 75, job.output()
    assert len(files(job.directory, "left-*", 2)) == 2
    assert job.status()["state"] == "stopped"


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(make):
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
    job = make({**program(script), "recovery": {"stop_grace": "1 s"}})
    job.start()
    report(job, 1, 0), report(job, 1, 1)
    assert job.call("stop").returncode == 0
    assert job.wait() == 75, job.output()
    job.nothing_left()


# PyTorch.

DDP = """
import os, pathlib, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main():
    marks = pathlib.Path(sys.argv[1])
    dist.init_process_group("gloo")
    rank, generation = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begin = 0
    if os.path.exists("model.pt"):
        saved = torch.load("model.pt")
        model.module.load_state_dict(saved["model"])
        begin = saved["step"]
    for step in range(begin, 40):
        loss = (model(torch.full((2, 4), rank + 1.0)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "step": step + 1}, "model.tmp")
            os.replace("model.tmp", "model.pt")
        dist.barrier()
        print("step", step + 1, "loss", loss.item(), flush=True)
        while generation == "0" and step == 19:
            (marks / f"{rank}-{os.getpid()}").touch()
            time.sleep(0.1)
    total = torch.tensor([float(begin)])
    dist.all_reduce(total)
    print(f"rank {rank} of {dist.get_world_size()} began at {begin}, all: {total.item()}",
          flush=True)
    dist.destroy_process_group()

main()
"""


def test_an_unmodified_pytorch_ddp_script_runs_and_is_restarted_from_its_own_checkpoint(
        make, torch_python):
    changes = program(DDP, "marks", step_pattern=r"step (\d+)")
    changes["program"]["command"][0] = torch_python
    job = make(changes)
    (job.directory / "marks").mkdir()
    job.start()
    marks = dict(path.name.split("-") for path in files(job.directory / "marks", "*-*", 2, 180))
    kill(int(marks["1"]))
    assert job.wait(180) == 0, job.output()
    logs = job.call("logs", "--rank", "1")  # the job is over: from the hosts' files instead
    kept = [path.read_text() for path in (job.directory / "scratch").glob("**/rank-*.log")]
    assert any("rank 1 of 2 began at 20, all: 40.0" in log for log in kept), (logs, kept)
    assert any("rank 0 of 2 began at 20, all: 40.0" in log for log in kept)
    status = job.status()
    assert status["generation"] == 2 and status["step"] == 40
    assert incident(job, "worker_crashed")["rank"] == 1
    assert PYTHON != torch_python
