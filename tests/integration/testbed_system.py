"""Below the test bed: helper commands, processes, and who owns which test bed.

Run as a program this is the guardian: it waits for its owner's end and removes what that left.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

COMMAND_SECONDS = 20  # one helper command; two busy cores need a fraction of this
CLAIMS = pathlib.Path("/run/dlaunch-testbed")
NETNS_ETC = pathlib.Path("/etc/netns")
SUBNETS = 200  # test beds side by side
TOOLS = ("ip", "nft", "nsenter", "mount", "ssh", "ssh-keygen", "/usr/sbin/sshd")


def missing_tools():
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def require():
    """Skips aloud without root; with root in CI a missing tool is a failure."""
    import pytest

    if os.geteuid() != 0:
        pytest.skip("no root: tests on namespace hosts are skipped")
    missing = missing_tools()
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"the test bed needs {', '.join(missing)}: see scripts/setup")
    if missing:
        pytest.skip(f"the test bed needs {', '.join(missing)}: see scripts/setup")


def command(*argv, text=None, check=True, seconds=COMMAND_SECONDS):
    """Runs a helper command; its output is in the error when it fails."""
    done = subprocess.run(
        [str(a) for a in argv], input=text, capture_output=True, text=True, timeout=seconds
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: {done.returncode}: {done.stderr.strip()}")
    return done


def wait_for(condition, what, seconds=30.0):
    """The condition's first true answer; fails with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s still not: {what}")
        time.sleep(0.01)


def read_bytes(path):
    """b"" where the process behind a /proc file is gone."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def start_time(pid):
    """Tells a process from a later one with the same pid; None: gone."""
    stat = read_bytes(f"/proc/{pid}/stat")
    return int(stat.rsplit(b")", 1)[1].split()[19]) if stat else None


def is_running(pid):
    """False for what is gone and for zombies."""
    stat = read_bytes(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")


def is_active(pid):
    """False for what is stopped, too, or waits in the kernel (as for a child that is stopped)."""
    stat = read_bytes(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(b")", 1)[1].split()[0] not in (b"T", b"t", b"D", b"Z", b"X")


def kill_pids(pids, signal_number=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)


def namespace_pids(namespace):
    done = command("ip", "netns", "pids", namespace, check=False)
    return [int(line) for line in done.stdout.split()]


def processes_of_job(job):
    """{pid: command line} of every living process that carries the job's id, on any host."""
    found = {}
    wanted = f"DLAUNCH_JOB={job}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        arguments = read_bytes(f"/proc/{entry}/cmdline").split(b"\0")
        environment = read_bytes(f"/proc/{entry}/environ").split(b"\0")
        pairs = list(zip(arguments, arguments[1:]))
        named = (b"--job", job.encode()) in pairs or b"--job=" + job.encode() in arguments
        if (named or wanted in environment) and is_running(entry):
            found[int(entry)] = b" ".join(arguments).decode(errors="replace").strip()
    return found


# Claims: who owns which subnet, and what a dead owner left.


@contextlib.contextmanager
def claims_locked():
    CLAIMS.mkdir(parents=True, exist_ok=True)
    with open(CLAIMS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def claim_subnet(tag, directory):
    """(second octet, claim file) of this bed; test beds side by side never share a subnet."""
    with claims_locked():
        for claim in CLAIMS.glob("*.json"):
            if not owner_lives(claim):
                remove_bed(claim)
        for number in range(20, 20 + SUBNETS):
            claim = CLAIMS / f"{number}.json"
            if not claim.exists():
                owner = {"pid": os.getpid(), "start": start_time(os.getpid()), "tag": tag,
                         "directory": str(directory)}
                claim.write_text(json.dumps(owner))
                return number, claim
    raise RuntimeError(f"{SUBNETS} test beds are in use: see {CLAIMS}")


def owner_lives(claim):
    owner = json.loads(claim.read_text())
    return start_time(owner["pid"]) == owner["start"]


def kill_namespace(namespace):
    def none_left():
        pids = [pid for pid in namespace_pids(namespace) if is_running(pid)]
        kill_pids(pids)
        return not pids

    wait_for(none_left, f"every process of {namespace} is killed")


def remove_bed(claim):
    """Removes all that the claim's bed has made; what is already gone is no error."""
    try:
        owner = json.loads(pathlib.Path(claim).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return
    listed = command("ip", "netns", "list").stdout.splitlines()
    for line in listed:
        namespace = line.split()[0] if line.strip() else ""
        if namespace.startswith(owner["tag"] + "-"):
            kill_namespace(namespace)
            command("ip", "netns", "del", namespace, check=False)
    for directory in NETNS_ETC.glob(owner["tag"] + "-*"):
        shutil.rmtree(directory, ignore_errors=True)
    with contextlib.suppress(OSError):
        NETNS_ETC.rmdir()  # only when it was ours alone
    shutil.rmtree(owner["directory"], ignore_errors=True)
    pathlib.Path(claim).unlink(missing_ok=True)


def guard(claim):
    """Waits for the owner's end (its pipe closes however it dies) and removes what it left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    remove_bed(claim)


if __name__ == "__main__" and sys.argv[1:2] == ["--guard"]:
    guard(sys.argv[2])
