"""How probable it is that entries of lists are drawn, and that a node is drawn from none of the lists that hold it."""

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_access
from halohop.ops.arguments import as_int64, integers


def draw_shares(counts: Tensor, fanout: int, *, replace: bool = False, weights: Tensor | None = None) -> Tensor:
    """The probability that each entry of some lists is drawn from its list.

    It is exact, except by weights without replacement: there the entries ring like clocks, at rates that are their weights, the
    first `fanout` are drawn, and the time at which so many have rung is taken for certain (Rosén, 1997). The shares of a list
    add up to the fanout then, too; in a list of few entries a share may be a few percent off.

    Args:
        counts: lengths of the lists, int64 or int32 ``[n]``.
        fanout: how many are drawn from each; -1 draws all.
        replace: draws are with replacement.
        weights: of the entries, list after list, floats ``[sum(counts)]``; None where all are alike.

    Returns:
        float64 ``[sum(counts)]``.

    Raises:
        InputError: no such fanout, weights of another length, negative or not finite.

    Example:
        >>> draw_shares(torch.tensor([4, 1]), 2).tolist()
        [0.5, 0.5, 0.5, 0.5, 1.0]
        >>> draw_shares(torch.tensor([2]), 1, replace=True, weights=torch.tensor([1.0, 1.0])).tolist()
        [0.5, 0.5]
    """
    if fanout < -1:
        raise InputError(f"fanout={fanout}: give a number of neighbours, or -1 for all of them")
    lengths = as_int64(integers(counts, "counts"))
    shares = np.empty(int(lengths.sum()), np.float64)
    if weights is None:
        cpu_access.uniform_shares(lengths, fanout, replace, shares)
        return torch.from_numpy(shares)
    weighed = weights.detach().double().numpy()
    if weighed.shape != shares.shape:
        raise InputError(f"there are {len(shares)} entries, but weights of shape {tuple(weights.shape)}")
    if not (np.isfinite(weighed).all() and (weighed >= 0).all()):
        raise InputError("a weight is negative or not finite; lists are drawn from by weights that are numbers of at least 0")
    cpu_access.weighted_shares(lengths, weighed, fanout, replace, shares)
    return torch.from_numpy(shares)


def add_absence(counts: Tensor, neighbors: Tensor, reach: Tensor, shares: Tensor, out: Tensor) -> None:
    """Adds to each node the logarithm of the probability that no list draws it, the lists taken for independent.

    Args:
        counts: lengths of the lists, int64 or int32 ``[n]``.
        neighbors: their entries, int64 or int32 ``[sum(counts)]``.
        reach: how probable it is that a list is drawn from, float64 ``[n]``.
        shares: of the entries, see `draw_shares`.
        out: float64 ``[num_nodes]``; it is added to.

    Raises:
        IdError: an entry that is no row of `out`.
        InputError: lengths that do not fit together, or wrong dtypes.

    Example:
        >>> out, halves = torch.zeros(3, dtype=torch.float64), torch.full((2,), 0.5, dtype=torch.float64)
        >>> add_absence(torch.tensor([2]), torch.tensor([0, 2]), 2 * halves[:1], halves, out)
        >>> out.exp().tolist()
        [0.5, 1.0, 0.5]
    """
    lengths, ends = as_int64(integers(counts, "counts")), integers(neighbors, "neighbors")
    if any(values.dtype != torch.float64 for values in (reach, shares, out)):
        raise InputError(f"reach, shares and out are {reach.dtype}, {shares.dtype} and {out.dtype}, but must be float64")
    if not (len(lengths) == len(reach) and len(ends) == len(shares) == int(lengths.sum())):
        raise InputError(
            f"{len(lengths)} lists of {int(lengths.sum())} entries, but {len(ends)} neighbours, {len(shares)} shares"
        )
    done = cpu_access.add_absence(lengths, ends, reach.numpy(), shares.numpy(), out.numpy())
    if done < len(ends):
        raise IdError(f"a list holds {int(ends[done])}, but there are {len(out)} nodes")
