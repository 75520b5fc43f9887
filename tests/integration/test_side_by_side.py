"""The tests of whole beds may run twice at once: neither disturbs what is the other's."""

import pathlib
import subprocess
import sys

from testbed import require

HERE = pathlib.Path(__file__).parent
CHOSEN = "trains_to_its_end or exits_with_1 or same_command_goes_on or (spare_takes and cable)"
SECONDS = 400


def test_two_test_beds_side_by_side_do_not_disturb_each_other():
    require()
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", HERE / "test_jobs.py",
            "-k", CHOSEN]
    runs = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _ in range(2)]
    try:
        outputs = [run.communicate(timeout=SECONDS)[0] for run in runs]
    finally:
        for run in runs:
            run.kill()
            run.wait()
    for run, output in zip(runs, outputs):
        assert run.returncode == 0, output
        assert "4 passed" in output, output
