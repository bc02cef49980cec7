"""A trainer without a model or a graph: goes through epochs of what servers hold, as worker.py does.

python client.py SERVERS EPOCHS SAMPLING CALL_SECONDS [STATE]
"""

import sys

from worker import batches, go_through

import halohop
from halohop.transport import Limits


def main(servers: str, epochs: int, sampling: str, call_seconds: float, state: str = "") -> None:
    limits = Limits(call_seconds=call_seconds, attempt_seconds=1, connect_seconds=call_seconds, heartbeat_seconds=0.3)
    with halohop.connect(servers.split(","), sampling=sampling, limits=limits, deadline=call_seconds) as graph:
        go_through(batches(graph, 2), epochs, state)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), *sys.argv[5:])
