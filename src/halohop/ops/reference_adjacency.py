"""How lists of neighbours are made, in plain Python."""

from torch import Tensor


def lists_of(edges: list[tuple[int, int]], num_nodes: int) -> list[list[int]]:
    """The neighbours of every node in the order of the edges, without loops."""
    lists: list[list[int]] = [[] for _ in range(num_nodes)]
    for u, v in edges:
        if u != v:
            lists[u].append(v)
            lists[v].append(u)
    return lists


def merged(lists: list[list[int]]) -> list[dict[int, int]]:
    """How often each neighbour occurs in each list, ascending."""
    return [{near: near_to.count(near) for near in sorted(set(near_to))} for near_to in lists]


def induced(lists: list[dict[int, int]], nodes: Tensor) -> list[dict[int, int]]:
    """The lists of some nodes, of neighbours among them by their places."""
    place = {node: at for at, node in enumerate(nodes.tolist())}
    return [{place[near]: weight for near, weight in lists[node].items() if near in place} for node in nodes.tolist()]
