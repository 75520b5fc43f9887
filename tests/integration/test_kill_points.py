"""kill -9 of the controller at each named moment: every job comes back and ends as it should.

`dlaunch-kill-points` is dlaunch with a controller that ends itself once, at DLAUNCH_KILL_AT.
"""

import concurrent.futures
import hashlib
import time

import pytest
from checkpoint_reader import read_checkpoint
from jobs import BIN, ENDLESS, SECONDS
from local_jobs import make, program  # noqa: F401 (make is a fixture)
from testbed_system import wait_for

AT_ONCE = 4  # jobs; they wait more than they work
STEPS = 60
DIRECT = {"recovery": {"readmit": "2 s"}}

# One rank fails once, so that a life goes through a recovery; who ends, ends once.
ONCE = """
import os, pathlib, sys, time
rank, generation = os.environ["RANK"], os.environ["DLAUNCH_GENERATION"]
failed = pathlib.Path("failed")
if not failed.exists():
    if rank == "1":
        time.sleep(0.3)
        failed.touch()
        sys.exit(3)
    time.sleep(1000)
pathlib.Path(f"done-{rank}-{generation}").touch()
"""
FORMING = ["before journal generation", "on disk generation", "before send prepare",
           "before send prepare#2", "after send prepare", "before send assign",
           "after send assign", "before send go", "after send go", "before journal running"]
BREAKING = ["before send abort", "before record abort_ordered", "after send abort",
            "before journal broken", "on disk broken", "before send evidence_acknowledged",
            "before journal incident", "on disk incident", "before record workers_stopped",
            "before journal generation#2", "on disk generation#2", "before send prepare#3",
            "after send assign#2", "before send go#2", "after send go#2"]
ENDING = ["before journal ended", "on disk ended", "before send leave", "after send leave",
          "before the end"]
COMMITTING = ["before send inspect_checkpoints", "before send find_mark", "on disk restoring",
              "before journal progressed", "before journal committing", "on disk committing",
              "before send commit", "after send commit", "before journal committed",
              "on disk committed", "on disk committing#3", "after send commit#3"]
STOPPING = ["before journal stopping", "on disk stopping", "before send stop_workers",
            "after send stop_workers"]


class Killed:
    """A job whose controller is killed at this moment."""

    def __init__(self, make, moment, changes, number):
        self.moment = moment
        self.job = make({**DIRECT, **changes}, f"job-{number}")
        self.mark = self.job.directory / "killed"
        self.job.extra_env = {"DLAUNCH_KILL_AT": moment, "DLAUNCH_KILL_MARK": str(self.mark)}
        self.job.command = lambda *words: [BIN / "dlaunch-kill-points", *words]

    def was_killed(self):
        assert self.mark.exists(), f"{self.moment}: it was never reached"
        restarts = self.job.events("controller_restarted")
        # Before the first generation is on disk there is nothing to come back to; by the time that
        # the agents have left the end may be on disk, and nobody comes back for it.
        if self.moment not in ("before journal generation", "after send leave"):
            assert len(restarts) == 1, restarts

    def nothing_left(self):
        self.job.nothing_left()
        assert all(incident["closed"] for incident in self.job.status()["incidents"])


def all_of(moments, one):
    """Each in its turn, some at a time; what failed is said for all of them."""
    failed = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {pool.submit(one, moment, number): moment
                   for number, moment in enumerate(moments)}
        for future in concurrent.futures.as_completed(futures):
            problem = future.exception()
            if problem is not None:
                failed.append(f"{futures[future]}: {type(problem).__name__}: {problem}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("moments", [FORMING, BREAKING, ENDING],
                         ids=["forming", "breaking", "ending"])
def test_a_program_ends_well_wherever_its_controller_was_killed(make, moments):
    def one(moment, number):
        killed = Killed(make, moment, program(ONCE), number)
        job = killed.job
        code, output = job.run(seconds=2 * SECONDS)
        assert code == 0, output
        done = sorted(path.name[:6] for path in job.directory.glob("done-*"))
        assert done == ["done-0", "done-1"], "each rank ends once"
        killed.was_killed()
        causes = [incident["cause"] for incident in job.status()["incidents"]]
        assert causes in (["worker_crashed"], ["program_failed"]), causes
        killed.nothing_left()

    all_of(moments, one)


def digest(job):
    tensors = read_checkpoint(job.directory / "checkpoints" / f"step-{STEPS}")
    return {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in tensors.items()}


def test_a_training_ends_with_the_same_bits_wherever_its_controller_was_killed(make):
    changes = {"trainer": {"steps": STEPS}}
    undisturbed = make(changes, "undisturbed")
    assert undisturbed.run()[0] == 0
    wanted = digest(undisturbed)

    def one(moment, number):
        killed = Killed(make, moment, changes, number)
        code, output = killed.job.run()
        assert code == 0, output
        killed.was_killed()
        status = killed.job.status()
        assert status["generation"] == 1 and not status["incidents"], "nothing was started again"
        assert digest(killed.job) == wanted
        kept = sorted(path.name for path in (killed.job.directory / "checkpoints").glob("step-*"))
        assert kept == ["step-20", "step-40", "step-60"]
        killed.nothing_left()

    all_of(COMMITTING, one)


def test_a_stop_is_carried_out_wherever_its_controller_was_killed(make):
    def one(moment, number):
        killed = Killed(make, moment, ENDLESS, number)
        job = killed.job
        job.start()
        job.until_step(3)
        job.call("stop")

        def ended():
            if job.process.poll() is None and asked[0] + 5 < time.monotonic():
                job.call("stop")  # the one before was not heard of on disk
                asked[0] = time.monotonic()
            return job.process.poll() is not None

        asked = [time.monotonic()]
        wait_for(ended, "the job has ended", SECONDS)
        assert job.process.returncode == 75, job.output()
        killed.was_killed()
        status = job.status()
        assert status["state"] == "stopped" and status["generation"] == 1
        assert status["checkpoint"]["disk_step"] == status["step"]
        killed.nothing_left()

    all_of(STOPPING, one)
