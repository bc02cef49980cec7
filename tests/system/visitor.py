"""A trainer's host on which jobs come and go: each line of input is one, that connects, takes some batches, and leaves.

Says a word for every batch, and another when it has gone.

python visitor.py SERVERS
each line: SAMPLING BATCHES
"""

import sys
from itertools import islice

import halohop
from halohop.transport import Limits

LIMITS = Limits(call_seconds=90, attempt_seconds=5, connect_seconds=60)


def main(servers: str) -> None:
    for line in sys.stdin:
        sampling, count = line.split()
        with halohop.connect(servers.split(","), sampling=sampling, limits=LIMITS) as graph:
            loader = halohop.NeighborLoader(graph, [3, 2], batch_size=20, shuffle=True, seed=2, num_workers=2)
            for _ in islice(iter(loader), int(count)):
                print("batch", flush=True)
        print("gone", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
