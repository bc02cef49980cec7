"""Options of batches that are made on a GPU."""

from typing import Annotated

import typer

from halohop.launch.options import choices
from halohop.launch.options.parsing import check_size
from halohop.launch.options.shared import PLACE

Mode = Annotated[
    choices.GraphMode | None,
    typer.Option(
        rich_help_panel=PLACE,
        show_default="batches are made on the CPU",
        help="Make batches on the GPU. Neighbours are drawn by the CPU, by the GPU from memory of the host (zero_copy), or by "
        "the GPU from its own (cuda).",
    ),
]
FeatureCache = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=PLACE,
        callback=check_size,
        show_default="none are kept",
        help="What the rows that are read most may take of the GPU's memory.",
    ),
]
Amp = Annotated[bool, typer.Option("--amp", rich_help_panel=PLACE, help="Compute losses in bfloat16 where it is exact enough.")]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile", rich_help_panel=PLACE, help="Compile training steps (torch.compile), for batches padded to one shape."
    ),
]
