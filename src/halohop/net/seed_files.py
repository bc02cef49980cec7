"""Seeds that live at a server: ids in files below a folder that it names, and splits that it was given."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
import torch
from torch import Tensor

from halohop.errors import DatasetError, InputError
from halohop.files.reading import open_regular
from halohop.linux import path_of_open_file
from halohop.store.requests import Request
from halohop.store.schema import Schema
from halohop.typing import NodeType

Splits: TypeAlias = Mapping[str, Tensor | Mapping[NodeType, Tensor]]
"""Ids of nodes by the name of a split; where there are several node types, by type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsReply:
    """The ids in a file, int64 ``[n]`` of nodes or ``[2, n]`` of the ends of edges; empty with a refusal."""

    ids: Tensor
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsRequest(Request[SeedsReply]):
    """Asks for the ids in a file below the folder that the server names, or for those of a split that it was given.

    Args:
        file: the path below the folder; empty where a split is asked for.
        split: its name.
        node_type: of the split's nodes; empty where it has one type.
    """

    file: str = ""
    split: str = ""
    node_type: str = ""


class SeedFiles:
    """The ids in `.npy` and `.pt` files below one folder, and those of splits; nothing outside of the folder can be read.

    Args:
        folder: None where there is none.
        splits: as of `halohop.serve`.
        schema: of the graph, whose nodes the splits name.

    Raises:
        InputError: there is no such folder, or a split holds no ids.
        SchemaError: a split of a node type that is not there.
    """

    def __init__(self, folder: str | Path | None, splits: Splits | None = None, schema: Schema | None = None) -> None:
        self._folder = None if folder is None else Path(folder).resolve()
        if self._folder is not None and not self._folder.is_dir():
            raise InputError(f"seeds={str(folder)!r} is no folder here; give one that holds .npy or .pt files of ids")
        self._splits: dict[str, dict[NodeType, Tensor]] = {}
        for name, given in (splits or {}).items():
            assert schema is not None
            by_type = {schema.node_type(None): given} if isinstance(given, Tensor) else given
            label = f"splits[{name!r}]"
            self._splits[name] = {schema.node_type(key): _whole(ids, label, dims=(1,)) for key, ids in by_type.items()}

    def answer(self, request: SeedsRequest) -> SeedsReply:
        """The ids in a file or of a split, or why there are none."""
        try:
            return SeedsReply(ids=self._split(request) if request.split else self._read(request.file))
        except (InputError, DatasetError) as error:
            return SeedsReply(ids=torch.empty(0, dtype=torch.int64), refusal=str(error))

    def _split(self, request: SeedsRequest) -> Tensor:
        by_type = self._splits.get(request.split)
        if by_type is None:
            raise InputError(f"split {request.split!r}: this server was given {sorted(self._splits)}; start it with splits=")
        name = next(iter(by_type)) if len(by_type) == 1 and not request.node_type else request.node_type
        if name not in by_type:
            raise InputError(f"split {request.split!r} has nodes of {sorted(by_type)}, not of {request.node_type!r}; name one")
        return by_type[name]

    def _read(self, name: str) -> Tensor:
        if self._folder is None:
            raise InputError(f"seed file {name!r}: this server has no folder of them; start it with one (seeds=, --seeds FOLDER)")
        outside = InputError(f"seed file {name!r} lies outside the folder that the server names; give a path below it")
        if not name or "\0" in name:
            raise outside
        path = self._folder / name  # an absolute path stays as it is
        try:
            if not path.resolve().is_relative_to(self._folder):
                raise outside
        except RuntimeError:  # before Python 3.13
            raise DatasetError(f"seed file {name!r} is a link that leads to itself; put the file itself there") from None
        try:
            stream = open_regular(path)
        except FileNotFoundError:
            raise InputError(f"there is no seed file {name!r} below the folder that the server names; check its path") from None
        except DatasetError as error:
            raise DatasetError(str(error).replace(str(path), f"seed file {name!r}")) from None
        with stream:
            opened = path_of_open_file(stream.fileno(), path)  # where links have led, should they have changed now
            if not opened.is_relative_to(self._folder):
                raise outside
            return _ids(stream, name)


def _ids(stream: IO[bytes], name: str) -> Tensor:
    """The ids in an open file."""
    label, kind = f"seed file {name!r}", ".pt" if name.endswith(".pt") else ".npy"
    remedy = "torch.save of a tensor" if kind == ".pt" else "numpy.save"
    try:
        if kind == ".pt":
            found = torch.load(stream, weights_only=True, map_location="cpu")
        else:
            found = np.load(stream, allow_pickle=False)
    except Exception as error:  # a damaged header may name any size, and torch raises many kinds
        raise DatasetError(f"{label} cannot be read as {kind}: {_first_line(error)}; write it with {remedy}") from error
    if isinstance(found, np.ndarray) and found.dtype.kind in "iu" and found.dtype != np.uint64:
        found = torch.from_numpy(np.ascontiguousarray(found, dtype=np.int64))
    return _whole(found, label, dims=(1, 2))


def _whole(ids: object, label: str, *, dims: tuple[int, ...]) -> Tensor:
    """Ids as int64, of nodes ``[n]`` or of the ends of edges ``[2, n]``."""
    integer = isinstance(ids, Tensor) and not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    if not isinstance(ids, Tensor) or not integer or ids.dtype == torch.uint64:
        raise InputError(f"{label} holds no signed integers, but {getattr(ids, 'dtype', 'an archive')}; save ids")
    if ids.dim() not in dims or (ids.dim() == 2 and len(ids) != 2):
        edges = ", or [2, n] of the ends of edges" if 2 in dims else ""
        raise InputError(f"{label} has shape {tuple(ids.shape)}, expected [n] ids of nodes{edges}")
    return ids.detach().cpu().long().contiguous()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
