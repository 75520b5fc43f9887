"""The same weights, bit for bit, whatever the number of ranks and whatever was lost on the way."""

import hashlib
import json
import os
import signal

import pytest
from checkpoint_reader import read_checkpoint
from jobs import Job, ThisMachine, kill_local_host, merged, write_text
from local_jobs import hosts_toml

STEPS = 150
CHANGES = {
    "trainer": {"steps": STEPS},
    "recovery": {"wait_for_host": "60 s"},
    "job": {"hosts": "1..4"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exactness")


def start(folder, name, hosts, spares=(), changes=None, workers=1):
    directory = folder / name
    directory.mkdir()
    write_text(directory / "text.txt")
    hostfile = hosts_toml(directory, (workers,) * hosts, spares=spares)
    job = Job(ThisMachine(directory), directory, changes or CHANGES, hostfile=hostfile)
    return job.start()


def final_tensors(job):
    """{name: (dtype, shape, digest of the bytes)} of the last checkpoint."""
    tensors = read_checkpoint(job.directory / "checkpoints" / f"step-{STEPS}")
    return {name: (dtype, shape, hashlib.sha256(data).hexdigest())
            for name, (dtype, shape, data) in tensors.items()}


@pytest.fixture(scope="module")
def reference(folder):
    """One rank, undisturbed."""
    with start(folder, "reference", 1) as job:
        assert job.wait(120) == 0
        tensors = final_tensors(job)
    assert "wte.weight" in " ".join(tensors), sorted(tensors)
    return tensors


SHARED = merged(CHANGES, {"trainer": {"strategy": "fsdp"}})


@pytest.mark.parametrize("hosts, changes", [(2, CHANGES), (3, CHANGES), (4, CHANGES), (3, SHARED)],
                         ids=["ddp-2", "ddp-3", "ddp-4", "fsdp-3"])
def test_any_number_of_ranks_ends_with_the_same_bits(folder, reference, hosts, changes):
    name = f"{changes['trainer'].get('strategy', 'ddp')}-{hosts}"
    with start(folder, name, hosts, changes=changes) as job:
        assert job.wait(120) == 0
        assert job.status()["world_size"] == hosts
        assert final_tensors(job) == reference
        manifest = job.directory / "checkpoints" / f"step-{STEPS}" / "manifest.json"
        files = {shard["file"] for tensor in json.loads(manifest.read_text())["tensors"].values()
                 for shard in tensor["shards"]}
        assert len(files) == hosts


def test_a_killed_worker_and_a_lost_host_change_no_bit(folder, reference):
    with start(folder, "faults", 4, spares=["here4"]) as job:
        status = job.until_step(22)
        os.kill(job.rank(1, status)["pid"], signal.SIGKILL)
        job.until_first_step(2)
        kill_local_host(job.id, "here3")
        job.until_first_step(3)
        assert job.wait(120) == 0
        causes = [incident["cause"] for incident in job.status()["incidents"]]
        assert "worker_crashed" in causes and "host_lost" in causes
        assert final_tensors(job) == reference


@pytest.mark.parametrize("changes", [CHANGES, SHARED], ids=["ddp", "fsdp"])
def test_fewer_ranks_after_a_lost_host_change_no_bit(folder, reference, changes):
    """The shares of three ranks are read by two."""
    name = "shrunk-" + changes["trainer"].get("strategy", "ddp")
    with start(folder, name, 3, changes=changes) as job:
        job.until_step(22)
        kill_local_host(job.id, "here2")
        assert job.wait(120) == 0
        assert job.status()["world_size"] == 2
        assert final_tensors(job) == reference


def test_a_copy_on_each_host_is_one_bit_for_bit_before_and_after_one_is_lost(folder, reference):
    copies = merged(CHANGES, {"trainer": {"strategy": "hsdp"}})
    with start(folder, "copies", 2, changes=copies, workers=2) as job:
        status = job.until_step(22)
        assert status["world_size"] == 4
        kill_local_host(job.id, "here2")
        assert job.wait(120) == 0
        assert job.status()["world_size"] == 2
        assert final_tensors(job) == reference


def test_damaged_checkpoints_are_passed_over_and_written_again(folder, reference):
    with start(folder, "damaged", 2) as job:
        job.until(lambda s: (s["checkpoint"]["disk_step"] or 0) >= 60, "three checkpoints")
        assert job.call("stop").returncode == 0
        assert job.wait() == 75
        newest = job.status()["checkpoint"]["disk_step"]
        assert newest < STEPS
        directory = job.directory / "checkpoints"
        whole = sorted(int(path.name[5:]) for path in directory.glob("step-*"))
        assert whole[-1] == newest and len(whole) == 3
        flip_last_byte(directory / f"step-{whole[2]}" / "shard-1-of-2.safetensors")
        (directory / f"step-{whole[1]}" / "manifest.json").write_text('{"world_')
        job.known_id = None
        assert job.start().wait(120) == 0
        damaged = {event["step"]: event["detail"] for event in job.events("checkpoint_damaged")}
        assert sorted(damaged) == whole[1:]
        assert "shard-1-of-2.safetensors is damaged" in damaged[whole[2]]
        assert job.events("restored")[-1]["step"] == whole[0]
        incident = job.status()["incidents"][0]
        assert (incident["cause"], incident["verdict"]) == ("storage", "restart_workers")
        assert incident["lost_steps"] == whole[2] - whole[0]
        aside = directory / f"step-{whole[1]}.damaged" / "manifest.json"
        assert aside.read_text() == '{"world_', "kept for a person to look at"
        assert final_tensors(job) == reference


def flip_last_byte(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_another_seed_gives_other_bits(folder, reference):
    """The comparison would notice."""
    changes = {**CHANGES, "trainer": {"steps": STEPS, "seed": 8}}
    with start(folder, "seed", 2, changes=changes) as job:
        assert job.wait(120) == 0
        assert final_tensors(job) != reference
