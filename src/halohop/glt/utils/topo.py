"""`graphlearn_torch.utils.topo`: edges in COO, CSR and CSC."""

from typing import Any

from torch import Tensor
from torch_geometric.utils import lexsort
from torch_geometric.utils.sparse import index2ptr
from torch_geometric.utils.sparse import ptr2index as ptr2ind

__all__ = ["coo_to_csc", "coo_to_csr", "ptr2ind"]

Ids = Tensor | None
Sizes = tuple[int, int] | None


def coo_to_csr(row: Tensor, col: Tensor, edge_id: Ids = None, edge_weight: Ids = None, node_sizes: Sizes = None) -> Any:
    """Edges in the order of their rows, then of their columns: where each row begins, the columns, ids and weights.

    Example:
        >>> import torch
        >>> ptr, col, *_ = coo_to_csr(torch.tensor([1, 0, 1]), torch.tensor([2, 1, 0]))
        >>> ptr.tolist(), col.tolist()
        ([0, 1, 3], [1, 0, 2])
    """
    order = lexsort([col, row])
    ptr = index2ptr(row[order], None if node_sizes is None else node_sizes[0])
    return ptr, col[order], *(None if values is None else values[order] for values in (edge_id, edge_weight))


def coo_to_csc(row: Tensor, col: Tensor, edge_id: Ids = None, edge_weight: Ids = None, node_sizes: Sizes = None) -> Any:
    """Edges in the order of their columns, then of their rows: the rows, where each column begins, ids and weights."""
    ptr, rows, *values = coo_to_csr(col, row, edge_id, edge_weight, node_sizes and node_sizes[::-1])
    return rows, ptr, *values
