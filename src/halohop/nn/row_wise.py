"""Which operations keep rows apart.

Row i of their result depends on row i of what they are given, and not on other rows or on how many there are.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

Arguments = tuple[Sequence[Any], Mapping[str, Any]]

# fmt: off
_EACH_NUMBER = frozenset((
    "abs", "add", "addcdiv", "addcmul", "alpha_dropout", "bfloat16", "celu", "clamp", "clip", "clone", "contiguous", "cos",
    "data", "detach", "div", "divide", "double", "dropout", "elu", "eq", "erf", "exp", "expm1", "float", "floor", "ge",
    "gelu", "gt", "half", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "iadd", "idiv", "imul", "isnan", "isub",
    "itruediv", "le", "leaky_relu", "lerp", "log", "log1p", "logical_not", "logsigmoid", "lt", "masked_fill", "maximum",
    "minimum", "mish", "mul", "multiply", "nan_to_num", "ne", "neg", "negative", "pow", "prelu", "rdiv", "reciprocal", "relu",
    "relu6", "requires_grad", "rmul", "round", "rpow", "rrelu", "rsqrt", "rsub", "rtruediv", "selu", "sigmoid", "sign",
    "silu", "sin", "softplus", "softshrink", "softsign", "sqrt", "square", "sub", "subtract", "tan", "tanh", "tanhshrink",
    "threshold", "to", "true_divide", "truediv", "where",
))
# fmt: on
_REDUCES = ("sum", "mean", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "logsumexp")
_DIMENSIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(
        (*_REDUCES, "softmax", "log_softmax", "cumsum", "select", "narrow", "unsqueeze", "squeeze", "size"), (1, None)
    ),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), (1, 0)),
    **{"chunk": (2, 0), "split": (2, 0), "normalize": (2, 1), "norm": (2, None), "flatten": (1, 0)},
    **{"sort": (1, -1), "glu": (1, -1), "topk": (2, -1)},
}
"""Operations along a dimension: which argument names it, and what it is if none does; None: all dimensions."""

_PRODUCTS, _NORMS = ("linear", "matmul"), ("layer_norm", "rms_norm")
WITH_MATRICES = (*_PRODUCTS, *_NORMS, "batch_norm")
"""Operations on rows and on parameters of any shape."""

_ADDS_ONE = ("stack", "unsqueeze")
# fmt: off
OF_NO_ROW = frozenset((
    "device", "dim", "dtype", "get_device", "is_complex", "is_cuda", "is_floating_point", "is_leaf", "is_sparse",
    "layout", "ndim", "requires_grad",
))
# fmt: on


def name_of(func: Callable[..., Any]) -> str:
    """The name of an operation as the tables have it: the same for operators, methods, and their forms in place.

    Operations of others than torch, which may have any name, have none of the tables.
    """
    package = (getattr(func, "__module__", None) or "torch").partition(".")[0]
    if isinstance(func, OpOverload | OpOverloadPacket) or package != "torch":
        return str(func)
    name = getattr(func, "__name__", str(func))
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return str(name).strip("_")


def axis_after(name: str, rows: Tensor, axis: int, given: Arguments) -> int | None:
    """Along which dimension the result of an operation has its rows; None if the operation does not keep them apart.

    Args:
        name: from `name_of`.
        rows: one of the tensors of rows that it is given; the others have as many dimensions and rows.
        axis: along which dimension that has them: 1 after `torch.stack`, else 0.
        given: all that it is given.
    """
    if name in _EACH_NUMBER or name in OF_NO_ROW:
        return None if name == "where" and len(given[0]) == 1 else axis  # which tells places where a condition holds
    if name in _DIMENSIONS:
        dims = _dimensions(name, rows.dim(), given)
        if axis == 0 and name == "stack" and dims == {0}:
            return 1
        if axis == 1:
            return 0 if name in _REDUCES and dims == {0} and not given[1].get("keepdim") and len(given[0]) < 3 else None
        return None if 0 in dims else 0
    return 0 if axis == 0 and _keeps_rows(name, rows, *given) else None


def _keeps_rows(name: str, rows: Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if name in _PRODUCTS:
        return rows.dim() >= 2 and (args[1] if len(args) > 1 else kwargs["weight"]).dim() <= 2
    if name in _NORMS:
        return len(kwargs.get("normalized_shape", args[1] if len(args) > 1 else ())) < rows.dim()
    if name in ("view", "reshape"):
        shape = args[1] if len(args) == 2 and isinstance(args[1], tuple | list) else args[1:]
        return len(shape) > 0 and shape[0] == -1 and prod(shape[1:]) == prod(rows.shape[1:])
    if name == "batch_norm":  # (x, mean, var, weight, bias, training, ...), as modules call it
        return kwargs.get("training", args[5] if len(args) > 5 else True) is False
    return name == "getitem" and _is_all(args[1])


def takes_first_rows(name: str, rows: Tensor, given: Arguments) -> bool:
    """Whether an operation takes rows that are there whether or not others follow them: the first ones, or named ones."""
    args, _ = given
    if name == "index_select":
        key = args[2] if len(args) > 2 and args[1] == 0 else None
    else:
        key = args[1] if name == "getitem" else None
    if isinstance(key, tuple) and key:
        key = key[0]
    if isinstance(key, slice):
        first, last = key.start in (None, 0), key.stop
        return first and key.step in (None, 1) and type(last) is int and 0 <= last <= len(rows)
    if isinstance(key, Tensor) and key.dtype in (torch.int64, torch.int32):
        return not key.numel() or (int(key.min()) >= 0 and int(key.max()) < len(rows))
    return False


def fits_beside(other: Tensor, rows: Tensor, axis: int) -> bool:
    """Whether a tensor that is not made of rows is the same for each of them, in an operation on both."""
    return other.dim() < rows.dim() - axis or (other.dim() == rows.dim() and other.shape[axis] == 1)


def _dimensions(name: str, dims: int, given: Arguments) -> set[int]:
    """Along which dimensions an operation goes; 0 among them where it does not say."""
    args, kwargs = given
    place, usual = _DIMENSIONS[name]
    asked = kwargs.get("dim", kwargs.get("axis", kwargs.get("start_dim", args[place] if len(args) > place else usual)))
    every = asked if isinstance(asked, tuple | list) and asked else (asked,)
    return {dim % (dims + (name in _ADDS_ONE)) if type(dim) is int else 0 for dim in every}


def _is_all(key: Any) -> bool:
    """Whether an index keeps all rows, and takes columns by numbers and slices at most."""
    first, *others = key if isinstance(key, tuple) and key else (key,)
    return first == slice(None) and isinstance(first, slice) and all(isinstance(one, int | slice) for one in others)
