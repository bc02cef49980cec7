import multiprocessing
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from halohop.linux import process_descriptor
from halohop.loading.worker_pipe import WorkerPipe


@pytest.fixture
def ends() -> Iterator[tuple[WorkerPipe, WorkerPipe]]:
    near, far = (WorkerPipe(end, process_descriptor(os.getpid())) for end in socket.socketpair())
    yield near, far
    near.close()
    far.close()


@pytest.mark.parametrize("size", [0, 1, 10_000_000])
def test_messages_arrive_whole_and_in_order(ends, size):
    near, far = ends
    messages = [os.urandom(size), b"", b"last"]
    sender = threading.Thread(target=lambda: [near.send(message) for message in messages])
    sender.start()
    assert [far.receive() for _ in messages] == [(message, None) for message in messages]
    sender.join(60)


def test_descriptors_travel_with_their_message(ends):
    near, far = ends
    near.send(b"plain")
    with open(os.memfd_create("halohop"), "w+b") as file:  # noqa: PTH123
        file.write(b"content")
        file.flush()
        near.send(b"with a file", file.fileno())
    near.send(b"plain again")
    assert far.receive() == (b"plain", None)
    message, descriptor = far.receive()
    assert message == b"with a file"
    assert os.pread(descriptor, 100, 0) == b"content"
    os.close(descriptor)
    assert far.receive() == (b"plain again", None)


def test_cutting_wakes_who_waits_on_either_side(ends):
    heard = []
    waiting = [threading.Thread(target=lambda end=end: heard.append(end.receive())) for end in ends]
    for thread in waiting:
        thread.start()
    ends[0].cut()
    for thread in waiting:
        thread.join(60)
    assert heard == [None, None]
    with pytest.raises(OSError, match="Broken pipe"):
        ends[1].send(b"too late")
    ends[0].cut()


def test_a_peer_that_is_gone_is_noticed_though_its_socket_is_still_open():
    """As when a process that was forked meanwhile holds a copy of it."""
    near, far = socket.socketpair()
    with far:
        peer = multiprocessing.get_context("fork").Process(target=lambda: far.sendall(b"\5" + b"\0" * 7 + b"whole" + b"\5"))
        peer.start()
        end = WorkerPipe(near, process_descriptor(peer.pid))
        assert end.receive() == (b"whole", None)
        assert end.receive() is None  # it ended in the middle of a header
        peer.join(60)
        assert peer.exitcode == 0
        assert end.receive() is None
        end.close()
