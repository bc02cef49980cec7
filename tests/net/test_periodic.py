"""Actions at intervals."""

import torch

from halohop.errors import TransportError
from halohop.net.periodic import PeriodicThread


def test_actions_that_fail_are_tried_again(caplog):
    times = torch.zeros(1)

    def fail_once() -> None:
        times.add_(1)
        if times == 1:
            raise TransportError("for once")

    with PeriodicThread(0.01, fail_once, name="test") as every:
        while times < 3:
            every._closed.wait(0.01)
    assert "for once" in caplog.text
    seen = int(times)
    every.close()
    assert int(times) == seen
