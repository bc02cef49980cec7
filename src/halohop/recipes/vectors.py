"""Learned vectors of nodes as a model sees them: rows that lie elsewhere, found by raw id.

While a model learns they lie in tables of the graph (`halohop.recipes.vector_tables`), later in files beside its weights
(`halohop.recipes.vector_files`). So a model's parameters are the same on any number of nodes.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from halohop.errors import InputError
from halohop.recipes.spec import NodeInput
from halohop.typing import NodeType

RowsOf = Callable[[Tensor, Tensor | None], Tensor]
"""Nodes, by their raw ids, int64 ``[n]``, and by their gids, where a batch has them, to vectors, float ``[n, width]``. Ids lie
where the batch does."""


class LearnedVectors(nn.Module):
    """A vector for each node of a type, brought to the width of a model's layers if it has another.

    Args:
        node_input: which type, and the width of its vectors.
        hidden: the width that is wanted; None: as they are.
    """

    def __init__(self, node_input: NodeInput, hidden: int | None = None) -> None:
        super().__init__()
        self.node_type, self.width = node_input.node_type, node_input.learned
        same = hidden in (None, self.width)
        self.project = nn.Identity() if same else nn.Linear(self.width, hidden or 0)
        self._rows_of: RowsOf | None = None

    def lie_in(self, rows_of: RowsOf) -> None:
        """From now on the rows come from there."""
        self._rows_of = rows_of

    def forward(self, raw_id: Tensor, gid: Tensor | None = None) -> Tensor:
        """Vectors ``[n, width]`` of nodes, on the device of their ids, int64 ``[n]``."""
        if self._rows_of is None:
            raise InputError(f"the vectors of {self.node_type!r} lie nowhere yet; load the model with load_checkpoint")
        rows: Tensor = self.project(self._rows_of(raw_id, gid).to(raw_id.device))
        return rows


def of_nodes(vectors: nn.Module, store: Any) -> Tensor:
    """What `LearnedVectors` give all nodes of a type in a batch, or in its part of a batch."""
    rows: Tensor = vectors(store.n_id, getattr(store, "n_gid", None))
    return rows


def learned_vectors(model: nn.Module) -> dict[NodeType, LearnedVectors]:
    """Those of a model, by node type; none where all types have features."""
    return {module.node_type: module for module in model.modules() if isinstance(module, LearnedVectors)}
