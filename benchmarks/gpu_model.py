"""What a batch costs on a GPU, on paper: bytes, launches and waits, and the time that these need.

    python -m benchmarks.gpu_model    prints a table

Computed and not measured. Bandwidths are those that the makers publish, and nothing overlaps: a batch's structure, its rows and
its launches come one after the other, which is what one batch in flight takes. What is read at random places counts in sectors of
32 bytes, as the device and the bus move them. Launches are counted by reading the code. Counted for each hop:

    lists     a row's id and raw id, the two ends of its list (random), where it begins and how long it is, sums of the lengths
    draw      what is known of the list again, and a position for each edge
    load      the position, the neighbour (random), and the neighbour written
    relabel   the table's entry of the neighbour, five times (random); the neighbour, its slot, its number, and new ones

and once a batch the table that numbers the nodes, which is emptied.
"""

from collections.abc import Iterator
from dataclasses import dataclass

SECTOR = 32  # bytes
WORD = 8
LIST_WORDS, DRAW_WORDS, RELABEL_WORDS = 12, 5, 14  # read or written in order, for a row, a row, and an edge
TABLE_SECTORS, TABLE_BYTES = 5, 4  # for an edge; of an entry for a node of the graph
HOP_LAUNCHES, ROW_LAUNCHES, BATCH_LAUNCHES = 18, 3, 10  # kernels, and operations of torch
HOP_WAITS = 2  # for the number of edges, and that of new nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A GPU as its maker describes it."""

    name: str
    memory: float
    """Bytes a second."""
    bus: float
    """Bytes a second from the host."""
    launch: float = 5e-6
    """Seconds; of a queue that is never full less, as the host runs ahead."""
    wait: float = 2e-5
    """Seconds until the host has a number, and the device has work again."""


A100 = Device(name="A100, PCIe 4", memory=2.0e12, bus=25e9)
H100 = Device(name="H100 SXM, PCIe 5", memory=3.35e12, bus=50e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A batch: the rows that each hop expands, the edges it draws, the nodes at the end, the bytes of their rows; nodes of
    the graph."""

    rows: tuple[int, ...]
    edges: tuple[int, ...]
    nodes: int
    row_bytes: int
    graph_nodes: int


PRODUCTS = Shape(
    rows=(1024, 16_300, 161_000), edges=(15_300, 150_000, 595_000), nodes=510_000, row_bytes=408, graph_nodes=2_449_029
)
"""1024 seeds, fanout 15, 10, 5, of 2.45 million nodes and 124 million edges; 100 float32 features and a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a batch moves: bytes of the device's memory, bytes over the bus, launches, and times that the host waits."""

    memory: int = 0
    bus: int = 0
    launches: int = 0
    waits: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            memory=self.memory + other.memory,
            bus=self.bus + other.bus,
            launches=self.launches + other.launches,
            waits=self.waits + other.waits,
        )

    def seconds(self, device: Device) -> float:
        """The time of a batch, one after the other."""
        return self.memory / device.memory + self.bus / device.bus + self.launches * device.launch + self.waits * device.wait


def structure(shape: Shape, mode: str) -> Cost:
    """What sampling costs: in mode "cuda" with the graph on the device, in "zero_copy" on the host, in "cpu" it is copied only.

    Example:
        >>> structure(PRODUCTS, "zero_copy").bus > structure(PRODUCTS, "cpu").bus > structure(PRODUCTS, "cuda").bus
        True
    """
    edges, rows = sum(shape.edges), sum(shape.rows)
    if mode == "cpu":
        copied = (3 * edges + shape.nodes) * WORD  # ends and ids of the edges, ids of the nodes
        return Cost(memory=copied, bus=copied, launches=BATCH_LAUNCHES)
    graph = (2 * rows + edges) * SECTOR
    ordered = ((LIST_WORDS + DRAW_WORDS) * rows + (3 + RELABEL_WORDS) * edges) * WORD
    memory = ordered + TABLE_SECTORS * edges * SECTOR + TABLE_BYTES * shape.graph_nodes
    hops = Cost(memory=memory, launches=HOP_LAUNCHES * len(shape.rows), waits=HOP_WAITS * len(shape.rows))
    return hops + (Cost(bus=graph) if mode == "zero_copy" else Cost(memory=graph)) + Cost(launches=BATCH_LAUNCHES)


def rows(shape: Shape, cached: float) -> Cost:
    """What a batch's rows cost of which a share lies on the device, and the others with the host.

    Example:
        >>> rows(PRODUCTS, 1.0).bus, rows(PRODUCTS, 0.0).bus
        (0, 212160000)
    """
    sectors = -(-shape.row_bytes // SECTOR) * SECTOR
    near = round(shape.nodes * cached)
    written = shape.nodes * (shape.row_bytes + WORD)
    return Cost(memory=near * sectors + written, bus=(shape.nodes - near) * sectors, launches=ROW_LAUNCHES)


def table(shape: Shape) -> Iterator[str]:
    """The lines of the table: each mode with rows on the device, in the cache by a share, and with the host."""
    devices = (A100, H100)
    names = " | ".join(device.name for device in devices)
    yield f"| mode | rows on the device | GB of its memory | MB over the bus | launches | waits | {names} |"
    yield f"|---|---:|---:|---:|---:|---:|{'---:|' * len(devices)}"
    for mode in ("cuda", "zero_copy", "cpu"):
        for cached in (1.0, 0.9, 0.5, 0.1, 0.0):
            cost = structure(shape, mode) + rows(shape, cached)
            moved = f"{cost.memory / 1e9:.2f} | {cost.bus / 1e6:.0f} | {cost.launches} | {cost.waits}"
            times = " | ".join(f"{1e3 * cost.seconds(device):.1f} ms" for device in devices)
            yield f"| `{mode}` | {cached:.0%} | {moved} | {times} |"


if __name__ == "__main__":
    print("\n".join(table(PRODUCTS)))
