"""Channels of GLT are channels of halohop, by its arguments."""

import pytest
import torch

from halohop.errors import InputError, MessageTooLargeError
from halohop.glt.channel import ChannelBase, MpChannel, QueueTimeoutError, ShmChannel


@pytest.mark.parametrize("channel", [ShmChannel, MpChannel])
def test_messages_are_received_in_order(channel: type[ShmChannel] | type[MpChannel]) -> None:
    line: ChannelBase = channel()
    for number in range(3):
        line.send({"ids": torch.tensor([number])})
    assert [line.recv()["ids"].item() for _ in range(3)] == [0, 1, 2]


def test_waits_end() -> None:
    channel = ShmChannel(2)
    assert channel.empty()
    with pytest.raises(QueueTimeoutError, match="stayed empty"):
        channel.recv(timeout_ms=20)
    channel.send({"x": torch.ones(1)})
    assert not channel.empty()
    full = MpChannel(maxsize=1)
    full.send({"x": torch.ones(1)})
    with pytest.raises(QueueTimeoutError, match="full"):
        full.send({"x": torch.ones(1)}, timeout=0.02)
    assert full.recv()["x"].tolist() == [1]
    with pytest.raises(QueueTimeoutError):
        full.recv(timeout=0.02)


def test_what_does_not_fit() -> None:
    with pytest.raises(MessageTooLargeError, match="4 KiB does not fit"):
        ShmChannel(1, "1KB").send({"x": torch.zeros(1024)})
    with pytest.raises(InputError, match="'1 G'"):
        ShmChannel(1, "1 G")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="GPU"):
            ShmChannel().pin_memory()
