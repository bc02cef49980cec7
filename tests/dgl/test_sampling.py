"""Neighbours, subgraphs and blocks outside of loaders."""

import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl import names
from halohop.errors import IdError, InputError, SchemaError
from tests.support.dgl_batches import EDGES, NODES, described, plain, typed


def test_neighbours_are_edges_of_the_graph():
    g = plain()
    nodes = torch.arange(0, NODES, 2)
    for fanout, replace in ((3, False), (-1, False), (0, False), (4, True)):
        found = g.sample_neighbors(nodes, fanout, replace=replace)
        ids = found.edata[dgl.EID]
        assert found.num_nodes() == NODES
        assert described(found.edges()) == described(g.find_edges(ids))
        assert torch.isin(found.edges()[1], nodes).all()
        degrees = g.in_degrees()[nodes]
        expected = degrees if fanout < 0 else torch.where(degrees > 0, fanout, 0) if replace else degrees.clamp(max=fanout)
        assert torch.equal(found.in_degrees()[nodes], expected)
        assert replace or len(ids.unique()) == len(ids)
        assert torch.equal(found.ndata["feat"], g.ndata["feat"])
        assert torch.equal(found.edata["weight"], g.edata["weight"][ids])
    bare = dgl.sampling.sample_neighbors(g, nodes, 2, copy_ndata=False, copy_edata=False)
    assert (list(bare.ndata), list(bare.edata)) == ([], [dgl.EID])


def test_calls_differ_and_a_sent_graph_begins_anew():
    g = plain()
    first, second = (g.sample_neighbors(torch.arange(NODES), 2).edata[dgl.EID].tolist() for _ in range(2))
    assert first != second
    assert plain().sample_neighbors(torch.arange(NODES), 2).edata[dgl.EID].tolist() == first


def test_edges_are_excluded_and_others_drawn():
    g = plain()
    left_out = torch.arange(0, EDGES, 2)
    found = g.sample_neighbors(torch.arange(NODES), 3, exclude_edges=left_out)
    assert (found.edata[dgl.EID] % 2 == 1).all()
    others = g.in_degrees() - torch.bincount(g.find_edges(left_out)[1], minlength=NODES)
    assert torch.equal(found.in_degrees(), others.clamp(max=3))


def test_all_edges_to_and_from_nodes():
    g = plain()
    nodes = torch.tensor([7, 0, 59, 3])
    into, out = dgl.in_subgraph(g, nodes), g.out_subgraph(nodes)
    assert sorted(into.edata[dgl.EID].tolist()) == sorted(g.in_edges(nodes, form="eid").tolist())
    assert sorted(out.edata[dgl.EID].tolist()) == sorted(g.out_edges(nodes, form="eid").tolist())
    for bare, of in ((g.in_subgraph(nodes, store_ids=False), into), (dgl.out_subgraph(g, nodes, store_ids=False), out)):
        assert dgl.EID not in bare.edata
        assert described(bare.edges()) == described(of.edges())
        assert torch.equal(bare.edata["weight"], of.edata["weight"])
    with pytest.raises(InputError, match="relabel_nodes"):
        g.in_subgraph(nodes, relabel_nodes=True)


def test_relations_have_fanouts_of_their_own():
    g = typed()
    nodes = {"user": torch.arange(40)}
    found = g.sample_neighbors(nodes, {"follows": 2, ("item", "liked", "user"): 1})
    assert found.in_degrees(etype="follows").max() == 2
    assert found.in_degrees(etype="liked").max() == 1
    assert found.num_edges("likes") == 0
    assert found.ntypes == g.ntypes
    with pytest.raises(SchemaError, match="'hates'"):
        g.sample_neighbors(nodes, {"hates": 1})
    with pytest.raises(SchemaError, match="without a type"):
        g.sample_neighbors([0], 1)
    with pytest.raises(IdError):
        g.sample_neighbors({"user": [40]}, 1)
    with pytest.raises(InputError, match="integers"):
        g.sample_neighbors({"user": torch.tensor([0.5])}, 1)


def test_edges_are_taken_removed_and_merged_with_their_columns():
    g = typed()
    some = dgl.edge_subgraph(g, {"likes": torch.arange(200) % 2 == 0, "follows": [5, 5, 3]}, relabel_nodes=False)
    assert some.edges["likes"].data["stars"].tolist() == list(range(0, 200, 2))
    assert some.edges["follows"].data[dgl.EID].tolist() == [5, 5, 3]
    assert some.num_edges("liked") == 0
    fewer = dgl.remove_edges(some, [0, 2], etype="likes")
    assert fewer.edges["likes"].data["stars"].tolist()[:3] == [2, 6, 8]
    assert fewer.edges["follows"].data[dgl.EID].tolist() == [5, 5, 3]
    assert dgl.remove_edges(some, [0], etype="likes", store_ids=True).edges["likes"].data[dgl.EID].tolist()[:2] == [1, 2]
    both = dgl.merge([some, fewer])
    assert both.num_edges("likes") == 198
    assert both.edges["likes"].data["stars"].tolist() == [*range(0, 200, 2), 2, *range(6, 200, 2)]
    with pytest.raises(InputError, match="cannot be merged"):
        dgl.merge([some, plain()])
    with pytest.raises(InputError, match="no graph"):
        dgl.merge([])
    with pytest.raises(IdError, match="200"):
        dgl.remove_edges(g, [200], etype="likes")
    with pytest.raises(SchemaError, match="mask"):
        dgl.edge_subgraph(g, {"likes": torch.ones(3, dtype=torch.bool)}, relabel_nodes=False)


def test_frontiers_not_into_the_seeds_are_refused():
    g = plain()
    found = g.sample_neighbors(torch.arange(10), 2)
    with pytest.raises(InputError, match="edge"):
        dgl.to_block(found, torch.arange(5))
    with pytest.raises(InputError, match="twice"):
        dgl.to_block(found, torch.tensor([*range(10), 3]))
    with pytest.raises(InputError, match="include_dst_in_src"):
        dgl.to_block(found, include_dst_in_src=False)


@pytest.mark.parametrize("package", ["dataloading", "dataloading.negative_sampler", "sampling", ""])
def test_names_of_dgl_work_or_are_refused(package):
    module = dgl
    for part in package.split(".") if package else ():
        module = getattr(module, part)
    assert [name for name in names.WORKS[package] if not hasattr(module, name)] == []
    for name in (name for name in names.REFUSED if package and name.rpartition(".")[0] == package):
        with pytest.raises(InputError, match="of DGL is not offered"):
            getattr(module, name.rpartition(".")[2])(1)


def test_arguments_that_change_nothing_say_so():
    with pytest.warns(UserWarning, match="use_prefetch_thread changes nothing here"):
        dgl.dataloading.DataLoader(plain(), [0], dgl.dataloading.NeighborSampler([1]), use_prefetch_thread=True)
    assert isinstance(halohop.records.Draws(plain().engine), halohop.records.Draws)
