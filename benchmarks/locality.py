"""How many rows of a batch lie elsewhere, by where its seeds are from: ``python -m benchmarks.locality``, some minutes.

Real graphs in 4 partitions by METIS, a rank and a quarter of the seeds for each, fanout 15, 10, 5. Counted are the nodes of the
batches of an epoch, and of them those that other ranks' partitions own.
"""

import argparse

import halohop
from benchmarks import real
from benchmarks.entries import FANOUT
from halohop import World

RANKS = 4
BATCH_SIZE = {"cs": 128, "computers": 128, "cnr": 512}
WAYS = (
    ("whole graph", "none", 64),
    ("owner's seeds", "owner", 64),
    *((f"{num} blocks", "blocks", num) for num in (8, 16, 32, 64)),
)


def count(name: str, locality: str, num_blocks: int) -> tuple[int, int, int, int]:
    """Batches, seeds, rows, and rows of other partitions, of an epoch of all ranks."""
    batches = seeds = rows = remote = 0
    with halohop.open(real.in_blocks(name, num_blocks, RANKS)) as graph:
        for rank in range(RANKS):
            world = World(rank=rank, size=RANKS, local_rank=rank, local_size=RANKS)
            how = {"batch_size": BATCH_SIZE[name], "shuffle": True, "locality": locality, "world": world, "node_columns": []}
            for batch in halohop.NeighborLoader(graph, FANOUT, "train", num_workers=1, **how):
                owners = graph.owners(batch.n_id)
                batches, seeds, rows = batches + 1, seeds + batch.batch_size, rows + len(owners)
                remote += int((owners != rank).sum())
    return batches, seeds, rows, remote


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locality", description="Remote rows by where seeds are from.")
    parser.add_argument("graphs", nargs="*", default=real.NAMES, metavar="GRAPH", help=f"of {real.NAMES}; default: all")
    print("| graph | seeds from | batches | seeds | rows | remote rows | share |\n|---|---|---:|---:|---:|---:|---:|")
    for name in parser.parse_args().graphs:
        for way, locality, num_blocks in WAYS:
            batches, seeds, rows, remote = count(name, locality, num_blocks)
            each = f"{seeds / batches:.0f} | {rows / batches:,.0f} | {remote / batches:,.0f}"
            print(f"| {name} | {way} | {batches} | {each} | {remote / rows:.1%} |", flush=True)


if __name__ == "__main__":
    main()
