"""Reads other libraries' files of tensors without running code from them: what a file names beyond tensors is refused by name."""

import io
import math
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from halohop.errors import IncompleteDatasetError, InputError


class _Book(Tensor):
    """A tensor by the name that GLT gives to its partition books."""


def _storage(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _tensor(storage: Any, offset: int, size: Sequence[int], stride: Sequence[int], *rest: Any) -> Tensor:
    """A tensor that its storage holds; torch's own makes a storage as large as a tensor needs."""
    room = storage._size()  # of a storage with a dtype; len() warns
    reach = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True)) + 1
    if min(offset, *size, *stride, 0) < 0 or max(math.prod(size), 0 if 0 in size else reach) > room:
        raise InputError(
            f"a tensor of shape {list(size)}, strides {list(stride)} and offset {offset} must fit into {room} entries"
        )
    return torch._utils._rebuild_tensor_v2(storage, offset, size, stride, *rest)  # type: ignore[no-any-return]


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,  # torch's own reads any pickle
}


class _Restricted(pickle.Unpickler):
    """Builds tensors and plain values only."""

    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) not in _ALLOWED:
            raise InputError(f"it names {module}.{name}")
        return _ALLOWED[module, name]


def unpickled(file: Path) -> Iterator[Any]:
    """The values that were pickled into a file one behind the other: tensors, numbers, strings, and lists and dicts of them.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it holds anything else, such as the name of a function, or no pickle.
    """
    if not file.is_file():
        raise IncompleteDatasetError(f"there is no file {file}; copy the whole folder")
    size = file.stat().st_size
    with file.open("rb") as stream:
        while stream.tell() < size:
            try:
                value = _Restricted(stream).load()
            except Exception as error:  # whatever the reader makes of a damaged file, and what find_class refuses
                reason = str(error) or type(error).__name__
                raise InputError(f"{file} is not read: {reason}; only tensors and plain values are taken from it") from error
            yield value


def load_tensor(file: str | Path) -> Tensor:
    """The tensor that `torch.save` wrote; its memory are the file's own pages, unless the file has torch's old format.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: it holds no tensor, or something that only code could restore.
    """
    file = Path(file)
    if not file.is_file():
        raise IncompleteDatasetError(f"there is no file {file}; copy the whole folder")
    with file.open("rb") as stream:
        mapped = stream.read(4) == b"PK\x03\x04"  # a zip archive; the old format cannot be mapped
    try:
        with torch.serialization.safe_globals([(_Book, "graphlearn_torch.partition.base.GLTPartitionBook")]):
            value: Any = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # whatever the reader makes of a damaged file, or of classes that it refuses to build
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        reason = f"it names {named[1]}" if named else (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{file} is not read: {reason}; only a tensor is taken from it, as torch.save writes it") from error
    if not isinstance(value, Tensor):
        raise InputError(f"{file} holds a {type(value).__name__}, expected a tensor")
    return value.as_subclass(Tensor)
