"""A trainer without a model or a graph: goes through epochs of what servers hold and prints a digest of every batch.

Each batch is waited for until a line comes, or the end of the standard input.

python client.py SERVERS EPOCHS SAMPLING CALL_SECONDS
"""

import sys

from worker import batches, digest

import halohop
from halohop.transport import Limits


def main(servers: str, epochs: int, sampling: str, call_seconds: float) -> None:
    limits = Limits(call_seconds=call_seconds, attempt_seconds=1, connect_seconds=call_seconds, heartbeat_seconds=0.3)
    with halohop.connect(servers.split(","), sampling=sampling, limits=limits, deadline=call_seconds) as graph:
        loader = batches(graph, 2)
        for _ in range(epochs):
            for batch in loader:
                sys.stdin.readline()
                print(digest(batch), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
