"""What this rank's backward has brought to a table, as its part of a step."""

from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.tables.change_messages import Share
from halohop.tables.rule_spec import Duplicates
from halohop.tensors.dist_embedding import DistEmbedding
from halohop.typing import EDGE_ID, RAW_ID

_NAMED = 5
"""Rows that an error names."""


def share_of(embedding: DistEmbedding, lr: float, duplicates: Duplicates) -> Share:
    """This rank's share of a step of a table.

    Gradients of equal rows are added up here, so that less is sent; unless they are to be averaged over all ranks' lookups.

    Raises:
        InputError: a gradient is not finite.
    """
    gid, grads = embedding.gradients.brought(add_up=duplicates == "sum", pool=embedding.graph.tables.pool)
    if not ops.all_finite(grads):
        _check_finite(embedding, gid, grads)
    return Share(name=embedding.name, gid=gid, rows=grads, lr=lr, spec=embedding.weight.spec.digest)


def _check_finite(embedding: DistEmbedding, gid: Tensor, grads: Tensor) -> None:
    wrong = gid[~grads.isfinite().view(len(gid), -1).all(1)].unique()
    if not len(wrong):  # only their squares were too large
        return
    ids = ", ".join(map(str, _ids(embedding, wrong[:_NAMED]).tolist()))
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    raise InputError(
        f"the gradient of table {embedding.name!r} is not finite in the rows of ids {ids}{more}; nothing was changed: drop it "
        "(optimizer.zero_grad()), or lower the learning rate"
    )


def _ids(embedding: DistEmbedding, gid: Tensor) -> Tensor:
    """The user's ids of rows."""
    key = embedding.weight.spec.key
    if key is None:
        return gid
    (ids,) = embedding.graph.fetch_rows(key, [RAW_ID if isinstance(key, str) else EDGE_ID], gid)
    return ids
