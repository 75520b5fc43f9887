"""Planting over real SSH servers: what works, and every way in which it fails.

`plant_probe` drives the launch and the planter as the controller does; in place of the agent it
sends a small script, so that these tests need no other part.
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import time

import pytest
from testbed import TestBed, wait_for

PROBE = pathlib.Path(os.environ.get("DLAUNCH_BIN", "build/dev/bin")).resolve() / "plant_probe"

AGENT = """#!/bin/sh
[ "$1" = plant ] || exit 64
read -r line
printf '%s\\n' "$line" > bootstrap.json
echo '{"state":"started","pid":12}'
echo '{"state":"dialing","address":"192.0.2.1:29600"}'
"""


@pytest.fixture
def agent(bed, request):
    """A new agent for each test, so that none is on the hosts already."""
    path = bed.directory / f"agent-{request.node.name.replace('/', '_')}"
    return write_agent(path, 'echo \'{"state":"welcomed"}\'\n')


def write_agent(path, ending, head=AGENT):
    path.write_text(f"{head}{ending}# {os.urandom(8).hex()}\n")
    path.chmod(0o755)
    return path


def plant(bed, hosts, agent, *options, machine=platform.machine(), env=None, seconds=60):
    """The probe's lines as {host name: [lines]}; each host is a name or a dict of its keys."""
    wanted = [host if isinstance(host, dict) else {"name": host} for host in hosts]
    done = bed.run_on_login(
        [PROBE, "--agent", agent, "--machine", machine, *options],
        input=json.dumps(wanted), env=env, seconds=seconds,
    )
    assert done.returncode == 0, done.stderr
    lines = {host["name"]: [] for host in wanted}
    for line in map(json.loads, done.stdout.splitlines()):
        lines[line["host"]].append(line)
    return lines


def last(lines):
    return lines[-1]


def only(bed, host, agent, *options, **keys):
    """What came of one host in the end."""
    (lines,) = plant(bed, [host], agent, *options, **keys).values()
    return last(lines)


def events(lines):
    return [line["event"] for line in lines]


def agents_on(host, directory=None):
    return sorted(p.name for p in (directory or host.scratch).glob("dlaunch-*/bin/*"))


def test_an_agent_is_planted_with_the_bootstrap_line_on_its_stdin(bed, agent):
    lines = plant(bed, ["h1"], agent)["h1"]
    assert events(lines) == ["connected", "started", "planted"]
    scratch = bed["h1"].scratch / "dlaunch-0"
    told = json.loads((scratch / "bootstrap.json").read_text())
    assert told["host"] == "h1" and told["secret"] == "00ff"
    assert told["scratch"] == "/var/tmp/dlaunch-0"
    assert told["addresses"] == [{"address": "192.0.2.1", "port": 29600}]
    assert told["environment"] == {"QUOTES": "a'b\"c\n$HOME"}
    assert scratch.stat().st_mode & 0o777 == 0o700
    assert os.stat(next((scratch / "bin").iterdir())).st_mode & 0o777 == 0o700


def test_the_binary_is_copied_once(bed, agent):
    host = bed["h1"]
    before = set(agents_on(host))
    assert only(bed, "h1", agent)["event"] == "planted"
    (new,) = set(agents_on(host)) - before
    copy = host.scratch / "dlaunch-0" / "bin" / new
    assert copy.read_bytes() == agent.read_bytes()
    first = copy.stat()
    assert only(bed, "h1", agent)["event"] == "planted"
    second = copy.stat()
    assert (first.st_ino, first.st_mtime_ns) == (second.st_ino, second.st_mtime_ns)
    copy.write_bytes(b"cut off by a crash")
    assert only(bed, "h1", agent)["event"] == "planted"
    assert copy.read_bytes() == agent.read_bytes()


def test_a_large_binary_arrives_whole(bed):
    path = bed.directory / "large-agent"
    path.write_bytes(
        (AGENT + 'echo \'{"state":"welcomed"}\'\nexit\n').encode() + os.urandom(12 << 20)
    )
    assert only(bed, "h2", path)["event"] == "planted"
    copies = [p for p in (bed["h2"].scratch / "dlaunch-0" / "bin").iterdir()
              if p.stat().st_size == path.stat().st_size]
    assert [copy.read_bytes() == path.read_bytes() for copy in copies] == [True]


def test_no_connection_and_no_process_stays_behind(bed, agent):
    sshd = set(bed["h1"].pids())
    assert only(bed, "h1", agent)["event"] == "planted"
    wait_for(lambda: set(bed["h1"].pids()) == sshd, "only the SSH server is left on the host")
    assert not list(bed["h1"].scratch.glob("dlaunch-0/bin/.*"))


def test_the_secret_is_on_no_command_line(bed, agent):
    host = bed["h1"]
    ending = 'while [ ! -e go ]; do sleep 0.05; done; echo \'{"state":"welcomed"}\'\n'
    slow = write_agent(bed.directory / "slow-agent", ending)
    probe = bed.popen_on_login(
        [PROBE, "--agent", slow, "--machine", platform.machine()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    probe.stdin.write('[{"name":"h1"}]')
    probe.stdin.close()
    started = (probe.stdout.readline(), probe.stdout.readline())
    assert json.loads(started[1])["event"] == "started"
    for pid in [*host.pids(), *bed.login.pids()]:
        with open(f"/proc/{pid}/cmdline", "rb") as text:
            assert b"00ff" not in text.read()
    (host.scratch / "dlaunch-0" / "go").touch()
    assert json.loads(probe.stdout.readline())["event"] == "planted"
    assert probe.wait(30) == 0
    probe.stdout.close()
    (host.scratch / "dlaunch-0" / "go").unlink()


def test_each_failure_is_named_with_its_cause_in_time(bed, agent):
    bed.add_host("none", server="none")
    bed.add_host("mute", server="mute")
    bed.add_host("closes", server="closes")
    bed.add_host("dropped").silence()
    bed.add_host("changed").change_host_key()
    bed.add_host("refuses").authorize()
    bed.add_host("gone").cut()
    wanted = {
        "nowhere": ("unresolved", "spelling"),
        "none": ("refused", "no SSH server listens"),
        "mute": ("silent", "did not answer within 2 s"),
        "closes": ("closed_before_banner", "MaxStartups"),
        "dropped": ("silent", "firewall"),
        "gone": ("silent", "did not answer"),
        "changed": ("host_key_changed", "ssh-keygen -R changed"),
        "refuses": ("auth_refused", "accepts none of our keys"),
        "h1": (None, None),
    }
    begun = time.monotonic()
    answers = plant(bed, wanted, agent, "--connect-seconds", "2")
    took = time.monotonic() - begun
    for name, (cause, part) in wanted.items():
        answer = last(answers[name])
        assert answer.get("cause") == cause, answer
        if cause:
            assert answer["sentence"].startswith(name + ": ") and part in answer["sentence"]
    assert took < 6
    assert events(answers["none"]).count("attempt_failed") > 2  # tried again within the timeout
    assert events(answers["refuses"]).count("attempt_failed") == 1
    assert events(answers["changed"]).count("attempt_failed") == 1


@pytest.mark.parametrize(
    "kind, cause",
    [("full", "scratch_full"), ("read-only", "scratch_read_only"), ("noexec", "scratch_noexec")],
)
def test_a_bad_scratch_directory_is_named(bed, agent, kind, cause):
    host = bed["h2"]
    host.inside("mkdir", "-p", "/var/tmp/local")
    host.mount_scratch(kind, at="/var/tmp/local")
    try:
        answer = only(bed, {"name": "h2", "scratch": "/var/tmp/local"}, agent)
    finally:
        host.unmount_scratch(at="/var/tmp/local")
    assert answer["cause"] == cause, answer
    assert "/var/tmp/local" in answer["sentence"] and "`scratch`" in answer["sentence"]


def test_a_scratch_directory_that_fills_up_while_the_binary_is_copied_is_full(bed):
    host = bed["h2"]
    path = bed.directory / "too-large-agent"
    path.write_bytes(AGENT.encode() + os.urandom(8 << 20))
    host.inside("mkdir", "-p", "/var/tmp/local")
    host.mount_scratch("small", at="/var/tmp/local")
    try:
        answer = only(bed, {"name": "h2", "scratch": "/var/tmp/local"}, path)
    finally:
        host.unmount_scratch(at="/var/tmp/local")
    assert answer["cause"] == "scratch_full", answer


def test_without_a_configured_scratch_the_first_usable_directory_is_taken(bed, agent):
    host = bed["h2"]
    host.mount_scratch("noexec")
    # A read-only /tmp in which only the test bed's own files are still there.
    host.inside("sh", "-ec", f"""
        mount --bind {bed.directory} /mnt
        mount -t tmpfs tmpfs /tmp
        mkdir {bed.directory}
        mount --bind /mnt {bed.directory}
        mount -o remount,ro /tmp""")
    try:
        answer = only(bed, "h2", agent)
    finally:
        host.inside("umount", "-R", "/tmp")
        host.inside("umount", "/mnt")
        host.unmount_scratch()
    assert answer["event"] == "planted", answer
    told = json.loads((host.home / ".cache/dlaunch-0/bootstrap.json").read_text())
    assert told["scratch"] == f"{host.home}/.cache/dlaunch-0"


def test_a_scratch_directory_of_somebody_else_is_not_used(bed, agent):
    host = bed["h2"]
    for setup in (
        "mkdir -p /var/tmp/x/dlaunch-0 && chown 47811 /var/tmp/x/dlaunch-0",
        "mkdir -p /var/tmp/x/dlaunch-0 && chmod 777 /var/tmp/x/dlaunch-0",
        "mkdir -p /var/tmp/x /var/tmp/y && ln -s /var/tmp/y /var/tmp/x/dlaunch-0",
    ):
        host.inside("sh", "-c", setup)
        answer = only(bed, {"name": "h2", "scratch": "/var/tmp/x"}, agent)
        host.inside("rm", "-rf", "/var/tmp/x")
        assert answer["cause"] == "scratch_foreign", (setup, answer)


def test_a_machine_of_another_architecture_is_not_tried_again(bed, agent):
    answer = only(bed, "h1", agent, "--until-ended", machine="pdp11")
    assert answer["cause"] == "wrong_architecture", answer
    assert platform.machine() in answer["sentence"]


def test_an_agent_that_cannot_dial_back_is_named(bed):
    path = write_agent(bed.directory / "mute-agent", "sleep 30\n")
    answer = only(bed, "h1", path, "--hello-seconds", "1")
    assert answer["cause"] == "cannot_dial_back", answer
    assert "192.0.2.1:29600" in answer["sentence"]
    said = """echo '{"state":"failed","cause":"cannot_dial_back","sentence":"no route"}'\n"""
    answer = only(bed, "h1", write_agent(bed.directory / "failing-agent", said))
    assert answer["cause"] == "cannot_dial_back" and "no route" in answer["sentence"]


def test_an_agent_that_crashes_is_named_with_its_last_words(bed):
    path = write_agent(bed.directory / "crashing-agent", "", "#!/bin/sh\necho boom >&2; exit 3\n")
    answer = only(bed, "h1", path)
    assert answer["cause"] == "agent_failed" and "boom" in answer["sentence"], answer


def test_dropped_logins_are_tried_again_until_they_are_let_in(bed, agent):
    host = bed.add_host("busy", sshd_options={"MaxStartups": "1:100:1", "LoginGraceTime": "3"})
    program = (
        "import socket,sys,time\n"
        "s = socket.create_connection((sys.argv[1], 22)); s.recv(20); print('in', flush=True)\n"
        "time.sleep(60)\n"
    )
    blocker = bed.popen_on_login(
        ["/usr/bin/python3", "-c", program, host.address], stdout=subprocess.PIPE, text=True
    )
    assert blocker.stdout.readline() == "in\n"
    lines = plant(bed, ["busy"], agent)["busy"]
    blocker.kill()
    blocker.wait(20)
    blocker.stdout.close()
    assert last(lines)["event"] == "planted", lines
    causes = {line["cause"] for line in lines if line["event"] == "attempt_failed"}
    assert causes == {"closed_before_banner"}


def test_eight_hosts_are_planted_in_parallel(agent):
    with TestBed(8) as many:
        lines = plant(many, [f"h{n}" for n in range(1, 9)], agent)
        for host in many.hosts.values():
            log = host.sshd_log()
            assert log.count("Connection from") == 1, "one connection per host"
    assert {last(each)["event"] for each in lines.values()} == {"planted"}


def test_eighteen_hosts_behind_one_server_take_turns(bed, agent):
    hosts = [
        {"name": f"g{n}", "address": "h1", "endpoint": "h1", "scratch": f"/var/tmp/g{n}"}
        for n in range(18)
    ]
    for host in hosts:
        bed["h1"].inside("mkdir", host["scratch"])
    lines = plant(bed, hosts, agent)
    assert {last(each)["event"] for each in lines.values()} == {"planted"}
    assert {"attempt_failed"}.isdisjoint({e for each in lines.values() for e in events(each)})


def test_noise_of_login_scripts_is_skipped(bed, agent):
    host = bed.add_host("noisy")
    text = "echo welcome; echo 'ready 1 2 3 4'; printf 'no newline at the end'; echo oops >&2\n"
    (host.home / ".bashrc").write_text(text)
    assert only(bed, "noisy", agent)["event"] == "planted"
    (host.home / ".bashrc").write_text("yes spam | head -c 300000; yes spam >&2 | head -c 1000\n")
    answer = only(bed, "noisy", agent)
    assert answer["cause"] == "agent_failed" and "login scripts" in answer["sentence"], answer
    (host.home / ".bashrc").write_text("echo no entry; exit 1\n")
    answer = only(bed, "noisy", agent)
    assert answer["cause"] == "agent_failed" and "no entry" in answer["sentence"], answer


SHELLS = ("/bin/dash", "/bin/csh", "/bin/tcsh", "/usr/bin/fish", "/usr/bin/zsh")


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if os.path.exists(shell)])
def test_every_login_shell_understands_the_start(bed, agent, shell):
    host = bed.add_host("sh-" + os.path.basename(shell), shell=shell)
    assert only(bed, host.name, agent)["event"] == "planted"


@pytest.mark.parametrize("works", [True, False])
def test_where_logind_kills_at_logout_the_agent_gets_a_scope_of_its_own(bed, agent, works):
    host = bed.add_host(f"logind-{works}".lower())
    (host.home.parent / "ann" / ".bashrc").write_text(
        "export XDG_SESSION_ID=7 PATH=$HOME/bin:$PATH\n"
    )
    tools = host.home.parent / "ann" / "bin"
    tools.mkdir()
    log = host.scratch / "scope.log"
    ending = "shift 4\nexec \"$@\"\n" if works else "exit 1\n"
    program = f'#!/bin/sh\necho "$@" >> /var/tmp/scope.log\n{ending}'
    (tools / "systemd-run").write_text(program)
    (tools / "systemd-run").chmod(0o755)
    conf = host.directory / "logind.conf"
    conf.write_text("[Login]\n#KillUserProcesses=no\nKillUserProcesses = Yes\n")
    host.inside("mount", "-t", "tmpfs", "tmpfs", "/etc/systemd")
    host.inside("cp", conf, "/etc/systemd/logind.conf")
    lines = plant(bed, [{"name": host.name, "user": "ann"}], agent)[host.name]
    assert last(lines)["event"] == "planted"
    (notice,) = [line["sentence"] for line in lines if line["event"] == "notice"]
    assert "KillUserProcesses" in notice and ("scope" in notice) == works
    asked = log.read_text().splitlines()
    assert asked[0] == "--user --scope --quiet -- true"
    assert len(asked) == (2 if works else 1)
    lines = plant(bed, [host.name], agent)[host.name]
    assert "notice" not in events(lines), "root is left alone by logind"


def test_a_user_without_privileges_gets_a_scratch_directory_of_their_own(bed, agent):
    assert only(bed, {"name": "h1", "user": "ann"}, agent)["event"] == "planted"
    directory = bed["h1"].scratch / "dlaunch-47811"
    assert directory.stat().st_uid == 47811
    assert json.loads((directory / "bootstrap.json").read_text())["host"] == "h1"


def test_local_hosts_need_no_ssh(bed, agent):
    scratch = bed.directory / "here"
    scratch.mkdir()
    host = {"name": "here1", "local": True, "scratch": str(scratch)}
    lines = plant(bed, [host, {**host, "name": "here2"}], agent)
    assert [last(each)["event"] for each in lines.values()] == ["planted", "planted"]
    assert len(agents_on(None, scratch)) == 1
    missing = {"name": "here3", "local": True, "scratch": str(bed.directory / "missing")}
    assert only(bed, missing, agent)["cause"] == "scratch_read_only"


# Host keys and identities.


def test_unknown_host_keys_are_refused_or_accepted_once_by_choice(bed, agent):
    hosts = [bed.add_host(f"new{n}").name for n in range(3)]
    kept = bed.known_hosts().read_text()
    bed.write_known_hosts(bed["h1"])
    try:
        answer = only(bed, "new0", agent)
        assert answer["cause"] == "host_key_unknown", answer
        assert "SHA256:" in answer["sentence"] and "accept-new" in answer["sentence"]
        lines = plant(bed, hosts, agent, "--accept-new")
        for name in hosts:
            assert last(lines[name])["event"] == "planted"
            notices = [line["sentence"] for line in lines[name] if line["event"] == "notice"]
            assert len(notices) == 1 and "SHA256:" in notices[0]
        lines = plant(bed, hosts, agent)
        assert {last(each)["event"] for each in lines.values()} == {"planted"}
        text = bed.known_hosts().read_text()
        assert len(text.splitlines()) == 4
        bed["new1"].change_host_key()
        assert only(bed, "new1", agent, "--accept-new")["cause"] == "host_key_changed"
        assert bed.known_hosts().read_text() == text
    finally:
        bed.known_hosts().write_text(kept)


def test_known_hosts_may_be_hashed_lie_elsewhere_and_hold_another_type_of_key(bed, agent):
    host = bed.add_host("types", key_types=("ed25519", "ecdsa", "rsa"))
    others = [line for line in bed.known_hosts().read_text().splitlines(True)
              if not line.startswith("types,")]
    elsewhere = bed.directory / "known elsewhere"
    bed.write_ssh_config(f'Host types\n  UserKnownHostsFile ~/.ssh/none "{elsewhere}"\n')
    kept = bed.known_hosts().read_text()
    bed.known_hosts().write_text("".join(others))
    try:
        for line in host.known_hosts_lines():
            elsewhere.write_text(line)
            subprocess.run(["ssh-keygen", "-q", "-H", "-f", elsewhere], check=True, timeout=20,
                           capture_output=True)
            assert "types" not in elsewhere.read_text()
            # ssh -G joins file names by blanks, so a quoted one with a blank cannot be told apart.
            plain = bed.directory / "known-elsewhere"
            plain.write_text(elsewhere.read_text())
            bed.write_ssh_config(f"Host types\n  UserKnownHostsFile ~/.ssh/none {plain}\n")
            assert only(bed, "types", agent)["event"] == "planted", line
        plain.write_text("@revoked * " + line.split(" ", 1)[1] + line)
        answer = only(bed, "types", agent)
        assert answer["cause"] == "host_key_changed" and "revoked" in answer["sentence"]
    finally:
        bed.write_ssh_config("")
        bed.known_hosts().write_text(kept)


def make_key(bed, name, *options):
    path = bed.login.home / ".ssh" / name
    if not path.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path, *options],
                       check=True, timeout=20)
    return path, path.with_suffix(".pub").read_text()


def test_a_named_identity_is_the_only_one_that_is_tried(bed, agent):
    other, other_public = make_key(bed, "other")
    host = bed.add_host("named")
    named = {"name": "named", "identity": "~/.ssh/other"}
    answer = only(bed, named, agent)
    assert answer["cause"] == "auth_refused", answer
    assert len(re.findall("Failed publickey", host.sshd_log())) == 1
    host.authorize(other_public)
    assert only(bed, named, agent)["event"] == "planted"
    assert only(bed, "named", agent)["cause"] == "auth_refused"
    bed.write_ssh_config(f"Host named\n  IdentityFile {other}\n")
    try:
        assert only(bed, "named", agent)["event"] == "planted"
    finally:
        bed.write_ssh_config("")


def test_an_agent_with_many_keys_does_not_hide_the_right_one(bed, agent):
    socket = bed.directory / "agent.sock"
    ssh_agent = bed.popen_on_login(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL)
    env = {"SSH_AUTH_SOCK": str(socket)}
    wait_for(socket.exists, "ssh-agent listens")
    locked, locked_public = make_key(bed, "locked", "-N", "secret")
    plain, plain_public = make_key(bed, "plain")
    host = bed.add_host("agented")
    host.authorize(plain_public)
    try:
        assert only(bed, "agented", agent, env=env)["cause"] == "auth_refused"
        bed.run_on_login(["ssh-add", "-q", plain], env=env, check=True)
        assert only(bed, "agented", agent, env=env)["event"] == "planted"
        for number in range(8):
            useless, _ = make_key(bed, f"useless{number}")
            bed.run_on_login(["ssh-add", "-q", useless], env=env, check=True)
        named = {"name": "agented", "identity": str(plain)}
        bed.run_on_login(["ssh-add", "-q", "-d", plain], env=env, check=True)
        assert only(bed, named, agent, env=env)["event"] == "planted"
    finally:
        ssh_agent.kill()
        ssh_agent.wait(20)


def test_the_users_ssh_config_is_followed(bed, agent):
    host = bed.add_host("portly", sshd_options={"Port": 2222})
    bed.write_ssh_config(
        "Match originalhost alias\n  HostName portly\n  Port 2222\n  User root\n"
        "  HostKeyAlias portly\n"
    )
    try:
        assert only(bed, "alias", agent)["event"] == "planted"
        bed.write_ssh_config("Nonsense yes\n")
        answer = only(bed, "alias", agent)
        assert answer["cause"] == "ssh_config" and "Nonsense" in answer["sentence"].title(), answer
    finally:
        bed.write_ssh_config("")
    answer = only(bed, {"name": "portly", "port": 2222}, agent)
    assert answer["cause"] == "host_key_unknown", "known_hosts has it for port 22 only"
    public = next(iter(host.known_hosts_lines())).split(" ", 1)[1]
    with open(bed.known_hosts(), "a") as known:
        known.write(f"[portly]:2222 {public}")
    assert only(bed, {"name": "portly", "port": 2222}, agent)["event"] == "planted"


def test_a_jump_host_is_gone_through(bed, agent):
    host = bed.add_host("inner")
    answer = only(bed, {"name": "inner", "jump": "h1"}, agent)
    assert answer["event"] == "planted", answer
    assert f"Connection from {bed['h1'].address}" in host.sshd_log()
    answer = only(bed, {"name": "inner", "jump": "nowhere"}, agent, "--connect-seconds", "2")
    assert answer["cause"] == "closed_before_banner" and "nowhere" in answer["sentence"], answer


def test_cancelling_ends_every_dial_at_once(bed, agent):
    bed.add_host("deaf").silence()
    bed.add_host("wordless", server="mute")
    slow = write_agent(bed.directory / "slow2-agent", "sleep 60\n")
    begun = time.monotonic()
    lines = plant(bed, ["deaf", "wordless", "h1"], slow, "--cancel-after", "1.5")
    assert time.monotonic() - begun < 5
    for name in ("deaf", "wordless", "h1"):
        assert last(lines[name])["cause"] == "cancelled", lines[name]


def test_a_name_service_that_does_not_answer_is_named_in_time(bed, agent):
    bed.login.write_etc("nsswitch.conf", "passwd: files\nhosts: files dns\n")
    # The name server is a host that is there and says nothing.
    bed.login.write_etc("resolv.conf", f"nameserver {bed['h2'].address}\noptions timeout:30\n")
    bed["h2"].drop("in", what="udp dport 53")
    begun = time.monotonic()
    try:
        answer = only(bed, "somewhere", agent, "--connect-seconds", "1", "--files-left", "1")
    finally:
        bed["h2"].heal()
        bed.login.write_etc("nsswitch.conf", "passwd: files\nhosts: files\n")
    assert time.monotonic() - begun < 5
    assert answer["cause"] == "unresolved" and "name service" in answer["sentence"], answer
