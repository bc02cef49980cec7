"""What a change does to its tables, once all shares are here: prepared before anything is written, then applied as a whole."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from torch import Tensor

from halohop import ops
from halohop.errors import ClusterError, InputError
from halohop.tables.change_messages import Applied, Share, Way
from halohop.tables.checks import require_finite
from halohop.tables.rules import coalesce
from halohop.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What happens to one table.

    Args:
        table: the table.
        gid, rows: rows and what they become, in order; or each row once, and its gradient.
        lr: the learning rate of a step.
        scale: gradients are multiplied by this.
    """

    table: Table
    gid: Tensor
    rows: Tensor | ops.SummedRows
    lr: float = 0.0
    scale: float = 1.0


class Plan:
    """A change that fits.

    Args:
        way: as of `ChangeRequest`.
        parts: by table, ascending by name.

    Attributes:
        tables: that it changes.
    """

    def __init__(self, way: Way, parts: Sequence[Part]) -> None:
        self._way = way
        self._parts = parts
        self.tables = tuple(part.table for part in parts)

    def square(self) -> float:
        """The sum of the squared entries of all gradients."""
        return sum(part.rows.sum_of_squares() * part.scale**2 for part in self._parts if isinstance(part.rows, ops.SummedRows))

    def apply(self, scale: float) -> Applied:
        """Changes all tables, or none of them. Nobody reads a part of it.

        Args:
            scale: gradients are multiplied by this.

        Raises:
            ClusterError: one of them was dropped.
        """
        with ExitStack() as stack:
            for table in self.tables:
                stack.enter_context(table.lock)
            for part in self._parts:
                part.table.require_whole()
                if self._way == "step" and part.table.rule is None:
                    raise ClusterError(f"table {part.table.spec.name!r} has no optimiser any more")
            for table in self.tables:
                stack.enter_context(table.changing())
            for part in self._parts:
                if isinstance(part.rows, ops.SummedRows):
                    part.table.step(part.gid, part.rows, lr=part.lr, scale=part.scale * scale)
                else:
                    part.table.put(part.gid, part.rows, add=self._way == "add")
            return Applied(steps={table.spec.name: table.steps for table in self.tables})


def planned(
    way: Way,
    shares: Mapping[int, Iterable[Share]],
    tables: Mapping[str, Table],
    *,
    size: int,
    pool: ops.Pool | None = None,
) -> Plan:
    """What the shares of all ranks come to. Those of equal rows are put together, in rank order.

    Args:
        way: as of `ChangeRequest`.
        shares: by rank; each was checked.
        tables: by name.
        size: how many ranks there are.
        pool: where the memory of sums comes from.

    Raises:
        InputError: learning rates that differ, or gradients whose sum is not finite.
    """
    by_table: dict[str, list[Share]] = {}
    rates: dict[str, dict[float, int]] = {}
    for rank in sorted(shares):
        for share in shares[rank]:
            by_table.setdefault(share.name, []).append(share)
            rates.setdefault(share.name, {}).setdefault(share.lr, rank)
    for name, known in rates.items():
        if len(known) > 1:
            listed = ", ".join(f"{lr} at rank {rank}" for lr, rank in known.items())
            raise InputError(f"the learning rates of table {name!r} differ between ranks ({listed}); give all ranks the same")
    return Plan(way, [_part(way, tables[name], by_table[name], size, pool) for name in sorted(by_table)])


def _part(way: Way, table: Table, shares: list[Share], size: int, pool: ops.Pool | None) -> Part:
    if way != "step":
        (share,) = shares
        return Part(table=table, gid=share.gid, rows=share.rows)
    rule = table.rule
    assert rule is not None
    gid, rows = coalesce([share.gid for share in shares], [share.rows for share in shares], rule.spec.duplicates, pool=pool)
    if any(share.huge for share in shares):
        require_finite(table.spec.name, gid, rows.tensor(), "sums of finite gradients")
    return Part(table=table, gid=gid, rows=rows, lr=shares[0].lr, scale=1 / size if rule.spec.ranks == "mean" else 1.0)
