"""Tables where several processes meet: hosts with several trainers, one host with several, and servers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import halohop
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits
from tests.support.table_contract import TableContract, met, tables, trainers

LIMITS = Limits(call_seconds=2, attempt_seconds=0.3, connect_seconds=5)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables") / "parts"
    halohop.partition(tables(), folder, num_parts=3, method="random")
    return folder


def serve(path: Path, partitions: list[int], stack: ExitStack, **options: object) -> halohop.net.serve.Server:
    return stack.enter_context(halohop.serve(path, partitions=partitions, token=TOKEN, limits=LIMITS, **options))


class TestServers(TableContract):
    """Two servers, and a client of each order of their addresses."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with ExitStack() as stack:
            addresses = [serve(parts, share, stack).address for share in ([0], [1, 2])]
            yield [
                stack.enter_context(halohop.connect(order, token=TOKEN, limits=LIMITS)) for order in (addresses, addresses[::-1])
            ]


class TestServersThatStandInForEachOther(TableContract):
    """Each partition is on two servers."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with ExitStack() as stack:
            addresses = [serve(parts, share, stack).address for share in ([0, 1], [1, 2], [2, 0])]
            yield [
                stack.enter_context(halohop.connect(order, token=TOKEN, limits=LIMITS)) for order in (addresses, addresses[::-1])
            ]

    def test_each_partition_has_one_owner_for_all_clients(self, graphs: list[halohop.Graph]) -> None:
        one, other = ({part: name.split(" at ")[1] for part, name in graph.tables.owners.items()} for graph in graphs)
        assert one == other
        assert sorted(one) == [0, 1, 2]


@pytest.mark.full
class TestHosts(TableContract):
    """Two hosts with two trainers each, one of which serves."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with trainers(parts, [[0, 1], [1, 2]], each=2) as graphs:
            met(graphs)
            yield graphs


@pytest.mark.full
class TestOneHost(TableContract):
    """Three trainers of one host, which has no server before they use tables."""

    @pytest.fixture(scope="class")
    @classmethod
    def graphs(cls, parts: Path) -> Iterator[list[halohop.Graph]]:
        with trainers(parts, [[0, 1, 2]], each=3) as graphs:
            met(graphs)
            yield graphs
