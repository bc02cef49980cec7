"""`graphlearn_torch.utils.common`, `mixin`, `singleton`: folders, seeds, ports, checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric import seed_everything as seed_everything
from torch_geometric.utils.mixin import CastMixin as CastMixin

from halohop import collectives
from halohop.errors import CorruptDatasetError
from halohop.files import whole_file, writing
from halohop.glt.utils.tensor import apply_to_leaves

get_free_port = collectives.free_port


def ensure_dir(dir_path: str) -> None:
    """Makes a folder, and those that it lies in, where it is not there."""
    with writing(Path(dir_path)):
        Path(dir_path).mkdir(parents=True, exist_ok=True)


def merge_dict(in_dict: dict[Any, Any], out_dict: dict[Any, list[Any]]) -> None:
    """Appends each value to the list of its key."""
    for key, value in in_dict.items():
        out_dict.setdefault(key, []).append(value)


def count_dict(in_dict: dict[Any, Any], out_dict: dict[Any, list[int]], target_len: int) -> None:
    """Appends the length of each value to the list of its key, which zeros fill up to `target_len` numbers."""
    for key, value in in_dict.items():
        counts = out_dict.setdefault(key, [])
        counts += [0] * (target_len - len(counts) - 1) + [len(value)]


def index_select(data: Any, index: Any) -> Any:
    """The rows at `index`, or from `index[0]` on before `index[1]`, of everything in nested dicts, lists and tuples."""
    rows = slice(*index) if isinstance(index, tuple) else index
    return apply_to_leaves(data, lambda leaf: None if leaf is None else leaf[rows])


def default_id_select(srcs: Tensor, p_mask: Tensor, node_pb: Any = None) -> Tensor:
    """The ids that a mask marks."""
    return srcs.masked_select(p_mask)


def default_id_filter(node_pb: Any, partition_idx: int) -> Tensor:
    """The ids of a partition."""
    return torch.as_tensor(node_pb == partition_idx).nonzero().view(-1)


def save_ckpt(
    ckpt_seq: int, ckpt_dir: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, epoch: float = 0
) -> None:
    """Writes the state of a model, and of its optimizer, to ``model_seq_N.ckpt``; whole, or not at all."""
    ensure_dir(ckpt_dir)
    state = {"seq": ckpt_seq, "epoch": epoch, "model_state_dict": model.state_dict()}
    if optimizer is not None:
        state["optimizer_state_dict"] = optimizer.state_dict()
    with whole_file(_checkpoint(ckpt_dir, ckpt_seq)) as stream:
        torch.save(state, stream)


def load_ckpt(ckpt_seq: int, ckpt_dir: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> float:
    """Reads what `save_ckpt` wrote; returns its epoch, -1 where there is none.

    Raises:
        CorruptDatasetError: it holds other objects than tensors and plain values, or the state of another model.
    """
    file = _checkpoint(ckpt_dir, ckpt_seq)
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model_state_dict"])
        if optimizer is not None:
            optimizer.load_state_dict(state["optimizer_state_dict"])
        return float(state["epoch"])
    except FileNotFoundError:
        return -1
    except Exception as error:  # whatever the reader makes of it
        raise CorruptDatasetError(f"{file} is no checkpoint that save_ckpt wrote of such a model: {error}") from error


def _checkpoint(folder: str, number: int) -> Path:
    return Path(folder) / f"model_seq_{number}.ckpt"


def singleton(cls: Callable[..., Any]) -> Callable[..., Any]:
    """A class of which there is one object: the first that was asked for, whatever is given later."""
    made: list[Any] = []

    def only(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(cls(*args, **kwargs))
        return made[0]

    return only
