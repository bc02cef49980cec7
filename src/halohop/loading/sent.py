"""Loaders that are sent to another process: made again there, of the same arguments, where they stood."""

from typing import Any, Self

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.resume import Resumable


class SentByArguments(Resumable):
    """A loader that pickles by what it was made with: graphs by their reference, and the place in the epoch."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "_made_with", (args, kwargs))
        return made

    def _graph(self) -> Graph:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        if self._graph().opened_by is None:
            raise InputError(
                f"a {type(self).__name__} cannot be sent to another process; send its data, and make the loader there"
            )
        return remade, (type(self), *self._made_with, self.state_dict())


def remade(kind: type[SentByArguments], args: tuple[Any, ...], kwargs: dict[str, Any], state: dict[str, Any]) -> SentByArguments:
    """A loader in the process that it was sent to."""
    loader = kind(*args, **kwargs)
    loader.load_state_dict(state)
    return loader
