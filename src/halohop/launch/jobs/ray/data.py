"""The partitions that a process reads, on whichever node Ray has started it."""

import socket
from dataclasses import dataclass
from pathlib import Path

import halohop
from halohop.errors import InputError
from halohop.launch.jobs.plan import name_of
from halohop.store.share import Share, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A data set as all processes of a job name it.

    Args:
        source: a folder, or a URL.
        cache: folder on each node into which a node's partitions are fetched, ``{host}`` stands for the node's name; None: all
            nodes see `source`.
    """

    source: str
    cache: str | None = None

    def here(self, some: tuple[Share, ...]) -> str:
        """The folder on this node, where some shares of the partitions are, or all of them without a share.

        Raises:
            InputError: the node does not see the folder.
            DatasetError: what is fetched is not there, or damaged.
        """
        if self.cache is not None:
            folder = Path(self.cache.replace("{host}", socket.gethostname())) / name_of(self.source)
            return str(halohop.fetch(self.source, folder, share=spelled(some) if some else None))
        if not Path(self.source).is_dir():
            raise InputError(
                f"there is no folder {self.source} here; give one that all nodes see (a shared disk), or a cache into which each "
                "node fetches its partitions"
            )
        return self.source
