"""Options of commands that take URLs: where on this host the data lie meanwhile."""

from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options.shared import PLACE, size_option

PartsOrUrl = Annotated[str, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph, or its URL with --stage.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=PLACE,
        show_default="none",
        help="Local folder for files from URLs. All processes of this host share it.",
    ),
]
Bytes = Annotated[
    str | None,
    size_option(PLACE, "Disk space for datasets in --stage, such as 1TB. The least recently used are removed.", "no limit"),
]
