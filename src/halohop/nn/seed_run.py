"""One forward pass that computes only the rows that a batch's seeds need, and stops where that would change them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric.data import Data, HeteroData

from halohop.nn import row_wise
from halohop.nn.hops import Hop
from halohop.nn.levels import Levels
from halohop.nn.pooled import IN_POOL
from halohop.sampling.lists import AROUND, Seeds
from halohop.typing import NodeType

CURRENT: ContextVar["SeedRun | None"] = ContextVar("halohop_seed_run", default=None)


class RowsMissingError(Exception):
    """The rows that were computed may not be those of the model; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the rows of a tensor are of: the first nodes of a type, in one batch, after some layers."""

    seeds: Seeds
    node_type: NodeType
    level: int
    axis: int = 0  # along which dimension the rows are


class SeedRun(TorchFunctionMode):
    """Follows the rows that layers give through all operations of torch.

    A tensor may have a `Place`: its rows are the first ones of what the model gives for all nodes. Its place may be None: it is
    the same whether or not rows are left out. Or it is unknown, as one that code outside of torch made.

    Args:
        layers: how many layers follow one another. None: that is to be learned, and layers give all rows.
        model: its parameters and buffers are the same.
        given: so are the tensors that it is given.

    Attributes:
        reached: how many layers have followed one another.
        stopped: why rows may not be left out; empty if they may. Code of the model may have caught the error that said so.
    """

    def __init__(self, layers: int | None, model: nn.Module, given: Any) -> None:
        super().__init__()
        self.reached, self.stopped = 0, ""
        self._layers = layers
        self._places = WeakIdKeyDictionary()
        self._levels: dict[int, Levels | None] = {}
        self._made: dict[NodeType, tuple[Place, int]] | None = None  # by the layer that computes now
        self._grad = torch.is_grad_enabled()
        for tensor in chain(model.parameters(), model.buffers(), tensors_in(given)):
            self._places[tensor] = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._made is not None or self.stopped:  # a layer over lists computes
            return func(*args, **kwargs)
        known, place = self._place_after(row_wise.name_of(func), args, kwargs)
        out = (func if place is None else IN_POOL.get(func, func))(*args, **kwargs)
        if known:
            for tensor in tensors_in(out):
                self._places[tensor] = place
        return out

    def layer(self, call: Callable[[], Any]) -> Any:
        """What a layer gives. From where it takes a hop to its end, its operations are its own."""
        if self._made is not None:
            return call()
        try:
            out = call()
        finally:
            made, self._made = self._made, None
        if made is None:
            return out
        self._place(out if isinstance(out, dict) else {next(iter(made)): out}, made)
        return out

    def leave(self, rows: Tensor) -> None:
        """Ends a layer's own operations before its end: what a module of the user makes of these rows is followed."""
        made, self._made = self._made, None
        if made is not None:
            self._place({next(iter(made)): rows}, made)

    def _place(self, out: dict[NodeType, Any], made: dict[NodeType, tuple[Place, int]]) -> None:
        with torch._C.DisableTorchFunction():
            for node_type, rows in out.items():
                place, number = made.get(node_type, (None, -1))
                if not isinstance(rows, Tensor) or len(rows) != number:
                    self.stop("a layer gives other rows than it was asked for")
                else:
                    self._places[rows] = place

    def hop(self, x: tuple[Any, Any], edge_index: Any) -> Hop | None:
        """What a layer reads of a relation; None if it is to give all rows, as nothing was left out of what it is given.

        Raises:
            RowsMissingError: rows that it needs may have been left out.
        """
        if self.stopped:
            return None
        with torch._C.DisableTorchFunction():
            return self._hop([one for one in x if one is not None], edge_index)

    def _hop(self, rows: list[Tensor], edge_index: Any) -> Hop | None:
        places = [place for one in rows if (place := self._places.get(one)) is not None]
        known = AROUND.of(edge_index) if type(edge_index) is Tensor else None
        levels = None if known is None else self._levels_of(known[1])
        if known is None or levels is None:
            if places:
                self.stop("a layer is given edges that are not those of a batch, or were changed")
            return None
        (src, _, dst), seeds = known
        level = places[0].level if places else 0
        types = (src, dst)[: len(rows)]
        why = ""
        if level and [*places] != [Place(seeds=seeds, node_type=name, level=level) for name in types]:
            why = "a layer is given rows of different layers or batches"
        elif is_checkpointed() or self._lost_gradients:
            why = "a layer is computed again in the backward pass (gradient checkpointing), or without gradients"
        elif level == self._layers:
            why = "the model has more layers than before"
        elif [*map(len, rows)] != [levels.number(level, name) for name in types]:
            if not level:
                return None
            why = "a layer is given more or fewer rows than the one before gave"
        if why:
            self.stop(why)
            return None
        self.reached = max(self.reached, level + 1)
        self._made = {} if self._made is None else self._made
        place = Place(seeds=seeds, node_type=dst, level=level + 1)
        self._made[dst] = place, levels.number(level + 1, dst)
        return levels.hop(known[0], level)

    def check(self, x: Iterable[Any]) -> None:
        """
        Raises:
            RowsMissingError: a layer that computes without lists is given rows of which some were left out.
        """
        if self._made is None and any(self._places.get(one) is not None for one in x if isinstance(one, Tensor)):
            self.stop("a layer computes without lists of in-edges")

    def result(self, out: Any, model: nn.Module) -> Any:
        """What a model gives, cut to the rows of the seeds.

        Raises:
            RowsMissingError: code outside of torch made a part of it, or the model keeps rows.
        """
        if not self.reached or self.stopped:
            return out
        if any(not isinstance(leaf, Tensor | int | float | str | None) for leaf in _leaves(out)):
            self.stop("the result holds what is no tensor")
        elif any(tensor not in self._places for tensor in tensors_in(out)):
            self.stop("the result is made by code outside of torch")
        kept = tensors_in([[*vars(module).values()] for module in model.modules()])
        if any(self._places.get(tensor) is not None for tensor in kept):
            self.stop("the model keeps rows in its attributes")
        return out if self.stopped else self._cut(out)

    def stop(self, why: str) -> None:
        """From now on, rows may not be left out.

        Raises:
            RowsMissingError: rows were left out. If they were not, `stopped` says why they may not be.
        """
        self.stopped = self.stopped or why
        if self._layers is not None:
            raise RowsMissingError(why)

    def _cut(self, out: Any) -> Any:
        if isinstance(out, dict):
            return type(out)({key: self._cut(value) for key, value in out.items()})
        if isinstance(out, tuple | list):
            cut = [self._cut(value) for value in out]
            return type(out)(*cut) if hasattr(out, "_fields") else type(out)(cut)
        place = self._places.get(out) if isinstance(out, Tensor) else None
        if place is None or len(out) == (number := place.seeds.counts[place.node_type]):
            return out
        return out.narrow(place.axis, 0, number)

    def _levels_of(self, seeds: Seeds) -> Levels | None:
        if id(seeds) not in self._levels:
            self._levels[id(seeds)] = Levels.of(seeds, self._layers)
        return self._levels[id(seeds)]

    def _place_after(self, name: str, args: Any, kwargs: Any) -> tuple[bool, Place | None]:
        """What is known of what an operation returns: whether anything is, and its place."""
        tensors = [*tensors_in((args, kwargs))]
        rows = [tensor for tensor in tensors if self._places.get(tensor) is not None]
        known = all(tensor in self._places for tensor in tensors)
        if not known and self.reached:
            return self._stop(name, "a tensor that is not made of what the model is given")
        if not rows:
            return known, None
        if self._lost_gradients and name not in row_wise.OF_NO_ROW:
            return self._stop(name, "rows without their gradients")
        place, others = self._places[rows[0]], [tensor for tensor in tensors if self._places.get(tensor) is None]
        if any(self._places[one] != place or one.dim() != rows[0].dim() for one in rows):
            return self._stop(name, "rows of different layers")
        alone = len(rows) == 1 and len(args) > 0 and rows[0] is args[0]
        if alone and place.axis == 0 and row_wise.takes_first_rows(name, rows[0], (args, kwargs)):
            return True, None
        matrices = name in row_wise.WITH_MATRICES
        axis = None if matrices and not alone else row_wise.axis_after(name, rows[0], place.axis, (args, kwargs))
        if axis is None:
            return self._stop(name, "all rows, or how many there are")
        if not matrices and not all(row_wise.fits_beside(other, rows[0], place.axis) for other in others):
            return self._stop(name, "a tensor with a row for each node")
        return True, replace(place, axis=axis) if axis != place.axis else place

    @property
    def _lost_gradients(self) -> bool:
        return self._grad and not torch.is_grad_enabled()

    def _stop(self, name: str, reads: str) -> tuple[bool, None]:
        self.stop(f"{name} in {_module_now()} reads {reads}")
        return False, None


def current_run() -> SeedRun | None:
    """The run that what is computed now is a part of; None in compiled models, whose rows nobody follows."""
    return None if torch.compiler.is_compiling() else CURRENT.get()


def is_checkpointed() -> bool:
    """Whether what is computed now may be computed again in the backward pass."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def _module_now() -> str:
    """The class of the module whose code runs."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not isinstance(frame.f_locals.get("self"), nn.Module):
        frame = frame.f_back
    return "the model" if frame is None else type(frame.f_locals["self"]).__name__


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in arguments or results."""
    return (leaf for leaf in _leaves(value) if isinstance(leaf, Tensor))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Data | HeteroData):
        value = value.to_dict()
    if isinstance(value, tuple | list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    else:
        yield value
