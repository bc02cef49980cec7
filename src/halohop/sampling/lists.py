"""Where lists of edges begin, as those know who drew them: kept beside the ends of edges, so that nobody looks for it again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

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
        """Says what is known of a tensor as it is now."""
        self._known[tensor] = tensor._version, known

    def of(self, tensor: Tensor) -> Known | None:
        """What is known of a tensor; None if nothing is."""
        version, known = self._known.get(tensor, (None, None))
        return known if version == tensor._version else None


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


OF_HOPS = Beside[Sequence[Tensor | None]]()
"""Of the edges of a batch, ``[2, E]``, whose hops begin at all nodes: by hop, where the in-edges of each node that there was
before it begin among those of the hop, int64 ``[n + 1]``; None where the hop has none."""

OF_NODES = Beside[Drawn]()
"""Of where edges lead, ``[E]``."""
