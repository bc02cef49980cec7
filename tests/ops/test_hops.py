"""Hops of all relations at once find what the steps of one relation after the other find."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops

RELATIONS = [("a", "r", "a"), ("b", "r", "a"), ("a", "r", "b")]  # neighbours first


def lists_of(relation, sizes, seed, fanouts, *, dtype, raw, edge_ids):
    generator = np.random.default_rng(seed)
    neighbors, _, own = relation
    degrees = generator.integers(0, 7, sizes[own]) * bool(sizes[neighbors])
    indptr = np.append(0, degrees.cumsum())
    indices = generator.integers(0, max(sizes[neighbors], 1), indptr[-1]).astype(dtype)
    ids = generator.permutation(len(indices)).astype(dtype) if edge_ids else None
    own_raw = generator.permutation(sizes[own]).astype(dtype) if raw else None
    unsigned = {np.int64: np.uint64, np.int32: np.uint32}[dtype]
    views = [None if array is None else array.view(unsigned) for array in (indices, ids, own_raw)]
    return ops.NearLists(
        drawn_as=relation,
        indptr=indptr.view(np.uint64),
        indices=views[0],
        edge_ids=views[1],
        raw=views[2],
        own_type="ab".index(own),
        neighbor_type="ab".index(neighbors),
        fanouts=fanouts,
    )


def signed(words):
    return torch.from_numpy(words.astype(np.int64))


def by_steps(lists, relabelers, *, expand_all, list_end, batch):
    """The same by `sample_neighbors`, `repeat_positions` and `Relabeler.add`."""
    found = {one.drawn_as: [] for one in lists}
    begins = [0, 0]
    for hop in range(len(lists[0].fanouts)):
        ends = [relabeler.count for relabeler in relabelers]
        frontiers = [relabeler.nodes(begin) for relabeler, begin in zip(relabelers, begins, strict=True)]
        for one in lists:
            rows, fanout = frontiers[one.own_type], one.fanouts[hop]
            if fanout == 0 or not len(rows):
                continue
            key = ops.stream_key(seed=1, epoch=2, batch=batch, hop=hop, relation=one.drawn_as)
            raw = rows if one.raw is None else signed(one.raw)[rows]
            counts, gid = ops.sample_neighbors(signed(one.indptr), rows, raw, fanout, key)
            own = torch.empty_like(gid)
            ops.repeat_positions(counts, begins[one.own_type], own)
            bids = relabelers[one.neighbor_type].add(signed(one.indices)[gid])
            ends_bid = torch.stack((bids, own) if list_end else (own, bids))
            found[one.drawn_as].append((ends_bid, gid, gid if one.edge_ids is None else signed(one.edge_ids)[gid]))
        begins = begins if expand_all else ends
    nothing = torch.empty(2, 0, dtype=torch.int64), *torch.empty(2, 0, dtype=torch.int64)
    return [[torch.cat(parts, dim=-1) for parts in zip(nothing, *found[one.drawn_as], strict=True)] for one in lists]


@given(
    sizes=st.tuples(st.integers(1, 30), st.integers(0, 20)),
    fanouts=st.lists(st.tuples(*[st.sampled_from((-1, 0, 1, 3, 64))] * 3), max_size=3),
    dtype=st.sampled_from((np.int32, np.int64)),
    flags=st.tuples(*[st.booleans()] * 3),
    list_end=st.integers(0, 1),
    seed=st.integers(0, 99),
)
def test_equal_to_the_steps_of_one_relation_after_the_other(sizes, fanouts, dtype, flags, list_end, seed):
    raw, edge_ids, expand_all = flags
    counts = dict(zip("ab", sizes, strict=True))
    lists = [
        lists_of(one, counts, seed + number, [hop[number] for hop in fanouts], dtype=dtype, raw=raw, edge_ids=edge_ids)
        for number, one in enumerate(RELATIONS)
    ]
    hops = ops.NearHops(lists, expand_all=expand_all, list_end=list_end, pool=ops.Pool(), begins=expand_all)
    fast, slow = [[ops.Relabeler(size) for size in sizes] for _ in range(2)]
    for batch in range(2):  # a second one in the same tables
        seeds = [torch.arange(min(sizes[0], 4)).flip(0).repeat(1 + batch), torch.arange(0)]
        for relabelers in (fast, slow):
            for relabeler, own in zip(relabelers, seeds, strict=True):
                relabeler.start(own)
        found = hops.sample(fast, seed=1, epoch=2, batch=batch)
        expected = by_steps(lists, slow, expand_all=expand_all, list_end=list_end, batch=batch) if fanouts else None
        assert [one.nodes().tolist() for one in fast] == [one.nodes().tolist() for one in slow]
        assert found.num_nodes[-1] == [one.count for one in slow]
        if expected is None:
            continue
        for edges, (ends_bid, gid, edge_id) in zip(found.edges, expected, strict=True):
            assert edges.ends_bid.tolist() == ends_bid.tolist()
            assert edges.gid.tolist() == gid.tolist()
            assert (edges.gid if edges.edge_id is None else edges.edge_id).tolist() == edge_id.tolist()
        assert [sum(hop) for hop in zip(*found.num_edges, strict=True)] == [len(edges.gid) for edges in found.edges]
        check_begins(found, lists, list_end, known=expand_all)


def check_begins(found, lists, list_end, *, known):
    """Where the lists of a hop begin is what the edges of the hop say."""
    for number, (one, edges, begins) in enumerate(zip(lists, found.edges, found.begins, strict=True)):
        drawn = [hop[number] for hop in found.num_edges]
        of_hops = edges.ends_bid[list_end].split(drawn)
        assert len(begins) == (len(of_hops) if known else 0)
        for hop, (listed, some) in enumerate(zip(of_hops, begins, strict=known)):
            num_nodes = found.num_nodes[hop][one.own_type]
            assert (some is not None) == (one.fanouts[hop] != 0 and num_nodes > 0)
            if some is not None:
                assert some.tolist() == [0, *listed.bincount(minlength=num_nodes).cumsum(0).tolist()]


def test_what_makes_no_sense_is_left_to_the_steps_that_say_so():
    """A neighbour that is no node, a list that falls, an edge beyond the last: nothing is read there."""
    good = np.array([0, 1, 2], np.uint64), np.array([1, 0], np.uint64)
    bad = [
        (good[0], np.array([5, 0], np.uint64)),
        (np.array([2, 1, 2], np.uint64), good[1]),
        (np.array([0, 9, 9], np.uint64), good[1]),
    ]
    for number, (indptr, indices) in enumerate([good, *bad]):
        lists = ops.NearLists(
            drawn_as=("a", "r", "a"),
            indptr=indptr,
            indices=indices,
            edge_ids=None,
            raw=None,
            own_type=0,
            neighbor_type=0,
            fanouts=[-1],
        )
        hops = ops.NearHops([lists], expand_all=False, list_end=1, pool=ops.Pool())
        relabeler = ops.Relabeler(2)
        relabeler.start(torch.tensor([0]))
        assert (hops.sample([relabeler], seed=0, epoch=0, batch=0) is None) == (number > 0)
