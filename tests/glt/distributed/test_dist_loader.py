"""The face's distributed loaders return halohop's batches under other names, wherever the partitions lie."""

import itertools
from functools import partial
from pathlib import Path

import pytest
import torch

import halohop
import halohop.glt as glt
from halohop.testing.worlds import free_address, partitioned, random_assignment
from tests.support import glt_parts
from tests.support.glt_batches import assert_same
from tests.support.glt_ranks import in_ranks

pytestmark = pytest.mark.usefixtures("alone")
Mp, Collocated = glt.distributed.MpDistSamplingWorkerOptions, glt.distributed.CollocatedDistSamplingWorkerOptions

QUICK = [
    (1, "disk", "collocated", "out", "one"),
    (2, "disk", "worker", "in", "several"),
    (2, "memory", "worker", "out", "one"),
    (2, "disk", "worker", "out", "one"),
    (4, "memory", "collocated", "out", "several"),
    (4, "disk", "worker", "in", "one"),
]
ALL = itertools.product((1, 2, 4), ("disk", "memory"), ("collocated", "worker"), ("out", "in"), ("one", "several"))
CASES = [*QUICK, *(pytest.param(*case, marks=pytest.mark.full) for case in ALL if case not in QUICK)]
TABLES = {"one": glt_parts.one_type(), "several": glt_parts.several_types()}


def options(mode: str, master: str):
    host, port = master.split(":")
    kind = {"collocated": Collocated, "worker": lambda **kwargs: Mp(num_workers=2, channel_size="64MB", **kwargs)}[mode]
    return kind(master_addr=host, master_port=port, rpc_timeout=60)


def seeds_of(rank: int, kind: str):
    own = torch.arange(rank, 48, 3)
    return own if kind == "one" else ("paper", own)


@pytest.mark.parametrize(("parts", "where", "mode", "edge_dir", "kind"), CASES)
def test_batches_are_those_of_halohop(parts, where, mode, edge_dir, kind, tmp_path: Path):
    """Each rank has seeds of its own, and draws what halohop's own loader draws of the undivided graph."""
    tables, master = TABLES[kind], free_address()
    assignment = random_assignment(tables, parts)
    folder, labels = glt_parts.write_parts(tables, assignment, tmp_path, edge_dir)
    whole = partitioned(tables, 1, edge_dir=edge_dir)
    how = {"batch_size": 8, "shuffle": True, "drop_last": False}

    def rank(number: int) -> int:
        if where == "memory":
            data = glt_parts.own_dataset(tables, assignment, number, parts, edge_dir)
        else:
            data = glt.distributed.DistDataset(edge_dir=edge_dir)
            data.load(folder, number, "CPU", whole_node_label_file=labels)
        loader = glt.distributed.DistNeighborLoader(
            *(data, [4, 3], seeds_of(number, kind)),
            **how,
            with_edge=True,
            edge_dir=edge_dir,
            collect_features=True,
            random_seed=7,
            worker_options=options(mode, master),
        )
        world = halohop.World(rank=number, size=parts)
        plain = halohop.NeighborLoader(whole, [4, 3], seeds_of(number, kind), **how, seed=7, world=world, own_seeds=True)
        assert len(loader) == len(plain) == len(list(loader)) == len(list(plain))
        for batch, other in zip(loader, plain, strict=True):  # the second epoch, too
            assert_same(batch, other, edge_dir=edge_dir, with_edge=True)
        loader.shutdown()
        return len(plain)

    assert min(in_ranks(parts, rank)) > 1


def whole_data(tmp_path: Path, kind: str = "one", edge_dir: str = "out", parts: int = 2):
    """The divided graph in the folder, and the whole one."""
    tables = TABLES[kind]
    folder, labels = glt_parts.write_parts(tables, random_assignment(tables, parts), tmp_path, edge_dir)
    return folder, labels, partitioned(tables, 1, edge_dir=edge_dir)


def on_two(folder: Path, labels, work, *, edge_dir: str = "out"):
    """What `work` returns on two ranks, given their partition of the folder and options."""
    master = free_address()

    def rank(number: int):
        data = glt.distributed.DistDataset(edge_dir=edge_dir)
        data.load(folder, number, "CPU", whole_node_label_file=labels)
        return work(data, options("worker", master), halohop.World(rank=number, size=2))

    return in_ranks(2, rank)


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_links_and_their_negatives(edge_dir, tmp_path):
    """Triplets and pairs; ends are positions in the batch, and edges lead from neighbours to seeds."""
    folder, labels, whole = whole_data(tmp_path, edge_dir=edge_dir)
    edges = TABLES["one"].edges[("node", "to", "node")]

    def rank(data, options, world) -> None:
        ends = torch.stack([edges.src, edges.dst]).long()[:, world.rank : 90 : 2]
        for mode in ("binary", "triplet"):
            how = {"batch_size": 16, "shuffle": True}
            loader = glt.distributed.DistLinkNeighborLoader(
                *(data, [3, 2]), edge_label_index=ends, neg_sampling=mode, edge_dir=edge_dir, worker_options=options, **how
            )
            plain = halohop.LinkNeighborLoader(
                *(whole, [3, 2], ends), neg_sampling=mode, strict_negatives=mode == "binary", world=world, own_seeds=True, **how
            )
            for batch, other in zip(loader, plain, strict=True):
                assert torch.equal(batch.node, other.n_id)
                turned = (lambda pair: pair.flip(0)) if edge_dir == "out" else (lambda pair: pair)
                assert torch.equal(batch.edge_index, turned(other.edge_index))
                assert "x" not in batch
                if mode == "binary":
                    assert torch.equal(batch.edge_label, other.edge_label)
                    assert torch.equal(batch.edge_label_index.sort(0).values, other.edge_label_index.sort(0).values)
                else:
                    for name in ("src_index", "dst_pos_index", "dst_neg_index"):
                        assert torch.equal(batch[name], other[name])

    on_two(folder, labels, rank, edge_dir=edge_dir)


def test_subgraphs(tmp_path):
    folder, labels, whole = whole_data(tmp_path)

    def rank(data, options, world) -> None:
        seeds = torch.arange(world.rank, 40, 2)
        loader = glt.distributed.DistSubGraphLoader(
            *(data, seeds, [3]), batch_size=7, with_edge=True, collect_features=True, worker_options=options
        )
        plain = halohop.SubGraphLoader(whole, [3], seeds, batch_size=7, world=world, own_seeds=True)
        for batch, other in zip(loader, plain, strict=True):
            assert torch.equal(batch.node, other.n_id)
            assert torch.equal(batch.edge_index, other.edge_index.flip(0))
            assert torch.equal(batch.edge, other.e_id)
            assert torch.equal(batch.x, other.x)
            assert torch.equal(batch.mapping, other.mapping)

    on_two(folder, labels, rank)


def test_weights_decide_what_is_drawn(tmp_path):
    folder, labels, whole = whole_data(tmp_path)

    def rank(data, options, world) -> None:
        seeds = torch.arange(world.rank, 60, 2)
        loader = glt.distributed.DistNeighborLoader(*(data, [3], seeds, 8), with_weight=True, worker_options=options)
        plain = halohop.NeighborLoader(whole, [3], seeds, batch_size=8, weight_attr="edge_weight", world=world, own_seeds=True)
        uniform = halohop.NeighborLoader(whole, [3], seeds, batch_size=8, world=world, own_seeds=True)
        assert [batch.node.tolist() for batch in loader] == [other.n_id.tolist() for other in plain]
        assert [batch.node.tolist() for batch in loader] != [other.n_id.tolist() for other in uniform]

    on_two(folder, labels, rank)


def test_features_that_are_not_wanted_do_not_cross(tmp_path, monkeypatch):
    """Without `collect_features` the bytes between hosts fall by those of the remote rows' features, where none are kept."""
    monkeypatch.setattr(halohop, "open", partial(halohop.open, cache=None))
    folder, labels, _ = whole_data(tmp_path)

    def rank(data, options, world):
        received = []
        for collect in (True, False):
            before = sum(peer["bytes_received"] for peer in _peers(data))
            loader = glt.distributed.DistNeighborLoader(
                *(data, [4, 3], torch.arange(world.rank, 200, 2), 20), collect_features=collect, worker_options=options
            )
            remote = 0
            for batch in loader:
                owner = random_assignment(TABLES["one"], 2)["node"][batch.node]
                remote += int((owner != world.rank).sum())
                assert ("x" in batch) == collect
                assert "y" in batch
            received.append((sum(peer["bytes_received"] for peer in _peers(data)) - before, remote))
        (with_features, remote), (without, same) = received
        assert same == remote > 100
        assert with_features - without == pytest.approx(remote * 4 * 4, rel=0.1)  # four float32 each

    on_two(folder, labels, rank)


def _peers(data) -> list[dict[str, float]]:
    return [] if data._opened is None else list(data.halohop_graph.statistics_by_peer().values())


def test_an_epoch_that_is_left_and_begun_again(tmp_path):
    """`next` without `iter` begins an epoch; `iter` drops what is left of one; each epoch is shuffled anew."""
    folder, _, _ = whole_data(tmp_path, parts=1)
    glt.distributed.init_worker_group(1, 0)
    data = glt.distributed.DistDataset()
    data.load(folder, 0, "CPU")
    loader = glt.distributed.DistNeighborLoader(data, [2], torch.arange(20), 4, shuffle=True)
    first = next(loader).batch
    again = [batch.batch for batch in loader]
    assert len(loader) == len(again) == 5
    assert torch.cat(again).sort().values.tolist() == list(range(20))
    assert not torch.equal(first, again[0])
    with pytest.raises(StopIteration):
        next(loader)
    loader.shutdown()
    loader.shutdown()
    kept = list(loader)  # batches that are kept keep their memory
    assert torch.cat([batch.batch for batch in kept]).sort().values.tolist() == list(range(20))
