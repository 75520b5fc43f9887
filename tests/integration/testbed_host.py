"""One host of the test bed: a network namespace with its own mounts, SSH server and faults."""

import os
import pathlib
import secrets
import signal
import subprocess
import uuid

from testbed_system import (
    COMMAND_SECONDS,
    NETNS_ETC,
    command,
    is_active,
    is_running,
    kill_pids,
    namespace_pids,
    read_bytes,
    wait_for,
)

USER_ID = 47811  # of "ann", the user without privileges

MUTE_SERVER = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])), backlog=64)
print("Server listening on", flush=True)
kept = []
while True:
    connection, _ = server.accept()
    if sys.argv[2] == "closes":
        connection.close()
    else:
        kept.append(connection)
"""


class Host:
    """One namespace with its own /var/tmp, home, boot id and (mostly) an SSH server on port 22."""

    def __init__(self, bed, name, index, server="sshd", sshd_options=None, key_types=("ed25519",)):
        self.bed = bed
        self.name = name
        self.index = index
        self.namespace = f"{bed.tag}-{name}"
        self.port_name = f"p{index}"  # on the switch
        self.address = bed.address(index)
        self.data_address = bed.address(index, "data") if bed.data_network else None
        self.directory = bed.directory / name
        self.home = self.directory / "home"
        self.scratch = self.directory / "var-tmp"  # the host's own /var/tmp, seen from outside
        self.server = server
        self.sshd_options = dict(sshd_options or {})
        self.key_types = key_types
        self.anchor = None
        self.server_process = None

    def __repr__(self):
        return f"Host({self.name})"

    # Made once.

    def prepare(self, shell="/bin/bash"):
        for directory in (self.home / ".ssh", self.scratch, self.directory / "keys"):
            directory.mkdir(parents=True, mode=0o700)
        self.directory.chmod(0o755)
        self.home.chmod(0o755)
        self.scratch.chmod(0o1777)
        command("ip", "netns", "add", self.namespace)
        self.write_etc("passwd", self.passwd(shell))
        self.write_etc("resolv.conf", "")
        self.write_etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
        self.write_etc("hosts", "127.0.0.1 localhost\n")
        self.connect("", self.bed.address(self.index), self.port_name)
        if self.bed.data_network:
            self.connect("data", self.data_address, self.port_name + "d")
        command("ip", "-n", self.namespace, "link", "set", "lo", "up")
        self.start_anchor()

    def passwd(self, shell):
        ann = self.directory / "ann"
        ann.mkdir(exist_ok=True)
        os.chown(ann, USER_ID, USER_ID)
        kept = [
            line
            for line in pathlib.Path("/etc/passwd").read_text().splitlines()
            if not line.startswith(("root:", "ann:"))
        ]
        root_line = f"root:x:0:0:root:{self.home}:{shell}"
        ann_line = f"ann:*:{USER_ID}:{USER_ID}::{ann}:{shell}"
        return "\n".join([root_line, *kept, ann_line, ""])

    def write_etc(self, name, text):
        directory = NETNS_ETC / self.namespace
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)

    def connect(self, network, address, port_name):
        """A cable from a new interface to the switch; pulled on the switch's side by `cut`."""
        device = "eth1" if network else "eth0"
        switch = self.bed.switch
        command("ip", "-n", switch, "link", "add", port_name, "type", "veth",
                "peer", "name", device, "netns", self.namespace)
        command("ip", "-n", switch, "link", "set", port_name, "master", "bridge" + network, "up")
        command("ip", "-n", self.namespace, "address", "add", f"{address}/24", "dev", device)
        command("ip", "-n", self.namespace, "link", "set", device, "up")

    def start_anchor(self):
        """Holds the host's mounts while everything else on it may be killed."""
        self.anchor = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "sleep", "infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        )
        wait_for(lambda: read_bytes(f"/proc/{self.anchor.pid}/comm") == b"sleep\n",
                 f"the namespace of {self.name} is entered")
        self.inside("mount", "--bind", self.scratch, "/var/tmp")
        self.new_boot_id()

    def new_boot_id(self):
        path = self.directory / f"boot_id-{secrets.token_hex(4)}"
        path.write_text(f"{uuid.uuid4()}\n")
        self.inside("mount", "--bind", path, "/proc/sys/kernel/random/boot_id")

    # Running things there.

    def enter(self, *argv):
        """The argv that runs `argv` on this host."""
        return ["nsenter", "-t", str(self.anchor.pid), "-n", "-m", "--", *map(str, argv)]

    def environment(self, extra=None):
        left_out = ("SSH_", "XDG_", "DLAUNCH")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
        return {**kept, "HOME": str(self.home), **(extra or {})}

    def inside(self, *argv, check=True, seconds=COMMAND_SECONDS):
        return command(*self.enter(*argv), check=check, seconds=seconds)

    def run(self, argv, *, seconds=60, env=None, **options):
        options = {"capture_output": True, "text": True, "cwd": self.home, **options}
        env = self.environment(env)
        return subprocess.run(self.enter(*argv), env=env, timeout=seconds, **options)

    def popen(self, argv, *, env=None, **options):
        """In a session of its own; ended with the test bed at the latest."""
        options = {"start_new_session": True, "cwd": self.home, **options}
        return subprocess.Popen(self.enter(*argv), env=self.environment(env), **options)

    def pids(self):
        """Every process of the host but the one that holds its mounts."""
        return [pid for pid in namespace_pids(self.namespace) if pid != self.anchor.pid]

    # The SSH server.

    def key_path(self, key_type):
        return self.directory / "keys" / f"host_{key_type}"

    def make_host_keys(self):
        for key_type in self.key_types:
            path = self.key_path(key_type)
            path.unlink(missing_ok=True)
            command("ssh-keygen", "-q", "-t", key_type, "-N", "", "-f", path)

    def known_hosts_lines(self):
        for key_type in self.key_types:
            public = self.key_path(key_type).with_suffix(".pub").read_text().split()[:2]
            yield f"{self.name},{self.address} {' '.join(public)}\n"

    def begin_server(self):
        log = self.directory / "sshd.log"
        log.unlink(missing_ok=True)
        if self.server in ("mute", "closes"):
            argv = ["/usr/bin/python3", "-c", MUTE_SERVER, "22", self.server]
        elif self.server == "sshd":
            self.write_sshd_config()
            argv = ["/usr/sbin/sshd", "-D", "-e", "-f", self.directory / "sshd_config"]
        else:
            return
        with open(log, "wb") as output:
            self.server_process = self.popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def write_sshd_config(self):
        options = {
            "Port": 22, "ListenAddress": "0.0.0.0", "PidFile": self.directory / "sshd.pid",
            "AuthorizedKeysFile": self.directory / "authorized_keys", "StrictModes": "no",
            "UsePAM": "no", "PermitRootLogin": "yes", "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no", "LogLevel": "VERBOSE", "PrintMotd": "no",
            "UseDNS": "no", **self.sshd_options,
        }
        lines = [f"{key} {value}\n" for key, value in options.items()]
        lines += [f"HostKey {self.key_path(key_type)}\n" for key_type in self.key_types]
        (self.directory / "sshd_config").write_text("".join(lines))

    def await_server(self):
        if self.server_process is None:
            return
        log = self.directory / "sshd.log"

        def listening():
            if self.server_process.poll() is not None:
                raise RuntimeError(f"the server of {self.name} ended: {log.read_text()}")
            return b"Server listening on" in read_bytes(log)

        wait_for(listening, f"the server of {self.name} listens")

    def stop_server(self):
        """Sessions that are already open stay."""
        if self.server_process is not None:
            self.server_process.kill()
            self.server_process.wait(COMMAND_SECONDS)
            self.server_process = None

    def restart_server(self):
        self.stop_server()
        self.begin_server()
        self.await_server()

    def sshd_log(self):
        return read_bytes(self.directory / "sshd.log").decode(errors="replace")

    def authorize(self, *public_keys):
        """Only these keys may log in; none: every key is refused."""
        (self.directory / "authorized_keys").write_text("".join(public_keys))

    def change_host_key(self):
        """The server comes back with another key than known_hosts has."""
        self.make_host_keys()
        self.restart_server()

    # Faults.

    def cut(self, network=""):
        """The cable is pulled on the switch's side: the host loses its carrier."""
        command("ip", "-n", self.bed.switch, "link", "set", self.port_name + network[:1], "down")

    def heal(self):
        """The cable is in again and nothing is dropped any more."""
        for suffix in ("", "d") if self.bed.data_network else ("",):
            command("ip", "-n", self.bed.switch, "link", "set", self.port_name + suffix, "up")
        for chain in self.bed.drop_chains(self):
            self.bed.nft(f"flush chain bridge dlaunch {chain}")

    def drop(self, direction="both", *, percent=100, what="", network=""):
        """Frames vanish in the switch without carrier loss. "out": what the host sends; `what`: an
        nft match such as "ether type ip"."""
        port = self.port_name + network[:1]
        chance = f"numgen random mod 100 < {percent}" if percent < 100 else ""
        for way, chain in zip(("out", "in"), self.bed.drop_chains(self)):
            if direction in (way, "both"):
                match = f'{"iifname" if way == "out" else "oifname"} "{port}" {what} {chance}'
                self.bed.nft(f"add rule bridge dlaunch {chain} {match} drop")

    def silence(self):
        """Found on the network (ARP) but answers no packet: a dial waits until its time is over."""
        self.drop(what="ether type ip")

    def freeze(self):
        """Every process stops, as a host that hangs; the kernel still acknowledges packets."""
        stopped = set()
        while True:
            fresh = [pid for pid in self.pids() if pid not in stopped]
            if not fresh:
                break
            kill_pids(fresh, signal.SIGSTOP)
            stopped.update(fresh)
        # A process that just runs on another core stops when the kernel next looks at its signals.
        wait_for(lambda: not any(is_active(pid) for pid in stopped), f"{self.name} has stopped")

    def thaw(self):
        kill_pids(self.pids(), signal.SIGCONT)

    def kill_all(self):
        """Every process of the host ends at once, the SSH server too."""
        def none_left():
            pids = [pid for pid in self.pids() if is_running(pid)]
            kill_pids(pids)
            return not pids

        wait_for(none_left, f"every process of {self.name} is killed")
        self.stop_server()

    def reboot(self):
        """All is killed, the boot id is new, the SSH server is back."""
        self.kill_all()
        self.new_boot_id()
        self.begin_server()
        self.await_server()

    def mount_scratch(self, kind, at="/var/tmp"):
        """Puts a small tmpfs over the directory: "full", "read-only", "noexec" or "small"."""
        options = "size=256k,mode=1777"
        self.inside("mount", "-t", "tmpfs", "-o", options, "tmpfs", at)
        if kind == "full":
            self.inside("dd", "if=/dev/zero", f"of={at}/filler", "bs=4k", check=False)
        elif kind in ("read-only", "noexec"):
            self.inside("mount", "-o", "remount," + {"read-only": "ro"}.get(kind, kind), at)

    def unmount_scratch(self, at="/var/tmp"):
        self.inside("umount", at)
