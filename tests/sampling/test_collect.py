"""What is asked of a graph for the rows of a batch."""

import torch

from halohop.cluster.graph import in_memory
from halohop.sampling.batch import Seeds
from halohop.sampling.collect import collect
from halohop.sampling.columns import NONE
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.testing import graphs
from halohop.typing import NODE, RAW_ID


def test_ids_that_are_gids_are_not_asked_for(monkeypatch):
    graph = in_memory(graphs.ring(10))
    asked = []
    fetch = graph.fetch_stored
    monkeypatch.setattr(graph, "fetch_stored", lambda request: asked.extend(request.queries) or fetch(request))
    seeds = Seeds(node_type=NODE, gid=torch.tensor([3, 7]), input_id=torch.tensor([0, 1]), epoch=0, index=0)
    batch = collect(graph, NeighborSampler(graph, Fanouts.uniform([1], graph.schema)).sample(seeds), NONE)
    assert batch.nodes[NODE].columns[RAW_ID].tolist() == batch.nodes[NODE].gid.tolist()
    assert not [query for query in asked if query.table == NODE]
