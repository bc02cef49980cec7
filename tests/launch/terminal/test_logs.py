import logging
import re
from collections.abc import Iterator

import pytest

from halohop.launch.terminal import logs

LOG = logging.getLogger("halohop.some.module")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    logger = logging.getLogger("halohop")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_line_has_time_level_rank_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging.INFO, {"RANK": "3"})
    LOG.warning("lost %s", "a:1")
    LOG.debug("nothing")
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING rank 3 halohop\.some\.module: lost a:1\n"
    assert re.fullmatch(line, capsys.readouterr().err)


def test_configured_again_it_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging.INFO, {})
    logs.configure(logging.WARNING, {})
    LOG.info("unheard")
    LOG.error("heard")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("verbose", "quiet", "level"), [(0, False, 30), (1, False, 20), (2, False, 10), (9, False, 10), (1, True, 40)]
)
def test_options_choose_the_level(verbose: int, quiet: bool, level: int) -> None:
    logs.configure(logs.level_of(verbose=verbose, quiet=quiet), {})
    assert LOG.getEffectiveLevel() == level
    assert logs.level_of_trainers() == min(level, logging.INFO)
    assert logs.people().quiet == quiet
