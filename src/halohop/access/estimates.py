"""Access probabilities by three methods: computed, tried out, or guessed from degrees."""

from typing import Literal, get_args

import torch

from halohop.access.dealing import Batches
from halohop.access.lists import read_lists
from halohop.access.vip import Probabilities, inclusion
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.seeds import ShuffledPlan
from halohop.sampling.batch import Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules

Method = Literal["vip", "presample", "degree"]


def check_method(method: str) -> None:
    """
    Raises:
        InputError: there is no such method.
    """
    if method not in get_args(Method):
        raise InputError(f"method={method!r} is none of {list(get_args(Method))}")


def estimated(
    graph: Graph, batches: Batches, fanouts: Fanouts, rules: Rules, *, method: Method, epochs: int, seed: int
) -> Probabilities:
    """How probable it is that a batch has each node, see `halohop.pyg.hotness.hotness`."""
    if method == "vip":
        return inclusion(graph, batches, fanouts, rules)
    if method == "presample":
        return presampled(graph, batches, fanouts, rules, epochs=epochs, seed=seed)
    return by_degree(graph, fanouts)


def presampled(graph: Graph, batches: Batches, fanouts: Fanouts, rules: Rules, *, epochs: int, seed: int) -> Probabilities:
    """In which share of the batches of some epochs each node is. Every group is shuffled anew for each epoch.

    Raises:
        InputError: epochs < 1, or rules that do not fit the graph.
    """
    if epochs < 1:
        raise InputError(f"epochs={epochs}: at least one epoch is sampled")
    sampler = NeighborSampler(graph, fanouts, seed=seed, rules=rules)
    counts = {name: torch.zeros(spec.count, dtype=torch.float64) for name, spec in graph.schema.nodes.items()}
    made = 0
    for number, group in enumerate(batches.groups):
        plan = ShuffledPlan(num_seeds=len(group), batch_size=batches.batch_size, shuffle=True, seed=seed, stream=number)
        for epoch in range(epochs):
            for share in plan.epoch(epoch):
                seeds = Seeds(
                    node_type=batches.node_type,
                    gid=group[share.positions],
                    input_id=share.positions,
                    epoch=epoch,
                    index=made,
                )
                made += 1
                for name, block in sampler.sample(seeds).nodes.items():
                    counts[name][block.gid] += 1  # a node that occurs twice counts once
    return {name: count / max(made, 1) for name, count in counts.items()}


def by_degree(graph: Graph, fanouts: Fanouts) -> Probabilities:
    """In how many lists each node is, as a share of the most of its type: an order of the nodes, and no probability."""
    counts = {name: torch.zeros(spec.count, dtype=torch.float64) for name, spec in graph.schema.nodes.items()}
    for relation, numbers in fanouts.per_relation.items():
        if any(numbers):
            entries = counts[graph.book.neighbor_type(relation)]
            everyone = torch.arange(graph.schema.nodes[graph.book.list_type(relation)].count)
            for lists in read_lists(graph, relation, everyone):
                entries += torch.bincount(lists.answer.src_gid, minlength=len(entries))
    return {name: count / count.amax().clamp_(min=1) if len(count) else count for name, count in counts.items()}
