"""How the work of a build is cut into steps and chunks, so that it stays within a budget."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.cores import usable_cores
from halohop.errors import ClusterError, InputError
from halohop.memory import format_size, private_bytes
from halohop.partitioning.building.columns import in_file, row_bytes
from halohop.partitioning.building.fields import PIECE_BYTES, Table
from halohop.partitioning.building.numbering import id_dtype
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import GraphTables, is_dense

_STEP_BYTES = 256 << 20  # of a table's rows in a step: seconds of work
_CHUNK_BYTES = 64 << 20  # larger ones are no quicker
_LEAST_ROOM = 2 * PIECE_BYTES
_KERNELS = 96 << 20  # what loading or compiling the kernels takes
_GID = 8  # bytes of a gid, and of what is computed for a row, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a build may take.

    Args:
        threads: how many steps run at a time.
        room: bytes for the rows of each.
    """

    threads: int
    room: int

    @property
    def whole(self) -> Budget:
        """What all threads have together."""
        return Budget(bytes=self.threads * self.room)

    def of_room(self, room: int) -> "Memory":
        """The same memory for steps that take so much, of which fewer or more run at a time.

        Raises:
            ClusterError: it is too little for one.
        """
        total = self.threads * self.room
        if room > total + total // 8:  # a few MB more or less are in use whenever one looks
            raise ClusterError(
                f"a step of this build takes {format_size(room)}, as the worker that began it had so much, and this one may take "
                f"{format_size(total)}; give this one as much memory"
            )
        return Memory(threads=max(min(len(usable_cores()), total // room), 1), room=room)

    @property
    def dirty_bytes(self) -> int:
        """How much of what a step wrote may wait for the disk."""
        return max(min(self.room // 4, _CHUNK_BYTES), 1 << 20)

    def sort_cost(self, table: Table) -> int:
        """Bytes that sorting takes for a row of a bucket: its gid, twice; its place; a column; one that is looked at, sorted."""
        return 2 * row_bytes(table.by) + 8 + table.widest + (_GID if table.times else 0)

    def gid_cost(self, table: Table) -> int:
        """Bytes that sorting takes for a gid of a bucket: where its list begins, and what is computed of that."""
        return 4 * _GID if table.lists else 0

    def fits(self, table: Table) -> bool:
        """Whether a table can be sorted as it is. Columns in memory are there anyway; mapped ones are read in any order."""
        columns = (table.by, *(field.column for field in table.fields))
        mapped = sum(row_bytes(column) for column in columns if column.mapped)
        cost = 2 * row_bytes(table.by) + 8 + (_GID if table.times else 0) + mapped
        return table.num_rows * cost + table.bounds[-1] * self.gid_cost(table) <= self.room

    def chunks(self, table: Table, rows: range) -> list[range]:
        """Rows that are in memory at once, when a table is read from its begin to its end."""
        return cut_range(rows, min(self.room // 2, _CHUNK_BYTES) // (3 * _GID + table.widest))


def cut_range(rows: range, step: int) -> list[range]:
    """A range in pieces of at most `step` numbers; one piece, where it is empty.

    Example:
        >>> cut_range(range(5), 2), cut_range(range(3, 3), 2)
        ([range(0, 2), range(2, 4), range(4, 5)], [range(3, 3)])
    """
    step = max(step, 1)
    return [range(first, min(first + step, rows.stop)) for first in range(rows.start, max(rows.stop, rows.start + 1), step)]


def step_ranges(table: Table) -> list[range]:
    """The rows of each step; they follow from the table alone, so that all workers cut it alike."""
    return cut_range(range(table.num_rows), _STEP_BYTES // max(table.row_bytes, 1))


def plan_memory(tables: GraphTables, halo: Sequence[str], budget: Budget, *, asked: bool) -> Memory:
    """How a budget is used.

    Args:
        tables: what is built; columns in memory are not counted.
        halo: names of columns of nodes that are looked up for edges.
        budget: of the whole process.
        asked: whether it is what the user asked for; else it grows to what is needed.

    Raises:
        InputError: it does not hold what every build needs; names the least that is enough.
    """
    given = sum(column.nbytes for column in _columns(tables) if is_dense(column) and not _mapped_row(column))
    fixed = fixed_bytes([table.num_nodes for table in tables.nodes.values()], given)
    for table in tables.nodes.values():
        looked_up = [column for name, column in table.columns.items() if name in halo]
        looked_up += [] if table.raw_id is None or "raw_id" not in halo else [table.raw_id]
        fixed += sum(column.nbytes for column in looked_up if in_file(column))
    if asked:
        check_budget(budget, fixed)
    room = max(budget.bytes, fixed + _LEAST_ROOM) - fixed
    threads = max(min(len(usable_cores()), room // _LEAST_ROOM), 1)
    return Memory(threads=threads, room=room // threads)


def fixed_bytes(counts: Sequence[int], given: int = 0) -> int:
    """What every build keeps in memory: this process as it is, its kernels, and the numbers of the nodes.

    Args:
        counts: how many nodes each type has.
        given: what of this process is columns that were given to it.
    """
    numbers = sum(count * (id_dtype(count).itemsize + torch.int32.itemsize) + count // 8 for count in counts)
    return max(private_bytes() - given, 0) + _KERNELS + numbers


def check_budget(budget: Budget, fixed: int) -> None:
    """
    Raises:
        InputError: a budget does not hold what every build keeps, and a little more; names the least that is enough.
    """
    least = fixed + _LEAST_ROOM
    if budget.bytes < least:
        raise InputError(
            f"memory={format_size(budget.bytes)} is too little: the numbers of the nodes and the code itself take "
            f"{format_size(fixed)}; give at least {-(-least // _LEAST_ROOM) * (_LEAST_ROOM >> 20)}MiB"
        )


def is_small(tables: GraphTables, halo: Sequence[str], memory: Memory, budget: Budget) -> bool:
    """Whether a build needs no files meanwhile, and is so quick that it may begin anew when it is killed.

    At least as strict as `Memory.fits`, which knows how the nodes are numbered.
    """
    looked_up = _GID * (len(halo) + 2)
    costs = [
        table.num_edges * (4 * _GID + looked_up + sum(map(_mapped_row, (table.src, table.dst, *table.columns.values()))))
        + sum(4 * _GID * tables.nodes[name].num_nodes for name in relation[::2])
        for relation, table in tables.edges.items()
    ]
    costs += [
        table.num_nodes * (4 * _GID + sum(map(_mapped_row, (table.raw_id, *table.columns.values()))))
        for table in tables.nodes.values()
        if table.raw_id is not None
    ]
    mapped = sum(_mapped_row(column) * len(column) for column in _columns(tables))
    return mapped <= budget.bytes // 4 and max(costs, default=0) <= memory.room


def _mapped_row(column: Tensor) -> int:
    """Bytes of a row that lies in a file."""
    return column.nbytes // max(len(column), 1) if in_file(column) else 0


def _columns(tables: GraphTables) -> Iterable[Tensor]:
    for nodes in tables.nodes.values():
        yield from nodes.columns.values()
        if nodes.raw_id is not None:
            yield nodes.raw_id
    for edges in tables.edges.values():
        yield from (edges.src, edges.dst, *edges.columns.values())
