"""How rows of nodes and edges are read and set: `g.ndata`, `g.nodes[type].data`, `g.edges[relation].data` and their kin."""

from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from halohop.errors import InputError, SchemaError

Columns = MutableMapping[str, Tensor]


class Scheme(NamedTuple):
    """What a row of a column is: its shape and dtype."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Frame(UserDict[str, Tensor]):
    """The columns of the nodes of a type, or of the edges of a relation.

    Args:
        columns: where they are kept, and stay.
        rows: how many there are.
        of: of what, for errors.
        device: where they lie.

    Attributes:
        data: the columns.
    """

    def __init__(self, columns: Columns, rows: int, of: str, device: torch.device) -> None:
        self.data: Columns = columns  # type: ignore[assignment]  # any mapping
        self._rows, self._of, self._device = rows, of, device

    def __missing__(self, name: str) -> Tensor:
        raise MissingColumnError(f"{self._of} have no {name!r}, only {sorted(self)}; set it first")

    def __setitem__(self, name: str, values: Tensor) -> None:
        if not isinstance(values, Tensor):
            raise InputError(f"{name!r} of {self._of} is a {type(values).__name__}; give a tensor with a row for each")
        if values.dim() == 0 or len(values) != self._rows:
            raise InputError(f"{name!r} has shape {list(values.shape)}, but {self._of} are {self._rows}; give a row for each")
        if values.device != self._device:
            raise InputError(f"{name!r} lies on {values.device} and the graph on {self._device}; move one of them by .to(...)")
        self.data[name] = values

    def __delitem__(self, name: str) -> None:
        self[name]
        del self.data[name]

    @property
    def schemes(self) -> dict[str, Scheme]:
        """What a row of each column is."""
        return {name: Scheme(tuple(values.shape[1:]), values.dtype) for name, values in self.items()}


class MissingColumnError(SchemaError, KeyError):
    """A column that was not set; a `KeyError`, too, as of a dict."""

    __str__ = Exception.__str__


class Frames(MutableMapping[str, Any]):
    """A column of several types at once: a dict of the types that have it.

    Args:
        frames: by type.
    """

    def __init__(self, frames: dict[Any, Frame]) -> None:
        self._frames = frames

    def __getitem__(self, name: str) -> dict[Any, Tensor]:
        return {kind: frame[name] for kind, frame in self._frames.items() if name in frame}

    def __setitem__(self, name: str, values: dict[Any, Tensor]) -> None:
        if not isinstance(values, dict):
            raise InputError(f"{name!r} is a {type(values).__name__}, but there are several types; give a dict of {self._known}")
        if unknown := [kind for kind in values if kind not in self._frames]:
            raise SchemaError(f"{name!r} is set for {unknown[0]!r}, and the types are {self._known}")
        for kind, rows in values.items():
            self._frames[kind][name] = rows

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise MissingColumnError(f"no type has {name!r}; the types are {self._known}")
        for frame in self._frames.values():
            frame.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for frame in self._frames.values() for name in frame))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr({name: self[name] for name in self})

    @property
    def _known(self) -> list[Any]:
        return list(self._frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What there is of a type: `data`."""

    data: Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What `g.nodes` and `g.edges` are: called, they give ids; with a type in brackets, its columns.

    Args:
        ids: what a call gives.
        frame: the columns of a type.
    """

    ids: Callable[..., Any]
    frame: Callable[..., Frame]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.ids(*args, **kwargs)

    def __getitem__(self, kind: Any) -> Space:
        if not isinstance(kind, str | tuple | None):
            raise InputError(f"{kind!r} is no type, which stands in these brackets; rows of some ids are data[name][ids]")
        return Space(data=self.frame(kind))
