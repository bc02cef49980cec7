"""Tests of one group run in one process of pytest-xdist, one after another."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("groups")


@pytest.mark.parametrize("number", range(3))
def test_a_group_has_one_process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    """By a file for each process, in the folder that all of them share."""
    seen = Path(tmp_path_factory.getbasetemp()).parent / f"groups-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    seen.mkdir(exist_ok=True)
    (seen / str(os.getpid())).touch()
    assert len(list(seen.iterdir())) == 1
    if getattr(request.config.option, "loadgroup", False):
        assert request.node.nodeid.endswith("@groups")
