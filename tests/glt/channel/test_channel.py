"""Messages between processes: whole, in order, bounded, and no wait without an end."""

import os
import threading
from pathlib import Path

import pytest
import torch

import halohop.glt as glt
from halohop.errors import InputError, MessageTooLargeError
from halohop.glt.channel import MpChannel, QueueTimeoutError, ShmChannel, shm_channel
from tests.support.forked import forkserver


def _send(channel: glt.channel.ChannelBase, count: int) -> None:
    """What a sampling process does: it sends, and ends."""
    for number in range(count):
        channel.send({"ids": torch.arange(number, number + 3), "half": torch.full((2,), number, dtype=torch.float16)})


@pytest.mark.parametrize("kind", [ShmChannel, MpChannel])
def test_messages_of_a_process_that_has_ended_are_received_in_order(kind: type[ShmChannel] | type[MpChannel]) -> None:
    channel = kind()
    sender = forkserver().Process(target=_send, args=(channel, 3))
    sender.start()
    sender.join(60)
    assert sender.exitcode == 0
    kept = [channel.recv() for _ in range(3)]
    for number, message in enumerate(kept):
        assert message["ids"].tolist() == [number, number + 1, number + 2]
        assert message["half"].dtype == torch.float16
        assert message["half"].tolist() == [number, number]
    kept[0]["ids"] += 1  # a received message belongs to its receiver
    assert kept[0]["ids"].tolist() == [1, 2, 3]


def test_an_empty_channel_times_out() -> None:
    channel = ShmChannel()
    assert channel.empty()
    with pytest.raises(QueueTimeoutError, match="stayed empty"):
        channel.recv(timeout_ms=20)
    channel.send({"x": torch.ones(1)})
    assert not channel.empty()
    assert channel.recv(timeout_ms=1000)["x"].tolist() == [1]
    with pytest.raises(QueueTimeoutError):
        MpChannel().recv(timeout=0.02)


def test_a_full_channel_times_out_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shm_channel, "_SECONDS", 0.05)
    by_count, by_bytes = ShmChannel(2), ShmChannel(10, "1KB")
    rows = torch.zeros(100)  # 400 bytes, and the file's head
    for channel in (by_count, by_bytes):
        channel.send({"x": rows})
        if channel is by_count:
            channel.send({"x": rows})
        with pytest.raises(QueueTimeoutError, match="full"):
            channel.send({"x": rows + 1})
        assert channel.recv()["x"].equal(rows)
        channel.send({"x": rows + 2})
    assert [by_count.recv()["x"][0].item() for _ in range(2)] == [0, 2]


def test_a_sender_waits_for_room() -> None:
    channel = ShmChannel(1)
    sender = threading.Thread(target=_send, args=(channel, 4))
    sender.start()
    got = [int(channel.recv()["ids"][0]) for _ in range(4)]
    sender.join(10)
    assert got == [0, 1, 2, 3]


def test_messages_that_cannot_be_sent() -> None:
    channel = ShmChannel(shm_size="1KB")
    with pytest.raises(MessageTooLargeError, match=r"4 KiB does not fit shm_size=1 KiB"):
        channel.send({"x": torch.zeros(1024)})
    with pytest.raises(InputError, match="list 'x'"):
        channel.send({"x": [1]})  # type: ignore[dict-item]
    channel.send({"x": torch.zeros(10**6)[:3]})  # of a view its own rows are sent
    assert channel.recv()["x"].untyped_storage().nbytes() < 10**5
    with pytest.raises(InputError, match="capacity=0"):
        ShmChannel(0)
    with pytest.raises(InputError, match="'1 G'"):
        ShmChannel(1, "1 G")
    with pytest.raises(InputError, match="GPU"):
        channel.pin_memory()


def test_nothing_stays_in_shared_memory() -> None:
    channel = ShmChannel()
    channel.send({"x": torch.ones(1)})
    mine = f"halohop_{os.getpid()}_*"
    before = set(Path("/dev/shm").glob(mine))
    del channel
    assert len(before - set(Path("/dev/shm").glob(mine))) == 1
