"""Which nodes, or edges with times, train, validate and test: ``train_mask``, ``val_mask``, ``test_mask``."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.flags import checks_flags

FRACTIONS = (0.6, 0.2, 0.2)
"""Shares of train, validation and test nodes, where the data set does not come with a split of its own."""

EDGE_FRACTIONS = (0.8, 0.1, 0.1)
"""Shares of train, validation and test edges that are split at random."""

TIME_FRACTIONS = (0.7, 0.15, 0.15)
"""Shares of the edges in the order of time, as papers on temporal link prediction take them (Rossi et al., TGN, 2020)."""

_SPLITS = ("train", "val", "test")


@checks_flags
def random_masks(
    y: Tensor, *, fractions: Sequence[float] = FRACTIONS, seed: int = 0, stratified: bool = False
) -> dict[str, Tensor]:
    """A random split of the labelled nodes.

    Args:
        y: labels, integer ``[num_nodes]``; nodes with a negative label are unlabelled and belong to no split.
        fractions: shares of train, val and test among the labelled nodes; what they leave of 1 belongs to no split.
        seed: the same seed gives the same split.
        stratified: take the shares from every class on its own.

    Returns:
        ``train_mask``, ``val_mask`` and ``test_mask``, disjoint, bool ``[num_nodes]``.

    Raises:
        InputError: fractions that are not three shares of one whole.

    Example:
        >>> masks = random_masks(torch.zeros(10, dtype=torch.int64))
        >>> [int(mask.sum()) for mask in masks.values()]
        [6, 2, 2]
    """
    _check_shares(fractions)
    narrow = np.int32 if len(y) <= 2**31 - 1 else np.int64
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(y.numpy() >= 0).astype(narrow))
    groups = [shuffled]
    if stratified:
        labels = y.numpy()[shuffled]
        order = np.argsort(labels, kind="stable")
        groups = np.split(shuffled[order], np.flatnonzero(np.diff(labels[order])) + 1)
    masks = {f"{split}_mask": torch.zeros(len(y), dtype=torch.bool) for split in _SPLITS}
    for group in groups:
        ends = np.rint(len(group) * np.cumsum(fractions)).astype(int).tolist()
        for mask, begin, end in zip(masks.values(), [0, *ends], ends, strict=False):
            mask.numpy()[group[begin:end]] = True
    return masks


def time_masks(time: Tensor, *, fractions: Sequence[float] = TIME_FRACTIONS) -> dict[str, Tensor]:
    """A split by time: everything in train is earlier than everything in val, and that than everything in test.

    Entries of one moment stay together, so the shares are met as nearly as they allow.

    Args:
        time: whole numbers or floats ``[n]``, in any order.
        fractions: shares of train, val and test; what they leave of 1 are the latest entries, in no split.

    Returns:
        ``train_mask``, ``val_mask`` and ``test_mask``, disjoint, bool ``[n]``.

    Raises:
        InputError: fractions that are not three shares of one whole, or a split that should have entries and gets none.

    Example:
        >>> time_masks(torch.tensor([5, 1, 1, 9]), fractions=(0.5, 0.25, 0.25))["train_mask"].tolist()
        [False, True, True, False]
    """
    _check_shares(fractions)
    moments, counts = torch.unique(time, return_counts=True)
    ends = counts.cumsum(0)
    masks, lower = {}, 0
    for split, share, until in zip(_SPLITS, fractions, np.cumsum(fractions), strict=True):
        # The moment whose end comes closest to the wanted place; place 0 is before them all.
        upper = int((torch.cat([ends.new_zeros(1), ends]) - round(until * len(time))).abs().argmin())
        if share > 0 and upper <= lower:
            raise InputError(
                f"no entry is left for {split!r}: {len(time)} entries have {len(moments)} different times, which cannot be "
                f"shared out as {tuple(fractions)}; set its share to 0, or use other shares or finer times"
            )
        upper = max(upper, lower)
        between = moments[lower:upper]
        masks[f"{split}_mask"] = (time >= between[0]) & (time <= between[-1]) if len(between) else torch.zeros_like(time).bool()
        lower = upper
    return masks


def index_masks(num_nodes: int, splits: Mapping[str, Iterable[np.ndarray]]) -> dict[str, Tensor]:
    """Masks from the rows of each split, in any number of arrays; one bool column ``<split>_mask`` each.

    Raises:
        IdError: a row outside 0..num_nodes-1.
    """
    masks = {}
    for split, arrays in splits.items():
        mask = torch.zeros(num_nodes, dtype=torch.bool)
        for rows in arrays:
            outside = rows[(rows < 0) | (rows >= num_nodes)]
            if len(outside):
                raise IdError(f"split {split!r} names node {int(outside[0])}, but ids go from 0 to {num_nodes - 1}")
            mask[torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))] = True
        masks[f"{split}_mask"] = mask
    return masks


def _check_shares(fractions: Sequence[float]) -> None:
    if len(fractions) != 3 or min(fractions) < 0 or sum(fractions) > 1 + 1e-9:
        raise InputError(f"fractions={tuple(fractions)} must be three shares (train, val, test) that sum to at most 1")
