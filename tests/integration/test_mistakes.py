"""Mistakes: in the command line, in the files, and on the hosts, all before any trainer starts."""

import json
import re
import time

import pytest
from jobs import ENDLESS, Job, merged
from local_jobs import make  # noqa: F401 (a fixture)
from testbed import TestBed, require

GOOD_TRAIN = """[job]
name = "tiny"
[trainer]
steps = 4
[trainer.data]
text = "text.txt"
"""


def problems(text):
    """{(file name, line, column): what} of lines like a compiler's."""
    found = re.findall(r"^(?:.*/)?([\w.]+):(\d+):(\d+): (.+)$", text, re.MULTILINE)
    return {(file, int(line), int(column)): what for file, line, column, what in found}


@pytest.fixture
def files(make):
    """`files(train, hosts)` writes both and runs them: the finished command."""
    job = make()

    def run(train=GOOD_TRAIN, hosts=None, *options):
        job.train_file.write_text(train)
        words = list(options)
        if hosts is not None:
            (job.directory / "h.toml").write_text(hosts)
            words += ["--hostfile", str(job.directory / "h.toml")]
        done = job.call(*words, str(job.train_file))
        assert not list(job.state_home.glob("dlaunch/*/run.db")), "a job was started"
        return done

    run.job = job
    return run


# The command line: 64.

WRONG_COMMAND_LINES = [
    [], ["run"], ["--no-such-option", "train.toml"], ["train.toml", "more.toml"],
    ["status", "--wait", "happy"], ["status", "--timeout", "5"], ["logs", "--rank", "one"],
    ["stop", "--later"], ["run", "--detach", "--attached", "train.toml"],
    ["run", "--from", "pbs", "train.toml"], ["check", "train.toml"], ["drill"], ["clean", "--all"],
    ["events", "--rank", "1"],
]


@pytest.mark.parametrize("words", WRONG_COMMAND_LINES, ids=" ".join)
def test_a_wrong_command_line_gives_64_and_says_why(make, words):
    done = make().call(*words)
    assert done.returncode == 64, done.stdout + done.stderr
    assert done.stderr.strip() and not done.stdout


@pytest.mark.parametrize("command", ["status", "logs", "events", "attach", "resume", "stop"])
def test_an_unknown_job_gives_64_and_is_named(make, command):
    done = make().call(command, "nonesuch")
    assert done.returncode == 64, done.stdout + done.stderr
    assert "nonesuch" in done.stderr


def test_every_command_has_help(make):
    job = make()
    for command in [[], ["run"], ["list"], ["attach"], ["resume"], ["status"], ["logs"], ["events"],
                    ["stop"]]:
        done = job.call(*command, "-h")
        assert done.returncode == 0 and done.stdout.strip(), command


# The files: 65.


def test_all_problems_of_both_files_are_said_at_once_with_their_places(files):
    train = """[job]
name = "tiny"
hosts = "4..2"
[trainer]
stepps = 4
logical_batches = 12
[trainer.data]
text = 7
[recovery]
wait_for_host = "soon"
[nonsense]
a = 1
"""
    hosts = """[[host]]
name = "a"
[[host]]
name = "a"
transport = "carrier pigeon"
[network]
colour = "red"
"""
    done = files(train, hosts)
    assert done.returncode == 65, done.stderr
    found = problems(done.stderr)
    lines = {(file, line) for file, line, _ in found}
    assert lines >= {("train.toml", n) for n in (3, 5, 6, 8, 10, 11)}, done.stderr
    assert lines >= {("h.toml", n) for n in (4, 5, 7)}, done.stderr
    by_line = {(file, line): what for (file, line, _), what in found.items()}
    assert "stepps" in by_line["train.toml", 5] and "steps" in by_line["train.toml", 5]
    assert "power of two" in by_line["train.toml", 6]
    assert "colour" in by_line["h.toml", 7]
    assert found.keys() == set(sorted(found)), "each place once"


MISTAKES = {
    "not TOML": ("[job\nname = 3\n", None),
    "neither trainer nor program": ("[job]\nname = \"x\"\n", None),
    "both": (GOOD_TRAIN + "[program]\ncommand = [\"true\"]\n", None),
    "unknown key": (GOOD_TRAIN + "[checkpoint]\nevry = \"10 steps\"\n", None),
    "no effect": ("[program]\ncommand = [\"true\"]\n[checkpoint]\nkeep = 2\n", None),
    "not built": (GOOD_TRAIN.replace("steps = 4", 'steps = 4\nreduction = "fast"'), None),
    "no unit": (GOOD_TRAIN + "[health]\nheartbeat = \"100\"\n", None),
    "placeholder": ("[program]\ncommand = [\"echo\", \"${rnak}\"]\n", None),
    "no host": (GOOD_TRAIN, ""),
    "empty range": (GOOD_TRAIN, "[[host]]\nname = \"h[3-1]\"\n"),
    "huge range": (GOOD_TRAIN, "[[host]]\nname = \"h[1-100000]\"\n"),
    "ranges out of step": (GOOD_TRAIN,
                           "[[host]]\nname = \"h[1-3]\"\naddress = \"10.0.0.[1-2]\"\n"),
    "host key checks off": (GOOD_TRAIN,
                            "[[host]]\nname = \"a\"\n[network]\nhost_keys = \"off\"\n"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_file_gives_65_and_its_place(files, mistake):
    train, hosts = MISTAKES[mistake]
    done = files(train, hosts)
    assert done.returncode == 65, done.stdout + done.stderr
    assert re.search(r"(train|h)\.toml", done.stderr), done.stderr


def test_an_override_that_is_wrong_gives_65_and_names_the_option(files):
    done = files(GOOD_TRAIN, None, "--set", "trainer.stepps=3")
    assert done.returncode == 65 and "stepps" in done.stderr and "--set" in done.stderr


def test_files_that_cannot_be_read_give_65_and_are_named(make):
    job = make()
    done = job.call("nonesuch.toml")
    assert done.returncode == 65 and "nonesuch.toml" in done.stderr
    done = job.call("--hostfile", "no-hosts.toml", str(job.train_file))
    assert done.returncode == 65 and "no-hosts.toml" in done.stderr
    done = job.call(str(job.directory))
    assert done.returncode == 65, done.stderr


def test_more_hosts_wanted_than_listed_is_a_mistake_and_no_waiting(make):
    job = make({"job": {"hosts": 3}})
    code, output = job.run()
    assert code == 65, output
    assert "3" in output and "2" in output


def test_a_dry_run_of_good_files_starts_nothing(files):
    done = files(GOOD_TRAIN, None, "--dry-run")
    assert done.returncode == 0 and "tiny" in done.stdout


# What hosts lack.


def test_missing_data_is_told_for_every_host_before_a_trainer_starts(make):
    job = make({"trainer": {"data": {"text": "nowhere.txt"}}})
    code, output = job.run()
    assert code == 65, output
    assert "nowhere.txt" in output and "here1" in output and "here2" in output
    assert not job.events("worker_started")
    job.nothing_left()


def test_a_missing_trainer_is_told_with_its_host(make):
    job = make(ENDLESS, each={"here2": {"trainer": "/nowhere/trainer"}})
    code, output = job.run()
    assert code == 65, output
    assert "here2" in output and "/nowhere/trainer" in output
    assert "here1:" not in output
    assert not job.events("worker_started")


def test_a_checkpoint_directory_that_cannot_be_made_gives_74(make):
    job = make({"checkpoint": {"directory": "/proc/none/checkpoints"}})
    code, output = job.run()
    assert code == 74, output
    assert "/proc/none/checkpoints" in output
    assert not job.events("worker_started")


def test_a_checkpoint_that_another_library_computed_is_told_and_goes_on(make):
    job = make({"trainer": {"steps": 4}})
    assert job.run()[0] == 0
    manifest = job.directory / "checkpoints" / "step-4" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["numerics"] = "torch 1.0, 2 threads"
    manifest.write_text(json.dumps(content))
    job.train_file.write_text(job.train_file.read_text().replace("steps = 4\n", "steps = 8\n"))
    job.known_id = None
    code, output = job.run()
    assert code == 0, output
    assert "warning: step 4 was computed with torch 1.0, 2 threads, rank 0 goes on with" in output
    told = job.events("not_exact")
    assert len(told) == 1 and "torch 1.0" in told[0]["detail"]


def test_a_checkpoint_of_another_model_gives_65_and_names_the_keys(make):
    first = make({"trainer": {"steps": 4}})
    code, output = first.run()
    assert code == 0, output
    changes = {"trainer": {"steps": 8, "seed": 8, "model": {"width": 64}},
               "checkpoint": {"directory": str(first.directory / "checkpoints")}}
    second = make(changes, name="second")
    code, output = second.run()
    assert code == 65, output
    assert "width" in output and "seed" in output
    assert not second.events("worker_started")


def test_fresh_wants_an_empty_checkpoint_directory(make):
    job = make({"trainer": {"steps": 4}})
    code, output = job.run("--fresh")
    assert code == 0, output
    job.known_id = None
    job.start("--fresh")
    code = job.wait()
    assert code == 65, job.output()
    assert "checkpoints" in job.output()


# Hosts that cannot be had, over real SSH.


@pytest.fixture(scope="module")
def bed():
    require()
    with TestBed(2) as made:
        made.add_host("refuses", server="none")
        made.add_host("silent")
        made.add_host("changed")
        made.add_host("locked")
        made.add_host("full")
        made.add_host("readonly")
        made.add_host("noexec")
        made.add_host("deaf")
        made["silent"].silence()
        made["changed"].change_host_key()
        made["locked"].authorize()
        made["full"].mount_scratch("full")
        made["readonly"].mount_scratch("read-only")
        made["noexec"].mount_scratch("noexec")
        made["deaf"].drop("out", what="tcp dport 29600-29899")
        yield made


@pytest.fixture
def start(bed, request):
    """Runs a job on these hosts to its end: (job, code, output, seconds)."""
    jobs = []

    def run(names, changes=None, each=None, network=None):
        name = re.sub(r"\W+", "-", request.node.name)[:60]
        directory = bed.directory / f"{name}-{len(jobs)}"
        directory.mkdir()
        hosts = [bed[n] if n in bed.hosts else Unknown(n) for n in names]
        path = bed.hosts_toml(directory / "hosts.toml", hosts=hosts, each=each,
                              network={"connect_timeout": "3 s", "control": "dial",
                                       **(network or {})})
        job = Job(bed.login, directory, merged({"trainer": {"steps": 4}}, changes or {}),
                  hostfile=path)
        jobs.append(job)
        began = time.monotonic()
        code = job.start().wait()
        return job, code, job.output(), time.monotonic() - began

    yield run
    for job in jobs:
        if getattr(request.node, "failed", True):
            job.explain()
        job.end()


class Unknown:
    """A host of the file that does not exist."""

    data_address = None

    def __init__(self, name):
        self.name = name


SCRATCH = {name: {"scratch": "/var/tmp"} for name in ("full", "readonly", "noexec")}
# host: (words of its cause, the job's exit code if it is the only host that is missing)
TROUBLES = {
    "nowhere.invalid": ("has no address", 69),
    "refuses": ("refused the connection", 69),
    "silent": ("did not answer", 69),
    "changed": ("not the one in known_hosts", 77),
    "locked": ("accepts none of our keys", 77),
    "full": ("no space", 69),
    "readonly": ("read-only", 69),
    "noexec": ("noexec", 69),
    "deaf": ("does not reach the controller", 69),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_one_host_that_cannot_be_had_is_named_with_its_cause(start, name):
    words, expected = TROUBLES[name]
    job, code, output, seconds = start(["h1", name], each=SCRATCH)
    assert code == expected, output
    assert re.search(rf"{re.escape(name)}.*{words}", output), output
    assert not job.events("worker_started")
    assert seconds < 3 + 20  # the connect timeout, and a busy machine
    job.nothing_left()


def test_all_troubles_stand_in_one_table_in_bounded_time(start):
    job, code, output, seconds = start(
        ["h1", *TROUBLES, "h2"], {"trainer": {"logical_batches": 16}}, each=SCRATCH)
    assert code == 69, output
    table = output[output.rindex("HOST"):].splitlines()[1:]
    assert [line.split()[0] for line in table] == list(TROUBLES), output
    for line, (words, _) in zip(table, TROUBLES.values()):
        assert words in line, output
    assert not job.events("worker_started")
    assert seconds < 3 + 20
    job.nothing_left()


def test_hosts_missing_only_by_their_keys_give_77(start):
    _, code, output, _ = start(["h1", "changed", "locked"])
    assert code == 77, output


def test_keys_and_other_causes_together_give_69(start):
    _, code, output, _ = start(["h1", "changed", "refuses"])
    assert code == 69, output


def test_the_job_starts_without_hosts_beyond_the_minimum(start):
    job, code, output, _ = start(["h1", "refuses", "h2"], {"job": {"hosts": "2..3"}})
    assert code == 0, output
    assert "refuses" in output and job.status()["world_size"] == 2


def test_data_that_differs_between_hosts_is_told(bed, start):
    other = bed.directory / "other.txt"
    other.write_text("x" * 5000)
    text = bed.directory / "shared.txt"
    text.write_text("y" * 5000)
    bed["h2"].inside("mount", "--bind", other, text)
    job, code, output, _ = start(["h1", "h2"], {"trainer": {"data": {"text": str(text)}}})
    bed["h2"].inside("umount", text)
    assert code == 65, output
    assert "shared.txt is not the same" in output and not job.events("worker_started")
