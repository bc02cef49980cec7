"""The example whose ranks are spawned by a script, on two hosts."""

import re
from pathlib import Path

import pytest

from tests.support.deadlines import within
from tests.support.hosts import Host

EXAMPLE = Path(__file__).parents[2] / "examples" / "spawned.py"
SECRET = {"HALOHOP_TOKEN": "a secret of these tests only"}


@pytest.mark.full
@pytest.mark.timeout(900)
def test_two_ranks_on_each_of_two_hosts(network: list[Host]) -> None:
    """The second host starts first, and has the rank that keeps no store; gloo finds the way between the hosts by itself."""
    first, second = network[:2]
    there = second.start(EXAMPLE, "--master", first.address, "--port", 29500, "--ranks", 3, 1, env=SECRET)
    here = first.start(EXAMPLE, "--master", first.address, "--port", 29500, "--ranks", 0, 2, env=SECRET)
    out, err = here.communicate(timeout=within(60))
    assert here.returncode == 0, err
    said, err = there.communicate(timeout=within(30))
    assert (there.returncode, said) == (0, ""), err
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss (\d\.\d+), 24 batches with x and y", out)]
    assert len(losses) == 5
    assert losses[-1] < 0.4 * losses[0]
