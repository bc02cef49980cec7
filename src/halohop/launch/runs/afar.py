"""What lies at URLs while a command works with it: in a folder of this host."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from halohop.files import is_url
from halohop.launch.terminal.progress import stages
from halohop.store.afar.staging import Stage, staged
from halohop.world import World


@contextmanager
def parts_here(
    parts: str,
    stage: Stage,
    *,
    console: Console,
    partitions: Sequence[int] | None = None,
    share: str | None = None,
    world: World | None = None,
) -> Iterator[str]:
    """The folder of a data set, which is fetched if it lies at a URL; what is no URL stays as it is.

    Args:
        parts: as on the command line.
        stage: where it is fetched to; it stays there for as long as the block lasts, and longer if there is room.
        console: where a bar shows how far it is.
        partitions, share, world: which partitions are needed here, as of `halohop.store.afar.staging.staged`.

    Raises:
        InputError, DatasetError, WriteError, DeadlineExceededError: as of `staged`.
    """
    if not is_url(parts):
        yield parts
        return
    with stages(console) as progress:
        found = staged(parts, stage, partitions=partitions, share=share, world=world, progress=progress)
    with found:
        yield str(found.folder)
