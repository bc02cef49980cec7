"""Features that are stored sparse: the same batches as from dense ones, bit by bit, wherever they are made."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.cluster.graph import Graph, in_memory
from halohop.datasets.scale import normalize_rows, scales
from halohop.errors import CorruptDatasetError, InputError
from halohop.launch.pages import summary as inspect
from halohop.partitioning.building.build import partition
from halohop.pyg.convert import tables_from_pyg
from halohop.store.disk import map_part, read_manifest
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.graphs import power_law
from halohop.testing.worlds import TOKEN, hosts, partitioned

NODES, WIDTH = 90, 300
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex128)


def tables(dtype: torch.dtype = torch.float32, *, sparse: bool, ones: bool = True) -> GraphTables:
    """A graph with shuffled ids; some rows are empty."""
    graph = power_law(NODES, 11, shuffled_ids=True)
    generator = torch.Generator().manual_seed(5)
    values = torch.randint(1, 2 if ones else 50, (NODES, WIDTH), generator=generator)
    x = (values * (torch.rand(NODES, WIDTH, generator=generator) < 0.02)).to(dtype)
    x[7:20] = 0
    columns = graph.nodes["node"].columns | {"y": torch.arange(NODES), "x": x.to_sparse() if sparse else x}
    return replace(graph, nodes={"node": replace(graph.nodes["node"], columns=columns)})


def loader(graph: Any, **options: Any) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [4, 3], batch_size=32, shuffle=True, seed=3, **{"num_workers": 0} | options)


def read(batches: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(batch.n_id.clone(), batch.x.clone()) for batch in batches]


def same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected) > 0
    for (ids, x), (other_ids, other) in zip(found, expected, strict=True):
        assert x.layout == torch.strided
        assert x.dtype == other.dtype
        assert torch.equal(ids, other_ids)
        assert torch.equal(x.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


@contextmanager
def stored(folder: Path, graph: GraphTables, parts: int = 3) -> Iterator[Path]:
    partition(graph, folder / "parts", num_parts=parts, method=torch.arange(NODES) % 2 * 2)  # the second one is empty
    yield folder / "parts"


@pytest.mark.parametrize("ones", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_dtypes_in_memory_in_shards_and_on_disk(tmp_path: Path, dtype: torch.dtype, ones: bool) -> None:
    dense, thin = tables(dtype, sparse=False, ones=ones), tables(dtype, sparse=True, ones=ones)
    expected, padded = (read(loader(partitioned(dense, 3), **how)) for how in ({}, {"pad": "bound"}))
    for graph in (partitioned(thin, 3), partitioned(thin, 3, shard_each=True)):
        same(read(loader(graph)), expected)
        same(read(loader(graph, pad="bound")), padded)
    with stored(tmp_path, thin) as parts:
        same(read(loader(halohop.open(parts))), expected)
        assert map_part(parts, read_manifest(parts), 1, verify=True).nodes["node"].sparse["x"].dense().shape == (0, WIDTH)


def test_other_ways_of_making_batches(tmp_path: Path) -> None:
    expected = read(loader(partitioned(tables(sparse=False), 2)))
    with stored(tmp_path, tables(sparse=True)) as parts:
        graph = halohop.open(parts)
        same(read(loader(graph, num_workers=2, run="threads")), expected)
        same(read(loader(graph, num_workers=2, run="processes")), expected)
        csr = loader(graph, num_workers=1, run="processes", layout=torch.sparse_csr)
        same([(batch.n_id.clone(), batch.x.to_dense()) for batch in csr], expected)
        with halohop.serve(parts, token=TOKEN) as server, halohop.connect([server.address], token=TOKEN) as far:
            same(read(loader(far)), expected)
        with hosts(parts, [(0, 1), (2,)]) as (here, _):
            same(read(loader(here)), expected)


def test_what_is_sent_goes_by_the_entries(tmp_path: Path) -> None:
    """Rows of a host: a tenth of what dense ones take on the wire, and less on the disk."""
    received = {}
    for sparse in (False, True):
        folder = tmp_path / str(sparse)
        with stored(folder, tables(sparse=sparse)) as parts, hosts(parts, [(0, 1), (2,)]) as (here, _):
            query = RowQuery(table="node", columns=("x",), gid=torch.arange(NODES))
            before = here.statistics()["transport_bytes_received"]
            ((x,),) = here.fetch(FetchRequest(queries=(query,)))
            received[sparse] = here.statistics()["transport_bytes_received"] - before
            assert x.shape == (NODES, WIDTH)
            size = sum(file.stat().st_size for file in parts.rglob("*") if "x." in file.name)
            assert (size < NODES * WIDTH) == sparse
    assert received[True] * 10 < received[False]


def test_a_layout_is_chosen() -> None:
    graph = partitioned(tables(sparse=True), 2)
    weight = torch.rand(WIDTH, 5)
    for batch, other in zip(loader(graph, layout=torch.sparse_csr), loader(graph), strict=True):
        assert batch.x.layout == torch.sparse_csr
        assert torch.allclose(batch.x @ weight, other.x @ weight, atol=1e-5)
        assert batch.num_nodes == other.num_nodes
    with pytest.raises(InputError, match=r"layout=torch\.sparse_coo is none of"):
        loader(graph, layout=torch.sparse_coo)


def test_empty_places_of_sparse_rows() -> None:
    """In a sparse layout they are zero, and another value is refused rather than left out."""
    data = Data(x=torch.eye(4).to_sparse(), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
    pad = halohop.records.Padding(nodes=[4, 9], fill={"x": -9.0})
    for graph in (data, in_memory(tables_from_pyg(data))):
        options = {"batch_size": 4, "num_workers": 0, "pad": pad}
        (batch,) = halohop.NeighborLoader(graph, [-1], **options)
        missing = batch.n_id < 0
        assert bool(missing.any())
        assert bool((batch.x[missing] == -9).all())
        assert torch.equal(batch.x[~missing], torch.eye(4)[batch.n_id[~missing]])
        with pytest.raises(InputError, match=r"pad fills 'x' with -9.0; rows in a sparse layout"):
            next(iter(halohop.NeighborLoader(graph, [-1], layout=torch.sparse_csr, **options)))


def test_pygs_sparse_tensors_are_taken() -> None:
    x = torch.eye(4)
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    (batch,) = halohop.NeighborLoader(Data(x=x.to_sparse(), edge_index=edges), [-1], batch_size=4, num_workers=0)
    assert torch.equal(batch.x, x[batch.n_id])
    typed = HeteroData()
    typed["a"].x, typed["a", "to", "a"].edge_index = x.to_sparse(), edges
    (batch,) = halohop.NeighborLoader(typed, [-1], input_nodes="a", batch_size=4, num_workers=0)
    assert torch.equal(batch["a"].x, x[batch["a"].n_id])


def test_rows_in_csr_weigh_what_they_take() -> None:
    """The limit of bytes in flight holds for them as well."""
    data = Data(x=torch.rand(50, 40).to_sparse(), edge_index=torch.arange(100).remainder(50).view(2, 50))
    for graph in (data, in_memory(tables_from_pyg(data))):
        loader = halohop.NeighborLoader(graph, [2], batch_size=50, num_workers=0, layout=torch.sparse_csr)
        (batch,) = loader
        parts = (batch.x.crow_indices(), batch.x.col_indices(), batch.x.values())
        assert loader.statistics()["heaviest_batch_bytes"] > sum(part.nbytes for part in parts)


def test_sparse_columns_of_edges_are_refused() -> None:
    with pytest.raises(InputError, match=r"of edges is torch.sparse_coo; only matrices of nodes"):
        EdgeTable(src=torch.tensor([0]), dst=torch.tensor([0]), columns={"edge_attr": torch.eye(1).to_sparse()})


def test_a_file_that_is_not_as_the_manifest_says_is_refused(tmp_path: Path) -> None:
    with stored(tmp_path, tables(sparse=True)) as parts:
        (file,) = parts.glob("part-0000/**/x.indices.npy")
        file.write_bytes(file.read_bytes()[:-2])
        with pytest.raises(CorruptDatasetError, match=r"x\.indices\.npy"):
            halohop.open(parts)


def test_it_is_told_what_is_stored(tmp_path: Path) -> None:
    with stored(tmp_path, tables(sparse=True)) as parts:
        assert inspect.summarize(parts)["nodes"]["node"]["columns"]["x"] == f"float32[{WIDTH}] sparse"


def test_rows_are_divided_as_dense_ones_are() -> None:
    dense, thin = (normalize_rows(tables(sparse=sparse, ones=False)).nodes["node"].columns["x"] for sparse in (False, True))
    assert thin.layout == torch.sparse_coo
    assert torch.equal(thin.to_dense(), dense)
    assert scales(tables(sparse=True)) == scales(tables(sparse=False))


def test_the_row_of_a_node_without_entries_is_zeros() -> None:
    graph = partitioned(tables(sparse=True), 2)
    assert isinstance(graph, Graph)
    raw = tables(sparse=True).nodes["node"].raw_id
    assert raw is not None
    assert torch.equal(graph.rows("x", raw[7:20]), torch.zeros(13, WIDTH))
    assert NodeTable(num_nodes=2, columns={"x": torch.eye(2).to_sparse()}).num_nodes == 2
