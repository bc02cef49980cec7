"""What a run saves, at a URL, too: each file is replaced as a whole, after the one in the run's folder."""

from pathlib import Path

from halohop import World
from halohop.files import UrlFolder
from halohop.recipes.config import TrainConfig


class Copies:
    """Sends files of a run's folder to its URL; without a URL, and on other ranks than 0, it does nothing.

    Args:
        config: of the run.
        world: this trainer's place.
    """

    def __init__(self, config: TrainConfig, world: World) -> None:
        self._out = Path(config.out)
        self._target = UrlFolder(config.copy_to) if config.copy_to is not None and world.rank == 0 else None

    def send(self, *names: str) -> None:
        """Sends those of these files, and all files of those of these folders, that there are, in this order.

        Raises:
            WriteError: the URL cannot be written.
        """
        if self._target is None:
            return
        for name in names:
            path = self._out / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if file.is_file():
                    self._target.send(file, file.relative_to(self._out).as_posix())

    def forget(self, *folders: str) -> None:
        """Removes what is in these folders at the URL, and no longer here.

        Raises:
            WriteError: the URL cannot be written.
        """
        if self._target is None:
            return
        for name in self._target.files():
            if name.split("/")[0] in folders and not (self._out / name).exists():
                self._target.remove(name)
