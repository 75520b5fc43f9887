"""The test bed itself: what the integration tests rest on."""

import os
import signal
import subprocess
import sys
import time

import pytest
import testbed_system
from testbed import TestBed, processes_of_job, require, wait_for


@pytest.fixture(scope="module")
def bed():
    require()
    with TestBed(2, data_network=True) as made:
        yield made


def ssh(bed, host, *argv, seconds=30):
    return bed.run_on_login(
        ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=3", host, *argv], seconds=seconds
    )


def reaches(bed, host, data=False):
    address = host.data_address if data else host.address
    probe = "import socket,sys; socket.create_connection((sys.argv[1], 22), 0.5).close()"
    sender = bed["h2"] if data else bed.login
    return sender.run(["/usr/bin/python3", "-c", probe, address]).returncode == 0


def test_the_login_host_logs_in_to_each_host_by_name_with_its_own_key(bed):
    for name in ("h1", "h2"):
        done = ssh(bed, name, "echo $HOME; cat /proc/sys/kernel/random/boot_id")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[0] == str(bed[name].home)
    boot_ids = {ssh(bed, n, "cat", "/proc/sys/kernel/random/boot_id").stdout for n in ("h1", "h2")}
    assert len(boot_ids) == 2


def test_each_host_has_its_own_var_tmp(bed):
    bed["h1"].inside("touch", "/var/tmp/mine")
    assert (bed["h1"].scratch / "mine").exists()
    assert not (bed["h2"].scratch / "mine").exists()
    assert not os.path.exists("/var/tmp/mine")


def test_a_pulled_cable_takes_the_carrier_and_heals(bed):
    host = bed["h1"]
    host.cut()
    carrier = host.inside("ip", "-br", "link", "show", "eth0").stdout
    assert "LOWERLAYERDOWN" in carrier or "DOWN" in carrier
    assert not reaches(bed, host)
    assert reaches(bed, host, data=True)
    host.heal()
    wait_for(lambda: reaches(bed, host), "the healed host is reached")


@pytest.mark.parametrize("direction", ["in", "out", "both"])
def test_dropped_frames_leave_the_carrier_up(bed, direction):
    host = bed["h1"]
    host.drop(direction)
    try:
        assert "LOWER_UP" in host.inside("ip", "-br", "link", "show", "eth0").stdout
        assert not reaches(bed, host)
    finally:
        host.heal()
    wait_for(lambda: reaches(bed, host), "the healed host is reached")


def test_the_data_network_alone_can_be_dropped(bed):
    host = bed["h1"]
    host.drop(network="data")
    try:
        assert not reaches(bed, host, data=True)
        assert reaches(bed, host)
    finally:
        host.heal()


def test_a_frozen_host_answers_nothing_until_it_thaws(bed):
    host = bed["h1"]
    host.freeze()
    try:
        states = [testbed_system.read_bytes(f"/proc/{p}/stat").split()[2] for p in host.pids()]
        assert states and set(states) == {b"T"}
    finally:
        host.thaw()
    assert ssh(bed, "h1", "true").returncode == 0


def test_processes_of_a_job_are_found_by_environment_and_command_line(bed):
    script = "import time; time.sleep(60)"
    by_environment = bed["h1"].popen(
        ["/usr/bin/python3", "-c", script], env={"DLAUNCH_JOB": "some-job"}
    )
    by_name = bed["h2"].popen(["/usr/bin/python3", "-c", script, "--job", "some-job"])
    other = bed["h2"].popen(["/usr/bin/python3", "-c", script, "--job", "some-job-2"])
    wanted = {by_environment.pid, by_name.pid}
    wait_for(lambda: set(processes_of_job("some-job")) == wanted, "just the two are found")
    for process in (by_environment, by_name, other):
        process.kill()
        process.wait(20)
    assert processes_of_job("some-job") == {}


def test_a_killed_host_comes_back_with_another_boot_id(bed):
    host = bed["h1"]
    path = "/proc/sys/kernel/random/boot_id"
    before = host.inside("cat", path).stdout
    host.kill_all()
    assert host.pids() == []
    assert ssh(bed, "h1", "true").returncode == 255
    host.reboot()
    assert host.inside("cat", path).stdout != before
    assert ssh(bed, "h1", "true").returncode == 0


@pytest.mark.parametrize(
    "kind, word",
    [("full", "No space"), ("read-only", "Read-only"), ("noexec", "Permission denied")],
)
def test_bad_scratch_directories_are_bad(bed, kind, word):
    host = bed["h2"]
    host.mount_scratch(kind)
    try:
        text = "head -c 20000 /dev/zero > /var/tmp/probe"
        if kind == "noexec":
            text = "cp /bin/true /var/tmp/probe && /var/tmp/probe"
        done = host.inside("sh", "-c", text, check=False)
        assert done.returncode != 0 and word in done.stderr
    finally:
        host.unmount_scratch()


def test_servers_that_refuse_are_silent_or_say_nothing(bed):
    bed.add_host("none", server="none")
    bed.add_host("mute", server="mute")
    bed.add_host("closes", server="closes")
    bed.add_host("dropped").silence()
    assert "Connection refused" in ssh(bed, "none", "true").stderr
    assert "timed out" in ssh(bed, "mute", "true").stderr
    closed = ssh(bed, "closes", "true").stderr
    assert "closed" in closed or "reset" in closed
    assert "timed out" in ssh(bed, "dropped", "true").stderr
    assert "not known" in ssh(bed, "nowhere", "true").stderr


def test_changed_host_keys_and_refused_keys_are_refused(bed):
    changed = bed.add_host("changed")
    changed.change_host_key()
    refused = bed.add_host("refuses")
    refused.authorize()
    assert "IDENTIFICATION HAS CHANGED" in ssh(bed, "changed", "true").stderr
    assert "Permission denied (publickey)" in ssh(bed, "refuses", "true").stderr


def test_a_user_without_privileges_can_log_in(bed):
    done = ssh(bed, "ann@h2", "id", "-un")
    assert done.stdout.strip() == "ann", done.stderr


def test_two_test_beds_side_by_side_leave_nothing(bed):
    with TestBed(1) as other:
        assert other.subnet != bed.subnet
        assert ssh(other, "h1", "true").returncode == 0
        tag, directory = other.tag, other.directory
    namespaces = subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
    assert tag + "-" not in namespaces
    assert bed.tag + "-" in namespaces
    assert not directory.exists()
    assert ssh(bed, "h2", "true").returncode == 0


def test_what_a_killed_owner_left_is_removed():
    require()
    program = (
        "import testbed, time; bed = testbed.TestBed(1); print(bed.tag, flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.PIPE, text=True,
    )
    tag = owner.stdout.readline().strip()
    owner.send_signal(signal.SIGKILL)
    owner.wait(20)

    def gone():
        listed = subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
        return tag + "-" not in listed

    started = time.monotonic()
    wait_for(gone, "the guardian has removed the dead owner's hosts")
    assert time.monotonic() - started < 30
