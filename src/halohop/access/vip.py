"""Vertex-inclusion probabilities: how probable it is that a batch needs a node, computed and not tried (SALIENT++, Kaler et al.
2023).

Hop by hop: a node is drawn if any list that is expanded draws it. Lists are taken for independent, which they are where few
paths lead from the seeds to a node twice; elsewhere the result is a close estimate.
"""

import torch
from torch import Tensor

from halohop import ops
from halohop.access.dealing import Batches
from halohop.access.lists import read_lists
from halohop.cluster.lookups import Lookups
from halohop.errors import InputError
from halohop.sampling.fanouts import Fanouts
from halohop.store.draw import Rules
from halohop.typing import NodeType, Relation

Probabilities = dict[NodeType, Tensor]
"""Of every node, by gid: float64 ``[num_nodes]``."""

SUPPORTED = frozenset({"replace", "expand", "weight"})
"""The options of `Rules` that the probabilities are computed for."""


def inclusion(graph: Lookups, batches: Batches, fanouts: Fanouts, rules: Rules) -> Probabilities:
    """How probable it is that a batch has each node, in the mean over the batches of an epoch.

    The lists that may be expanded are read once per group and hop; beside them about 50 bytes per node are in memory.

    Args:
        graph: where the lists are.
        batches: from which seeds they are made.
        fanouts, rules: how neighbours are drawn.

    Raises:
        InputError: rules with other options than `SUPPORTED`.
    """
    if others := rules.changed - SUPPORTED:
        raise InputError(f"method='vip' does not support {sorted(others)}; leave them out, or use method='presample'")
    total = sum(map(batches.number, batches.groups))
    mean = _zeros(graph)
    for group in batches.groups:
        if number := batches.number(group):
            seeds = _zeros(graph)
            chosen = torch.bincount(group, minlength=len(seeds[batches.node_type])).double()
            seeds[batches.node_type] = (chosen * batches.chance(group)).clamp_(max=1)
            for name, found in _around(graph, seeds, fanouts, rules).items():
                mean[name] += found.mul_(number / total)
    return mean


def _around(graph: Lookups, seeds: Probabilities, fanouts: Fanouts, rules: Rules) -> Probabilities:
    """Of a batch whose seeds are chosen with these probabilities."""
    expanded, absent = seeds, {name: 1 - chosen for name, chosen in seeds.items()}
    for hop in range(fanouts.num_hops):
        log_absent = _zeros(graph)
        for relation, numbers in fanouts.per_relation.items():
            if numbers[hop] != 0:
                reach = expanded[graph.book.list_type(relation)]
                _draw(graph, relation, reach, numbers[hop], rules, log_absent[graph.book.neighbor_type(relation)])
        drawn = {name: -logs.expm1_() for name, logs in log_absent.items()}
        new = {name: drawn[name] * absent[name] for name in drawn}
        for name, chance in new.items():
            absent[name] -= chance
        expanded = new if rules.expand == "new" else {name: 1 - missing for name, missing in absent.items()}
    return {name: 1 - missing for name, missing in absent.items()}


def _draw(graph: Lookups, relation: Relation, reach: Tensor, fanout: int, rules: Rules, log_absent: Tensor) -> None:
    """One hop along one relation, from nodes that are expanded with the probability `reach`."""
    weighted = rules.weight is not None and rules.weight in graph.schema.edges[relation].columns
    for lists in read_lists(graph, relation, reach.nonzero().view(-1)):
        answer, weights = lists.answer, None
        if weighted:
            (weights,) = graph.fetch_rows(relation, [str(rules.weight)], answer.edge_gid)
        shares = ops.draw_shares(answer.counts, fanout, replace=rules.replace, weights=weights)
        ops.add_absence(answer.counts, answer.src_gid, reach[lists.gid], shares, log_absent)


def _zeros(graph: Lookups) -> Probabilities:
    return {name: torch.zeros(spec.count, dtype=torch.float64) for name, spec in graph.schema.nodes.items()}
