"""One of several processes that build the same partitions: ``python -m tests.partitioning.shared_build OUT SEED ROOM``."""

import sys
from pathlib import Path

from halohop.partitioning.building import dataset, layout
from halohop.partitioning.building.layout import Memory
from tests.partitioning.building.test_passes import build

STEP_BYTES = 2000


def run(out: Path, seed: int, room: int) -> None:
    """A build in many steps, in as much memory as this process says that it has."""
    dataset.plan_memory = lambda *given, **more: Memory(threads=2, room=room)
    layout._STEP_BYTES = STEP_BYTES
    build(seed, out, worker=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
