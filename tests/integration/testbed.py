"""Real hosts on one machine: network namespaces, a switch, and an OpenSSH server in each.

A test bed owns a login host (where dlaunch runs), a switch and any number of hosts. Names carry
the owner's pid, nothing of the user's ~/.ssh is touched, and everything is removed at the end: by
`close`, by a guardian process when the owner dies, and by the next test bed for what both missed.
Needs root, iproute2, nftables and openssh-server.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import testbed_system
from testbed_host import Host
from testbed_system import (
    COMMAND_SECONDS,
    claim_subnet,
    command,
    kill_namespace,
    processes_of_job,
    remove_bed,
    require,
    wait_for,
)

__all__ = ["Host", "TestBed", "processes_of_job", "require", "wait_for"]


class TestBed:
    """`with TestBed(2) as bed:` gives hosts h1 and h2 and a login host that may log in to both."""

    __test__ = False  # not a test class
    made = 0

    def __init__(self, hosts=2, *, data_network=False, sshd_options=None):
        TestBed.made += 1
        self.tag = f"dlt{os.getpid()}x{TestBed.made}"
        self.switch = f"{self.tag}-sw"
        self.data_network = data_network
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.tag}-"))
        self.directory.chmod(0o755)
        self.subnet, self.claim = claim_subnet(self.tag, self.directory)
        self.hosts = {}
        self.login = None
        self.guardian = None
        self.build(hosts, sshd_options)

    def build(self, hosts, sshd_options):
        try:
            self.guardian = subprocess.Popen(
                [sys.executable, testbed_system.__file__, "--guard", self.claim],
                stdin=subprocess.PIPE, start_new_session=True,
            )
            pathlib.Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
            self.make_switch()
            self.login = Host(self, "login", 1, server="none")
            self.login.prepare()
            key = self.login.home / ".ssh" / "id_ed25519"
            command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", key)
            for index in range(hosts):
                self.add_host(f"h{index + 1}", sshd_options=sshd_options, wait=False)
            for host in self.hosts.values():
                host.await_server()
            self.write_names()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, name):
        return self.hosts[name]

    def address(self, index, network=""):
        return f"10.{self.subnet}.{2 if network else 1}.{index}"

    def make_switch(self):
        command("ip", "netns", "add", self.switch)
        for network in ("", "data") if self.data_network else ("",):
            command("ip", "-n", self.switch, "link", "add", "bridge" + network, "type", "bridge")
            command("ip", "-n", self.switch, "link", "set", "bridge" + network, "up")
        self.nft("add table bridge dlaunch")

    def nft(self, *lines):
        command("ip", "netns", "exec", self.switch, "nft", "-f", "-", text="\n".join(lines) + "\n")

    def drop_chains(self, host):
        return [f"out_{host.index}", f"in_{host.index}"]

    def add_host(self, name, *, server="sshd", sshd_options=None, key_types=("ed25519",),
                 shell="/bin/bash", wait=True):
        """server: "sshd", "none" (dials are refused), "mute" (accepts, says nothing), "closes"
        (accepts and closes)."""
        host = Host(self, name, 11 + len(self.hosts), server, sshd_options, key_types)
        self.hosts[name] = host
        host.prepare(shell)
        self.nft(*(f"add chain bridge dlaunch {chain} "
                   "{ type filter hook forward priority 0; }" for chain in self.drop_chains(host)))
        host.make_host_keys()
        with open(self.known_hosts(), "a") as known:
            known.writelines(host.known_hosts_lines())
        host.authorize(self.public_key())
        host.begin_server()
        if wait:
            host.await_server()
            self.write_names()
        return host

    def public_key(self):
        return (self.login.home / ".ssh" / "id_ed25519.pub").read_text()

    # The login host's view.

    def write_names(self):
        """Every host knows the names of all."""
        names = "127.0.0.1 localhost\n" + f"{self.login.address} login\n"
        names += "".join(f"{h.address} {h.name}\n" for h in self.hosts.values())
        for host in (self.login, *self.hosts.values()):
            host.write_etc("hosts", names)

    def known_hosts(self):
        return self.login.home / ".ssh" / "known_hosts"

    def write_known_hosts(self, *hosts):
        """Exactly the present keys of these hosts; none: no host is known."""
        lines = [line for host in hosts for line in host.known_hosts_lines()]
        self.known_hosts().write_text("".join(lines))

    def write_ssh_config(self, text):
        (self.login.home / ".ssh" / "config").write_text(text)

    def run_on_login(self, argv, **options):
        return self.login.run(argv, **options)

    def popen_on_login(self, argv, **options):
        return self.login.popen(argv, **options)

    def hosts_toml(self, path=None, *, hosts=None, spares=(), network=None, defaults=None,
                   by_name=True, each=None):
        """Writes a hosts file. `each`: {host name: {key: value}}; values become TOML strings,
        numbers, booleans."""
        path = pathlib.Path(path or self.directory / "hosts.toml")
        lines = toml_table("defaults", defaults or {})
        for host in hosts or self.hosts.values():
            keys = {"name": host.name}
            if not by_name:
                keys["address"] = host.address
            if host.data_address:
                keys["data_address"] = host.data_address
            if host.name in {getattr(spare, "name", spare) for spare in spares}:
                keys["spare"] = True
            lines += toml_table("[host]", {**keys, **(each or {}).get(host.name, {})})
        lines += toml_table("network", network or {})
        path.write_text("".join(lines))
        return path

    # The end.

    def close(self):
        """Ends every process of the bed's namespaces and removes all that was made. May be called
        twice."""
        for host in (self.login, *self.hosts.values()):
            if host is not None and host.anchor is not None:
                kill_namespace(host.namespace)
                host.anchor.wait(COMMAND_SECONDS)
                host.stop_server()
        remove_bed(self.claim)
        if self.guardian is not None:
            self.guardian.stdin.close()
            self.guardian.wait(COMMAND_SECONDS)
            self.guardian = None


def toml_table(name, keys):
    if not keys:
        return []
    return [f"[{name}]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()), "\n"]
