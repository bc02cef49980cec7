"""Which nodes train, validate and test: the bool columns ``train_mask``, ``val_mask``, ``test_mask``."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from halohop.errors import IdError, InputError

FRACTIONS = (0.6, 0.2, 0.2)
"""Shares of train, validation and test nodes, where the data set does not come with a split of its own."""


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
    if len(fractions) != 3 or min(fractions) < 0 or sum(fractions) > 1 + 1e-9:
        raise InputError(f"fractions={tuple(fractions)} must be three shares (train, val, test) that sum to at most 1")
    labels = y.numpy()
    shuffled = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))
    if stratified:
        shuffled = shuffled[np.argsort(labels[shuffled], kind="stable")]
        _, group_sizes = np.unique(labels[shuffled], return_counts=True)
    else:
        group_sizes = np.array([len(shuffled)])
    sizes = np.repeat(group_sizes, group_sizes)
    ranks = np.arange(len(shuffled)) - np.repeat(np.cumsum(group_sizes) - group_sizes, group_sizes)
    masks, lower = {}, np.zeros(len(shuffled))
    for split, share in zip(("train", "val", "test"), np.cumsum(fractions), strict=True):
        upper = np.rint(sizes * share)
        masks[split] = shuffled[(ranks >= lower) & (ranks < upper)]
        lower = upper
    return index_masks(len(y), masks)


def index_masks(num_nodes: int, splits: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Masks from the rows of each split, one bool column ``<split>_mask`` each.

    Raises:
        IdError: a row outside 0..num_nodes-1.
    """
    masks = {}
    for split, rows in splits.items():
        outside = rows[(rows < 0) | (rows >= num_nodes)]
        if len(outside):
            raise IdError(f"split {split!r} names node {int(outside[0])}, but ids go from 0 to {num_nodes - 1}")
        mask = torch.zeros(num_nodes, dtype=torch.bool)
        mask[torch.from_numpy(np.ascontiguousarray(rows, dtype=np.int64))] = True
        masks[f"{split}_mask"] = mask
    return masks
