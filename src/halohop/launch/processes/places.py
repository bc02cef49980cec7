"""The places of ranks on hosts, and the environment of each, as torchrun gives it."""

from halohop.errors import InputError
from halohop.world import World

THREADS = "OMP_NUM_THREADS"
"""Environment variable: how many threads a process computes in. Ranks share the cores of their host."""


def worlds(nodes: int, trainers: int) -> list[World]:
    """The places of all ranks.

    Raises:
        InputError: there are none.
    """
    if nodes < 1 or trainers < 1:
        raise InputError(f"{nodes} nodes x {trainers} trainers are no processes; give at least 1 of each")
    return [world_of(rank, nodes, trainers) for rank in range(nodes * trainers)]


def world_of(rank: int, nodes: int, trainers: int) -> World:
    """A rank's place where every node has the same number of trainers."""
    return World(
        rank=rank,
        size=nodes * trainers,
        host=rank // trainers,
        num_hosts=nodes,
        local_rank=rank % trainers,
        local_size=trainers,
    )


def rank_environment(world: World) -> dict[str, str]:
    """A place in the variables that `World.from_env` reads.

    Example:
        >>> World.from_env(rank_environment(world_of(3, 2, 2))) == world_of(3, 2, 2)
        True
    """
    return {
        "RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": str(world.local_rank),
        "LOCAL_WORLD_SIZE": str(world.local_size),
        "GROUP_RANK": str(world.host),
        "GROUP_WORLD_SIZE": str(world.num_hosts),
    }
