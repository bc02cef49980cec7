"""What is known of the edges of a batch, kept beside their tensors: where their lists begin, and which nodes they are around.

The sampler knows this; searching all edges again takes a fifteenth of a batch without columns. Attributes of a batch would show
it to the user. Writes through NumPy are not noticed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor
from torch.utils.weak import TensorWeakRef, WeakIdKeyDictionary

from halohop.typing import NodeType, Relation

Known = TypeVar("Known")


class Beside(Generic[Known]):
    """What is known of tensors while they live and torch writes nothing to them. Of copies, such as those that another process or
    device gets, nothing is known.

    Example:
        >>> import torch
        >>> beside, ends = Beside[str](), torch.tensor([0, 0, 1])
        >>> beside.keep(ends, "sorted")
        >>> beside.of(ends), beside.of(ends.clone())
        ('sorted', None)
        >>> ends[0] = 1
        >>> print(beside.of(ends))
        None
    """

    def __init__(self) -> None:
        self._known = WeakIdKeyDictionary()

    def keep(self, tensor: Tensor, known: Known) -> None:
        """Says what is known of a tensor as it is now; not of one of `torch.inference_mode`, where no writes are counted."""
        if not tensor.is_inference():
            self._known[tensor] = tensor._version, known

    def of(self, tensor: Tensor) -> Known | None:
        """What is known of a tensor; None if nothing is."""
        version, known = self._known.get(tensor, (None, None))
        return known if version is not None and version == tensor._version else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """Edges of nodes, list after list.

    Args:
        nodes: whose lists they are, int64 ``[n]``, as they were when the edges were drawn.
        version: of `nodes`.
        place: of the node of each edge among these, int64 ``[E]``.
        begins: where the list of each node begins, int64 ``[n + 1]``.
    """

    nodes: Tensor
    version: int
    place: Tensor
    begins: Tensor

    def are_of(self, nodes: Tensor) -> bool:
        """Whether these are the lists of just these nodes."""
        return self.nodes is nodes and self.version == nodes._version


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seeds:
    """Where the sampling of a batch began.

    Args:
        counts: how many of the first nodes of each type these are.
        num_nodes: how many nodes of each type the batch has.
        edges: of each relation, ``[2, E]``; whoever has the batch keeps them.
    """

    counts: Mapping[NodeType, int]
    num_nodes: Mapping[NodeType, int]
    edges: Mapping[Relation, TensorWeakRef]


OF_HOPS = Beside[Sequence[Tensor | None]]()
"""Of the edges of a batch, ``[2, E]``, whose hops begin at all nodes: by hop, where the in-edges of each node that there was
before it begin among those of the hop, int64 ``[n + 1]``; None where the hop has none."""

AROUND = Beside[tuple[Relation, Seeds]]()
"""Of the edges of a batch, ``[2, E]``, as its loader handed it over: their relation, and the seeds."""

OF_NODES = Beside[Drawn]()
"""Of where edges lead, ``[E]``."""
