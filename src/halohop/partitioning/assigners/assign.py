"""Which partition owns a node: by one of several assigners, or as the user says."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.memory import machine_bytes
from halohop.partitioning.assigners import libmetis
from halohop.partitioning.assigners.dealing import cut_into_ranges, deal_evenly
from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.partitioning.assigners.division import Assigner, AssignRequest, Division
from halohop.partitioning.assigners.given import Given, read_assignment
from halohop.partitioning.assigners.kaminpar import kaminpar
from halohop.partitioning.assigners.metis import least_bytes, metis
from halohop.partitioning.assigners.stream import fennel, ldg
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

ASSIGNERS: dict[str, Assigner] = {
    "metis": metis,
    "kaminpar": kaminpar,
    "ldg": ldg,
    "fennel": fennel,
    "random": deal_evenly,
    "range": cut_into_ranges,
}

METHODS = ("auto", *ASSIGNERS)

_HEEDLESS = ("random", "range")
_MOST_CLASSES = 32  # each makes METIS slower, and its cut larger

Classes = Tensor | Mapping[NodeType, Tensor]

Method = str | Assigner | Given | Mapping[NodeType, Given]


def assign(
    tables: GraphTables,
    num_parts: int,
    method: Method = "auto",
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    num_blocks: int | None = None,
    balance_types: bool = False,
    balance_classes: Classes | None = None,
    memory: Budget | None = None,
    scratch: Path | None = None,
) -> Division:
    """Divides the nodes into partitions.

    - ``"auto"``: "metis" where it is installed and fits into memory, else "ldg", or "fennel" without METIS: see `chosen`.
    - ``"metis"``: few edges between partitions, and blocks: see `halohop.partitioning.assigners.metis.metis`.
    - ``"kaminpar"``: a few more, for graphs beyond 32-bit numbers: see `halohop.partitioning.assigners.kaminpar.kaminpar`.
    - ``"ldg"``, ``"fennel"``: a few more cut edges, with nothing to install and a few bytes a node in memory: see
      `halohop.partitioning.assigners.stream`.
    - ``"random"``: every node type, and within it every split, is dealt evenly; about ``1 - 1 / num_parts`` of the edges are cut.
    - ``"range"``: every partition has a range of the rows of each node type.
    - an assignment, or a file that holds one: see `halohop.partitioning.assigners.given.read_assignment`.
    - an `Assigner`: whatever divides a graph on request.

    All of these balance nodes, nodes of the split "train" and in-edges, all types together or each on its own: no
    partition has more than ``1 + tolerance`` times the mean of each, or than the mean rounded up, unless no move of a node
    brings it closer, as with one node that has more edges than that. The result is a function of the tables and the arguments.

    Args:
        tables, method: the graph, and how it is divided.
        num_parts, seed, tolerance, num_blocks, balance_types, memory, scratch: see `AssignRequest`; None for memory is half of
            what is available.
        balance_classes: the class of each node, integers or bools ``[num_nodes]``; a dict of these by type where there are
            several. Nodes of each class are balanced, too; "random", "range" and an assignment do not.

    Raises:
        InputError: an unknown method, a number that cannot be, METIS is not installed, or an assignment that does not fit.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> tables = GraphTables(nodes={"node": NodeTable(num_nodes=6)}, edges={})
        >>> assign(tables, 2, "random").part["node"].bincount().tolist()
        [3, 3]
    """
    if num_parts < 1:
        raise InputError(f"num_parts={num_parts}; there is at least one partition")
    if not tolerance >= 0:
        raise InputError(f"tolerance={tolerance}; give a number that is not negative, such as {TOLERANCE}")
    classes = classes_of(balance_classes, tables, method)
    if not isinstance(method, str) and not callable(method):
        return Division(part=read_assignment(method, tables, num_parts))
    if isinstance(method, str) and method not in METHODS:
        raise InputError(f"unknown method {method!r}; known: {list(METHODS)}, or give an assignment")
    request = AssignRequest(
        num_parts=num_parts,
        seed=seed,
        tolerance=tolerance,
        num_blocks=num_blocks,
        balance_types=balance_types,
        classes=classes,
        memory=Budget.parse(memory),
        scratch=scratch,
    )
    if num_parts == 1 and not num_blocks:
        return Division(part={name: torch.zeros(table.num_nodes, dtype=torch.int32) for name, table in tables.nodes.items()})
    assigner = ASSIGNERS[chosen(method, tables, memory)] if isinstance(method, str) else method
    division = assigner(tables, request)
    if num_blocks and division.num_blocks != num_blocks:
        raise InputError(f'blocks={num_blocks}, but method={method!r} makes none; use method="metis"')
    return division


def classes_of(given: Classes | None, tables: GraphTables, method: Method) -> dict[NodeType, Tensor]:
    """The classes by which nodes are balanced, by type.

    Raises:
        InputError: they are of no type, of the wrong shape or dtype, too many, or the method does not heed them.
    """
    if given is None:
        return {}
    if method in _HEEDLESS if isinstance(method, str) else not callable(method):
        raise InputError(f'balance_classes are not heeded by method={method!r}; use "metis", "ldg", "fennel" or "kaminpar"')
    if isinstance(given, Tensor | np.ndarray):
        if len(tables.nodes) != 1:
            raise InputError(f"balance_classes is one tensor, and node types are {list(tables.nodes)}; give a dict by type")
        given = dict.fromkeys(tables.nodes, given)
    found = {}
    for name, classes in given.items():
        if name not in tables.nodes:
            raise InputError(f"balance_classes has the type {name!r}, and node types are {list(tables.nodes)}")
        own, count = torch.as_tensor(classes), tables.nodes[name].num_nodes
        if own.shape != (count,) or own.is_floating_point() or own.is_complex():
            raise InputError(f"balance_classes of {name!r} is {own.dtype} of shape {tuple(own.shape)}; give {count} integers")
        found[name] = own.long()
    if (count := sum(len(own.unique()) for own in found.values())) > _MOST_CLASSES:
        raise InputError(f"balance_classes has {count} classes, and {_MOST_CLASSES} can be balanced; put some together")
    return found


def chosen(method: str, tables: GraphTables | None = None, memory: str | int | Budget | None = None) -> str:
    """The method that "auto" stands for here; any other stands for itself.

    Args:
        tables: the graph, where it is known: METIS must fit into the memory that is given, or half of the machine's.
    """
    if method != "auto":
        return method
    if not libmetis.is_installed():
        return "fennel"
    room = machine_bytes() // 2 if memory is None else Budget.parse(memory).bytes
    return "metis" if tables is None or least_bytes(tables) <= room else "ldg"
