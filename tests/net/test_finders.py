"""Servers that are found by a callable: all may start at once on free ports, and all may move at once."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

import halohop
from halohop.errors import InputError, PeerLostError
from halohop.net.finders import Announcer, Finder, Folder, Listed, Name, Store, finder_of, named_servers
from halohop.net.serve import Server
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits
from tests.support.deadlines import within

LIMITS = Limits(call_seconds=60, attempt_seconds=0.3, connect_seconds=30)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finders") / "parts"
    halohop.partition(ring(400), path, num_parts=3, method="random")
    return path


def loader(graph: halohop.Graph) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, num_workers=2)


def rows(batches) -> list[tuple]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in batches]


@pytest.fixture(scope="module")
def undisturbed(parts) -> list[tuple]:
    with halohop.open(parts) as graph:
        return rows(loader(graph))


@pytest.fixture(params=["folder", "store"])
def finder(request, tmp_path) -> Iterator[Finder]:
    if request.param == "folder":
        yield Folder(path=tmp_path / "servers")
        return
    yield Store(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)))


@pytest.mark.parametrize(
    ("finder", "sampling"),
    [
        ("folder", "servers"),
        ("store", "client"),
        pytest.param("folder", "client", marks=pytest.mark.full),
        pytest.param("store", "servers", marks=pytest.mark.full),
    ],
    indirect=["finder"],
)
def test_all_servers_start_at_once_and_move_at_once(parts, undisturbed, finder, sampling):
    """No process is given an address. Both servers end in mid-epoch and are there again at other ports."""
    with ExitStack() as stack:

        def begin() -> list[Server]:
            shares = ([0], [1, 2])
            options = {"peers": finder, "token": TOKEN, "limits": LIMITS}
            return [stack.enter_context(halohop.serve(parts, partitions=share, **options)) for share in shares]

        late: list[Server] = []
        timer = threading.Timer(0.5, lambda: late.extend(begin()))  # the client comes first
        timer.start()
        with halohop.connect(finder, token=TOKEN, limits=LIMITS, sampling=sampling, deadline=30) as graph:
            timer.join()
            got, addresses = [], {server.address for server in late}
            for number, batch in enumerate(loader(graph)):
                got.append(batch)
                if number == 2:
                    for server in late:
                        server.close()
                    moved = time.monotonic()
                    assert not addresses & {server.address for server in begin()}
            assert rows(got) == undisturbed
            assert time.monotonic() - moved < within(20)
        assert len(finder()) == 2
    assert list(finder()) == []


def test_a_folder_forgets_servers_that_were_killed_once_others_went_on(tmp_path):
    folder = Folder(path=tmp_path, forget_seconds=10)
    for name, age in (("killed", 100), ("lives", 5), ("newest", 0)):
        folder.announce(name, f"{name}:1")
        os.utime(tmp_path / f"{name}.server", (time.time() - age,) * 2)
    assert folder() == ["lives:1", "newest:1"]
    folder.withdraw("newest")
    folder.withdraw("newest")
    assert folder() == ["lives:1"]


def test_a_store_has_many_servers():
    store = dist.HashStore()
    one, other = Store(store), Store(store)
    assert one() == []
    one.announce("a", "a:1")
    other.announce("b", "b:1")
    other.announce("b", "b:2")
    assert one() == other() == ["a:1", "b:2"]
    one.withdraw("a")
    assert other() == ["b:2"]


def test_a_name_is_all_its_addresses(monkeypatch):
    found = [(None, None, None, None, (address, 5510)) for address in ("10.0.0.1", "10.0.0.2")]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    assert Name(host="servers", port=5510)() == ["10.0.0.1:5510", "10.0.0.2:5510"]
    monkeypatch.undo()
    assert Name(host="no such host", port=1)() == []
    assert not isinstance(Name(host="servers", port=1), Announcer)


def test_no_server_in_time_names_the_finder(tmp_path):
    with pytest.raises(PeerLostError, match=r"Folder\(path=.*\) found no server within 0\.5 s"):
        halohop.connect(Folder(path=tmp_path), token=TOKEN, limits=LIMITS, deadline=0.5)


def test_what_is_no_finder_is_refused():
    with pytest.raises(InputError, match="is no list of addresses"):
        finder_of("10.0.0.7:5510")
    assert finder_of(["a:1"]) == Listed(addresses=("a:1",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a:5510,b:5510", ("a:5510", "b:5510")),
        ("folder:servers", Folder(path="servers")),
        ("dns:graph:5510", Name(host="graph", port=5510)),
        ("dns:[fd00::7]:5510", Name(host="fd00::7", port=5510)),
        ("a:1,folder:5510", ("a:1", "folder:5510")),
        ("folder:5510", ("folder:5510",)),
        ("dns:5510", ("dns:5510",)),
    ],
)
def test_an_option_names_servers_or_where_they_are_found(text, expected):
    assert named_servers(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("folder:", "names no folder"), ("dns:graph", "'graph' is not an address"), ("dns:graph:0", "no port")],
)
def test_an_option_that_names_no_place_is_refused(text, complaint):
    with pytest.raises(InputError, match=complaint):
        named_servers(text)
