"""Makes the test bed importable, whatever directory pytest is started in."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="module")
def bed():
    """Two hosts; a module that needs others has a `bed` of its own."""
    from testbed import TestBed, require
    require()
    with TestBed(2) as made:
        yield made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Lets fixtures see at their end whether the test failed: `request.node.failed`."""
    report = (yield).get_result()
    if call.when == "call":
        item.failed = report.failed
