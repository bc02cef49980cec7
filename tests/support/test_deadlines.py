"""How long promises may take on a busy machine."""

import os

import pytest

from tests.support.deadlines import within


@pytest.mark.parametrize(("load", "cores", "seconds"), [(0.0, 2, 5.0), (2.0, 2, 5.0), (6.0, 2, 15.0), (6.0, None, 30.0)])
def test_each_process_gets_its_share(monkeypatch: pytest.MonkeyPatch, load: float, cores: int | None, seconds: float) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert within(5.0) == seconds
