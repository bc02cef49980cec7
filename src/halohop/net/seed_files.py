"""Seeds that live at a server: ids in files below a folder that it names."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.errors import DatasetError, InputError
from halohop.files.reading import open_regular
from halohop.store.requests import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsReply:
    """The ids in a file, int64 ``[n]`` of nodes or ``[2, n]`` of the ends of edges; empty with a refusal."""

    ids: Tensor
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsRequest(Request[SeedsReply]):
    """Asks for the ids in a file below the folder that the server names."""

    file: str


class SeedFiles:
    """The ids in `.npy` files below one folder; nothing outside of it can be read.

    Args:
        folder: None where there is none.

    Raises:
        InputError: there is no such folder.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._folder = None if folder is None else Path(folder).resolve()
        if self._folder is not None and not self._folder.is_dir():
            raise InputError(f"seeds={str(folder)!r} is no folder here; give one that holds .npy files of ids")

    def answer(self, request: SeedsRequest) -> SeedsReply:
        """The ids in a file, or why there are none."""
        try:
            return SeedsReply(ids=self._read(request.file))
        except (InputError, DatasetError) as error:
            return SeedsReply(ids=torch.empty(0, dtype=torch.int64), refusal=str(error))

    def _read(self, name: str) -> Tensor:
        if self._folder is None:
            raise InputError(f"seed file {name!r}: this server names no folder of them; start it with seeds= (--seeds FOLDER)")
        outside = InputError(f"seed file {name!r} lies outside the folder that the server names; give a path below it")
        path = Path(name)
        if not name or "\0" in name or path.is_absolute() or ".." in path.parts:
            raise outside
        try:
            if not (self._folder / path).resolve().is_relative_to(self._folder):
                raise outside
        except RuntimeError:  # before Python 3.13
            raise DatasetError(f"seed file {name!r} is a link that leads to itself; put the file itself there") from None
        try:
            stream = open_regular(self._folder / path)
        except FileNotFoundError:
            raise InputError(f"there is no seed file {name!r} below the folder that the server names; check its path") from None
        except DatasetError as error:
            raise DatasetError(str(error).replace(str(self._folder / path), f"seed file {name!r}")) from None
        with stream:
            opened = Path(f"/proc/self/fd/{stream.fileno()}").readlink()  # where links have led, should they have changed now
            if not opened.is_relative_to(self._folder):
                raise outside
            try:
                ids = np.load(stream, allow_pickle=False)
            except (ValueError, OSError, EOFError, MemoryError) as error:  # a damaged header may name any size
                raise DatasetError(f"seed file {name!r} cannot be read as .npy: {error}; write it with numpy.save") from error
        if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu" or ids.dtype == np.uint64:
            raise InputError(f"seed file {name!r} holds no signed integers, but {getattr(ids, 'dtype', 'an archive')}; save ids")
        if not (ids.ndim == 1 or (ids.ndim == 2 and len(ids) == 2)):
            raise InputError(
                f"seed file {name!r} has shape {ids.shape}, expected [n] ids of nodes, or [2, n] of the ends of edges"
            )
        return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))
