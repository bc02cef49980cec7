"""Partitions in memory meet: each process puts what its own say of themselves on a board, and reads what the others' say."""

from datetime import timedelta

import msgspec
import torch.distributed as dist

from halohop.attempts import Board
from halohop.errors import ClusterError, InputError
from halohop.net.rendezvous import board_errors
from halohop.partitioning.slices.agreement import PartRecord, check_alike


def all_records(
    board: Board, prefix: str, mine: list[PartRecord], *, deadline: float, announces: bool = True
) -> list[PartRecord]:
    """The records of all partitions, which each process that holds some brings.

    Args:
        board: shared by these processes.
        prefix: of the names on the board.
        mine: the records of this process.
        deadline: seconds to wait for the others.
        announces: whether this process puts its own there, and not another one of the same host that has the same.

    Raises:
        ClusterError: a partition did not come in time, or the board is gone.
        InputError: another process gives another partition under the same number.
    """
    first, own = mine[0], {record.part: record for record in mine}
    for part, record in own.items() if announces else ():
        with board_errors(board):
            if board.add(f"{prefix}/given/{part}", 1) == 1:  # the first to give it
                board.set(f"{prefix}/partition/{part}", msgspec.json.encode(record).decode())
    found = []
    for part in range(first.num_parts):
        record = _record(board, prefix, part, first.num_parts, deadline)
        if part not in own:
            check_alike(first, record)
        elif record != own[part]:
            raise InputError(
                f"partition {part} is given by two processes, and not alike; give the same rows and edges, or other numbers"
            )
        found.append(record)
    return found


def _record(board: Board, prefix: str, part: int, num_parts: int, deadline: float) -> PartRecord:
    key = f"{prefix}/partition/{part}"
    try:
        with board_errors(board):
            board.wait([key], timedelta(seconds=deadline))
            return msgspec.json.decode(board.get(key), type=PartRecord)
    except (dist.DistStoreError, RuntimeError) as error:
        raise ClusterError(
            f"partition {part} of {num_parts} did not come within {deadline:g} s; was the process started that gives it, and did "
            "it live?"
        ) from error
