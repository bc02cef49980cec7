"""Loaders that can be made again from their arguments: as copies, in another process, or by Lightning with its own sampler."""

import functools
import inspect
from collections.abc import Hashable
from typing import Any, Self, cast

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.resume import Resumable

_SET_LATER = ("transform", "worker_init_fn")
"""Attributes that users may set between epochs."""


class SentByArguments(Resumable):
    """A loader that pickles by what it was made with: graphs by their reference, and the place in the epoch."""

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        object.__setattr__(made, "_made_with", (args, kwargs))
        names = _parameters(cast(Hashable, cls))[: len(args)]
        noted: dict[str, Any] = {"saved_args": args, "saved_kwargs": kwargs, "saved_arg_names": names, "saved_default_kwargs": {}}
        noted["inside_init"] = True  # attributes follow from the arguments
        made.__dict__ |= {f"__pl_{name}": value for name, value in noted.items()}  # as Lightning notes them in its hooks
        return made

    def _graph(self) -> Graph:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        if self._graph().opened_by is None:
            raise InputError(
                f"a {type(self).__name__} cannot be sent to another process; send its data, and make the loader there"
            )
        return remade, (type(self), *self._made_with, self.state_dict())

    def __copy__(self) -> Self:
        """Makes a loader from the same arguments, at the same position in its epochs. Both share the data.

        `transform` and `worker_init_fn` are as they are now. Other attributes follow from the arguments.
        """
        made = cast(Self, remade(type(self), *self._made_with, self.state_dict()))
        made.__dict__ |= {name: self.__dict__[name] for name in _SET_LATER if name in self.__dict__}
        return made

    def __deepcopy__(self, memo: Any) -> Self:
        """See `__copy__`."""
        return self.__copy__()


@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


def remade(kind: type[SentByArguments], args: tuple[Any, ...], kwargs: dict[str, Any], state: dict[str, Any]) -> SentByArguments:
    """A loader in the process that it was sent to."""
    loader = kind(*args, **kwargs)
    loader.load_state_dict(state)
    return loader
