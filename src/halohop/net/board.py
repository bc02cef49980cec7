"""The store of torch's where the ranks of a world meet: whether somebody keeps it already, or rank 0 does from now on."""

import os
from datetime import timedelta

import torch.distributed as dist

from halohop.attempts import Board
from halohop.errors import ClusterError
from halohop.transport.addresses import joined, parsed_peer


def master_of(master: str | None) -> tuple[str, int]:
    """Host and port of the store.

    Args:
        master: ``"HOST:PORT"``; None takes MASTER_ADDR and MASTER_PORT.

    Raises:
        InputError: not an address.
        ClusterError: no address is known.
    """
    if master is not None:
        return parsed_peer(master)
    try:
        return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    except (KeyError, ValueError):
        raise ClusterError(
            "several hosts need MASTER_ADDR and MASTER_PORT in the environment, as torchrun sets them, or master='HOST:PORT'"
        ) from None


def master_host(master: str | None) -> str:
    """The host of the store; this one, where no address is known."""
    return parsed_peer(master)[0] if master is not None else os.environ.get("MASTER_ADDR", "127.0.0.1")


def join_board(place: tuple[str, int], *, rank: int, deadline: float) -> Board:
    """The store at an address: that which torchrun, `halohop train` or a process group keeps there. If there is none, and no
    launcher keeps it, rank 0 does.

    Raises:
        ClusterError: no store answers there in time.
    """
    host, port = place
    patience = timedelta(seconds=deadline)
    kept_by_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if rank == 0 and not kept_by_launcher:
        try:  # one of this process's own is shared; a process group that is made later shares this one
            return dist.TCPStore(host, port, is_master=True, multi_tenant=True, wait_for_workers=False, timeout=patience)
        except (dist.DistNetworkError, dist.DistStoreError, RuntimeError):
            kept_by_launcher = True  # or by whatever holds the port: it shows now
    try:
        return dist.TCPStore(host, port, is_master=False, timeout=patience)
    except (dist.DistNetworkError, dist.DistStoreError, RuntimeError) as error:
        remedy = "was rank 0 started, and is this an address of its host?"
        if kept_by_launcher:
            remedy = "start with torchrun or `halohop train`, or call torch.distributed.init_process_group before halohop.open"
        raise ClusterError(f"no store answers at {joined(place)} within {deadline:g} s; {remedy}") from error
