"""Which partition owns a node: METIS, Fennel, at random, or as the user says."""

from importlib.util import find_spec

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.partitioning.balance import Adjacency, even_out, node_loads
from halohop.partitioning.division import TOLERANCE, Assigner, Assignment, AssignRequest, Division
from halohop.store.tables import GraphTables, NodeTable

METHODS = ("auto", "metis", "fennel", "random")

_PASSES = 10  # of Fennel: on 20,000 nodes 5 cut as few edges, to half a percent


def assign(
    tables: GraphTables,
    num_parts: int,
    method: "str | Assignment | Tensor | Assigner" = "auto",
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> Division:
    """Divides the nodes into partitions.

    - ``"auto"``: "metis" where pymetis is installed, else "fennel"; `chosen` says which.
    - ``"metis"``: few edges between partitions (multilevel k-way partitioning, Karypis and Kumar 1998), on the union of all
      node types and relations. Nodes, nodes of the split "train" and in-edges are balanced, all types together: no
      partition has more than ``1 + tolerance`` times the mean of each, or than the mean rounded up, unless no move of a node
      brings it closer, as with one node that has more edges than that. A graph of fewer nodes than partitions, or without
      edges, is dealt as by "random".
    - ``"fennel"``: the same graph and balance, by `halohop.ops.fennel`: quicker, a few more cut edges, nothing to install.
    - ``"random"``: every node type, and within it every split, is dealt evenly; about ``1 - 1 / num_parts`` of the edges are cut.
    - an assignment: tensors of partition numbers by node type, or one tensor if there is one node type.
    - an `Assigner`: whatever divides a graph on request.

    The result is a function of the tables and the arguments.

    Raises:
        InputError: an unknown method, num_parts < 1, pymetis is not installed, or an assignment that does not fit the tables.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=6)}, edges={})
        >>> assign(tables, 2, "random").part["node"].bincount().tolist()
        [3, 3]
    """
    if num_parts < 1:
        raise InputError(f"num_parts={num_parts}; there is at least one partition")
    if isinstance(method, Tensor):
        if len(tables.nodes) != 1:
            raise InputError(f"one tensor assigns one node type, this graph has {list(tables.nodes)}; give a dict of tensors")
        method = dict.fromkeys(tables.nodes, method)
    if callable(method):
        return method(tables, AssignRequest(num_parts=num_parts, seed=seed, tolerance=tolerance))
    if not isinstance(method, str):
        return Division(part=_checked(method, tables, num_parts))
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; known: {list(METHODS)}, or give an assignment")
    if num_parts == 1:
        return Division(part={name: torch.zeros(table.num_nodes, dtype=torch.int32) for name, table in tables.nodes.items()})
    if method == "random":
        return Division(part=_deal(tables, num_parts, seed))
    return Division(part=_near_neighbours(tables, num_parts, chosen(method), seed, tolerance))


def chosen(method: str) -> str:
    """The method that "auto" stands for here; any other stands for itself."""
    if method != "auto":
        return method
    return "metis" if find_spec("pymetis") else "fennel"


def _checked(assignment: Assignment, tables: GraphTables, num_parts: int) -> Assignment:
    if assignment.keys() != tables.nodes.keys():
        raise InputError(f"the assignment has node types {list(assignment)}, the graph has {list(tables.nodes)}")
    for name, part in assignment.items():
        num_nodes = tables.nodes[name].num_nodes
        if part.dtype.is_floating_point or part.dtype.is_complex or part.dtype == torch.bool or part.shape != (num_nodes,):
            raise InputError(
                f"the assignment of {name!r} must be integers of shape ({num_nodes},), got {part.dtype} of {tuple(part.shape)}"
            )
        wrong = part[(part < 0) | (part >= num_parts)]
        if len(wrong):
            raise InputError(f"the assignment of {name!r} holds {int(wrong[0])}, but partitions go from 0 to {num_parts - 1}")
    return {name: assignment[name].to(torch.int32) for name in tables.nodes}


def _deal(tables: GraphTables, num_parts: int, seed: int) -> Assignment:
    """Deals shuffled nodes like cards, split by split, each type going on where the last one stopped."""
    generator = torch.Generator().manual_seed(seed)
    assignment, dealt = {}, 0
    for name, table in tables.nodes.items():
        shuffled = torch.randperm(table.num_nodes, generator=generator)
        splits = _split_numbers(table)[shuffled]
        order = shuffled[torch.argsort(splits, stable=True)]
        part = torch.empty(table.num_nodes, dtype=torch.int32)
        part[order] = ((torch.arange(table.num_nodes) + dealt) % num_parts).to(torch.int32)
        assignment[name] = part
        dealt += table.num_nodes
    return assignment


def _split_numbers(table: NodeTable) -> Tensor:
    """Equal for nodes that are in the same splits, int64 ``[num_nodes]``."""
    number = torch.zeros(table.num_nodes, dtype=torch.int64)
    for name, mask in table.columns.items():
        if name.endswith("_mask") and mask.dtype == torch.bool and mask.dim() == 1:
            number = number * 2 + mask
    return number


def _near_neighbours(tables: GraphTables, num_parts: int, method: str, seed: int, tolerance: float) -> Assignment:
    divide = _metis if method == "metis" else _fennel
    graph = _union_graph(tables)
    if graph.num_nodes < num_parts or len(graph.neighbors) == 0:  # METIS prints complaints then, and divides badly
        return _deal(tables, num_parts, seed)
    loads = node_loads(tables)
    part = divide(graph, _vertex_weights(loads), num_parts, seed)
    even_out(part, loads, graph, num_parts, tolerance)
    pieces = torch.split_with_sizes(part.to(torch.int32), [table.num_nodes for table in tables.nodes.values()])
    return dict(zip(tables.nodes, pieces, strict=True))


def _metis(graph: Adjacency, weights: Tensor, num_parts: int, seed: int) -> Tensor:
    try:
        import pymetis
    except ImportError as error:
        raise InputError('method="metis" needs pymetis: pip install "halohop[metis]"; method="fennel" needs nothing') from error
    found = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(adj_starts=graph.indptr.numpy(), adjacent=graph.neighbors.numpy()),
        vweights=weights.numpy(),
        eweights=graph.weights.numpy(),
        options=pymetis.Options(seed=seed % 2**31),
    )
    return torch.tensor(found.vertex_part, dtype=torch.int64)


def _fennel(graph: Adjacency, weights: Tensor, num_parts: int, seed: int) -> Tensor:
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    return ops.fennel(graph.indptr, graph.neighbors, graph.weights, weights, order, num_parts, slack=TOLERANCE, passes=_PASSES)


def _vertex_weights(loads: Tensor) -> Tensor:
    """One weight for each node, int64 ``[n]``, since METIS takes only one here: nodes and in-edges weigh as much in sum.

    Training nodes are left to `even_out`. With their weight in it, METIS trades them for edges, and evening out undoes its work:
    33 % of the edges of a clustered graph were cut in the end, instead of 16 %.
    """
    edges = loads[:, -1]
    return 10 + (10 * edges / edges.double().mean()).round().long()


def _union_graph(tables: GraphTables) -> Adjacency:
    """All node types and relations as one undirected graph without loops; parallel edges are one edge of that weight."""
    first, offset = 0, {}
    for name, nodes in tables.nodes.items():
        offset[name], first = first, first + nodes.num_nodes
    keys = []
    for (source, _, destination), table in tables.edges.items():
        src, dst = table.src + offset[source], table.dst + offset[destination]
        low, high = torch.minimum(src, dst).long(), torch.maximum(src, dst).long()
        keys.append((low * first + high)[low != high])
    key, weight = torch.unique(torch.cat(keys) if keys else torch.empty(0, dtype=torch.int64), return_counts=True)
    low, high = key // max(first, 1), key % max(first, 1)
    indptr, order = ops.build_csc(torch.cat([high, low]), first)
    return Adjacency(indptr=indptr, neighbors=torch.cat([low, high])[order], weights=torch.cat([weight, weight])[order])
