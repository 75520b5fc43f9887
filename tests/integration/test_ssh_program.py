"""Planting through the OpenSSH client: host CAs, certificates, and its failures as causes."""

import pytest
from test_ssh import agent, events, last, plant  # noqa: F401 (a fixture among them)
from testbed_system import command

PROGRAM = "the ssh program is used"


def program(name):
    return {"name": name, "ssh": "openssh"}


def test_an_agent_is_planted_through_the_ssh_program(bed, agent):
    lines = plant(bed, [program("h1")], agent)["h1"]
    assert events(lines) == ["connected", "started", "planted"]


def test_failures_of_the_ssh_program_have_their_causes(bed, agent):
    bed.add_host("p-none", server="none")
    bed.add_host("p-closes", server="closes")
    bed.add_host("p-dropped").silence()
    bed.add_host("p-changed").change_host_key()
    bed.add_host("p-refuses").authorize()
    wanted = {"p-none": "refused", "p-closes": "closed_before_banner",
              "p-dropped": "silent", "p-changed": "host_key_changed",
              "p-refuses": "auth_refused"}
    answers = plant(bed, [program(name) for name in wanted], agent, "--connect-seconds", "3")
    causes = {name: last(answers[name]).get("cause") for name in wanted}
    assert causes == wanted, answers


@pytest.fixture
def authority(bed):
    path = bed.directory / "authority"
    path.unlink(missing_ok=True)
    command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path)
    return path


def test_a_host_that_only_a_host_ca_vouches_for_is_reached(bed, agent, authority):
    host = bed.add_host("signed")
    public = host.key_path("ed25519").with_suffix(".pub")
    command("ssh-keygen", "-q", "-s", authority, "-I", "signed", "-h", "-n", "signed", public)
    certificate = public.with_name(public.stem + "-cert.pub")
    host.sshd_options = {**(host.sshd_options or {}), "HostCertificate": certificate}
    host.restart_server()
    key = authority.with_suffix(".pub").read_text()
    others = [bed[name] for name in bed.hosts if name != "signed"]
    bed.write_known_hosts(*others)
    with open(bed.known_hosts(), "a") as known:
        known.write(f"@cert-authority signed {key}")
    lines = plant(bed, ["signed"], agent)["signed"]
    assert last(lines)["event"] == "planted", lines
    assert any(PROGRAM in line.get("sentence", "") for line in lines), lines


def test_a_user_certificate_beside_the_key_is_used(bed, agent, authority):
    host = bed.add_host("wants-certificate")
    trusted = authority.with_suffix(".pub")
    host.sshd_options = {**(host.sshd_options or {}), "TrustedUserCAKeys": trusted}
    host.authorize()
    host.restart_server()
    identity = bed.login.home / ".ssh" / "id_ed25519"
    command("ssh-keygen", "-q", "-s", authority, "-I", "user", "-n", "root",
            identity.with_suffix(".pub"))
    certificate = identity.with_name("id_ed25519-cert.pub")
    try:
        lines = plant(bed, ["wants-certificate"], agent)["wants-certificate"]
    finally:
        certificate.unlink()
    assert last(lines)["event"] == "planted", lines
    assert any(PROGRAM in line.get("sentence", "") for line in lines), lines
