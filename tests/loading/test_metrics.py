"""Endpoints of real loaders and servers, scraped over HTTP."""

import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import halohop
from halohop.errors import InputError, TransportError
from halohop.loading.metrics import address_of, scrape
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("metrics") / "parts"
    halohop.partition(ring(400), path, num_parts=2, method="random")
    return path


def gauges(address: str) -> set[str]:
    """What an endpoint says may become less again."""
    with urlopen(f"http://{address}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return {line.split()[2].removeprefix("halohop_") for line in lines if line.startswith("# TYPE") and line.endswith("gauge")}


@pytest.mark.parametrize("sampling", ["client", "servers"])
def test_servers_and_trainers_tell_what_they_count(parts, sampling):
    addresses = free_addresses(2)
    with ExitStack() as stack:
        servers = [
            stack.enter_context(halohop.serve(parts, partitions=[part], listen=own, peers=[other], token=TOKEN))
            for part, (own, other) in enumerate((addresses, addresses[::-1]))
        ]
        graph = stack.enter_context(halohop.connect(addresses, token=TOKEN, sampling=sampling))
        loader = halohop.NeighborLoader(graph, [3, 2], batch_size=50, run="threads", num_workers=2)
        mine, its = (stack.enter_context(halohop.metrics(source, listen=":0")) for source in (loader, servers[1]))
        assert scrape(mine.address).sums.get("batches", 0) == 0
        list(loader)
        told, served = scrape(mine.address), scrape(its.address)
        assert told.sums == loader.statistics()
        now = {"backlog_batches", "backlog_ready", "backlog_bytes", "backlog_peak_bytes", "heaviest_batch_bytes"}
        now |= {"pool_idle_bytes", "transport_in_flight", "transport_waiting"}
        assert now | {"peer_in_flight", "peer_waiting"} <= gauges(mine.address)
        kept = {"kept_samplers", "kept_senders", "pool_idle_bytes", "transport_in_flight"}
        assert kept <= gauges(its.address)
        sums = {"batches", "local_rows", "draw_seconds", "wait_seconds", "transport_calls", "transport_bytes_sent", "pool_made"}
        assert not sums & (gauges(mine.address) | gauges(its.address))
        assert told.sums["batches"] == len(loader) == 8
        assert told.peers == loader.statistics_by_peer()
        assert set(told.peers) == {"server 0", "server 1"}
        assert all(peer["calls"] > 0 and peer["call_seconds"] > 0 for peer in told.peers.values())
        assert served.sums["transport_bytes_sent"] > 0
        assert 0 < served.sums["transport_calls"] <= servers[1].statistics()["transport_calls"]  # servers greet each other
        assert served.sums.get("batches", 0) == (4 if sampling == "servers" else 0)
        assert set(served.peers) == ({f"server {addresses[0]}"} if sampling == "servers" else set())


def test_what_prometheus_reads(parts):
    with halohop.open(parts) as graph:
        loader = halohop.NeighborLoader(graph, [3], batch_size=100, run="inline")
        list(loader)
        with halohop.metrics(loader, listen=":0") as endpoint:
            host, _, port = endpoint.address.rpartition(":")
            assert host == "127.0.0.1"
            with urlopen(f"http://{endpoint.address}/metrics", timeout=10) as reply:
                assert reply.headers["Content-Type"].startswith("text/plain")
                lines = reply.read().decode().splitlines()
            assert "# TYPE halohop_batches_total counter" in lines
            assert "halohop_batches_total 4.0" in lines
            assert "# TYPE halohop_backlog_ready gauge" in lines
            assert not any("_created" in line for line in lines)
            with pytest.raises(TransportError, match=f"no metrics at 127.0.0.1:{port}.*another --metrics"):
                halohop.metrics(loader, listen=endpoint.address)
        endpoint.close()
        with pytest.raises(TransportError, match="no metrics at"):
            scrape(endpoint.address, timeout=5)


def test_a_broken_source_answers_with_an_error_and_goes_on(parts):
    class Source:
        broken = True

        def statistics(self):
            if self.broken:
                raise OSError("gone")
            return {"batches": 1.0}

        def statistics_by_peer(self):
            return {}

    source = Source()
    with halohop.metrics(source, listen=":0") as endpoint:
        with pytest.raises((HTTPError, OSError)):
            urlopen(f"http://{endpoint.address}/metrics", timeout=10)
        source.broken = False
        assert scrape(endpoint.address).sums == {"batches": 1.0}


class Quiet:
    """Counts next to nothing."""

    def statistics(self):
        return {"batches": 1.0}

    def statistics_by_peer(self):
        return {}


@pytest.fixture
def endpoint():
    with halohop.metrics(Quiet(), listen=":0") as made:
        yield made


def connected(endpoint) -> socket.socket:
    host, _, port = endpoint.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def test_connections_that_say_nothing_are_few_and_do_not_keep_a_scrape_waiting(endpoint):
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(endpoint)) for _ in range(20)]
        assert scrape(endpoint.address, timeout=20).sums == {"batches": 1.0}
        for oldest in silent[:4]:
            assert oldest.recv(1) == b""
        silent[-1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(5) == b"HTTP/"


@pytest.mark.parametrize("said", [b"", b"GET /met"], ids=["nothing", "half a line"])
def test_connections_end_after_some_seconds(monkeypatch, endpoint, said):
    monkeypatch.setattr("halohop.loading.metrics._CONNECTION_SECONDS", 0.3)
    with connected(endpoint) as connection:
        connection.sendall(said)
        assert connection.recv(1) == b""
    assert scrape(endpoint.address, timeout=20).sums == {"batches": 1.0}


def test_connections_end_with_the_endpoint(endpoint):
    with connected(endpoint) as connection:
        assert scrape(endpoint.address, timeout=20).sums == {"batches": 1.0}
        endpoint.close()
        assert connection.recv(1) == b""


@pytest.mark.parametrize("text", ["9464", "host", "http://host:80", ":port", ":70000", "host:65536"])
def test_no_address(text):
    with pytest.raises(InputError, match="HOST:PORT"):
        address_of(text)


def test_a_stranger_is_no_endpoint():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TransportError, match="no metrics at"):
        scrape(f"127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)


def answered(url: str) -> int:
    try:
        with urlopen(url, timeout=10) as reply:
            return reply.status
    except HTTPError as error:
        with error:
            return error.code


def test_whether_a_server_lives_and_takes_requests(parts):
    with halohop.serve(parts, token=TOKEN) as server, halohop.metrics(server, listen=":0") as endpoint:
        assert [answered(f"http://{endpoint.address}/{path}") for path in ("healthz", "readyz", "metrics")] == [200] * 3
        assert server.drain(10)
        assert [answered(f"http://{endpoint.address}/{path}") for path in ("healthz", "readyz", "metrics")] == [200, 503, 200]
