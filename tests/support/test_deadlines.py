"""How long promises may take on a busy machine."""

import os
from pathlib import Path

import pytest

from tests.support.deadlines import within


@pytest.mark.parametrize(
    ("load", "cores", "seconds"),
    [
        ("0.00 0.00 0.00 1/99 7", 2, 10.0),
        ("2.00 0.00 0.00 2/99 7", 2, 10.0),
        ("6.00 0.00 0.00 2/99 7", 2, 15.0),
        ("0.50 9.00 9.00 8/99 7", 2, 20.0),  # the load has just begun
        ("6.00 0.00 0.00 1/99 7", None, 30.0),
    ],
)
def test_each_process_gets_its_share(monkeypatch: pytest.MonkeyPatch, load: str, cores: int | None, seconds: float) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: load)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert within(5.0) == seconds
