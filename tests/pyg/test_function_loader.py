"""Batches that a user's function makes: the same for any ranks and workers, whatever it returns, and its errors arrive."""

import os
import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop import FunctionLoader, World
from halohop.errors import BatchError, InputError
from halohop.nn import hop_of
from halohop.pyg.weighing import bytes_of
from halohop.testing.worlds import hosts

RUNS = [{"run": "inline"}, {"run": "threads", "num_workers": 2}, {"run": "processes", "num_workers": 1}]


def ring(nodes=30):
    return Data(edge_index=torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes]), num_nodes=nodes)


def typed():
    torch.manual_seed(0)
    data = HeteroData()
    data["a"].x, data["b"].x = torch.randn(200, 2), torch.randn(100, 3)
    for relation, sizes in {("a", "to", "b"): (200, 100), ("b", "of", "a"): (100, 200), ("a", "is", "a"): (200, 200)}.items():
        data[relation].edge_index = torch.stack([torch.randint(size, (900,)) for size in sizes])
    return data


def seeds_and_number(draws, seeds):
    return draws.epoch, draws.batch, seeds


def two_hops(draws, seeds):
    first = draws.neighbors(seeds, 2)
    hop, n_id = hop_of(first, seeds)
    return {"hop": hop, "n_id": n_id, "further": draws.neighbors(n_id, 1)}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_rows_of_any_tensors(run):
    """Of one, of a pair of a key and one, of a dict; every key is there, also with none of its rows."""
    rows = torch.arange(14).view(7, 2)
    loader = FunctionLoader(ring(), seeds_and_number, rows, batch_size=3, **run)
    assert [seeds.tolist() for _, _, seeds in loader] == [rows[:3].tolist(), rows[3:6].tolist(), rows[6:].tolist()]
    pair = FunctionLoader(ring(), seeds_and_number, ("node", torch.tensor([5, 3])), **run)
    assert [seeds["node"].tolist() for _, _, seeds in pair] == [[5], [3]]
    some = {"a": torch.tensor([1, 2, 3]), ("a", "to", "b"): torch.tensor([0.5, 1.5]), "none": torch.empty(0, 3)}
    found = [seeds for _, _, seeds in FunctionLoader(ring(), seeds_and_number, some, batch_size=2, **run)]
    assert [list(seeds) for seeds in found] == [list(some)] * 3
    assert [seeds["a"].tolist() for seeds in found] == [[1, 2], [3], []]
    assert [seeds["a", "to", "b"].tolist() for seeds in found] == [[], [0.5], [1.5]]
    assert all(seeds["none"].shape == (0, 3) for seeds in found)
    assert list(FunctionLoader(ring(), seeds_and_number, torch.empty(0, dtype=torch.int64), **run)) == []


def test_ranks_share_their_seeds_or_have_their_own():
    every = {}
    for rank in range(3):
        world = World(rank=rank, size=3, local_rank=rank, local_size=3)
        loader = FunctionLoader(
            ring(), seeds_and_number, torch.arange(20), batch_size=2, shuffle=True, world=world, num_workers=1
        )
        assert len(loader) == 4
        for epoch, batch, seeds in loader:
            every[epoch, batch] = seeds.tolist()
        own = FunctionLoader(ring(), seeds_and_number, torch.arange(rank * 3), batch_size=2, world=world, own_seeds=True)
        assert [batch for _, batch, _ in own] == [rank, rank + 3, rank + 6][: (rank * 3 + 1) // 2]
    assert sorted(every) == [(0, batch) for batch in range(12)]
    assert sorted(node for seeds in every.values() for node in seeds) == list(range(20))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_it_goes_on_where_it_was_left(run):
    """In the middle of an epoch, by another loader; and with the epochs that torch's samplers are told."""

    def made(state=None):
        loader = FunctionLoader(ring(), two_hops, torch.arange(30), batch_size=4, shuffle=True, seed=3, **run)
        if state is not None:
            loader.load_state_dict(state)
        return loader

    def ids(batches):
        return [batch["further"].edge_id.tolist() for batch in batches]

    expected = [ids(epoch) for first in [made()] for epoch in (first, first)]
    stopped = made()
    batches = iter(stopped)
    begun = [next(batches) for _ in range(3)]
    later = made(stopped.state_dict())
    assert [*ids(begun), *ids(later)] == expected[0]
    assert ids(later) == expected[1]
    later.set_epoch(0)
    assert ids(later) == expected[0]
    with pytest.raises(InputError, match="another way"):
        FunctionLoader(ring(), two_hops, torch.arange(30), batch_size=5, seed=3).load_state_dict(stopped.state_dict())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["run"])
def test_errors_of_the_function_arrive_with_their_traceback(run):
    def fails(draws, seeds):
        if 4 in seeds:
            raise KeyError("what the user did")
        return seeds

    batches = iter(FunctionLoader(ring(), fails, torch.arange(9), batch_size=2, **run))
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(BatchError, match="batch 2 could not be made: KeyError: 'what the user did'") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, KeyError)
    if run["run"] == "processes":
        assert "in fails" in "".join(caught.value.__notes__)
    unknown = FunctionLoader(ring(), lambda draws, seeds: draws.neighbors(seeds + 30), torch.arange(2), **run)
    with pytest.raises(halohop.errors.IdError, match="the first is 30"):
        next(iter(unknown))


def test_what_processes_return_lies_in_shared_memory():
    def large(draws, seeds):
        return {"pid": os.getpid(), "x": torch.ones(100_000), "text": ["a", None], "edges": draws.neighbors(seeds)}

    loader = FunctionLoader(ring(), large, torch.arange(4), batch_size=2, run="processes", num_workers=1)
    for batch in loader:
        assert batch["pid"] != os.getpid()
        assert (batch["text"], batch["x"].sum(), len(batch["edges"].src)) == (["a", None], 100_000, 2)
    assert loader.statistics()["shared_bytes"] >= 400_000

    def cannot_travel(draws, seeds):
        return threading.Lock()

    with pytest.raises(BatchError, match="cannot leave its worker process"):
        next(iter(FunctionLoader(ring(), cannot_travel, torch.arange(2), run="processes", num_workers=1)))


def test_another_function_reaches_the_processes_of_the_next_epoch():
    def named(name):
        return lambda draws, seeds: name

    one, other = (FunctionLoader(ring(), named(name), torch.arange(2), run="processes", num_workers=1) for name in "ab")
    assert [*one, *other, *one] == ["a", "a", "b", "b", "a", "a"]


def test_seeds_of_a_batch_lie_together(tmp_path):
    """By partition, where keys or the graph say what seeds are; edges lie with their destinations."""
    halohop.partition(ring(40), tmp_path / "parts", num_parts=4, method=torch.arange(40) // 10)
    with halohop.open(tmp_path / "parts") as graph:
        edge = ("node", "to", "node")
        for seeds, key, owners in (
            (torch.arange(40), None, graph.owners),
            ({"node": torch.arange(40)}, "node", graph.owners),
            ((edge, torch.arange(40)), edge, lambda ids: graph.edge_owners(edge, ids)),
        ):
            loader = FunctionLoader(graph, seeds_and_number, seeds, batch_size=5, shuffle=True, locality="owner")
            for _, _, found in loader:
                assert len(owners(found if key is None else found[key]).unique()) == 1
        with pytest.raises(InputError, match="is for loaders of nodes and edges"):
            FunctionLoader(graph, seeds_and_number, torch.zeros(4, 2), locality="owner")


def test_a_hop_is_one_request_to_each_host(tmp_path):
    """And one more for the ids of what was found, whatever the number of types; ids that a batch has met are not asked again."""
    halohop.partition(typed(), tmp_path / "parts", num_parts=2, method="random")
    with hosts(tmp_path / "parts", [[0], [1]], cache=None) as graphs:

        def calls():
            return sum(counted["calls"] for counted in graphs[0].statistics_by_peer().values())

        def counted(ask):
            before, answer = calls(), ask()
            return calls() - before, answer

        first, second, rows = [], [], []
        for _ in range(3):  # hosts ask each other now and then, too
            draws = halohop.records.Draws(graphs[0])
            count, edges = counted(lambda: draws.neighbors({"a": torch.arange(20), "b": torch.arange(10)}, 3))  # noqa: B023
            first.append(count)
            nodes = hop_of(edges, {"a": torch.arange(20), "b": torch.arange(10)})[1]
            second.append(counted(lambda: draws.neighbors(nodes, 3))[0])  # noqa: B023
            rows.append(counted(lambda: draws.rows({name: (ids, ["x"]) for name, ids in nodes.items()}))[0])  # noqa: B023
        assert min(first) == 2 + 1 + 1  # where the nodes of two types are, the hop, and the ids
        assert min(second) <= 2
        assert min(rows) == 1


def test_what_batches_weigh():
    @dataclass
    class Part:
        x: torch.Tensor
        other: object

    class Says:
        num_bytes = 1000

    x = torch.zeros(10)
    cycle: list[object] = [x]
    cycle.append(cycle)
    assert bytes_of(Part(x=x, other={"x": x, "more": (torch.zeros(3), Says(), None, "text")})) == 40 + 12 + 1000
    assert bytes_of(cycle) == 40
    assert bytes_of(np.zeros(3)) == bytes_of(Part) == bytes_of(object()) == 0
    loader = FunctionLoader(ring(), two_hops, torch.arange(30), batch_size=10, run="threads", num_workers=1)
    assert len(list(loader)) == 3
    assert loader.statistics()["heaviest_batch_bytes"] > 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"make": 3}, "make=3 is a int; give a function"),
        ({"seeds": [1, 2]}, "seeds is a list"),
        ({"seeds": torch.tensor(3)}, "a tensor without dimensions"),
        ({"seeds": {"a": [1]}}, "seeds of 'a' is a list"),
        ({"data": 5}, "data is a int"),
        ({"edge_dir": "out", "data": halohop.graph(ring())}, "edge_dir='out', but this graph has the in-edges"),
        ({"seed": 1.5}, "seed=1.5 is not a whole number"),
        ({"own_seeds": True}, "own_seeds=True needs the number of this rank"),
        ({"collate_fn": len}, "has no meaning here"),
    ],
)
def test_refused_by_name(options, message):
    given = {"data": ring(), "make": two_hops, "seeds": torch.arange(3)} | options
    with pytest.raises(InputError, match=message):
        FunctionLoader(given.pop("data"), given.pop("make"), given.pop("seeds"), **given)
