"""Encryption as users turn it on: by the environment, by a token, by the command line."""

import os
from contextlib import closing
from pathlib import Path

import pytest

import halohop
from halohop.errors import AuthenticationError
from halohop.net.messages import server_codec
from halohop.store.requests import FetchRequest
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, hosts
from halohop.transport import Limits, Token, connect
from tests.support.forked import Forked

SECRET = TOKEN.key.decode()
SEALED = Token(SECRET, encrypt=True)
LIMITS = Limits(call_seconds=60, attempt_seconds=5, connect_seconds=30)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encrypted") / "parts"
    halohop.partition(ring(300), path, num_parts=2, method="random")
    return path


def told(graph) -> list[tuple]:
    loader = halohop.NeighborLoader(graph, [3, 2], batch_size=20, shuffle=True, seed=2)
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in loader]


@pytest.fixture(scope="module")
def expected(parts) -> list[tuple]:
    with halohop.open(parts) as graph:
        return told(graph)


def test_hosts_that_share_an_environment(parts, expected, monkeypatch):
    monkeypatch.setenv("HALOHOP_TOKEN", SECRET)
    monkeypatch.setenv("HALOHOP_ENCRYPT", "1")
    with hosts(parts, [(0,), (1,)], token=None, limits=LIMITS) as graphs:
        server = graphs[0]._connections.server
        assert server is not None
        assert told(graphs[0]) == expected
        with (
            connect(server.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as channel,
            pytest.raises(AuthenticationError, match="HALOHOP_ENCRYPT"),
        ):
            channel.call(FetchRequest(queries=()))


def test_the_command_line(parts, expected):
    command = ["serve", str(parts), "--listen", "127.0.0.1:0", "--encrypt"]
    with closing(Forked("halohop.__main__", command, os.environ | {"HALOHOP_TOKEN": SECRET})) as process:
        try:
            address = process.stderr.readline().split()[-1]
            with halohop.connect([address], token=SEALED, limits=LIMITS) as graph:
                assert told(graph) == expected
            with pytest.raises(AuthenticationError, match="HALOHOP_ENCRYPT"):
                halohop.connect([address], token=TOKEN, limits=LIMITS)
        finally:
            process.kill()
            process.wait(60)
