"""What tests of the face share."""

import pytest

from halohop.glt.notes import note


@pytest.fixture(autouse=True)
def notes_again() -> None:
    """Each test sees the notes of its own calls, which are given once a process otherwise."""
    note.cache_clear()


@pytest.fixture(params=["in", "out"])
def edge_dir(request: pytest.FixtureRequest) -> str:
    return str(request.param)
