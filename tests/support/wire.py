"""A long, bad wire between two network interfaces: it passes packets on late, and loses some.

What `tc netem` does, for kernels built without it.

python wire.py ONE OTHER DELAY LOSS, in seconds for a round trip, and as a share of all packets
"""

import heapq
import itertools
import random
import select
import socket
import sys
import time

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_EVERY_PROTOCOL = 3
_LONGEST_PACKET = 2**17


def end_of(interface: str) -> socket.socket:
    """Packets go in and out as the kernel holds them: large ones in one piece, checksums still to be made."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    end.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**24)
    end.bind((interface, 0))
    return end


def main(one: str, other: str, delay: float, loss: float) -> None:
    chance = random.Random(1)
    numbers = itertools.count()
    ends = (end_of(one), end_of(other))
    across = {ends[0]: ends[1], ends[1]: ends[0]}
    under_way: list[tuple[float, int, socket.socket, bytes]] = []
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select(ends, (), (), wait)[0]:
            packet = end.recv(_LONGEST_PACKET)
            if chance.random() >= loss:
                heapq.heappush(under_way, (time.monotonic() + delay / 2, next(numbers), across[end], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(under_way)
            end.send(packet)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
