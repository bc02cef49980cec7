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
        """Sends those of these files that there are, in this order.

        Raises:
            WriteError: the URL cannot be written.
        """
        for name in names:
            if self._target is not None and (self._out / name).exists():
                self._target.send(self._out / name, name)
