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
        show_default="half of the free memory",
        help="Memory of this host for mapped partitions, such as 16GB. Columns that do not fit are read from disk.",
    ),
]
HotMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=PLACE,
        callback=check_size,
        show_default="none",
        help="Memory per process for copies of the hottest rows on disk, such as 2GB.",
    ),
]
