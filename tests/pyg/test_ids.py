"""Which of the user's ids batches have: those that are asked for, wherever the graph lies, and nothing else is different."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.typing import EDGE_ID, RAW_ID
from tests.pyg.test_columns import MODES, folders
from tests.pyg.test_everywhere import assert_same_batches

__all__ = ["folders"]

pytestmark = pytest.mark.xdist_group("columns")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.full
def test_batches_have_the_ids_asked_for_and_no_others_are_read(folders, mode, monkeypatch):
    asked: set[str] = set()
    fetch = LocalShard._fetch

    def noted(self: LocalShard, queries: Any, sites: Any) -> Any:
        asked.update(name for query in queries for name in query.columns)
        return fetch(self, queries, sites)

    with MODES[mode]("typed", folders["typed"]) as graph:
        for options in ({}, {"subgraph_type": "induced"}, {"pad": "measured"}):
            for ids in ([], ["n_id"], ("e_id",)):
                given = {"num_neighbors": [3, 2], "input_nodes": ("paper", None), "batch_size": 7, "run": "inline", **options}
                whole = halohop.NeighborLoader(graph, **given)
                expected = [batch.to_dict() for _ in range(2) for batch in whole]
                for batch in expected:
                    for store in batch.values():
                        if isinstance(store, dict):
                            if "n_id" in store and "n_id" not in ids:
                                store["num_nodes"] = len(store.pop("n_id"))
                            if "e_id" not in ids:
                                store.pop("e_id", None)
                with monkeypatch.context() as patch:
                    loader = halohop.NeighborLoader(graph, **given, ids=ids)
                    patch.setattr(LocalShard, "_fetch", noted)
                    asked.clear()
                    assert_same_batches(loader, expected)
                assert RAW_ID not in asked or "n_id" in ids
                assert EDGE_ID not in asked or "e_id" in ids or mode == "in memory"


def plain() -> Data:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(30, (2, 90), generator=generator)
    return Data(x=torch.rand(30, 2), edge_index=edges, edge_attr=torch.arange(90))


def test_columns_of_edges_are_found_by_ids_that_batches_do_not_have():
    whole, without = (list(halohop.NeighborLoader(plain(), [3], batch_size=10, run="inline", **ids)) for ids in ({}, {"ids": []}))
    for one, other in zip(whole, without, strict=True):
        assert torch.equal(one.edge_attr, one.e_id)
        assert torch.equal(one.edge_attr, other.edge_attr)
        assert "e_id" not in other
        assert "n_id" not in other
        assert one.num_nodes == other.num_nodes


def test_norms_of_edges_are_the_same_without_ids():
    made = [
        halohop.GraphSAINTNodeSampler(plain(), batch_size=6, num_steps=2, sample_coverage=2, log=False, **ids)
        for ids in ({}, {"ids": ["n_id"], "edge_columns": []})
    ]
    for one, other in zip(*map(list, made), strict=True):
        assert torch.equal(one.edge_norm, other.edge_norm)
        assert "e_id" not in other


@pytest.mark.parametrize("ids", ["n_id", 3, [1]])
def test_what_is_no_list_of_names_is_refused(ids):
    with pytest.raises(InputError, match=r"ids=.* is no list of names; give one such as"):
        halohop.NeighborLoader(plain(), [3], ids=ids)


def test_other_names_are_refused():
    with pytest.raises(InputError, match=r"ids names 'eid', but batches have the ids \['n_id', 'e_id'\]"):
        halohop.NeighborLoader(plain(), [3], ids=["n_id", "eid"])
