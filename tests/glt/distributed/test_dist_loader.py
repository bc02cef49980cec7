"""The face's distributed loaders return halohop's batches under other names, wherever the partitions lie."""

import itertools
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
    own = torch.arange(rank, 60, 3)
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
