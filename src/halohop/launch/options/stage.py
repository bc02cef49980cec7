"""Options of commands that take URLs: where on this host the data lie meanwhile."""

from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options.parsing import check_size
from halohop.launch.options.shared import PLACE

PartsOrUrl = Annotated[str, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph; or its URL, with --stage.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=PLACE,
        show_default="none: URLs are refused",
        help="Folder of this host for what lies at URLs; all its processes share what one has fetched.",
    ),
]
Bytes = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=PLACE,
        callback=check_size,
        show_default="no limit",
        help="What data sets may take in --stage; those that were used least recently are removed.",
    ),
]
