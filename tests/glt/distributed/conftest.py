"""Fixtures of the distributed part of the face."""

from collections.abc import Iterator

import pytest

from tests.support import glt_ranks


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that does not know who it is; what it opens is closed."""
    glt_ranks.use_fresh_process(monkeypatch)
    yield
    glt_ranks.leave()
