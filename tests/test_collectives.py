import logging
import threading

import pytest
import torch
import torch.distributed as dist

from halohop import collectives
from halohop.world import World
from tests.support.deadlines import within


@pytest.fixture
def quick_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "LEAVE_S", 0.1)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)


def group() -> None:
    with collectives.process_group(World(rank=0, size=2), torch.device("cpu"), 5):
        pass


def test_a_collective_of_a_lost_peer_does_not_keep_a_rank(
    quick_group: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """gloo waits for what is under way, up to the deadline of each: minutes after the other ranks are gone."""
    answered = threading.Event()
    monkeypatch.setattr(dist, "destroy_process_group", lambda: answered.wait(within(60)))
    with caplog.at_level(logging.WARNING):
        group()
    assert "left the process group behind" in caplog.text
    answered.set()


def test_a_failure_to_leave_is_seen(quick_group: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise LookupError("no group")

    monkeypatch.setattr(dist, "destroy_process_group", fail)
    with pytest.raises(LookupError, match="no group"):
        group()
