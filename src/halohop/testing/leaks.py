"""A detector of the future in batches of temporal link prediction.

A model that is asked whether an edge appears at time t, and shown an edge of t + 1, learns to read the answer. The scores look
splendid and are worth nothing, so these checks belong into the tests of every temporal loader. A batch in which every seed has a
tree of its own (PyG's `disjoint`) passes if its edges, its nodes where they have times, and its paths do::

    src, dst = batch.edge_index
    assert_no_future(batch.time, batch.batch[dst], batch.seed_time)
    assert_trees_apart(batch.batch[src], batch.batch[dst])
"""

import torch
from torch import Tensor


def assert_no_future(time: Tensor, tree: Tensor | None, seed_time: Tensor, *, what: str = "edge", strict: bool = False) -> None:
    """Asserts that no edge or node of a sampled batch is later than the seed that it was sampled for.

    Args:
        time: when each edge (of one relation) or node (of one type) happened, ``[n]``.
        tree: which seed each was sampled for, integer ``[n]``; None where all were sampled for one seed time.
        seed_time: the time of each seed, ``[num_trees]``.
        what: "edge" or "node", for the message.
        strict: nothing of the very moment of the seed either. The edge that is asked for has this time itself, so a loader that
            does not remove it is caught.

    Raises:
        AssertionError: names the first that is too late, and how many are. A time that is NaN is too late.

    Example:
        >>> assert_no_future(torch.tensor([9, 15]), torch.tensor([0, 1]), torch.tensor([10, 20]))
        >>> assert_no_future(torch.tensor([9, 15]), torch.tensor([0, 0]), torch.tensor([10, 20]))
        Traceback (most recent call last):
        AssertionError: edge 1 is of time 15, later than 10, the time of seed 0 that it was sampled for (1 of 2 edges leak)
    """
    assert seed_time.dim() == 1, f"seed_time has shape {tuple(seed_time.shape)}, expected one time per seed"
    if tree is None:
        assert len(seed_time) == 1, f"there are {len(seed_time)} seed times; say in `tree` which {what} was sampled for which"
        tree = torch.zeros(len(time), dtype=torch.int64)
    assert time.shape == tree.shape, f"time has shape {tuple(time.shape)}, but tree has {tuple(tree.shape)}"
    inside = (tree >= 0) & (tree < len(seed_time))
    assert inside.all(), f"tree holds {int(tree[~inside][0])}, but there are {len(seed_time)} seeds"
    latest = seed_time[tree.long()]
    leaks = torch.nonzero(~(time < latest if strict else time <= latest)).flatten()
    if len(leaks):
        first = int(leaks[0])
        relation = "not before" if strict else "later than"
        raise AssertionError(
            f"{what} {first} is of time {time[first].item()}, {relation} {latest[first].item()}, the time of seed "
            f"{int(tree[first])} that it was sampled for ({len(leaks)} of {len(time)} {what}s leak)"
        )


def assert_trees_apart(src_tree: Tensor, dst_tree: Tensor) -> None:
    """Asserts that no edge leads from one seed's tree into another's, where later edges may be.

    Args:
        src_tree, dst_tree: which seed both ends of each edge were sampled for, integer ``[num_edges]``.

    Raises:
        AssertionError: names the first edge that does.

    Example:
        >>> assert_trees_apart(torch.tensor([0, 1]), torch.tensor([0, 1]))
    """
    assert src_tree.shape == dst_tree.shape, f"{len(src_tree)} sources, but {len(dst_tree)} destinations"
    across = torch.nonzero(src_tree != dst_tree).flatten()
    if len(across):
        first = int(across[0])
        raise AssertionError(
            f"edge {first} leads from the tree of seed {int(src_tree[first])} into that of seed {int(dst_tree[first])} "
            f"({len(across)} of {len(src_tree)} edges lead astray)"
        )
