"""Notes beside the edges of a finished batch which of its nodes are seeds, for the layers that read these edges."""

import weakref
from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils.weak import TensorWeakRef
from torch_geometric.data import Data, HeteroData

from halohop.sampling.lists import AROUND, Seeds
from halohop.typing import EDGE, NODE, NodeType, Relation


def note_seeds(batch: Any) -> Any:
    """The same batch. Its edges are known from now on to be around its seeds, also where PyG copies it to a device.

    What is no graph of PyG, such as a tuple of a `transform`, and batches that do not tell their seeds, stay as they are.
    """
    if isinstance(batch, Data | HeteroData):
        _note(batch)
        for _, store in _edges(batch):
            if numbers := store.get("num_sampled_edges"):
                store["num_sampled_edges"] = [_FirstHop.of(batch, numbers[0]), *numbers[1:]]
    return batch


class _FirstHop(int):
    """How many edges the first hop drew. PyG copies a batch by calling `to`, `cuda`, ... of everything in it, in order: when this
    number is called, the edges before it have been copied, and their copies are noted.
    """

    _batch: "weakref.ref[Any]"

    @classmethod
    def of(cls, batch: Any, number: int) -> "_FirstHop":
        made = cls(number)
        made._batch = weakref.ref(batch)
        return made

    def to(self, *args: Any, **kwargs: Any) -> "_FirstHop":
        """Notes the copies of the edges."""
        if (batch := self._batch()) is not None:
            _note(batch)
        return self

    cpu = cuda = pin_memory = contiguous = to

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


def _note(batch: Any) -> None:
    nodes: dict[NodeType, Any] = {NODE: batch._store} if isinstance(batch, Data) else dict(batch.node_items())
    if not all(store.get("num_sampled_nodes") for store in nodes.values()):
        return
    edges = {relation: store["edge_index"] for relation, store in _edges(batch) if type(store.get("edge_index")) is Tensor}
    seeds = Seeds(
        counts={name: int(store["num_sampled_nodes"][0]) for name, store in nodes.items()},
        num_nodes={name: int(store.num_nodes) for name, store in nodes.items()},
        edges={relation: TensorWeakRef(ends) for relation, ends in edges.items()},
    )
    for relation, ends in edges.items():
        AROUND.keep(ends, (relation, seeds))


def _edges(batch: Any) -> Iterator[tuple[Relation, Any]]:
    if isinstance(batch, Data):
        yield EDGE, batch._store
    else:
        yield from batch.edge_items()
