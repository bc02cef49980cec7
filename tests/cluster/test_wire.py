"""What batches cost on the wire besides their features, in bytes; hops and rows of several of them are on their way at a time."""

import itertools
import threading
from collections.abc import Iterator

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.net.service import Service
from halohop.store.requests import FetchRequest, SampleRequest
from halohop.testing import worlds

NODES, DEGREE, WIDTH, BATCH = 6000, 30, 16, 256
OWNER = torch.randint(2, (NODES,), generator=torch.Generator().manual_seed(7))
FANOUTS = [15, 10, 5]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    draw = torch.Generator().manual_seed(3)
    graph = Data(
        x=torch.randn(NODES, WIDTH, generator=draw),
        y=torch.randint(47, (NODES,), generator=draw),
        edge_index=torch.randint(NODES, (2, NODES * DEGREE), generator=draw),
        train_mask=torch.rand(NODES, generator=draw) < 0.5,
        test_mask=torch.rand(NODES, generator=draw) < 0.5,
    )
    folder = tmp_path_factory.mktemp("wire") / "parts"
    halohop.partition(graph, folder, num_parts=2, method=OWNER)
    return folder


@pytest.fixture
def here(parts) -> Iterator[halohop.Graph]:
    with worlds.hosts(parts, [[0], [1]], cache=None) as (one, _):
        yield one


def loader(graph: halohop.Graph, batches: int, **options: object) -> halohop.NeighborLoader:
    seeds = torch.randperm(NODES, generator=torch.Generator().manual_seed(5))[: batches * BATCH]
    return halohop.NeighborLoader(graph, FANOUTS, seeds, batch_size=BATCH, expand="all", **options)


def test_besides_features_an_edge_costs_three_bytes(here):
    """A sampled edge, of which half are drawn by the other host: 13 bits of a source, 18 of an edge's id and 9 of its gid, and
    what is left for ids that are asked for, the user's ids, labels and masks of the nodes."""
    edges = features = 0
    before = here.statistics()
    for batch in loader(here, 4):
        edges += batch.num_edges
        features += int((OWNER[batch.n_id] == 1).sum()) * 4 * WIDTH
    after = here.statistics()
    moved = sum(after[f"transport_bytes_{way}"] - before[f"transport_bytes_{way}"] for way in ("sent", "received"))
    assert edges > 50_000
    assert (moved - features) / edges < 3.3
    assert (after["transport_bytes_sent"] - before["transport_bytes_sent"]) / edges < 0.25


@pytest.mark.parametrize(("kind", "batches"), [(SampleRequest, 2), (FetchRequest, 2), (FetchRequest, 3)])
def test_several_batches_wait_for_another_host_at_a_time(parts, monkeypatch, kind, batches):
    """The other host answers only when it has questions of so many batches. One batch after the other would end here."""
    asked, numbers, lock, together, answer = set[int](), itertools.count(), threading.Lock(), threading.Event(), Service.answer

    def slow(service, request):
        if isinstance(request, SampleRequest) and kind is SampleRequest:
            batch = request.draw.batch
        elif isinstance(request, FetchRequest) and kind is FetchRequest and request.queries:  # greetings ask for nothing
            batch = next(numbers)  # rows are asked for once a batch
        else:
            batch = None
        if batch is not None:
            with lock:
                asked.add(batch)
                if len(asked) == batches:
                    together.set()
            assert together.wait(30), "another batch asks nothing before the first has its answer"
        return answer(service, request)

    with halohop.open(parts) as whole:
        expected = [batch.to_dict() for batch in loader(whole, batches, run="inline")]
    monkeypatch.setattr(Service, "answer", slow)
    with worlds.hosts(parts, [[0], [1]], cache=None) as (here, _):
        found = [batch.to_dict() for batch in loader(here, batches, num_workers=batches)]
    assert len(asked) == batches
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(torch.as_tensor(one[name]), torch.as_tensor(other[name])) for name in expected[0])
