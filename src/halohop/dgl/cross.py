"""Messages of several relations at once."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from halohop.dgl.function import Reduction
from halohop.dgl.message import Passes, Passing
from halohop.errors import InputError
from halohop.nn import Adjacency

CrossReducer = str | Callable[[list[Tensor]], Tensor]

CROSS: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "sum": lambda found: reduce(torch.add, found),
    "mean": lambda found: reduce(torch.add, found) / len(found),
    "max": lambda found: torch.stack(found).max(0).values,
    "min": lambda found: torch.stack(found).min(0).values,
    "stack": lambda found: torch.stack(found, 1),
}
"""What makes one tensor of those of several relations."""

BEYOND = {"max": float("-inf"), "min": float("inf")}


class CrossPasses(Passes):
    """A graph along whose edges of several relations messages go."""

    def multi_update_all(self, etype_dict: Mapping[Any, Any], cross_reducer: CrossReducer, apply_node_func: Any = None) -> None:
        """As `update_all` along several relations, whose results for a type of destinations are reduced to one.

        A function is given these in the order of `etype_dict`; "stack" stacks them in that of the graph's relations. A relation
        gives 0 to destinations without messages; but the greatest of the greatest, and the least of the least, are of all
        messages.

        Args:
            etype_dict: by relation, the message function and the reduce function.
            cross_reducer: "sum", "mean", "min", "max", "stack", or a function of a list of tensors ``[n, ...]``.
            apply_node_func: as of `update_all`.
        """
        if not callable(cross_reducer) and cross_reducer not in CROSS:
            raise InputError(f"cross_reducer={cross_reducer!r}; give one of {list(CROSS)}, or a function of a list of tensors")
        given = {self.to_canonical_etype(etype): pair for etype, pair in etype_dict.items()}
        for relation, pair in given.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise InputError(f"edges {relation} have {pair!r}; give (message function, reduce function)")
        alike = all(isinstance(pair[1], Reduction) and pair[1].operation == cross_reducer for pair in given.values())
        beyond = BEYOND.get(str(cross_reducer)) if alike else None
        found: dict[tuple[str, str], list[Tensor]] = {}
        for relation in given if callable(cross_reducer) else sorted(given, key=self.canonical_etypes.index):
            passing = Passing(self, relation)
            for name, rows in passing.received(*given[relation]).items():
                found.setdefault((relation[2], name), []).append(_without_messages(rows, passing.edges, beyond))
        made_one = cross_reducer if callable(cross_reducer) else CROSS[cross_reducer]
        for (ntype, name), parts in found.items():
            rows = made_one(parts)
            self.dst_frame(ntype)[name] = rows if beyond is None else rows.masked_fill(rows == beyond, 0)
        for ntype in dict.fromkeys(relation[2] for relation in given) if apply_node_func is not None else ():
            self.apply_nodes(apply_node_func, ntype=ntype)


def _without_messages(rows: Tensor, edges: Adjacency, value: float | None) -> Tensor:
    """Rows of destinations, with a value where there is no message."""
    if value is None:
        return rows
    empty = edges.hop.begins.diff() == 0
    return rows.masked_fill(empty.view(-1, *[1] * (rows.dim() - 1)), value)
