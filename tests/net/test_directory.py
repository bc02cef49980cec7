"""Servers that know each other, and turn up elsewhere."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop.errors import ClusterError, InputError, PeerLostError, ProtocolError, RemoteError
from halohop.net.attendance import AttendRequest
from halohop.net.directory import PeerDirectory
from halohop.net.finders import Listed
from halohop.net.introductions import Introductions
from halohop.net.messages import DescribeRequest, MeetReply, MeetRequest, server_codec
from halohop.net.serve import Server
from halohop.net.servers import Servers
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses
from halohop.transport import Channel, Identity, Limits, connect, serve
from tests.support.deadlines import within

LIMITS = Limits(call_seconds=60, attempt_seconds=0.3, connect_seconds=30)
PATIENCE = 60.0
IDENTITY = Identity(dataset="d", parts=(0,))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("acquaintances") / "parts"
    halohop.partition(ring(400), path, num_parts=3, method="random")
    return path


@pytest.fixture
def start(parts) -> Iterator[Callable[..., Server]]:
    """Starts a server of some partitions, with some others as peers."""
    with ExitStack() as stack:

        def begin(partitions: list[int], *peers: Server | str, path: Path = parts, **options: Any) -> Server:
            addresses = [peer if isinstance(peer, str) else peer.address for peer in peers]
            options = {"token": TOKEN, "limits": LIMITS, **options}
            return stack.enter_context(halohop.serve(path, partitions=partitions, peers=addresses, **options))

        yield begin


def known_to(server: Server) -> set[str]:
    with connect(server.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel:
        return {f"tcp://{address}" for address in channel.call(MeetRequest()).addresses}


def eventually(holds: Callable[[], bool]) -> None:
    until, pause = time.monotonic() + PATIENCE, threading.Event()
    while not holds():
        assert time.monotonic() < until, "it did not come to hold"
        pause.wait(0.05)


def loader(graph: halohop.Graph) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, num_workers=2)


def told(batches) -> list[tuple]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in batches]


@pytest.fixture(scope="module")
def undisturbed(parts) -> list[tuple]:
    with halohop.open(parts) as graph:
        return told(loader(graph))


def test_servers_tell_each_other_on_while_they_live(start):
    first = start([0])  # knows nobody
    second, third = start([1], first), start([2], first)
    eventually(lambda: known_to(first) == {second.address, third.address})
    eventually(lambda: known_to(second) == {first.address, third.address})
    eventually(lambda: known_to(third) == {first.address, second.address})


def test_one_that_is_gone_is_forgotten_after_the_lease(start):
    first = start([0], keeping=halohop.net.service.Keeping(lease_seconds=1.0))
    second = start([1], first)
    eventually(lambda: known_to(first) == {second.address})
    second.close()
    eventually(lambda: known_to(first) == set())


def test_what_nobody_answers_for_is_not_told_on(start, parts, tmp_path):
    """Addresses that are none, or where nobody is, or the server itself, or another data set."""
    halohop.partition(ring(400), tmp_path / "other", num_parts=3, method="random", seed=1)
    first = start([0])
    start([1], first, path=tmp_path / "other")
    with connect(first.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel:
        for address in (
            *free_addresses(1),
            first.address.removeprefix("tcp://"),
            f"localhost:{first.address.rpartition(':')[2]}",
        ):
            channel.call(MeetRequest(address=address))
        with pytest.raises(RemoteError, match="is not an address"):
            channel.call(MeetRequest(address="nowhere"))
    second = start([1], first)
    eventually(lambda: known_to(first) == {second.address})
    eventually(lambda: known_to(second) == {first.address})


def test_where_a_server_that_listens_everywhere_is_found(start):
    first = start([0])
    second = start([1], first, listen="0.0.0.0:0")
    port = second.address.rpartition(":")[2]
    eventually(lambda: known_to(first) == {f"tcp://127.0.0.1:{port}"})


@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_trainers_find_servers_that_they_were_not_told_of(start, undisturbed, sampling):
    """And servers find others to sample with, though these were started later and are no peers of theirs."""
    first = start([0])
    second = start([1, 2], first)
    eventually(lambda: known_to(first) == {second.address})
    with halohop.connect([first.address], token=TOKEN, limits=LIMITS, sampling=sampling) as graph:
        assert told(loader(graph)) == undisturbed


@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_a_server_that_comes_back_elsewhere_is_found(start, undisturbed, sampling):
    one, other = free_addresses(2)
    first, second = start([0], other, listen=one), start([1, 2], one, listen=other)
    with halohop.connect([one, other], token=TOKEN, limits=LIMITS, sampling=sampling) as graph:
        got = []
        for number, batch in enumerate(loader(graph)):
            got.append(batch)
            if number == 2:
                second.close()
                start([1, 2], one)
        assert told(got) == undisturbed
    eventually(lambda: len(known_to(first)) >= 1)
    with halohop.connect([one, other], token=TOKEN, limits=LIMITS, sampling=sampling) as graph:  # it knows the old address alone
        assert told(loader(graph)) == undisturbed


def test_a_server_whose_peers_are_listed_knows_of_them_from_its_first_moment():
    """A client may ask it as soon as it listens, before it has met them."""
    where = Servers(finder=Listed(addresses=("127.0.0.1:9",)), token=TOKEN, limits=LIMITS)
    with PeerDirectory(where, lease_seconds=1) as fresh:
        assert fresh.knows_others
    with PeerDirectory(Servers(finder=Listed(addresses=()), token=TOKEN, limits=LIMITS), lease_seconds=1) as alone:
        assert not alone.knows_others


def test_rows_of_tables_are_lost_with_their_server(start):
    one, other = free_addresses(2)
    start([0], other, listen=one)
    second = start([1, 2], one, listen=other)
    with halohop.connect([one, other], token=TOKEN, limits=LIMITS) as graph:
        state = halohop.DistTensor(graph, (None,), name="state", node_type="node")
        state[torch.arange(400)] = 1
        second.close()
        start([1, 2], one)
        with pytest.raises(ClusterError, match=r"has no table 'state'.* it was started again, empty; .*--resume"):
            state[torch.arange(400)] = 2
        state.drop()
        state = halohop.DistTensor(graph, (None,), name="state", node_type="node")
        state[torch.arange(400)] = 3
        assert state[torch.arange(400)].tolist() == [3] * 400


def test_a_server_under_two_names_is_one(start):
    """Else the owner of its tables would be two."""
    first = start([0])
    second = start([1], first)
    eventually(lambda: known_to(second) == {first.address})
    late = threading.Timer(2.0, lambda: start([2], second))  # meanwhile the trainer is told of the first by its other name
    late.start()
    addresses = [first.address.replace("127.0.0.1", "localhost"), *free_addresses(1)]
    with halohop.connect(addresses, token=TOKEN, limits=LIMITS) as graph:
        late.join()
        assert len(set(graph.tables.owners.values())) == 3


@contextmanager
def silent() -> Iterator[str]:
    """The address of somebody who lets connections in and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_who_answers_is_not_left_however_slow(start):
    """A greeting is answered though a request is not: nobody else is asked. What was held would be missing there."""
    slow = MeetReply(server="slow", parts=(0,))
    other = MeetReply(server="other", parts=(0,))
    ended = threading.Event()

    def answer(about: MeetReply, others: tuple[str, ...]) -> Callable[[Any], Any]:
        def reply(request: Any) -> Any:
            if isinstance(request, MeetRequest):
                return MeetReply(server=about.server, parts=about.parts, addresses=others)
            ended.wait(PATIENCE)
            return about

        return reply

    with ExitStack() as stack:

        def listen(about: MeetReply, *others: str) -> str:
            handler = answer(about, others)
            return stack.enter_context(
                serve(handler, codec=server_codec(), token=TOKEN, limits=LIMITS, identity=IDENTITY)
            ).address

        stand_in = listen(other)
        slow_one, gone = listen(slow, stand_in), stack.enter_context(silent())
        stack.callback(ended.set)
        group = Servers(finder=Listed(addresses=(slow_one, gone)), token=TOKEN, limits=LIMITS)
        directory = stack.enter_context(PeerDirectory(group, dataset="d", lease_seconds=60))
        channels = [directory.channel(address) for address in (slow_one, gone)]
        for channel in channels:
            directory.ask_about(channel, IDENTITY)
            channel.submit(DescribeRequest())

        def moved(channel: Channel) -> bool:
            directory.search()
            return len(channel.addresses) > 1

        eventually(lambda: moved(channels[1]))
        assert channels[1].addresses[0] == stand_in
        assert not moved(channels[0])


@pytest.mark.parametrize("at_its_place", ["another_data_set", "other_partitions"])
def test_one_that_came_back_elsewhere_is_found_though_another_is_at_its_address(start, undisturbed, tmp_path, at_its_place):
    one, other = free_addresses(2)
    start([0], other, listen=one)
    second = start([1, 2], one, listen=other)
    with halohop.connect([one, other], token=TOKEN, limits=LIMITS, sampling="client") as graph:
        second.close()
        if at_its_place == "another_data_set":
            halohop.partition(ring(400), tmp_path / "other", num_parts=3, method="random", seed=1)
            start([1, 2], path=tmp_path / "other", listen=other)
        else:
            start([1], one, listen=other)
        start([1, 2], one)
        assert told(loader(graph)) == undisturbed


@pytest.mark.parametrize("places", [(1, 0), (1, 2)], ids=["swapped", "one_further"])
def test_servers_that_start_again_at_each_others_addresses_are_found(start, undisturbed, places):
    addresses = free_addresses(3)
    shares = [[0], [1, 2]]
    before = [start(share, *addresses, listen=address) for share, address in zip(shares, addresses, strict=False)]
    with halohop.connect(addresses, token=TOKEN, limits=LIMITS, sampling="client") as graph:
        for server in before:
            server.close()
        for share, place in zip(shares, places, strict=True):
            start(share, *addresses, listen=addresses[place])
        assert told(loader(graph)) == undisturbed


@pytest.mark.parametrize(
    "found",
    [
        OSError("the registry is away"),
        pytest.param("10.0.0.7:5510", marks=pytest.mark.full),  # the test below: all that are no list are refused alike
        None,
        pytest.param([5510], marks=pytest.mark.full),
    ],
    ids=str,
)
def test_a_finder_that_fails_later_on_does_not_end_the_search(start, undisturbed, found):
    first = start([0])
    second = start([1, 2], first)
    answers = iter([[first.address, second.address]])

    def find():
        for addresses in answers:
            return addresses
        if isinstance(found, Exception):
            raise found
        return found

    with halohop.connect(find, token=TOKEN, limits=LIMITS, sampling="client") as graph:
        second.close()
        start([1, 2], first)
        assert told(loader(graph)) == undisturbed


@pytest.mark.parametrize("found", ["10.0.0.7:5510", None, [5510], b"ab"])
def test_a_finder_that_returns_no_list_of_addresses_is_named(found):
    with pytest.raises(InputError, match="no list of addresses; return one"):
        halohop.connect(lambda: found, token=TOKEN, limits=LIMITS)


def test_a_server_waits_for_one_that_is_gone_and_comes_back_elsewhere(start):
    """Meanwhile it greets those that it knows, again and again; the one that is gone is none of these."""
    known = start([1])
    gone = start([2], known)
    eventually(lambda: gone.address in known_to(known))
    gone.close()
    asking = start([0], known)
    introductions = Introductions(asking.directory, attempt_seconds=0.3, deadline=PATIENCE, without=(0,))
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(introductions.wait)
        with pytest.raises(TimeoutError):
            found.result(1.0)
        start([2], known)
        assert [server.parts for server in found.result(PATIENCE)] == [(1,), (2,)]


def test_only_who_has_the_partitions_stands_in(start):
    one, other = free_addresses(2)
    start([0], other, listen=one)
    second = start([1, 2], one, listen=other)
    limits = Limits(call_seconds=3, attempt_seconds=0.3)
    with halohop.connect([one, other], token=TOKEN, limits=limits, sampling="client") as graph:
        second.close()
        start([1], one)
        with pytest.raises(PeerLostError, match="server 1"):
            told(loader(graph))


def test_peers_that_are_no_addresses_are_refused(start):
    with pytest.raises(InputError, match="'nowhere' is not an address"):
        start([0], "nowhere")


def test_a_partition_that_nobody_knows_of_is_named(start):
    seconds = within(1)
    with pytest.raises(ClusterError, match=rf"partitions \[2\] were found at no server within {seconds:g} s"):
        halohop.connect([start([0, 1]).address], token=TOKEN, limits=LIMITS, deadline=seconds)


def test_addresses_that_a_peer_reports_take_few_threads_and_descriptors(start):
    """Somebody listens at each of them, and answers nothing. A real server among them is found nevertheless."""
    first, hidden = start([0], limits=Limits(attempt_seconds=30.0)), start([1])
    with (
        socket.create_server(("0.0.0.0", 0), backlog=512) as listener,
        connect(first.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel,
    ):
        channel.call(MeetRequest())
        threads, descriptors = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
        addresses = [f"127.0.1.{number}:{listener.getsockname()[1]}" for number in range(200)]
        for address in [*addresses[:3], hidden.address, *addresses[3:]]:
            channel.call(MeetRequest(address=address.removeprefix("tcp://")))
        eventually(lambda: known_to(first) == {hidden.address})
        assert threading.active_count() <= threads + 12  # four connections, and what both servers begin meanwhile
        assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 40


def test_names_of_any_length_do_not_reach_the_server(start):
    server = start([0])
    with connect(server.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel:
        long = "x" * 2**21
        for request in (AttendRequest(client=long), AttendRequest(client="a", job=long), MeetRequest(address=long)):
            with pytest.raises(ProtocolError, match=r"malformed .*length <= 300"):
                channel.call(request)
        assert server.statistics()["clients"] == 0
