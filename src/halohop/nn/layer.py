"""What the layers share: when they aggregate over lists, and when PyG's own code runs instead."""

import logging
from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import HeteroDictLinear, HeteroLinear, Linear, MessagePassing
from torch_geometric.nn.aggr import Aggregation, MaxAggregation, MeanAggregation, SumAggregation
from torch_geometric.nn.parameter_dict import ParameterDict

from halohop.nn.aggregation import Rows, is_altered, pair_of
from halohop.nn.hops import Hop, are_ends, grouped
from halohop.nn.seed_run import current_run
from halohop.ops import SEGMENT_DTYPES
from halohop.ops.segments import Reduce
from halohop.sampling.lists import AROUND

REDUCTIONS: dict[Any, Reduce] = {"add": "sum", "sum": "sum", "mean": "mean", "max": "max"}
"""PyG's names of the aggregations that lists offer."""
_AGGREGATIONS = {"sum": SumAggregation, "mean": MeanAggregation, "max": MaxAggregation}

_METHODS = ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update", "update")
_HOOKS = tuple(f"_{method}_forward_{when}hooks" for method in _METHODS[:-1] for when in ("", "pre_"))


def module_key(name: str, *reserved: str, alone: bool = True) -> str:
    """A name as a key of `torch.nn.ModuleDict`: itself, or if it has a dot or is the name of an attribute, its bytes as text.

    Args:
        name: such as that of a node type.
        reserved: further texts that a key must not contain.
        alone: whether it is a key; otherwise part of one, which may be the name of an attribute.

    Example:
        >>> module_key("paper"), module_key("items"), module_key("v1.0")
        ('paper', 'hex_6974656d73', 'hex_76312e30')
    """
    taken = alone and hasattr(_NO_MODULES, name)
    return (
        name
        if name and not taken and not any(text in name for text in (".", "hex_", *reserved))
        else "hex_" + name.encode().hex()
    )


_NO_MODULES = nn.ModuleDict()
_PARTS = (nn.Linear, nn.ModuleDict, nn.ModuleList, ParameterDict, Linear, HeteroLinear, HeteroDictLinear)
"""What PyG's layers are made of."""
_LOG = logging.getLogger(__name__)


class ListedConv(MessagePassing):  # type: ignore[misc]
    """A layer of PyG that aggregates over lists of in-edges, without a message for each edge.

    It takes what PyG's layer takes, and a `Hop` in place of `edge_index`. What it does not know (explanations, hooks on messages,
    sparse matrices, other aggregations, the other flow) is left to PyG's code. So are edges that are no `Hop` in compiled models:
    to sort them takes sizes that only their contents say.
    """

    tells_of_rows = False
    """Whether to say once that `fuse(model, rows="seeds")` would be faster."""
    _layouts: tuple[torch.layout, ...] = (torch.strided,)
    """Of the rows; those of a layer that multiplies them first may be in CSR."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__:
            cls.forward = _followed(cls.forward)

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        """None: PyG would compile `propagate` for each class, for code that is seldom reached."""

    def _hop(self, x: Rows, edge_index: Any, size: Any = None) -> Hop | None:
        """The lists to aggregate over; None if PyG's code is to do it."""
        there, here = x if isinstance(x, tuple) else (x, x)
        fits = self._is_plain() and all(_are_rows(rows, self._layouts) for rows in (there, here) if rows is not None)
        if torch.compiler.is_compiling():
            return edge_index if fits and isinstance(edge_index, Hop) else None
        if (run := current_run()) is not None:
            if not fits or size is not None or isinstance(edge_index, Hop) or here is None:
                run.check((there, here))
            elif not all(map(_is_plain_part, self._parts())):
                run.stop(f"a part of {type(self).__name__} is hooked, or of another kind than PyG's")
            elif (hop := run.hop((there, here), edge_index)) is not None:
                return hop
        if not fits or isinstance(edge_index, Hop):
            return edge_index if fits else None
        if self.tells_of_rows and type(edge_index) is Tensor and AROUND.of(edge_index) is not None:
            _tell_of_rows()
        if type(edge_index) not in (Tensor, EdgeIndex) or edge_index.layout != torch.strided:
            return None
        num_src, num_dst = len(there), len(there if here is None else here)
        if size is not None:
            num_dst = size[1] if here is None else num_dst
            if tuple(size) != (num_src, num_dst):
                return None
        if not are_ends(edge_index, num_src, num_dst):
            return None
        return grouped(edge_index, num_src, num_dst)

    def _parts(self) -> Iterable[nn.Module]:
        """The modules that it calls before it has aggregated."""
        return (module for module in self.modules() if module is not self)

    def _is_plain(self) -> bool:
        known = isinstance(self.aggr, str) and self.aggr in REDUCTIONS
        return known and type(self.aggr_module) is _AGGREGATIONS[self._reduce] and passes_plain_messages(self)

    @property
    def _reduce(self) -> Reduce:
        """The reduction in the words of lists, where they offer it."""
        return REDUCTIONS[self.aggr]

    def _of_pyg(self, x: Any, edge_index: Any, size: Any = None) -> tuple[Any, Any, Any]:
        """What PyG's own code is given instead of a `Hop`."""
        if not isinstance(edge_index, Hop):
            return x, edge_index, size
        return pair_of(x, edge_index), edge_index.ends, (edge_index.num_src, edge_index.num_dst)


def passes_plain_messages(layer: MessagePassing) -> bool:
    """Whether a layer sends messages along its edges, all at once, and nothing of a user looks at them or replaces them."""
    return (
        layer.flow == "source_to_target"
        and layer.node_dim in (-2, 0)
        and not layer.explain
        and layer.decomposed_layers == 1
        and not any(getattr(layer, hooks) for hooks in _HOOKS)
        and not any(method in layer.__dict__ for method in _METHODS[1:])  # PyG itself sets `propagate`
    )


def _followed(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The same computation of a layer, known to the `SeedRun` that it is a part of."""

    @wraps(forward)
    def within(self: ListedConv, *args: Any, **kwargs: Any) -> Any:
        run = current_run()
        return forward(self, *args, **kwargs) if run is None else run.layer(partial(forward, self, *args, **kwargs))

    return within


@cache  # once in a process
def _tell_of_rows() -> None:
    _LOG.warning("a fused model computes all rows of its batches; fuse(model, rows='seeds') computes those that the seeds need")


def _is_plain_part(module: nn.Module) -> bool:
    return (type(module) in _PARTS or isinstance(module, Aggregation)) and not is_altered(module)


def _are_rows(x: Any, layouts: tuple[torch.layout, ...]) -> bool:
    return isinstance(x, Tensor) and x.dim() == 2 and x.dtype in SEGMENT_DTYPES and x.layout in layouts


def is_weight(values: Any) -> bool:
    """Whether there is one number per edge, which rows can be multiplied by."""
    return isinstance(values, Tensor) and values.dtype in SEGMENT_DTYPES and (values.dim() == 1 or values.shape[1:] == (1,))
