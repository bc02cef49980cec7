"""DGL's optimisers of `DistEmbedding`s: halohop's, with DGL's rules."""

from collections.abc import Iterable
from typing import Any

from halohop import optim
from halohop.dgl.notes import Lacking


class SparseAdam(optim.SparseAdam, Lacking):
    """Adam whose means are corrected by the steps of each row; gradients of a row within a step are averaged over its lookups.

    Args:
        params: a list of `DistEmbedding`s.
        lr, betas, eps: as of torch's.
        given: as of `halohop.optim.SparseAdam`.
    """

    of_dgl = "distributed.optim.SparseAdam"

    def __init__(
        self, params: Iterable[Any], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, **given: Any
    ) -> None:
        super().__init__(params, lr, betas, eps, **({"bias": "row", "duplicates": "mean"} | given))


class SparseAdagrad(optim.SparseAdagrad, Lacking):
    """Adagrad; gradients of a row within a step are averaged over its lookups.

    Args:
        params: a list of `DistEmbedding`s.
        lr, eps: as of torch's.
        given: as of `halohop.optim.SparseAdagrad`.
    """

    of_dgl = "distributed.optim.SparseAdagrad"

    def __init__(self, params: Iterable[Any], lr: float, eps: float = 1e-10, **given: Any) -> None:
        super().__init__(params, lr, eps=eps, **({"duplicates": "mean"} | given))
