"""A server that is replaced in mid-epoch, at its address, by one of other partitions or with another token: the same batches
where a replica stands in, else an error that names it, and never other rows. Another data set: `test_connect`."""

from pathlib import Path
from typing import Any

import pytest

import halohop
from halohop.errors import TransportError
from halohop.hosts import Limits
from halohop.security import Token
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses

LIMITS = Limits(call_seconds=2, attempt_seconds=0.3, connect_seconds=2)
OTHER = Token("another secret of these tests")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replaced") / "parts"
    halohop.partition(ring(400), path, num_parts=3, method="random")
    return path


def loader(graph: halohop.Graph) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [3, 2], batch_size=50, shuffle=True, seed=5, run="inline")


def rows(batches: Any) -> list[tuple[Any, ...]]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in batches]


@pytest.fixture(scope="module")
def undisturbed(parts: Path) -> list[tuple[Any, ...]]:
    with halohop.open(parts) as graph:
        return rows(loader(graph))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("replica", [False, True], ids=["alone", "replica"])
@pytest.mark.parametrize("sampling", ["client", "servers"])
@pytest.mark.parametrize("at_its_place", ["other_partitions", "another_token"])
def test_a_replaced_server_gives_no_other_rows(
    parts: Path, undisturbed: list[tuple[Any, ...]], at_its_place: str, sampling: str, replica: bool
) -> None:
    addresses = free_addresses(3 if replica else 2)
    shares = [[0], [1, 2], [1, 2]][: len(addresses)]
    servers = [
        halohop.serve(parts, partitions=share, listen=address, peers=addresses, token=TOKEN, limits=LIMITS)
        for share, address in zip(shares, addresses, strict=True)
    ]
    given: dict[str, Any] = {"listen": addresses[1], "limits": LIMITS}
    given |= {"partitions": [2], "token": TOKEN, "peers": addresses} if at_its_place == "other_partitions" else {"token": OTHER}
    got: list[Any] = []
    try:
        with halohop.connect(addresses, token=TOKEN, limits=LIMITS, sampling=sampling) as graph:
            batches = iter(loader(graph))
            got += [next(batches) for _ in servers]  # each has made one, and so knows the others
            servers[1].close()
            with halohop.serve(parts, **given) as other:
                if replica:
                    got += batches
                    assert rows(got) == undisturbed
                else:
                    with pytest.raises(TransportError, match=rf"{addresses[1]}|server 1|partition"):
                        got.extend(batches)
                    assert rows(got) == undisturbed[: len(got)]
                    assert len(got) < len(undisturbed)
                if at_its_place == "another_token":
                    assert other.statistics()["transport_calls"] == 0
    finally:
        for server in servers:
            server.close()
