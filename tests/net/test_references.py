"""Graphs, loaders and samplers in another process: opened there by a reference, which holds no secret."""

import multiprocessing
import os
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.loader import NodeLoader

import halohop
from halohop import HalohopSampler, NeighborLoader, World
from halohop.errors import AuthenticationError, InputError
from halohop.net.finders import Folder
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, hosts
from halohop.transport import Limits
from tests.support.forked import forkserver

LIMITS = Limits(call_seconds=30, attempt_seconds=2, connect_seconds=20)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("references") / "parts"
    halohop.partition(ring(400), path, num_parts=3, method="random")
    return path


@contextmanager
def local(parts: Path) -> Iterator[halohop.Graph]:
    with halohop.open(parts) as graph:
        yield graph


@contextmanager
def host(parts: Path) -> Iterator[halohop.Graph]:
    with hosts(parts, [[0], [1, 2]], limits=LIMITS) as graphs:
        yield graphs[0]


@contextmanager
def client(parts: Path, sampling: str = "client") -> Iterator[halohop.Graph]:
    with (
        halohop.serve(parts, token=TOKEN) as server,
        halohop.connect([server.address], token=TOKEN, sampling=sampling, limits=LIMITS) as graph,
    ):
        yield graph


@contextmanager
def found(parts: Path) -> Iterator[halohop.Graph]:
    folder = Folder(path=parts.parent / "servers")
    with halohop.serve(parts, token=TOKEN, peers=folder), halohop.connect(folder, token=TOKEN, limits=LIMITS) as graph:
        yield graph


PLACES = {"local": local, "host": host, "client": client, "servers": lambda parts: client(parts, "servers"), "found": found}


def loader(graph: halohop.Graph) -> NeighborLoader:
    return NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, run="inline")


def rows(batches: Any) -> list[tuple]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in batches]


@pytest.fixture(scope="module")
def expected(parts) -> list[tuple]:
    with halohop.open(parts) as graph:
        return rows(loader(graph))


@pytest.mark.parametrize("place", PLACES)
def test_graphs_loaders_and_samplers_pickle(parts, expected, monkeypatch, place):
    monkeypatch.setenv("HALOHOP_TOKEN", TOKEN.key.decode())
    with PLACES[place](parts) as graph, ExitStack() as stack:
        begun = loader(graph)
        steps = iter(begun)
        first = [next(steps), next(steps)]
        reference = graph.reference()
        sent = pickle.dumps((reference, graph, begun, HalohopSampler(graph, [3, 2], seed=5)))
        assert TOKEN.key not in sent
        again, copy, went_on, sampler = pickle.loads(sent)
        other = stack.enter_context(again.open())
        stack.enter_context(copy)
        assert went_on.data is copy
        stack.enter_context(sampler.graph)
        for one in (other, copy):
            assert rows(loader(one)) == expected
        assert rows(first) + rows(went_on) == expected
        ids = torch.arange(20)
        batches = [
            next(iter(NodeLoader(ring_data(), one, input_nodes=ids, batch_size=20)))
            for one in (sampler, HalohopSampler(graph, [3, 2], seed=5))
        ]
        assert torch.equal(batches[0].n_id, batches[1].n_id)
        assert set(copy.parts_here) == set(graph.parts_here)


def ring_data() -> Any:
    from torch_geometric.data import Data

    return Data(num_nodes=400, edge_index=torch.zeros(2, 0, dtype=torch.long))


def test_the_token_stays_here(parts, monkeypatch):
    monkeypatch.delenv("HALOHOP_TOKEN", raising=False)
    with client(parts) as graph:
        sent = pickle.dumps(graph)
        with pytest.raises(AuthenticationError):
            pickle.loads(sent)
        monkeypatch.setenv("HALOHOP_TOKEN", "another secret, that is wrong")
        with pytest.raises(AuthenticationError):
            pickle.loads(sent)


def test_a_folder_opened_with_a_world_is_opened_with_it_elsewhere(parts, expected, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    with halohop.open(parts, world=World()) as graph, pickle.loads(pickle.dumps(graph)) as sent:
        assert rows(loader(sent)) == expected


def test_what_lies_in_memory_has_no_reference():
    from halohop.cluster.graph import in_memory

    with pytest.raises(InputError, match="cannot be sent to another process; send"):
        in_memory(ring(10)).reference()


def count(begun: NeighborLoader, graph: halohop.Graph, answers: Connection) -> None:
    with graph:
        answers.send((rows(begun), graph.num_nodes))


def count_sent(token: str, sent: bytes, answers: Connection) -> None:
    """The environment of a process that is forked is that of its server, which other tests may have started."""
    os.environ["HALOHOP_TOKEN"] = token
    count(*pickle.loads(sent), answers)


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.full), "forkserver"])
def test_another_process_goes_through_a_loader(parts, expected, monkeypatch, method):
    token = TOKEN.key.decode()
    monkeypatch.setenv("HALOHOP_TOKEN", token)
    with client(parts, "servers") as graph:
        begun = loader(graph)
        if method == "spawn":
            context, target, args = multiprocessing.get_context(method), count, (begun, graph)
        else:
            context, target, args = forkserver(), count_sent, (token, pickle.dumps((begun, graph)))
        received, answers = context.Pipe(duplex=False)
        process = context.Process(target=target, args=(*args, answers))
        process.start()
        answers.close()  # a process that fails is the end of the pipe
        assert received.recv() == (expected, 400)
        process.join(60)
        assert process.exitcode == 0
        received.close()
