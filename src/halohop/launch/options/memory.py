"""Options of what the partitions of a host may take of its memory."""

from typing import Annotated

import typer

from halohop.launch.options.parsing import check_size
from halohop.launch.options.shared import PLACE

Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=PLACE,
        callback=check_size,
        show_default="half of what is available",
        help="What mapped partitions may take of this host's memory; rows of columns that do not fit are read from disk.",
    ),
]
HotMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=PLACE,
        callback=check_size,
        show_default="none are kept",
        help="What copies of the rows on disk that are read most may take, per process.",
    ),
]
