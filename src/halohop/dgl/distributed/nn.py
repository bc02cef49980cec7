"""DGL's `DistEmbedding`: learned rows of nodes, which lie with the partitions."""

from typing import Any

from torch import Tensor

import halohop
from halohop.dgl.distributed.dist_context import process
from halohop.dgl.distributed.dist_tensor import DistTensor, graph_of, init_of, policy_of, table_of
from halohop.dgl.distributed.partition_book import PartitionPolicy


class DistEmbedding(halohop.DistEmbedding):
    """Learned vectors of the nodes of a type, which `dgl.distributed.optim` trains where they lie.

    A lookup that backward does not reach leaves nothing behind, so that no step need follow it.

    Args:
        num_embeddings: as many as there are nodes.
        embedding_dim: of a row.
        name: with the type, what other ranks find it by.
        init_func: as of `DistTensor`.
        part_policy: whose rows they are; None: of the type that has as many.

    Raises:
        InputError: as of `DistTensor`.

    Example:
        ``vectors = DistEmbedding(g.num_nodes("paper"), 64, "vectors", part_policy=g.get_node_partition_policy("paper"))``
    """

    weight: DistTensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        name: str | None = None,
        init_func: Any = None,
        part_policy: PartitionPolicy | None = None,
    ) -> None:
        policy = part_policy or policy_of([num_embeddings], "a DistEmbedding")
        table = policy.get_data_name(name or process.next_name("embedding"))
        engine = graph_of(policy).engine
        begins = init_of(init_func, (embedding_dim,))
        super().__init__(engine, num_embeddings, embedding_dim, table, begins, **table_of(policy))
        self.weight = DistTensor.found(engine, table)
        self.part_policy = policy

    def forward(self, idx: Tensor, device: Any = None, gid: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """Rows ``[*shape, embedding_dim]`` of the user's ids, with a gradient.

        Args:
            device: of the rows; None: that of the ids.
            gid: instead of ids, as of `halohop.DistEmbedding`.
        """
        return super().forward(idx, gid, device)

    @property
    def data_name(self) -> str:
        """The name without the type."""
        return self.weight.tensor_name

    def reset_trace(self) -> None:
        """Forgets the gradients since the last step."""
        self.gradients.drop()


NodeEmbedding = DistEmbedding
