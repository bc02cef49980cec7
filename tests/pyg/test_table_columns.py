"""Rows of tables that batches get as they get columns, wherever the graph lies and whoever makes the batches."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop import DistTensor, Graph, NeighborLoader
from halohop.errors import InputError, SchemaError
from tests.pyg.test_everywhere import CITES, PLACES, SOURCES

INLINE: dict[str, Any] = {"batch_size": 8, "run": "inline"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed") / "parts"
    halohop.partition(SOURCES["typed"](), folder, num_parts=3, method="random")
    return folder


def ids_as_rows(ids: Tensor) -> Tensor:
    return ids[:, None] * torch.tensor([1.0, 0.5])


def tables_of(graph: Graph) -> tuple[DistTensor, DistTensor]:
    """A row of each paper, and of each citation, that follows from its id."""
    papers = DistTensor(graph, (None, 2), name="state", node_type="paper")
    papers[torch.arange(80)] = ids_as_rows(torch.arange(80))
    edges = DistTensor(graph, (None, 2), torch.float64, name="flow", relation=CITES)
    edges[torch.arange(300)] = ids_as_rows(torch.arange(300)).double()
    return papers, edges


@pytest.mark.parametrize("place", ["one graph in memory", "3 in memory", "disk", "hosts", "servers"])
def test_rows_of_tables_come_with_batches(place: str, folder: Path) -> None:
    with PLACES[place]("typed", folder) as graph:
        papers, _ = tables_of(graph)
        named = {"node_columns": {"paper": ["state", "x"], "author": ["x"]}, "edge_columns": {CITES: ["flow"]}}
        loader = NeighborLoader(graph, [3, 3], ("paper", None), **named, **INLINE)
        batch = next(iter(loader))
        assert torch.equal(batch["paper"].state, ids_as_rows(batch["paper"].n_id))
        assert torch.equal(batch[CITES].flow, ids_as_rows(batch[CITES].e_id).double())
        assert batch["paper"].x.shape == (len(batch["paper"].n_id), 3)
        assert "state" not in batch["author"]
        assert "edge_attr" not in batch[CITES]
        papers.add(torch.arange(80), torch.ones(80, 2))
        later = next(iter(loader))["paper"]
        assert torch.equal(later.state, ids_as_rows(later.n_id) + 1)


def test_empty_places_have_zeros(folder: Path) -> None:
    with halohop.open(folder) as graph:
        tables_of(graph)
        loader = NeighborLoader(graph, [3], ("paper", None), node_columns={"paper": ["state"]}, pad="bound", **INLINE)
        papers = next(iter(loader))["paper"]
        assert torch.equal(papers.state, ids_as_rows(papers.n_id.clamp(min=0)))
        assert not papers.node_mask.all()


def test_tables_that_batches_cannot_have(folder: Path) -> None:
    with halohop.open(folder) as graph:
        tables_of(graph)
        batch = next(iter(NeighborLoader(graph, [3], ("paper", None), **INLINE)))
        assert "state" not in batch["paper"]
        assert "flow" not in batch[CITES]
        with pytest.raises(SchemaError, match="'state', which 'author' does not have"):
            NeighborLoader(graph, [3], ("paper", None), node_columns={"author": ["state"]}, **INLINE)
        with pytest.raises(SchemaError, match=r"'nothing', which is no column of any; .*'state'"):
            NeighborLoader(graph, [3], ("paper", None), node_columns=["nothing"], **INLINE)
        forked = NeighborLoader(
            graph, [3], ("paper", None), node_columns={"paper": ["state"]}, batch_size=8, run="processes", num_workers=1
        )
        with pytest.raises(InputError, match=r"forked workers cannot read tables \['state'\]"):
            next(iter(forked))


def test_flips_of_another_relation_have_no_rows_of_a_table() -> None:
    data = SOURCES["typed"]()
    writes = ("author", "writes", "paper")
    graph = halohop.graph(data)
    DistTensor(graph, (None, 2), name="flow", relation=writes)
    loader = NeighborLoader(
        graph, [3, 3], ("paper", None), edge_columns={writes: ["flow"]}, subgraph_type="bidirectional", **INLINE
    )
    with pytest.raises(InputError, match="table 'flow' has no rows of them"):
        next(iter(loader))
