"""Every way in which users name the columns that their batches get, turned into one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from halohop.errors import InputError, SchemaError
from halohop.pyg.attributes import STRUCTURE
from halohop.sampling.columns import Columns
from halohop.typing import EDGE, NODE, TableKey

IDS = ("n_id", "e_id")
"""What batches call the user's ids of their nodes and edges."""

Names = Sequence[str] | Mapping[Any, Sequence[str]] | None
"""Columns as users name them: a list of names, or one per node type or relation; None means all, an empty list none."""


def columns_of(known: Mapping[TableKey, Sequence[str]], node_columns: Names, edge_columns: Names) -> Columns:
    """The columns that a user names.

    Args:
        known: the columns of every node type and relation.
        node_columns, edge_columns: a list of names, each of which some type or relation has; a dict of such lists, where what is
            not named gets none; None for all.

    Raises:
        SchemaError: a type, relation or column that the graph does not have; names those that it has.
        InputError: no list of names.

    Example:
        >>> known = {"paper": ["x", "y"], "author": ["x"], ("author", "writes", "paper"): ["weight"]}
        >>> columns_of(known, ["x"], {("author", "writes", "paper"): []}).nodes
        {'paper': ('x',), 'author': ('x',)}
        >>> columns_of(known, {"paper": ["z"]}, None)
        Traceback (most recent call last):
        halohop.errors.SchemaError: node_columns names 'z', which 'paper' does not have; its columns: ['x', 'y']
    """
    of_nodes = {table: names for table, names in known.items() if isinstance(table, str)}
    of_edges = {table: names for table, names in known.items() if not isinstance(table, str)}
    return Columns(nodes=_chosen(of_nodes, node_columns, "node_columns"), edges=_chosen(of_edges, edge_columns, "edge_columns"))


def checked_ids(wanted: Names) -> frozenset[str]:
    """Which ids batches get, of `n_id` and `e_id`; None stands for both.

    Raises:
        InputError: no list of these.

    Example:
        >>> sorted(checked_ids(None)), sorted(checked_ids(["n_id"]))
        (['e_id', 'n_id'], ['n_id'])
    """
    names = IDS if wanted is None else _names(wanted, "ids")
    for name in names:
        if name not in IDS:
            raise InputError(
                f"ids names {name!r}, but batches have the ids {list(IDS)}; other columns: node_columns, edge_columns"
            )
    return frozenset(names)


def check_places(known: Mapping[TableKey, Sequence[str]], columns: Columns, *, homogeneous: bool) -> None:
    """Whether a batch has a place of its own for every column that it gets.

    Args:
        known: the columns of every node type and relation.
        columns: those that batches get.
        homogeneous: whether batches are `Data`, where nodes and edges share their places.

    Raises:
        SchemaError: a column has the name of the batch's own edges or number of nodes, or nodes and edges have one of a name.
    """
    got = {table: columns.of(table, names) for table, names in known.items()}
    remedy = "rename one, or name the columns that batches get (node_columns, edge_columns) without it"
    for table, names in got.items():
        for name in STRUCTURE:
            if name in names:
                raise SchemaError(f"{table!r} has a column {name!r}, where batches have their own edges or nodes; {remedy}")
    if homogeneous:
        for name in got[NODE]:
            if name in got[EDGE]:
                raise SchemaError(f"nodes and edges both have a column {name!r}, and a batch has one place for it; {remedy}")


def _chosen(known: Mapping[Any, Sequence[str]], wanted: Names, argument: str) -> dict[Any, tuple[str, ...]] | None:
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping):
        names = _names(wanted, argument)
        for name in names:
            if not any(name in columns for columns in known.values()):
                listed = "; ".join(f"{table!r}: {list(columns)}" for table, columns in known.items())
                raise SchemaError(f"{argument} names {name!r}, which is no column of any; there are {listed}")
        return {table: tuple(name for name in names if name in columns) for table, columns in known.items()}
    chosen = {}
    for key, listed_names in wanted.items():
        table = tuple(key) if isinstance(key, list) else key
        if table not in known:
            raise SchemaError(f"{argument} names {key!r}, which the graph does not have; there are {list(known)}")
        chosen[table] = _names(listed_names, f"{argument}[{key!r}]")
        for name in chosen[table]:
            if name not in known[table]:
                raise SchemaError(f"{argument} names {name!r}, which {table!r} does not have; its columns: {list(known[table])}")
    return chosen


def _names(wanted: Any, argument: str) -> tuple[str, ...]:
    listed = isinstance(wanted, Collection) and not isinstance(wanted, str)
    if not listed or not all(isinstance(name, str) for name in wanted):
        raise InputError(f"{argument}={wanted!r} is no list of names; give one such as ['x'], [] for none, or None for all")
    return tuple(dict.fromkeys(wanted))
