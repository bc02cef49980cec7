"""Learned vectors beside a model's weights: of each node type two arrays, raw ids in ascending order and their vectors.

Both are `.npy` files with a checksum behind the array, which NumPy passes over. They are mapped and not read, so a model may have
more vectors than memory, and processes of a host share them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor, nn

from halohop.errors import CorruptDatasetError, IdError
from halohop.files import check_sealed, remove, sealed_file, writing
from halohop.recipes.vectors import learned_vectors
from halohop.typing import NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFiles:
    """The vectors of a node type: the names of its files in the folder of the checkpoint."""

    node_type: NodeType
    ids: str
    rows: str


def write_vectors(folder: Path, files: VectorFiles, raw: Tensor, width: int, pieces: Iterable[Tensor]) -> None:
    """Writes the vectors of a type.

    Args:
        raw: raw ids, int64 ``[n]``, ascending.
        width: of a vector.
        pieces: the vectors in this order, float32 ``[*, width]``, together ``[n, width]``.

    Raises:
        WriteError: a file cannot be written; names it.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with sealed_file(folder / files.ids) as stream:
        _begin(stream, np.dtype(np.int64), (len(raw),))
        stream.write(raw.contiguous().numpy().view(np.uint8).data)
    with sealed_file(folder / files.rows) as stream:
        _begin(stream, np.dtype(np.float32), (len(raw), width))
        for rows in pieces:
            stream.write(rows.contiguous().numpy().tobytes())


def _begin(stream: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)


def forget_vectors(folder: Path, keep: Sequence[VectorFiles]) -> None:
    """Removes the vectors of other models from a checkpoint's folder."""
    names = {name for files in keep for name in (files.ids, files.rows)}
    for path in folder.glob("*.npy"):
        if path.name not in names:
            remove(path)


class StoredVectors:
    """The vectors of a node type in the files of a checkpoint; see `halohop.recipes.vectors.RowsOf`.

    Raises:
        IncompleteDatasetError: a file is not there.
        CorruptDatasetError: a file was changed, or is not what the checkpoint says.
    """

    def __init__(self, folder: Path, files: VectorFiles, width: int) -> None:
        self._file, self._node_type = folder / files.rows, files.node_type
        self.ids = _mapped(folder / files.ids)
        self.rows = _mapped(self._file)
        kinds = (self.ids.dtype, self.rows.dtype)
        if kinds != (torch.int64, torch.float32) or self.rows.shape != (len(self.ids), width):
            raise CorruptDatasetError(
                f"{self._file} does not hold a vector of width {width} for each id of {files.ids}; train again"
            )

    def __call__(self, raw: Tensor, gid: Tensor | None = None) -> Tensor:
        """Vectors ``[n, width]`` of nodes by their raw ids, int64 ``[n]``, on the CPU.

        Raises:
            IdError: a node that has learned no vector.
        """
        raw = raw.cpu()
        place = torch.searchsorted(self.ids, raw).clamp(max=max(len(self.ids) - 1, 0))
        unknown = raw[self.ids[place] != raw] if len(self.ids) else raw
        if len(unknown):
            raise IdError(
                f"{len(unknown)} of {len(raw)} nodes of {self._node_type!r} have no vector in {self._file}, the first is "
                f"{int(unknown[0])}: they were not in the graph that the model learned from; train again"
            )
        return self.rows[place]


def attach(model: nn.Module, folder: Path, files: Sequence[VectorFiles]) -> None:
    """Gives a model the vectors that lie beside its weights.

    Raises:
        CorruptDatasetError: vectors of other types than the model's; or as of `StoredVectors`, as IncompleteDatasetError.
    """
    known, wanted = {of.node_type: of for of in files}, learned_vectors(model)
    if known.keys() != wanted.keys():
        raise CorruptDatasetError(f"{folder} holds vectors of {sorted(known)}, but its model learns those of {sorted(wanted)}")
    for node_type, vectors in wanted.items():
        vectors.lie_in(StoredVectors(folder, known[node_type], vectors.width))


def _mapped(file: Path) -> Tensor:
    check_sealed(file)
    try:
        return torch.from_numpy(np.load(file, mmap_mode="c", allow_pickle=False))
    except (ValueError, TypeError, EOFError) as error:
        raise CorruptDatasetError(f"{file} cannot be read as one array: {error}; train again") from error
