"""Partitions in memory of several processes, none of which has the whole graph."""

import os
from contextlib import ExitStack, closing
from pathlib import Path

import torch
import torch.distributed as dist

import halohop
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.worlds import environment
from tests.support.forked import Forked
from tests.system.own_partition import batches, owners

SIZE, COUNT = 3, 200


def test_processes_with_their_own_partitions_have_the_batches_of_a_folder(tmp_path):
    node = torch.arange(COUNT)
    tables = GraphTables(
        nodes={"node": NodeTable(num_nodes=COUNT, columns={"x": node.float(), "train_mask": node % 2 == 0})},
        edges={
            ("node", "to", "node"): EdgeTable(
                src=node.repeat(2),
                dst=torch.cat([node + 1, node + 2]) % COUNT,
                columns={"weight": 1.0 + torch.arange(2 * COUNT) % 5},
            )
        },
    )
    halohop.partition(tables, tmp_path / "parts", num_parts=SIZE, method={"node": owners(COUNT, SIZE)})
    with halohop.open(tmp_path / "parts") as graph:
        expected = batches(graph)
    board = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    env = environment() | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])}
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(
                closing(Forked("tests.system.own_partition", [str(n) for n in (rank, SIZE, board.port, COUNT)], env))
            )
            for rank in range(SIZE)
        ]
        codes = [rank.wait(60) for rank in ranks]
        assert codes == [0] * SIZE, [rank.stderr.read() for rank in ranks]
        assert [rank.stdout.read().split() for rank in ranks] == [expected] * SIZE
