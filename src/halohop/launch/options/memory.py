"""Options of what the partitions of a host may take of its memory."""

from typing import Annotated

from halohop.launch.options.shared import PLACE, size_option

Memory = Annotated[
    str | None,
    size_option(
        PLACE,
        "Memory of this host for mapped partitions, such as 16GB. Columns that do not fit are read from disk.",
        "half of the free memory",
    ),
]
HotMemory = Annotated[
    str | None, size_option(PLACE, "Memory per process for copies of the hottest rows on disk, such as 2GB.", "none")
]
