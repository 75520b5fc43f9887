"""What a trainer may be given to train on: texts, token files, and what is wrong with them."""

import struct
import subprocess

import pytest
from checkpoint_reader import read_checkpoint
from jobs import BIN, SECONDS, write_text
from local_jobs import make  # noqa: F401 (a fixture)

TRAINER = BIN / "dlaunch-trainer"
SHORT = {"trainer": {"steps": 6}, "checkpoint": {"every": "6 steps"}}


def with_tokens(name, vocabulary=256):
    """Changes that train on this file instead of the text."""
    return {**SHORT, "trainer": {**SHORT["trainer"], "model": {"vocabulary": vocabulary},
                                 "data": {"text": None, "tokens": name}}}


def write_nanogpt(path, ids):
    path.write_bytes(struct.pack(f"<{len(ids)}H", *ids))


def write_megatron(stem, documents):
    ids = [number for document in documents for number in document]
    stem.with_suffix(".bin").write_bytes(struct.pack(f"<{len(ids)}i", *ids))
    lengths = [len(document) for document in documents]
    places = [4 * sum(lengths[:number]) for number in range(len(lengths))]
    stem.with_suffix(".idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1)
        + struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(places)}q", *places)
        + struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1)))


def weights(job, step=6):
    return read_checkpoint(job.directory / "checkpoints" / f"step-{step}")


def test_the_same_tokens_give_the_same_weights_in_every_format(make):
    of_text = make(SHORT, "of-text")
    assert of_text.run()[0] == 0
    expected = weights(of_text)
    text = (of_text.directory / "text.txt").read_bytes()

    for name in ("llmc.bin", "nanogpt.bin", "megatron.idx"):
        job = make(with_tokens(name), name.split(".")[0])
        if name == "llmc.bin":
            made = subprocess.run(
                [TRAINER, "--write-tokens", job.directory / name,
                 "--text", job.directory / "text.txt"], capture_output=True, text=True)
            assert made.returncode == 0, made.stderr
            assert f"{len(text)} ids of 2 bytes" in made.stdout
        elif name == "nanogpt.bin":
            write_nanogpt(job.directory / name, text)
        else:
            half = len(text) // 2
            write_megatron(job.directory / "megatron", [text[:half], [], text[half:]])
        code, output = job.run()
        assert code == 0, output
        assert weights(job) == expected, name


def test_a_token_file_is_made_of_any_other(make, tmp_path):
    ids = [5, 50256, 0, 131]
    write_nanogpt(tmp_path / "x.bin", ids)
    made = subprocess.run([TRAINER, "--write-tokens", tmp_path / "y.bin", "--tokens",
                           tmp_path / "x.bin"], capture_output=True, text=True)
    assert "vocabulary must be 50257 or more" in made.stdout, made.stderr
    content = (tmp_path / "y.bin").read_bytes()
    assert struct.unpack("<3i", content[:12]) == (20240520, 1, 4)
    assert struct.unpack("<4H", content[1024:]) == tuple(ids)
    wrong = subprocess.run([TRAINER, "--write-tokens"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage:" in wrong.stderr


@pytest.mark.parametrize("content, why", [
    (b"", "it has 0 token ids, and one sequence needs 33"),
    (b"x" * 4001, "a file without a head holds ids of two bytes"),
    (struct.pack("<256i", 20240520, 1, 5000, *[0] * 253) + b"ab" * 4000,
     "promises 5000 ids, 4000 are there"),
    (b"\x93NUMPY\x01\0" + b"ab" * 4000, "NumPy"),
    (b"\0\0" * 4000 + b"\x00\x01" + b"\0\0" * 4000,
     "id 256 at place 4000 of 8001 is outside the vocabulary of 256"),
])
def test_a_file_that_cannot_be_right_ends_the_job_before_the_first_step(make, content, why):
    job = make(with_tokens("x.bin"))
    (job.directory / "x.bin").write_bytes(content)
    code, output = job.run()
    assert code == 65, output
    assert why in output and str(job.directory / "x.bin") in output
    assert not job.events("first_step")
    assert len(job.events("generation_formed")) == 1, "it is not tried again"
    job.nothing_left()


def test_a_megatron_index_without_its_ids_is_told_before_a_trainer_starts(make):
    job = make(with_tokens("x.idx"))
    write_megatron(job.directory / "x", [[1] * 100])
    (job.directory / "x.bin").unlink()
    code, output = job.run()
    assert code == 65, output
    assert "x.bin is not there" in output and not job.events("worker_started")


def test_other_tokens_than_those_of_the_checkpoint_are_refused(make):
    job = make(with_tokens("x.bin"))
    write_nanogpt(job.directory / "x.bin", [number % 200 for number in range(9000)])
    assert job.run()[0] == 0
    write_nanogpt(job.directory / "x.bin", [number % 100 for number in range(9000)])
    job.known_id = None
    code, output = job.run()
    assert code == 65, output
    assert "data.hash" in output and "is of another run" in output


VALIDATED = {"trainer": {"steps": 12, "validate_every": "5 steps", "data": {"validation": 0.1}}}


def test_validation_is_told_and_changes_nothing(make):
    without = make({"trainer": {**VALIDATED["trainer"], "validate_every": "off"}}, "without")
    assert without.run()[0] == 0
    expected, seen = weights(without, 12), set()
    for strategy in ("ddp", "fsdp"):
        job = make({"trainer": {**VALIDATED["trainer"], "strategy": strategy}}, strategy,
                   workers=(2, 1))
        code, output = job.run()
        assert code == 0, output
        assert weights(job, 12) == expected
        lines = [line for line in job.call("logs", "--rank", "0").stdout.splitlines()
                 if "validation loss" in line]
        seen.add(tuple(line[line.index("step "):] for line in lines))
        assert [line.split("step ")[1].split("/")[0] for line in lines] == ["5", "10", "12"]
        figures = job.status()["figures"]
        assert figures["validation_step"] == 12
        assert job.metrics("max(validation_step)") == [(12,)]
        assert f"{figures['validation_loss']:.4g}" == lines[-1].split()[-1]
    assert len(seen) == 1, "the same at any number of ranks, with either strategy"


def test_too_little_to_validate_on_is_a_mistake(make):
    job = make(VALIDATED)
    write_text(job.directory / "text.txt", kibibytes=1)
    code, output = job.run()
    assert code == 65, output
    assert "sequences are for validation" in output


def test_a_dry_run_shows_what_a_run_would_take(make):
    job = make({"trainer": {"schedule": "cosine", "warmup_steps": 5, "decay_steps": 30,
                            "min_learning_rate": 1e-4, "validate_every": "10 steps"}})
    code, plan = job.run("--dry-run")
    assert code == 0, plan
    for part in ("vocabulary 256", "text.txt (text), 0.1 kept for validation every 10 steps",
                 "0.003 after 5 steps of warm-up, cosine to 0.0001 at step 30"):
        assert part in plan
    code, output = job.run()
    assert code == 0, output
    resolved = (job.state_directories()[-1] / "job.toml").read_text()
    for line in ('schedule = "cosine"', "decay_steps = 30", 'validate_every = "10 steps"',
                 "vocabulary = 256", "validation = 0.1"):
        assert line in resolved


def test_a_prolonged_cosine_needs_the_same_end(make):
    cosine = {"trainer": {"steps": 6, "schedule": "cosine"}}
    job = make(cosine)
    assert job.run()[0] == 0
    longer = job.train_file.read_text().replace("steps = 6\n", "steps = 8\n")
    job.train_file.write_text(longer)
    job.known_id = None
    code, output = job.run()
    assert code == 65 and "decay_steps is 8 here, 6 in the checkpoint" in output, output
    job.train_file.write_text(longer.replace("steps = 8\n", "steps = 8\ndecay_steps = 6\n"))
    job.known_id = None
    code, output = job.run(seconds=SECONDS)
    assert code == 0, output
