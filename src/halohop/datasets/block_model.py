"""The edges of a degree-corrected stochastic block model (Karrer and Newman, 2011), drawn by weight and class."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from halohop.errors import InputError

Pairs = tuple[np.ndarray, np.ndarray]

_ROUNDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Nodes in order of class: class c has the positions bounds[c]:bounds[c + 1]; position i is node number[i]."""

    weight: np.ndarray
    bounds: np.ndarray
    number: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, num_nodes: int, num_classes: int, exponent: float) -> "Blocks":
        if exponent <= 2:
            raise InputError(f"exponent={exponent} must be over 2: below, the average degree has no limit")
        weight = (1 - rng.random(num_nodes)) ** (-1 / (exponent - 1))
        # Heavier nodes would want more edges to each other than a simple graph has room for.
        np.minimum(weight, max(np.sqrt(weight.sum()), 1.0), out=weight)
        bounds = np.arange(num_classes + 1) * num_nodes // num_classes
        return cls(weight=weight, bounds=bounds, number=rng.permutation(num_nodes).astype(np.int32))

    @property
    def num_nodes(self) -> int:
        return len(self.weight)

    @property
    def num_classes(self) -> int:
        return len(self.bounds) - 1

    def classes(self) -> np.ndarray:
        """Class of each node, by node number."""
        y = np.empty(self.num_nodes, dtype=np.int64)
        y[self.number] = np.repeat(np.arange(self.num_classes), np.diff(self.bounds))
        return y


def _draw_pairs(rng: np.random.Generator, left: Blocks, right: Blocks, count: int, homophily: float) -> Pairs:
    """`count` pairs of node numbers, duplicates included.

    One multinomial draw says how often each node is an endpoint; shuffling one side pairs them up. That is a draw by weight
    for each pair, without a search through the weights for each.
    """
    inside = int(rng.binomial(count, homophily))
    left_times = _times(rng, left.weight, inside)
    running = np.concatenate([[0], np.cumsum(left_times)])
    per_class = np.diff(running[left.bounds])
    left_parts, right_parts = [np.repeat(left.number, left_times)], []
    for number, (begin, end) in zip(per_class, np.column_stack([right.bounds[:-1], right.bounds[1:]]), strict=True):
        members = slice(begin, end) if begin < end else slice(None)  # no node of this class over there: any node
        right_parts.append(_shuffled(rng, right.number[members], right.weight[members], number))
    outside = count - inside
    left_parts.append(_shuffled(rng, left.number, left.weight, outside))
    right_parts.append(_shuffled(rng, right.number, right.weight, outside))
    return np.concatenate(left_parts), np.concatenate(right_parts)


def _times(rng: np.random.Generator, weight: np.ndarray, count: int) -> np.ndarray:
    times: np.ndarray = rng.multinomial(count, weight / weight.sum())
    return times


def _shuffled(rng: np.random.Generator, number: np.ndarray, weight: np.ndarray, count: int) -> np.ndarray:
    drawn = np.repeat(number, _times(rng, weight, count))
    rng.shuffle(drawn)
    return drawn


def simple_pairs(rng: np.random.Generator, blocks: Blocks, count: int, homophily: float) -> Pairs:
    """`count` different unordered pairs of different nodes."""

    def keys(number: int) -> np.ndarray:
        one, other = _draw_pairs(rng, blocks, blocks, number, homophily)
        pair = np.minimum(one, other).astype(np.int64) * blocks.num_nodes + np.maximum(one, other)
        kept: np.ndarray = pair[one != other]
        return kept

    low, high = _distinct(rng, keys, count, blocks.num_nodes)
    if len(low) < count:
        raise InputError(
            f"found only {len(low)} of {count} different edges: the graph is too dense for its hubs or classes; "
            "lower avg_degree or homophily, or raise exponent"
        )
    return low, high


def bipartite_pairs(rng: np.random.Generator, left: Blocks, right: Blocks, count: int, homophily: float) -> Pairs:
    """`count` different ordered pairs; fewer where small types have no room for them."""

    def keys(number: int) -> np.ndarray:
        one, other = _draw_pairs(rng, left, right, number, homophily)
        return one.astype(np.int64) * right.num_nodes + other

    return _distinct(rng, keys, min(count, (left.num_nodes * right.num_nodes + 1) // 2), right.num_nodes)


def _distinct(rng: np.random.Generator, draw_keys: Callable[[int], np.ndarray], count: int, radix: int) -> Pairs:
    """Different keys, drawn until there are `count` or some rounds bring no more; a key is first * radix + second."""
    found = _sorted_distinct(draw_keys(count + count // 16))
    for _ in range(_ROUNDS):
        missing = count - len(found)
        if missing <= 0:
            break
        found = _sorted_distinct(np.concatenate([found, draw_keys(2 * missing + 16)]))
    surplus = len(found) - count
    if surplus > 0:
        found = np.delete(found, rng.choice(len(found), surplus, replace=False, shuffle=False))
    first, second = np.divmod(found, radix)
    return first.astype(np.int32), second.astype(np.int32)


def _sorted_distinct(keys: np.ndarray) -> np.ndarray:
    """The different keys in order. `np.unique` hashes integers, which takes five times as long here."""
    keys.sort()
    distinct: np.ndarray = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    return distinct
