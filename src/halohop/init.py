"""What the rows of tables are before they are written: `init=` of `halohop.DistTensor` and `halohop.DistEmbedding`.

Random ones are a function of the seed, the table's name and a row's id, so rows begin alike wherever they lie, and none is sent.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from halohop.errors import InputError
from halohop.tables.spec import Beginning, BeginningKind

__all__ = ["Init", "column", "constant", "normal", "uniform", "xavier_normal", "xavier_uniform", "zeros"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Init:
    """How rows begin; from the functions of this module.

    Args:
        kind, low, high, name: as of `halohop.tables.spec.Beginning`.
        gain: of Glorot's: then the bounds follow from the table's shape.
    """

    kind: BeginningKind
    low: float = 0.0
    high: float = 0.0
    name: str = ""
    gain: float | None = None

    def beginning(self, num_rows: int, shape: tuple[int, ...], *, seed: int) -> Beginning:
        """For a table ``[num_rows, *shape]``.

        Raises:
            InputError: Glorot's needs rows with at least one dimension.
        """
        random = self.kind in ("uniform", "normal")
        low, high = self.low, self.high
        if self.gain is not None:
            if not shape:
                raise InputError(f"xavier needs rows of at least one dimension, and a table of shape {[num_rows]} has none")
            receptive = math.prod(shape[1:])
            deviation = self.gain * math.sqrt(2 / max((num_rows + shape[0]) * receptive, 1))
            low, high = (-math.sqrt(3) * deviation, math.sqrt(3) * deviation) if self.kind == "uniform" else (0.0, deviation)
        return Beginning(kind=self.kind, low=low, high=high, seed=seed if random else 0, name=self.name)


def zeros() -> Init:
    """Rows of zeros."""
    return constant(0)


def constant(value: float) -> Init:
    """Rows of one number."""
    return Init(kind="constant", low=float(value))


def uniform(low: float = 0.0, high: float = 1.0) -> Init:
    """Entries from `low` to `high`, evenly.

    Raises:
        InputError: `low` is above `high`.
    """
    if not low <= high:
        raise InputError(f"uniform from {low} to {high} has no numbers; give the lower one first")
    return Init(kind="uniform", low=float(low), high=float(high))


def normal(mean: float = 0.0, std: float = 1.0) -> Init:
    """Entries of a normal distribution.

    Raises:
        InputError: `std` is negative.
    """
    if not std >= 0:
        raise InputError(f"std={std} is no standard deviation; give one that is not negative")
    return Init(kind="normal", low=float(mean), high=float(std))


def xavier_uniform(gain: float = 1.0) -> Init:
    """As `torch.nn.init.xavier_uniform_` fills the whole table, ``[num_rows, *shape]`` (Glorot and Bengio, 2010)."""
    return Init(kind="uniform", gain=float(gain))


def xavier_normal(gain: float = 1.0) -> Init:
    """As `torch.nn.init.xavier_normal_` fills the whole table."""
    return Init(kind="normal", gain=float(gain))


def column(name: str) -> Init:
    """The rows of a stored column of the nodes or edges that the table is of."""
    return Init(kind="column", name=name)


def beginning_of(
    init: "Init | Callable[[Tensor], Tensor] | None", num_rows: int, shape: tuple[int, ...], *, seed: int
) -> tuple[Beginning, Callable[[Tensor], Tensor] | None]:
    """What a user gives as `init=`, and the callable of ids, if it is one.

    Raises:
        InputError: it is neither.
    """
    if init is None:
        return zeros().beginning(num_rows, shape, seed=seed), None
    if isinstance(init, Init):
        return init.beginning(num_rows, shape, seed=seed), None
    if not callable(init):
        raise InputError(
            f"init={init!r} is neither of halohop.init nor a callable of ids; give one, such as halohop.init.uniform(-0.1, 0.1)"
        )
    kind = type(init) if not hasattr(init, "__qualname__") else init
    return Beginning(kind="given", name=f"{kind.__module__}.{kind.__qualname__}"), init
