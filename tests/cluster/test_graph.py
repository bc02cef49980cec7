"""What a graph says of itself, whoever holds its partitions."""

import pytest
import torch

from halohop import partition
from halohop.errors import SchemaError
from halohop.testing import graphs
from halohop.testing.worlds import hosts, partitioned

TABLES = graphs.typed(
    {"paper": 40, "author": 25, "none": 0},
    {("author", "writes", "paper"): 120, ("paper", "by", "author"): 90, ("paper", "in", "none"): 0},
)


def check_degrees(graph):
    for relation, table in TABLES.edges.items():
        nodes = TABLES.nodes[relation[2]]
        expected = torch.bincount(table.dst, minlength=nodes.num_nodes)[torch.argsort(nodes.raw_id)]
        gid, _ = graph.select(None, relation[2])
        degrees = graph.degrees(relation, gid)
        assert degrees.dtype == torch.int64
        assert degrees.tolist() == expected.tolist()
        assert graph.degrees(relation, gid[:5].flip(0)).tolist() == expected[:5].flip(0).tolist()


@pytest.mark.parametrize("shard_each", [False, True])
@pytest.mark.parametrize("num_parts", [1, 2, 3, 8])
def test_degrees(num_parts, shard_each):
    check_degrees(partitioned(TABLES, num_parts, shard_each=shard_each))


def test_degrees_over_hosts(tmp_path):
    partition(TABLES, tmp_path / "parts", num_parts=4, method="random")
    with hosts(tmp_path / "parts", [[3, 0], [1, 2]]) as opened:
        for graph in opened:
            check_degrees(graph)


def test_degrees_of_no_relation():
    with pytest.raises(SchemaError, match="unknown relation"):
        partitioned(TABLES, 1).degrees(("a", "to", "b"), torch.zeros(0, dtype=torch.int64))
