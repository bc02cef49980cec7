"""How nodes are dealt to parts, and how parts are relieved, in plain Python."""

import math

from torch import Tensor

from halohop.ops.dealing import Lists


def deal(lists: Lists, part: Tensor, carried: Tensor, limit: Tensor, *, ldg: bool, price: float) -> int:
    moved, kinds = 0, range(carried.size(1))
    bounds: list[float] = limit.tolist()
    for i, v in _nodes(lists):
        old, load = int(part[v]), lists.loads[i].tolist()
        if old >= 0:
            carried[old] -= lists.loads[i]
        gain, held = _gain(lists, i, part, len(carried)), carried.tolist()
        own = sum(load[k] / bounds[k] / len(kinds) for k in kinds)

        def score(p: int, gain: list[int] = gain, held: list[list[int]] = held, own: float = own) -> float:
            shares = [held[p][k] / bounds[k] for k in kinds]
            if ldg:
                return (gain[p] + 1e-9) * (1.0 - max(shares))
            mean = math.sqrt(sum(share / len(kinds) for share in shares))
            return gain[p] - price * own * mean

        def after(p: int, held: list[list[int]] = held, load: list[int] = load) -> float:
            return max([(held[p][k] + load[k]) / bounds[k] for k in kinds if load[k]], default=0.0)

        room = [p for p in range(len(carried)) if all(held[p][k] + load[k] <= bounds[k] or not load[k] for k in kinds)]
        new = max(room, key=score) if room else min(range(len(carried)), key=after)
        part[v] = new
        carried[new] += lists.loads[i]
        moved += new != old
    return moved


def relieve(lists: Lists, part: Tensor, carried: Tensor, limit: Tensor, *, dearest: float) -> int:
    moved, kinds = 0, range(carried.size(1))
    bounds: list[float] = limit.tolist()

    def excess(value: float, k: int) -> float:
        return max(value / bounds[k] - 1.0, 0.0) ** 2

    for i, v in _nodes(lists):
        old, load, held = int(part[v]), lists.loads[i].tolist(), carried.tolist()
        over = [k for k in kinds if held[old][k] > bounds[k]]
        relief = sum(min(load[k], held[old][k] - bounds[k]) / bounds[k] for k in over)
        gain = _gain(lists, i, part, len(carried))
        new, least, most = -1, float("inf"), 0.0
        for p in range(len(carried)) if relief > 0 else ():
            change = 0.0
            for k in kinds:
                change += excess(held[old][k], k) - excess(held[old][k] - load[k], k)
                change += excess(held[p][k], k) - excess(held[p][k] + load[k], k)
            loss = gain[old] - gain[p]
            if p != old and loss <= dearest * relief and change > 1e-12 and (loss < least or (loss == least and change > most)):
                new, least, most = p, loss, change
        if new >= 0:
            part[v] = new
            carried[old] -= lists.loads[i]
            carried[new] += lists.loads[i]
            moved += 1
    return moved


def _nodes(lists: Lists) -> list[tuple[int, int]]:
    return [(i, lists.first + i) for i in range(len(lists.indptr) - 1)]


def _gain(lists: Lists, i: int, part: Tensor, num_parts: int) -> list[int]:
    gain = [0] * num_parts
    for e in range(int(lists.indptr[i]), int(lists.indptr[i + 1])):
        near = int(part[lists.neighbors[e]])
        if near >= 0:
            gain[near] += 1 if lists.weights is None else int(lists.weights[e])
    return gain
