"""Who am I among the ranks? Pure arithmetic: nothing here starts, connects or waits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from halohop.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A trainer's place among all trainers, and its host's place among all hosts.

    Args:
        rank, size: this trainer among all trainers.
        host, num_hosts: this host among all hosts (torchrun calls a host a node, or group).
        local_rank, local_size: this trainer among the trainers of its host.

    Example:
        >>> World().size
        1
        >>> World.from_env({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}).host
        1
    """

    rank: int = 0
    size: int = 1
    host: int = 0
    num_hosts: int = 1
    local_rank: int = 0
    local_size: int = 1

    def __post_init__(self) -> None:
        for index, count, name in (
            (self.rank, self.size, "rank"),
            (self.host, self.num_hosts, "host"),
            (self.local_rank, self.local_size, "local_rank"),
        ):
            if not 0 <= index < count:
                raise InputError(f"{name}={index} is outside 0..{count - 1}; check RANK, WORLD_SIZE and their kin")

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> "World":
        """The world that torchrun (or `halohop train`) describes in the environment; alone without it.

        Raises:
            InputError: a variable is not a whole number, a rank lies outside its world, or there are several ranks and this one
                does not know which it is.
        """
        env = os.environ if env is None else env
        number = partial(_number, env)
        size, local_size = number("WORLD_SIZE", 1), trainers_here(env)
        if size > 1 and "RANK" not in env:
            raise InputError(f"WORLD_SIZE={size}, but RANK is not set; set it, or give the World(rank=..., size=...) yourself")
        rank = number("RANK", 0)
        return cls(
            rank=rank,
            size=size,
            host=number("GROUP_RANK", rank // max(local_size, 1)),
            num_hosts=number("GROUP_WORLD_SIZE", max(size // max(local_size, 1), 1)),
            local_rank=number("LOCAL_RANK", rank % max(local_size, 1)),
            local_size=local_size,
        )


def trainers_here(env: Mapping[str, str] | None = None) -> int:
    """How many trainers share this host, as torchrun tells it: LOCAL_WORLD_SIZE, or else all of WORLD_SIZE.

    Raises:
        InputError: the variable is not a whole number.

    Example:
        >>> trainers_here({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}), trainers_here({})
        (4, 1)
    """
    env = os.environ if env is None else env
    return _number(env, "LOCAL_WORLD_SIZE" if "LOCAL_WORLD_SIZE" in env else "WORLD_SIZE", 1)


def _number(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise InputError(f"environment variable {name}={text!r} is not a whole number") from None
