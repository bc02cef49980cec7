"""GLT's `Feature`: rows of nodes or edges by their ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.glt.modes import device_of
from halohop.glt.notes import NotByHandle, note


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """GPUs that read each other's memory.

    Args:
        group_id: a number of theirs.
        device_list: the GPUs.
    """

    group_id: int
    device_list: Sequence[Any]

    @property
    def size(self) -> int:
        return len(self.device_list)


class Feature(NotByHandle):
    """Rows, and which id has which.

    Args:
        feature_tensor: ``[n, ...]``.
        id2index: the row of each id, int64; by default ids are rows.
        split_ratio: the share of the rows that a GPU keeps, the hottest ones; of nodes.
        device_group_list: GPUs that divide them, in groups; the one of the graph's device counts.
        with_gpu: whether a GPU is to keep any.
        device: a GPU, or None.
        dtype: of the rows; None keeps theirs.

    Raises:
        InputError: `id2index` names a row that is not there, or a GPU is asked for and there is none.
    """

    def __init__(
        self,
        feature_tensor: Any,
        id2index: Any = None,
        split_ratio: float = 0.0,
        device_group_list: Sequence[DeviceGroup] | None = None,
        device: Any = None,
        with_gpu: bool | None = True,
        dtype: torch.dtype | None = torch.float32,
    ) -> None:
        if with_gpu and device is not None:
            device_of(device)
        if split_ratio and not torch.cuda.is_available():
            note("split_ratio")
        if device_group_list is not None and not torch.cuda.is_available():
            note("device_group_list")
        self.feature_tensor = torch.as_tensor(feature_tensor, dtype=dtype)
        self.split_ratio, self.device_groups = (split_ratio if with_gpu else 0.0), tuple(device_group_list or ())
        ranged = id2index is None or hasattr(id2index, "offset")  # an `OffsetId2Index` reckons
        self.id2index: Any = id2index if ranged else torch.as_tensor(id2index).long()
        if not ranged and len(self.id2index):
            low, high = (int(end) for end in self.id2index.aminmax())
            if low < 0 or high >= len(self.feature_tensor):
                wrong = low if low < 0 else high
                raise InputError(f"id2index names row {wrong}, but the rows are 0 to {len(self.feature_tensor) - 1}")

    @property
    def by_id(self) -> Tensor:
        """The rows in the order of ids; a copy where there is an `id2index`."""
        return self.feature_tensor if self.id2index is None else self.feature_tensor[self.id2index]

    def __getitem__(self, ids: Tensor) -> Tensor:
        """The rows of some ids, on the CPU."""
        ids = ids.cpu()
        try:
            return self.feature_tensor[ids if self.id2index is None else self.id2index[ids]]
        except IndexError as error:
            raise InputError(f"an id has no row, of {len(self.feature_tensor)} rows: {error}; give a row for each") from error

    cpu_get = __getitem__

    shape = property(lambda self: self.feature_tensor.shape)

    def size(self, dim: int) -> int:
        return self.feature_tensor.size(dim)

    def lazy_init_with_ipc_handle(self, ipc_handle: Any) -> NoReturn:
        self.from_ipc_handle(ipc_handle)
