"""torchrun on two hosts of a test bed, for a fault at a time."""

import os
import signal
import subprocess
import time

import measure
from testbed import wait_for
from testbed_system import is_running, kill_pids

FOREVER = "100000"
SCRIPT = measure.ROOT / "bench/peer/train_gpt.py"
SECONDS = 180


class Torchrun:
    """One job of two nodes with a rank each; `with` it, and nothing of it is left."""

    def __init__(self, bed, directory, python):
        self.directory = directory
        self.directory.mkdir(parents=True)
        self.agents = []
        for node, name in enumerate(("h1", "h2")):
            output = open(self.directory / f"{name}.log", "wb")
            command = [python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node",
                       "1", "--rdzv-backend", "c10d", "--rdzv-id", "bench", "--rdzv-endpoint",
                       f"{bed['h1'].address}:29400", "--rdzv-conf", f"is_host={1 - node}",
                       "--local-addr", bed[name].address, "--max-restarts", FOREVER, SCRIPT,
                       self.directory]
            environment = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            self.agents.append(bed[name].popen(command, env=environment, stdout=output,
                                               stderr=subprocess.STDOUT))
            output.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        def none_left():
            # Its workers have sessions of their own.
            pids = [pid for rank in (0, 1) for _, _, pid in self.stamps(rank)] + self.workers()
            pids += [agent.pid for agent in self.agents if agent.poll() is None]
            left = sorted({pid for pid in pids if is_running(pid)})
            kill_pids(left)
            return not left

        wait_for(none_left, "torchrun and its workers are killed", SECONDS)

    def workers(self):
        """The living children of the agents."""
        pids = []
        for agent in self.agents:
            children = f"/proc/{agent.pid}/task/{agent.pid}/children"
            if agent.poll() is None and os.path.exists(children):
                with open(children) as file:
                    pids += [int(pid) for pid in file.read().split()]
        return pids

    def stamps(self, rank):
        """(step, nanoseconds, pid) of each finished step."""
        path = self.directory / f"rank-{rank}.txt"
        if not path.exists():
            return []
        lines = path.read_text().splitlines()
        return [tuple(map(int, line.split())) for line in lines if line.count(" ") == 2]

    def must_live(self):
        ended = [agent.returncode for agent in self.agents if agent.poll() is not None]
        assert not ended, f"torchrun ended with {ended}: see {self.directory}"

    def until_steps(self, count):
        """This many steps after the one that is newest now, on both ranks."""
        before = max((s[0] for rank in (0, 1) for s in self.stamps(rank)), default=0)

        def done():
            self.must_live()
            return all(any(s[0] >= before + count for s in self.stamps(rank)) for rank in (0, 1))

        wait_for(done, f"{count} steps of torchrun", SECONDS)

    def kill_worker(self, rank):
        """Milliseconds until the old workers are all gone, and until the first new step."""
        newest = [self.stamps(each)[-1] for each in (0, 1)]
        old = [pid for _, _, pid in newest]
        best = max(step for step, _, _ in newest)
        killed = time.monotonic_ns()
        os.kill(old[rank], signal.SIGKILL)
        wait_for(lambda: not any(is_running(pid) for pid in old), "the old workers are gone",
                 SECONDS)
        gone = time.monotonic_ns()

        def first_new_step():
            self.must_live()
            later = [at for step, at, pid in self.stamps(0) if step > best and pid not in old]
            return later[0] if later else None

        stepped = wait_for(first_new_step, "torchrun's first new step", SECONDS)
        return (gone - killed) / 1e6, (stepped - killed) / 1e6
