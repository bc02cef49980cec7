"""Columns that are given when a graph is opened or served: in batches as if they were stored, wherever the graph lies."""

import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch_geometric.data import HeteroData

import halohop
from halohop import ClusterLoader, Graph, HGTLoader, LinkNeighborLoader, NeighborLoader, World
from halohop.errors import ClusterError, SchemaError
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.worlds import TOKEN, divided, free_addresses, hosts, memory_hosts

CITES, WRITES = ("paper", "cites", "paper"), ("author", "writes", "paper")
PAPERS, AUTHORS = 90, 40
OWNERS = {"paper": torch.arange(PAPERS) * 7 % 4, "author": torch.arange(AUTHORS) % 3}


def data() -> HeteroData:
    """Everything that batches have: features, labels, a split, clusters and sparse words; of edges weights and times."""
    generator = torch.Generator().manual_seed(0)
    made = HeteroData()
    made["paper"].x, made["author"].x = torch.rand(PAPERS, 3, generator=generator), torch.rand(AUTHORS, 2, generator=generator)
    made["paper"].y, made["paper"].train_mask = torch.arange(PAPERS) % 5, torch.arange(PAPERS) % 2 == 0
    made["paper"].part, made["author"].part = torch.arange(PAPERS) % 4, torch.arange(AUTHORS) % 4
    made["paper"].words = (torch.rand(PAPERS, 30, generator=generator) < 0.05).float().to_sparse()
    made["author"].prize = torch.rand(AUTHORS, 2, 2, generator=generator).double()
    for relation, count in ((CITES, 300), (WRITES, 200)):
        src, dst = (made[relation[end]].num_nodes for end in (0, 2))
        ends = [torch.randint(rows - 3, (count,), generator=generator) for rows in (src, dst)]  # the last nodes are isolated
        made[relation].edge_index = torch.stack(ends)
        made[relation].time = torch.randint(100, (count,), generator=generator)
    made[CITES].weight = torch.rand(300, generator=generator)
    return made


GIVEN = {"paper": ("y", "train_mask", "words", "part"), "author": ("prize", "part"), CITES: ("weight", "time"), WRITES: ("time",)}


def bare() -> HeteroData:
    """Without what will be given."""
    left = data()
    for table, names in GIVEN.items():
        for name in names:
            del left[table][name]
    return left


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The graph with all of its columns, and without some of them; in four partitions, one of them without authors."""
    path = tmp_path_factory.mktemp("given")
    halohop.partition(data(), path / "whole", num_parts=4, method=OWNERS)
    halohop.partition(bare(), path / "bare", num_parts=4, method=OWNERS)
    np.save(path / "y.npy", data()["paper"].y.numpy())
    np.save(path / "weight.npy", data()[CITES].weight.numpy())
    return {"whole": path / "whole", "bare": path / "bare", "files": path}


def columns(files: Path) -> dict[Any, dict[str, Any]]:
    """What the graph lacks: tensors, an array, mapped files, ids with rows."""
    known = data()
    given: dict[Any, dict[str, Any]] = {table: {name: known[table][name] for name in names} for table, names in GIVEN.items()}
    given["paper"]["y"], given[CITES]["weight"] = files / "y.npy", str(files / "weight.npy")
    given["author"]["part"] = given["author"]["part"].numpy()
    given["author"]["prize"] = (torch.arange(AUTHORS).flip(0), known["author"].prize.flip(0))
    return given


@contextmanager
def on_servers(folder: Path, given: Any, sampling: Any) -> Iterator[Graph]:
    with ExitStack() as stack:
        addresses = free_addresses(2)
        for address, share in zip(addresses, ([0], [1, 2, 3]), strict=True):
            peers = [other for other in addresses if other != address]
            stack.enter_context(halohop.serve(folder, partitions=share, columns=given, listen=address, peers=peers, token=TOKEN))
        yield stack.enter_context(halohop.connect(addresses, sampling=sampling, token=TOKEN))


@contextmanager
def on_hosts(folder: Path, given: Any) -> Iterator[Graph]:
    with hosts(folder, [[0, 1], [2], [3]], columns=given) as graphs:
        yield graphs[1]


@contextmanager
def in_memory_on_hosts(_: Path, given: Any) -> Iterator[Graph]:
    own = divided(tables_from_pyg(bare()), OWNERS, 4)
    with memory_hosts([own[:1], own[1:]], columns=given) as graphs:
        yield graphs[1]


PLACES: dict[str, Callable[[Path, Any], Any]] = {
    "one process": lambda folder, given: halohop.open(folder, columns=given),
    "hosts": on_hosts,
    "hosts, partitions in memory": in_memory_on_hosts,
    "servers": lambda folder, given: on_servers(folder, given, "servers"),
    "servers, sampled here": lambda folder, given: on_servers(folder, given, "client"),
}

LOADERS: dict[str, Callable[..., Any]] = {
    "a split, and weights": lambda graph, **how: NeighborLoader(
        graph, [3, 2], ("paper", "train"), batch_size=20, shuffle=True, weight_attr="weight", **how
    ),
    "times of edges": lambda graph, **how: NeighborLoader(
        graph, [3, 2], ("paper", None), torch.arange(PAPERS) + 10, batch_size=30, time_attr="time", **how
    ),
    "links": lambda graph, **how: LinkNeighborLoader(graph, [2], (WRITES, None), batch_size=90, neg_sampling="binary", **how),
    "HGT": lambda graph, **how: HGTLoader(graph, [5], ("paper", torch.arange(20)), batch_size=10, **how),
    "clusters of a column": lambda graph, **how: ClusterLoader(graph, "part", batch_size=2, **how),
}


def batches(graph: Graph, name: str, **options: Any) -> list[dict[str, Any]]:
    return [batch.to_dict() for batch in LOADERS[name](graph, seed=3, **options)]


@pytest.fixture(scope="module")
def expected(folders: dict[str, Path]) -> dict[str, list[dict[str, Any]]]:
    with halohop.open(folders["whole"]) as graph:
        return {name: batches(graph, name, run="inline") for name in LOADERS}


def assert_equal(one: Any, other: Any) -> None:
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in other:
            assert_equal(one[key], other[key])
    elif isinstance(other, torch.Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    else:
        assert one == other


def assert_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    assert len(found) == len(wanted) > 1
    for one, other in zip(found, wanted, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("place", PLACES)
def test_batches_are_those_of_stored_columns(folders, expected, place):
    with PLACES[place](folders["bare"], columns(folders["files"])) as graph:
        for name, wanted in expected.items():
            assert_same(batches(graph, name, num_workers=2), wanted)
        assert graph.schema.splits("paper") == ("train",)
        assert graph.rows("y", torch.tensor([7, 3]), node_type="paper").tolist() == [2, 3]
        assert graph.select("train", "paper")[1].tolist() == list(range(0, PAPERS, 2))


def test_batches_of_processes_and_of_a_graph_that_was_sent_away(folders, expected, monkeypatch):
    monkeypatch.chdir(folders["files"])
    given = columns(Path())  # relative paths
    with halohop.open("bare", columns=given) as graph:
        sent = pickle.dumps(graph)
        assert_same(batches(graph, "HGT", run="processes", num_workers=2), expected["HGT"])
    monkeypatch.chdir("/")
    with pickle.loads(sent) as graph:
        assert_same(batches(graph, "a split, and weights", run="inline"), expected["a split, and weights"])


ZEROS = torch.zeros(PAPERS)


def test_hosts_with_other_columns_are_refused(folders):
    board = dist.HashStore()
    given = [{"paper": {"y": ZEROS}}, {"paper": {"y": ZEROS, "z": torch.zeros(PAPERS, 2)}}]

    def refused(host: int) -> str:
        world = World(rank=host, size=2, host=host, num_hosts=2)
        held = {"partitions": [[0, 1], [2, 3]][host], "columns": given[host]}
        with pytest.raises(ClusterError) as caught:
            halohop.open(folders["bare"], **held, world=world, board=board, token=TOKEN)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(refused, range(2), timeout=60))
    for host, where in enumerate(("there", "here")):
        assert re.match(
            rf"host {1 - host} \(.*\) was given other columns: 'z' of 'paper' \(float32 \[2\]\) {where} only", found[host]
        )
        assert "give all processes that hold this data set the same columns" in found[host]


def test_servers_with_other_columns_are_refused(folders):
    """Each is compared with the one that answers first."""
    with (
        halohop.serve(folders["bare"], partitions=[0, 1], columns={"paper": {"y": ZEROS}}, token=TOKEN) as one,
        halohop.serve(folders["bare"], partitions=[2, 3], token=TOKEN) as other,
        pytest.raises(ClusterError) as caught,
    ):
        halohop.connect([one.address, other.address], token=TOKEN)
    answers = [(other.address, "here"), (one.address, "there")]
    said = [f"{address} was given other columns: 'y' of 'paper' (float32 []) {where} only" for address, where in answers]
    assert any(text in str(caught.value) for text in said)


def test_what_is_stored_is_not_given_again(folders):
    with pytest.raises(SchemaError, match="'paper' has a column 'x' stored already; give yours another name"):
        halohop.open(folders["bare"], columns={"paper": {"x": ZEROS}})
    with pytest.raises(SchemaError, match="unknown node type 'node'"):
        halohop.serve(folders["bare"], columns={"node": {"y": ZEROS}}, token=TOKEN)


def test_a_file_that_was_given_may_go_afterwards(folders, tmp_path):
    """Rows in another order than the file's were copied; rows in its order are pages of it, which stay until nobody has them."""
    shutil.copy(folders["files"] / "y.npy", tmp_path / "y.npy")
    with halohop.open(folders["bare"], columns={"paper": {"y": tmp_path / "y.npy"}}) as graph:
        (tmp_path / "y.npy").unlink()
        assert graph.rows("y", torch.arange(PAPERS), node_type="paper").tolist() == data()["paper"].y.tolist()
