"""The data set of a loader for torch and Lightning, and the warning that every rank goes through all seeds."""

import functools
import warnings
from typing import Any

from halohop.world import World

NOT_GIVEN = World()
"""The default of the argument `world`, by identity: a loader with it goes through all seeds, as with None, and warns."""


def as_torch(seeds: Any, *, is_iterable: bool, batch_size: int | None, **order: Any) -> dict[str, Any]:
    """The arguments of torch's DataLoader; `order` are sampler, batch_sampler, shuffle and drop_last.

    The data set is the range of the seeds' positions, as in PyG: Lightning replaces its sampler by one that divides them. With
    `is_iterable` it is an iterable, which Lightning leaves alone: of loaders that divide seeds themselves or accept no sampler.
    """
    batch_sampler, drop_last, positions = order["batch_sampler"], order["drop_last"], range(len(seeds))
    if is_iterable:
        return {"dataset": seeds, "batch_size": batch_size if batch_sampler is None else None, "drop_last": drop_last}
    if batch_sampler is not None:
        return {"dataset": positions, "batch_sampler": batch_sampler}
    chosen = {"sampler": order["sampler"]} if order["sampler"] is not None else {"shuffle": bool(order["shuffle"] and positions)}
    return {"dataset": positions, "batch_size": batch_size, "drop_last": drop_last, **chosen}


@functools.cache
def warn_of_all_seeds(num_ranks: int) -> None:
    """Warns, once in a process, that each of several ranks goes through all seeds although `world=None` was not given."""
    warnings.warn(
        f"each of the {num_ranks} ranks goes through all seeds of this loader. Give world=halohop.World.detect() to divide them "
        "among the ranks, or world=None if each rank needs all of them",
        stacklevel=3,
    )
