"""What a build may take, as users say it and as machines have it."""

import pytest

from halohop.errors import InputError
from halohop.partitioning.planning import budget
from halohop.partitioning.planning.budget import LEAST, Budget


@pytest.mark.parametrize(
    ("memory", "size"), [("4GB", 4 * 10**9), ("512MiB", 2**29), (2**30, 2**30), ("1.5 GiB", 3 * 2**29), (str(2**30), 2**30)]
)
def test_sizes_that_people_write(memory: str | int, size: int) -> None:
    assert Budget.parse(memory).bytes == size
    assert Budget.parse(Budget.parse(memory)).bytes == size


@pytest.mark.parametrize("memory", ["4 parsecs", "", "lots", "-1GB", -5, True, 1.5, [1]])
def test_what_is_no_size_is_refused_by_name(memory: object) -> None:
    with pytest.raises(InputError, match=r"memory=.* is no size; (write|give) a number"):
        Budget.parse(memory)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [0, "1MB", LEAST - 1])
def test_too_little_is_refused_with_the_least(memory: str | int) -> None:
    with pytest.raises(InputError, match=r"memory=.* is too little to build with; give at least 64 MiB"):
        Budget.parse(memory)


def test_half_of_what_is_available_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, size in ((6 * 2**30, 3 * 2**30), (2**20, LEAST)):
        monkeypatch.setattr(budget, "available_bytes", lambda available=available: available)
        assert Budget.parse(None) == Budget(bytes=size)
    assert str(Budget(bytes=3 * 2**30)) == "3 GiB"
