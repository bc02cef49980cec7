"""The command that stores running sums of weights beside partitions that are there."""

from typing import Annotated

import typer

from halohop.errors import InputError
from halohop.launch.options import shared
from halohop.launch.terminal.console import echo


def sum_weights(
    parts: shared.PartsFolder,
    weights: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN...", show_default=False, help="Edge columns with one number per edge.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove existing sums.")] = False,
    config: shared.Config = None,
) -> None:
    """Store running sums of edge weights, for faster weighted sampling.

    Batches stay the same.

    $ halohop sum-weights parts weight

    $ halohop sum-weights parts --remove
    """
    if bool(weights) == remove:
        raise InputError("name columns of weights, or give --remove")
    from halohop import add_weight_sums
    from halohop.typing import relation_text

    for relation, counts in add_weight_sums(parts, None if remove else weights).items():
        for column, weightless in counts.items():
            echo(
                f"{relation_text(relation)}: sums of {column!r}; {weightless:,} nodes have edges, but none with a weight above 0"
            )
    if remove:
        echo(f"{parts} has no sums of weights")
