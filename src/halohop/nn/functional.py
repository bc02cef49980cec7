"""What layers are made of, as functions of lists of in-edges: sums, means and maxima of rows, softmax, and scores of edges.

Lists are those of a `halohop.nn.Hop` (``hop.src`` and ``hop.begins``), or any CSC: ``src[begins[i]:begins[i + 1]]`` are the
sources of destination i's edges. All have gradients towards floating-point arguments, work under autocast, in DDP and within
`torch.compile`, and return the same bits for any number of threads. On the CPU they make no row for an edge; on other devices
torch's own functions compute the same. Second gradients are there for sums, means, `segment_add` and `segment_dot`, and refused
for the others.

The scores, shares and rows of an attention layer (GAT), of three sources and two destinations:

    >>> import torch
    >>> src, begins = torch.tensor([1, 2, 0]), torch.tensor([0, 2, 3])
    >>> rows, there, here = torch.ones(3, 4, 8), torch.ones(3, 4), torch.ones(2, 4)  # 4 heads of 8 columns
    >>> scores = torch.nn.functional.leaky_relu(segment_add(there, here, src, begins), 0.2)
    >>> segment_spmm(rows, src, begins, weight=segment_softmax(scores, begins)).shape
    torch.Size([2, 4, 8])
"""

from halohop.ops import segment_add, segment_dot, segment_gatv2, segment_softmax, segment_spmm

__all__ = ["segment_add", "segment_dot", "segment_gatv2", "segment_softmax", "segment_spmm"]
