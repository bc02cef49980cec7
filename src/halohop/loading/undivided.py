"""Loaders whose seeds nobody has divided among the ranks: how torch and Lightning see them, and the warning about them."""

import functools
import warnings
from typing import Any


def as_torch(seeds: Any, *, is_divided: bool, batch_size: int | None, **order: Any) -> dict[str, Any]:
    """The arguments of torch's DataLoader; `order` are sampler, batch_sampler, shuffle and drop_last.

    Lightning injects a sampler that divides the seeds into a loader over their positions, as PyG's loaders are. One whose seeds
    are divided already is over an iterable, which no sampler belongs to.
    """
    batch_sampler, drop_last, positions = order["batch_sampler"], order["drop_last"], range(len(seeds))
    if is_divided:
        return {"dataset": seeds, "batch_size": batch_size if batch_sampler is None else None, "drop_last": drop_last}
    if batch_sampler is not None:
        return {"dataset": positions, "batch_sampler": batch_sampler}
    chosen = {"sampler": order["sampler"]} if order["sampler"] is not None else {"shuffle": bool(order["shuffle"] and positions)}
    return {"dataset": positions, "batch_size": batch_size, "drop_last": drop_last, **chosen}


@functools.cache
def warn_of_all_seeds(num_ranks: int) -> None:
    """Once in a process: each of several ranks goes through all seeds, and nobody has said that this is meant."""
    warnings.warn(
        f"each of the {num_ranks} ranks goes through all seeds of this loader: give world=halohop.World.detect() to divide them "
        "among the ranks, or world=None if every rank shall have all",
        stacklevel=3,
    )
