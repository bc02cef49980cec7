"""What DGL's graph can be asked: each name works, or is refused by a sentence that says what takes its place."""

import warnings
from typing import Any

import pytest
import torch

import halohop.dgl as dgl
from halohop.dgl import names, notes
from halohop.errors import InputError

OF_GRAPHS = """
    add_edges add_nodes add_self_loop adj adj_external adj_tensors adjacency_matrix all_edges apply_edges apply_nodes
    batch_num_edges batch_num_nodes batch_size canonical_etypes clone cpu create_formats_ device dstdata dstnodes dsttypes
    edata edge_attr_schemes edge_ids edge_subgraph edge_type_subgraph edges etypes filter_edges filter_nodes find_edges
    formats get_etype_id get_ntype_id global_uniform_negative_sampling has_edges_between has_nodes idtype in_degrees in_edges
    in_subgraph inc incidence_matrix int is_block is_homogeneous is_multigraph is_pinned is_unibipartite khop_in_subgraph
    khop_out_subgraph line_graph local_scope local_var long metagraph multi_update_all ndata node_attr_schemes
    node_type_subgraph nodes ntypes num_dst_nodes num_edges num_nodes num_src_nodes number_of_dst_nodes number_of_edges
    number_of_nodes number_of_src_nodes out_degrees out_edges out_subgraph pin_memory_ predecessors prop_edges prop_nodes pull
    push record_stream remove_edges remove_nodes remove_self_loop reorder_graph reverse sample_etype_neighbors sample_labors
    sample_neighbors sample_neighbors_biased sample_neighbors_fused select_topk send_and_recv set_batch_num_edges
    set_batch_num_nodes set_e_initializer set_n_initializer shared_memory srcdata srcnodes srctypes subgraph successors to
    to_canonical_etype to_cugraph to_networkx to_simple unpin_memory_ update_all"""


def ring() -> dgl.DGLGraph:
    return dgl.graph(([0, 1, 2, 2], [1, 2, 0, 0]))


@pytest.mark.parametrize("name", OF_GRAPHS.split())
def test_each_name_of_a_graph_works_or_is_refused(name: str) -> None:
    known = f"DGLGraph.{name}" in names.REFUSED
    assert known != hasattr(dgl.DGLGraph, name)
    value = getattr(ring(), name)
    if known:
        with pytest.raises(InputError, match=f"DGLGraph.{name} of DGL is not offered: "):
            value(1)


@pytest.mark.parametrize("name", [name for name in names.REFUSED if "." not in name])
def test_functions_that_are_lacking_are_refused_when_they_are_used(name: str) -> None:
    value = getattr(dgl, name)
    with pytest.raises(InputError, match=f"^{name} of DGL is not offered: "):
        value(ring())
    with pytest.raises(InputError, match=f"^{name} of DGL is not offered: "):
        _ = value.RedditDataset


@pytest.mark.parametrize("package", ["", "function"])
def test_names_that_work_are_there(package: str) -> None:
    module: Any = getattr(dgl, package) if package else dgl
    assert [name for name in names.WORKS[package] if not hasattr(module, name)] == []


def test_names_that_dgl_does_not_have_are_no_attributes() -> None:
    for value, name in ((dgl, "grph"), (ring(), "nde"), (dgl.function, "u_pow_v")):
        with pytest.raises(AttributeError, match=name):
            getattr(value, name)


def test_the_seed_of_dgl_is_noted() -> None:
    notes.note.cache_clear()
    with pytest.warns(UserWarning, match="seed changes nothing here: "):
        dgl.seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dgl.random.seed(1)


def test_small_questions() -> None:
    g = ring()
    g.ndata["x"] = torch.zeros(3)
    copy = g.clone()
    copy.ndata["x"].add_(1)
    assert g.cpu().ndata["x"].sum() == 0
    assert (g.is_multigraph, g.is_unibipartite, g.is_pinned(), g.formats(["csc"]) is g) == (True, False, False, True)
    assert (g.has_nodes(2), g.has_nodes([0, 3]).tolist(), g.get_ntype_id("_N"), g.get_etype_id("_E")) == (
        True,
        [True, False],
        0,
        0,
    )
    g.create_formats_()
    with pytest.raises(dgl.DGLError):
        g.in_degrees([7])
