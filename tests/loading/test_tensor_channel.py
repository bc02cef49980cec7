"""Messages between processes: whole, in order, bounded, and no wait without an end."""

import os
import threading
from pathlib import Path

import pytest
import torch

from halohop.errors import DeadlineExceededError, InputError, MessageTooLargeError
from halohop.hosts import TensorChannel
from tests.support.forked import forkserver


def _send(channel: TensorChannel, count: int) -> None:
    """What a process does that makes batches: it sends, and ends."""
    for number in range(count):
        channel.send({"ids": torch.arange(number, number + 3), "half": torch.full((2,), number, dtype=torch.float16)})


def test_messages_of_a_process_that_has_ended_are_received_in_order() -> None:
    channel = TensorChannel()
    sender = forkserver().Process(target=_send, args=(channel, 3))
    sender.start()
    sender.join(60)
    assert sender.exitcode == 0
    kept = [channel.receive() for _ in range(3)]
    for number, message in enumerate(kept):
        assert message["ids"].tolist() == [number, number + 1, number + 2]
        assert message["half"].dtype == torch.float16
        assert message["half"].tolist() == [number, number]
    kept[0]["ids"] += 1  # a received message belongs to its receiver
    assert kept[0]["ids"].tolist() == [1, 2, 3]


def test_an_empty_channel_times_out_and_loses_nothing() -> None:
    channel = TensorChannel(timeout=0.02)
    assert channel.is_empty()
    with pytest.raises(DeadlineExceededError, match="stayed empty"):
        channel.receive()
    channel.send({"x": torch.ones(1)})
    assert not channel.is_empty()
    assert channel.receive(timeout=1)["x"].tolist() == [1]


def test_a_full_channel_times_out_and_goes_on() -> None:
    by_count, by_bytes = TensorChannel(capacity=2, timeout=0.05), TensorChannel(capacity=10, max_bytes=1024, timeout=0.05)
    rows = torch.zeros(100)  # 400 bytes, and the file's head
    for channel in (by_count, by_bytes):
        channel.send({"x": rows})
        if channel is by_count:
            channel.send({"x": rows})
        with pytest.raises(DeadlineExceededError, match="full"):
            channel.send({"x": rows + 1})
        assert channel.receive()["x"].equal(rows)
        channel.send({"x": rows + 2})
    assert [by_count.receive()["x"][0].item() for _ in range(2)] == [0, 2]


def test_a_sender_waits_for_room() -> None:
    channel = TensorChannel(capacity=1)
    sender = threading.Thread(target=_send, args=(channel, 4))
    sender.start()
    got = [int(channel.receive()["ids"][0]) for _ in range(4)]
    sender.join(10)
    assert got == [0, 1, 2, 3]


def test_several_senders_and_receivers_lose_no_message() -> None:
    channel, got = TensorChannel(capacity=3), []
    senders = [threading.Thread(target=_send, args=(channel, 20)) for _ in range(2)]
    receivers = [
        threading.Thread(target=lambda: got.extend(int(channel.receive()["ids"][0]) for _ in range(20))) for _ in range(2)
    ]
    for thread in (*senders, *receivers):
        thread.start()
    for thread in (*senders, *receivers):
        thread.join(60)
    assert sorted(got) == sorted([*range(20), *range(20)])
    assert channel.is_empty()


def test_messages_that_cannot_be_sent() -> None:
    channel = TensorChannel(max_bytes=1024)
    with pytest.raises(MessageTooLargeError, match=r"4 KiB does not fit a channel of 1 KiB"):
        channel.send({"x": torch.zeros(1024)})
    with pytest.raises(InputError, match="list 'x'"):
        channel.send({"x": [1]})
    channel.send({"x": torch.zeros(10**6)[:3]})  # of a view its own rows are sent
    assert channel.receive()["x"].untyped_storage().nbytes() < 10**5
    with pytest.raises(InputError, match="capacity=0"):
        TensorChannel(capacity=0)


def test_nothing_stays_in_shared_memory() -> None:
    channel = TensorChannel()
    channel.send({"x": torch.ones(1)})
    mine = f"halohop_{os.getpid()}_*"
    before = set(Path("/dev/shm").glob(mine))
    del channel
    assert len(before - set(Path("/dev/shm").glob(mine))) == 1
