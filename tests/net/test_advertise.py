"""Servers that others reach at another address than that where they listen, as behind a published port."""

import json
import selectors
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import halohop
from halohop.errors import InputError
from halohop.hosts import Limits
from halohop.net.interfaces import reached_as
from halohop.net.messages import MeetRequest, server_codec
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, hosts
from halohop.transport import connect

LIMITS = Limits(call_seconds=60, attempt_seconds=0.3, connect_seconds=30)


def server_at(address: list[str]) -> socket.socket | None:
    """A connection to the first address. None before an address is given and after its server has ended: peers try again."""
    if not address:
        return None
    host, port = address[0].removeprefix("tcp://").split(":")
    try:
        return socket.create_connection((host, int(port)))
    except ConnectionRefusedError:
        return None


@contextmanager
def published(address: list[str]) -> Iterator[tuple[str, list[int]]]:
    """A port that passes everything on to the first address of a list, which may be given later; and how many connected."""
    connected: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener, selectors.DefaultSelector() as selector:
        end, over = socket.socketpair()
        selector.register(listener, selectors.EVENT_READ)
        selector.register(over, selectors.EVENT_READ)

        def run() -> None:
            while True:
                for key, _ in selector.select():
                    if key.fileobj is over:
                        return
                    if key.fileobj is listener:
                        near, _ = listener.accept()
                        far = server_at(address)
                        if far is None:
                            near.close()
                            continue
                        connected.append(1)
                        selector.register(near, selectors.EVENT_READ, far)
                        selector.register(far, selectors.EVENT_READ, near)
                        continue
                    data = b""
                    with suppress(OSError):
                        data = key.fileobj.recv(2**16)
                        key.data.sendall(data)
                    if not data:
                        for one in (key.fileobj, key.data):
                            with suppress(KeyError, ValueError):
                                selector.unregister(one)
                            one.close()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", connected
        finally:
            end.close()
            thread.join(60)
            for key in [*selector.get_map().values()]:
                if isinstance(key.data, socket.socket):
                    key.fileobj.close()
            over.close()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advertise") / "parts"
    halohop.partition(ring(200), path, num_parts=2, method="random")
    return path


@pytest.mark.timeout(60)
def test_others_are_sent_to_the_address_that_a_server_advertises(parts):
    behind: list[str] = []
    with published(behind) as (address, connected), halohop.serve(parts, partitions=[0], token=TOKEN, limits=LIMITS) as first:
        given = {"peers": [first.address], "token": TOKEN, "limits": LIMITS}
        with halohop.serve(parts, partitions=[1], advertise=address, **given) as second:
            assert second.address == f"tcp://{address}"
            behind.append(second._listener.address)
            with halohop.connect([first.address], token=TOKEN, limits=LIMITS, sampling="client") as graph:
                assert graph.schema.nodes["node"].count == 200
                assert connected
                with connect(first.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel:
                    assert channel.call(MeetRequest()).addresses == (address,)


def test_port_0_stands_for_the_port_of_the_server(parts):
    with halohop.serve(parts, token=TOKEN, listen="127.0.0.1:0", advertise="localhost:0") as server:
        assert server.address == server._listener.address.replace("127.0.0.1", "localhost")
        with halohop.connect([server.address], token=TOKEN) as graph:
            assert graph.book.num_parts == 2


@pytest.mark.parametrize(
    ("advertised", "complaint"),
    [
        ("0.0.0.0:5510", "advertise='0.0.0.0:5510' means all interfaces; give a name or an address"),
        ("[::]:5510", "means all interfaces"),
        ("graph-0", "'graph-0' is not an address"),
        (":5510", "':5510' is not an address"),
    ],
)
def test_what_others_cannot_find_is_refused(advertised: str, complaint: str, parts):
    with pytest.raises(InputError, match=complaint.replace("[", r"\[")):
        reached_as(advertised, "0.0.0.0:5510")
    with pytest.raises(InputError, match=complaint.replace("[", r"\[")):
        halohop.serve(parts, token=TOKEN, advertise=advertised)


def test_hosts_of_one_run_are_given_the_address_that_each_advertises(parts):
    board = dist.HashStore()
    with hosts(parts, [[0], [1]], board=board, advertise="localhost:0") as graphs:
        cards = [json.loads(board.get(f"halohop/1/host/{host}")) for host in range(2)]
        assert all(card["address"].startswith("tcp://localhost:") for card in cards)
        assert len({card["address"] for card in cards}) == 2
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda graph: graph.locate(torch.arange(200)).numel(), graphs))
        assert found == [200, 200]
