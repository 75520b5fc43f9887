"""What a job computed and what its time was spent on, as its user sees it."""

import json
import xml.etree.ElementTree as xml

from jobs import SECONDS
from local_jobs import TRAINING, kill, make  # noqa: F401 (a fixture)


def test_status_and_metrics_have_the_figures_of_the_steps(make):
    job = make(TRAINING)
    job.start()
    status = job.until(lambda s: s.get("figures", {}).get("gemm_utilization"), "the measured rate")
    figures = status["figures"]
    assert figures["gradient_norm"] > 0
    assert 0 < figures["step_seconds_p50"] <= figures["step_seconds_p95"]
    assert 0 <= figures["waiting_seconds"] < figures["step_seconds_p95"] * 10
    assert figures["bytes_sent"] > 0 and figures["bus_bytes_per_second"] > 0
    assert figures["flops_per_second"] > 0 and 0 < figures["gemm_utilization"] < 1
    assert figures["memory_bytes"] <= figures["memory_peak_bytes"]
    peaks = [rank["memory_peak_bytes"] for rank in status["ranks"]]
    assert figures["memory_peak_bytes"] == max(peaks) and min(peaks) > 50e6
    page = job.call("status").stdout
    for word in ("learning  gradient norm", "speed  step", "of what matrix products reach",
                 "network  ", "memory  ", "MEMORY"):
        assert word in page, page
    columns = "loss, gradient_norm, gemm_utilization, memory_peak_bytes"
    job.until(lambda s: any(row[2] for row in job.metrics(columns)), "a row with all figures")
    for loss, norm, _, peak in job.metrics(columns):
        assert loss is None or (norm > 0 and peak > 0)
    assert job.stop() == 130


def test_a_report_says_what_the_time_was_spent_on_and_draws_the_curves(make):
    job = make(TRAINING)
    job.start()
    before = job.until(lambda s: (s["checkpoint"]["disk_step"] or 0) >= 20, "a checkpoint")
    kill(job.pid_of(1))
    job.until_first_step(2)
    job.until_step(before["step"] + 20, generation=2)
    job.until(lambda s: len(job.metrics("step")) > 3, "a few rows of figures")
    living = json.loads(job.call("report", "--json").stdout)
    assert living["state"] == "running" and living["runs"] == 1
    assert job.stop() == 130
    picture = job.directory / "curves.svg"
    done = job.call("report", "--svg", picture)
    assert done.returncode == 0, done.stderr
    for word in ("goodput", "worker_crashed", "loss\n", "step time\n", "│"):
        assert word in done.stdout, done.stdout
    lines = xml.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 and all(len(line.get("points").split()) > 1 for line in lines)

    report = json.loads(job.call("report", "--json").stdout)
    (incident,) = job.status()["incidents"]
    (cause,) = report["causes"]
    assert cause["cause"] == incident["cause"] and cause["incidents"] == 1
    assert cause["seconds"]["total"] == incident["seconds"]["total"]
    assert cause["lost_steps"] == incident["lost_steps"]
    seconds = report["seconds"]
    assert abs(seconds["recovering"] - incident["seconds"]["total"]) < 1e-6
    events = job.events()
    assert events[-1]["event"] == "job_stopped"
    assert abs(seconds["total"] - (events[-1]["time"] - events[0]["time"])) < 1e-3
    parts = sum(seconds[part] for part in ("productive", "starting", "recovering"))
    assert abs(parts - seconds["total"]) < 1e-6
    assert seconds["redoing"] <= seconds["recovering"]
    first_step = next(event for event in events if event["event"] == "first_step")
    assert abs(seconds["starting"] - (first_step["time"] - events[0]["time"])) < 1e-3

    job.call("resume", "--detach", seconds=SECONDS)
    job.until(lambda s: s["state"] == "running", "running again")
    assert json.loads(job.call("report", "--json").stdout)["runs"] == 2


def test_a_picture_that_cannot_be_written_is_an_error_that_names_it(make):
    job = make({"trainer": {"steps": 3}})
    code, output = job.run()
    assert code == 0, output
    done = job.call("report", "--svg", job.directory / "nowhere" / "x.svg")
    assert done.returncode == 74 and "nowhere/x.svg: No such file" in done.stderr, done
    assert job.call("report", "no-such-job").returncode == 64
