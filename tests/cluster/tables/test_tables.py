"""Tables of a graph in one process: in one partition, in several of one owner, and in several of an owner each."""

from collections.abc import Iterator

import pytest

import halohop
from halohop.testing.worlds import partitioned
from tests.support.table_contract import TableContract, tables


@pytest.mark.parametrize(("num_parts", "shard_each"), [(1, False), (3, False), (2, True), (4, True)])
class TestInOneProcess(TableContract):
    @pytest.fixture
    def graphs(self, num_parts: int, shard_each: bool) -> Iterator[list[halohop.Graph]]:
        graph = partitioned(tables(), num_parts, shard_each=shard_each)
        yield [graph]
        graph.close()
