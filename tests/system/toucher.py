"""Opens a partitioned graph, reads every row of x, says so, and stays until its standard input closes.

python toucher.py FOLDER
"""

import sys
from pathlib import Path

import halohop
from halohop.store.requests import FetchRequest, RowQuery


def private_bytes() -> int:
    """Memory that this process has written: what no other can share."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty"))


def main(folder: str) -> None:
    halohop.NeighborLoader  # noqa: B018 - imported before the first measurement
    with halohop.open(folder):
        pass
    before = private_bytes()
    with halohop.open(folder) as graph:
        opened = private_bytes()
        gid, _ = graph.select()
        for some in gid.split(2_000):
            graph.fetch(FetchRequest(queries=(RowQuery(table="node", columns=("x",), gid=some),)))
        print(opened - before, private_bytes() - before, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
