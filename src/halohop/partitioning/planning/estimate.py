"""What partitioning a graph will take, before it begins: time of each pass, memory, and disk; from sizes and measured rates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from halohop.errors import InputError
from halohop.partitioning.planning.budget import Budget
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.typing import SOURCE_ID, EdgeDir, Relation

_INT32_IDS = 2**31
_HEAD, _RECORD, _MANIFEST = 128, 210, 2000
"""Bytes of a `.npy` file before its data; of its entry in the manifest; of the rest of the manifest."""

_PROCESS = 420 << 20
"""What Python, torch and compiled kernels take without a graph."""
_LEAST_ROOM = 32 << 20
_NODE_BYTES = 9
"""In memory for each node: its partition and its gid, and as long as nodes are numbered, a bit."""
_SORT_BYTES = 40
"""In memory for an edge that is sorted there: its gid twice, its place and a column."""
_HOLDS = {"metis": (80, 150), "kaminpar": (60, 190)}
"""Bytes for an edge and for a node of an assigner that holds the graph, as measured with ten edges a node; others keep to the
budget."""
_MAKES_BLOCKS = ("metis",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a machine does in a second.

    Args:
        read: bytes of the tables of a source, as they are in memory, that are read and written to files.
        number: nodes that are numbered.
        count: edges of which is counted where they belong.
        move: bytes of rows that are read and written, in order or into buckets.
        sort: bytes of rows of buckets that are sorted and written.
        finish: edges of finished partitions that are measured.
        assign: edges that an assigner divides (of "random" and "range": nodes), by method.
    """

    read: float
    number: float
    count: float
    move: float
    sort: float
    finish: float
    assign: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """How a graph is divided: the arguments of `halohop.partition` that matter here.

    Args:
        ordered: whether partitions are ranges of the nodes as they come, which need not be renumbered.
        stored: by column, which share of its bytes is stored: 0.5 of float32 as float16.
    """

    num_parts: int
    method: str
    ordered: bool = False
    halo: Sequence[str] = ()
    edge_dir: EdgeDir = "in"
    weight_sums: Sequence[str] = ()
    blocks: int | None = None
    stored: Mapping[str, float] = field(default_factory=dict)

    def row_bytes(self, table: TableSizes) -> float:
        """Bytes of a row as it is stored."""
        return sum(size * self.stored.get(name, 1.0) for name, size in table.columns.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What it will take.

    Args:
        seconds: by pass, in their order.
        peak_bytes: of memory.
        disk_bytes: of the partitions.
        scratch_bytes: on the same disk besides, until it is finished.
        budget: what memory was asked for.
        notes: what a user should know of them, a sentence each.
    """

    seconds: dict[str, float]
    peak_bytes: int
    disk_bytes: int
    scratch_bytes: int
    budget: Budget
    notes: tuple[str, ...] = ()

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())


def estimate(sizes: GraphSizes, plan: PartitionPlan, rates: Rates, budget: Budget) -> Estimate:
    """What partitioning will take.

    Args:
        sizes: of the graph: of a source (`halohop.datasets.sizing.source_sizes`), or of one that is only thought of.
        plan: how it is divided.
        rates: of the machine (`halohop.partitioning.planning.rates.measured_rates`), or recorded ones.
        budget: how much memory may be taken.

    Raises:
        InputError: the budget does not hold what is kept of every node, or there are no rates of the method.

    Example:
        >>> sizes = GraphSizes(nodes={"node": TableSizes(rows=10**9)}, edges={("node", "to", "node"): TableSizes(rows=10**11)})
        >>> rates = Rates(read=5e8, number=1e8, count=5e7, move=3e8, sort=2e8, finish=5e7, assign={"random": 5e7})
        >>> found = estimate(sizes, PartitionPlan(num_parts=64, method="random"), rates, Budget.parse("16GB"))
        >>> round(found.total_seconds / 3600), found.disk_bytes >> 30
        (5, 1132)
    """
    fixed = _PROCESS + sizes.num_nodes * _NODE_BYTES
    if budget.bytes < fixed + _LEAST_ROOM:
        raise InputError(
            f"memory={str(budget)!r} is too little: the numbers of {sizes.num_nodes:,} nodes and the code itself take "
            f"{Budget(bytes=fixed)!s}; give at least {(fixed + _LEAST_ROOM) >> 20}MiB"
        )
    if plan.method not in rates.assign:
        raise InputError(f"method={plan.method!r} has not been measured; known: {sorted(rates.assign)}")
    staged = sizes.table_bytes if sizes.read_bytes and sizes.table_bytes > budget.bytes // 2 else 0
    in_memory = sizes.table_bytes if sizes.read_bytes and not staged else 0
    room = budget.bytes - fixed
    large = {relation: table for relation, table in sizes.edges.items() if table.rows * _SORT_BYTES > room}
    node_bytes = sum(table.rows * (table.row_bytes + 8 * table.own_ids) for table in sizes.nodes.values())
    edge_bytes = {relation: table.rows * _edge_row(sizes, relation, plan) for relation, table in sizes.edges.items()}
    of_large = sum(edge_bytes[relation] for relation in large)
    divided = sizes.num_nodes if plan.method in ("random", "range") else sizes.num_edges
    seconds = {
        "read": sizes.decode_seconds + (sizes.table_bytes / rates.read if sizes.read_bytes else 0.0),
        "assign": divided / rates.assign[plan.method],
        "number": sizes.num_nodes / rates.number,
        "count": sum(table.rows for table in large.values()) / rates.count,
        "move": (node_bytes + of_large) / rates.move,
        "sort": sum(edge_bytes.values()) / rates.sort,
        "finish": sizes.num_edges / rates.finish,
    }
    edge, node = _HOLDS.get(plan.method, (0, 0))
    held = edge * sizes.num_edges + node * sizes.num_nodes
    sorted_at_once = max((table.rows * _SORT_BYTES for table in sizes.edges.values()), default=0)
    peak = min(budget.bytes, fixed + in_memory + max(sorted_at_once, _LEAST_ROOM))
    notes = list(sizes.guessed)
    if fixed + held > budget.bytes:
        notes.append(f"method {plan.method} holds the graph in memory; ldg, fennel and random keep to {budget}")
    return Estimate(
        seconds={name: time for name, time in seconds.items() if time},
        peak_bytes=max(peak, _PROCESS + in_memory + held if held else 0),
        disk_bytes=disk_bytes(sizes, plan),
        scratch_bytes=round(staged + of_large + (_NODE_BYTES * sizes.num_nodes if staged or large else 0)),
        budget=budget,
        notes=tuple(notes),
    )


def disk_bytes(sizes: GraphSizes, plan: PartitionPlan) -> int:
    """How much the partitions take on the disk, with the manifest."""
    moves = plan.num_parts > 1 and not plan.ordered
    total, files = 0.0, 0
    for table in sizes.nodes.values():
        structure = 8.0 * (table.own_ids or moves) + (plan.blocks != 0 and plan.num_parts > 1 and plan.method in _MAKES_BLOCKS)
        total += table.rows * (plan.row_bytes(table) + structure)
        files += len(table.columns) + (table.own_ids or moves) + (structure not in (0, 8))
    for relation, table in sizes.edges.items():
        listed = relation[2] if plan.edge_dir == "in" else relation[0]
        total += table.rows * (_edge_row(sizes, relation, plan) - _key_bytes(sizes, relation, plan))
        total += 8 * (sizes.nodes[listed].rows + plan.num_parts)
        sums = sum(name in table.columns for name in plan.weight_sums)
        total += sums * (table.rows + 8 * sizes.nodes[listed].rows)
        files += 3 + len(table.columns) + len(plan.halo) + sums
    return round(total + files * plan.num_parts * (_HEAD + _RECORD) + _MANIFEST)


def _edge_row(sizes: GraphSizes, relation: Relation, plan: PartitionPlan) -> float:
    """Bytes of an edge while it is moved: what is stored of it, and the gid that it is sorted by."""
    table = sizes.edges[relation]
    near = sizes.nodes[relation[0] if plan.edge_dir == "in" else relation[2]]
    stored = _id_bytes(near.rows) + _id_bytes(table.rows) + plan.row_bytes(table) + _halo(near, table, plan)
    return stored + _key_bytes(sizes, relation, plan)


def _key_bytes(sizes: GraphSizes, relation: Relation, plan: PartitionPlan) -> int:
    return _id_bytes(sizes.nodes[relation[2] if plan.edge_dir == "in" else relation[0]].rows)


def _halo(near: TableSizes, table: TableSizes, plan: PartitionPlan) -> float:
    """Bytes of what is borrowed from the other end."""
    borrowed = sum(near.columns.get(name, 0.0) for name in plan.halo if name not in table.columns)
    moves = near.own_ids or (plan.num_parts > 1 and not plan.ordered)
    return borrowed + (_id_bytes(near.rows) if SOURCE_ID in plan.halo and moves else 0)


def _id_bytes(count: int) -> int:
    return 4 if count <= _INT32_IDS else 8
