"""Gids of batches, for those who ask: what `halohop.DistEmbedding` finds rows by."""

from pathlib import Path

import pytest
import torch

import halohop
from halohop.typing import EDGE_ID
from tests.pyg.test_everywhere import PLACES, SOURCES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed") / "parts"
    halohop.partition(SOURCES["typed"](), folder, num_parts=3, method="random")
    return folder


@pytest.mark.parametrize("place", ["disk", "hosts", "servers"])
def test_gids_name_the_nodes_and_edges_of_a_batch(place: str, folder: Path) -> None:
    with PLACES[place]("typed", folder) as graph:
        batch = next(iter(halohop.NeighborLoader(graph, [3, 3], ("paper", None), batch_size=8, gids=True, run="inline")))
        for name in batch.node_types:
            assert torch.equal(batch[name].n_gid, graph.locate(batch[name].n_id, name))
        for relation in batch.edge_types:
            (edge_id,) = graph.fetch_rows(relation, [EDGE_ID], batch[relation].e_gid)
            assert torch.equal(edge_id, batch[relation].e_id)


def test_gids_of_empty_places_and_of_who_did_not_ask(folder: Path) -> None:
    with halohop.open(folder) as graph:
        options = {"batch_size": 8, "run": "inline", "node_columns": [], "edge_columns": []}
        padded = next(iter(halohop.NeighborLoader(graph, [3], ("paper", None), gids=True, pad="bound", **options)))["paper"]
        assert torch.equal(padded.n_gid < 0, ~padded.node_mask)
        plain = next(iter(halohop.NeighborLoader(graph, [3], ("paper", None), **options)))
        assert not any("gid" in key for store in plain.stores for key in store.to_dict())
