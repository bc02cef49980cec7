"""How neighbours are drawn: the rules, and the place of one draw in the stream of random numbers."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from halohop.errors import InputError
from halohop.flags import checks_flags

Expand = Literal["new", "all"]
Subgraph = Literal["directional", "induced", "bidirectional"]


@checks_flags
@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How neighbours are drawn and expanded: the one record of it, from a loader's arguments to the owners of the nodes.

    Args:
        replace: draw with replacement.
        expand: "new" expands the nodes that the previous hop found (PyG); "all" draws again for all nodes so far (DGL blocks).
        disjoint: every seed gets a subgraph of its own; a node that is found around two seeds is two nodes of the batch.
        weight: the edges' column of weights to draw by. Relations without it draw uniformly.
        time: the column of times of edges, or else of their sources: what is later than a seed is not drawn around it. Needs
            `disjoint`. Relations without it ignore time.
        time_window: what is earlier than a seed by more than this is not drawn around it either, in the unit of the times.
        last: of the neighbours in time, the most recent ones instead of random ones.
        labor: random numbers belong to the neighbours, so that the nodes of a hop draw alike and a batch has fewer of them
            (LABOR-0, Balin & Catalyurek 2023). In a forest every tree has numbers of its own.
        layer_dependency: all hops have the same random numbers; needs `labor`.
        subgraph: which edges a batch has. "directional": those that were drawn; "induced": all edges of the graph among its
            nodes; "bidirectional": those that were drawn and their flips. The nodes are the same.
        toward_seeds: edges of a batch lead from neighbours to the nodes that they were drawn for, also where lists are of
            out-edges, which lead the other way round in the graph.

    Raises:
        InputError: rules that exclude each other.
    """

    replace: bool = False
    expand: Expand = "new"
    disjoint: bool = False
    weight: str | None = None
    time: str | None = None
    time_window: int | float | None = None
    last: bool = False
    labor: bool = False
    layer_dependency: bool = False
    subgraph: Subgraph = "directional"
    toward_seeds: bool = False

    def __post_init__(self) -> None:
        if self.expand not in ("new", "all"):
            raise InputError(f"expand={self.expand!r} is neither 'new' nor 'all'")
        if self.last and self.time is None:
            raise InputError("the most recent neighbours are asked for, but no times are named; name their column")
        if self.time_window is not None and self.time is None:
            raise InputError(f"time_window={self.time_window} is given, but no times are named; name their column")
        if self.time_window is not None and (type(self.time_window) not in (int, float) or not self.time_window >= 0):
            raise InputError(f"time_window={self.time_window!r} is no span of time; give a number of at least 0")
        if self.last and self.weight is not None:
            raise InputError(f"the most recent neighbours are no matter of chance; leave out the weights {self.weight!r}")
        if self.labor and self.last:
            raise InputError("the most recent neighbours are no matter of chance; leave out labor")
        if self.labor and self.replace:
            raise InputError("labor draws without replacement; leave out replace=True")
        if self.layer_dependency and not self.labor:
            raise InputError("layer_dependency is a matter of labor alone; leave it out, or draw with method='labor'")
        if self.time is not None and not self.disjoint:
            raise InputError("with times every seed needs a subgraph of its own; set disjoint=True")
        if self.subgraph not in get_args(Subgraph):
            raise InputError(f"subgraph type {self.subgraph!r} is none of {list(get_args(Subgraph))}")
        if self.toward_seeds and self.subgraph == "bidirectional":
            raise InputError("bidirectional subgraphs have edges toward the seeds as they are; leave out toward_seeds")
        if self.subgraph == "induced" and self.time is not None:
            raise InputError("induced subgraphs have edges of any time; leave out the times, or use subgraph type 'directional'")

    @property
    def changed(self) -> frozenset[str]:
        """The names of the options that differ from their defaults. A fast path compares them with those that it supports."""
        return frozenset(option.name for option in fields(self) if getattr(self, option.name) != option.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One hop's draw.

    Args:
        seed, epoch, batch, hop: what random numbers are a function of, besides the relation, each node's raw id and its tree.
        rules: how neighbours are drawn.
    """

    seed: int
    epoch: int
    batch: int
    hop: int
    rules: Rules = Rules()


TAKE_ALL = Draw(seed=0, epoch=0, batch=0, hop=0)
"""For queries that leave nothing to chance: all neighbours, or the edges between given nodes."""
