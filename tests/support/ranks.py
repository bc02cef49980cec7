"""Which processes a launcher has started, as the system tells."""

from pathlib import Path


def ranks_of(launcher: int) -> dict[int, int]:
    """Processes of a launcher by their ranks."""
    found, waiting = {}, [launcher]
    while waiting:
        pid = waiting.pop()
        waiting += [int(child) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for child in tasks.read_text().split()]
        *of_a_rank, rank = Path(f"/proc/{pid}/comm").read_text().split()
        if of_a_rank == ["halohop", "rank"]:
            found[int(rank)] = pid
    return found
