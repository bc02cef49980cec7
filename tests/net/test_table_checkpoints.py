"""Checkpoints of tables at servers: below the folder of each, shared or not, and back after one was started again."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import halohop
from halohop.cluster.holding import Holding
from halohop.cluster.tables import names
from halohop.errors import ClusterError, RemoteError
from halohop.net.finders import Listed
from halohop.net.messages import server_codec
from halohop.net.serve import Server
from halohop.net.servers import Servers
from halohop.net.service import Keeping
from halohop.tables import saving
from halohop.tables.messages import ClearCheckpointsRequest, SaveTablesRequest
from halohop.tables.spec import Beginning, TableSpec
from halohop.testing.worlds import TOKEN
from halohop.transport import Limits, connect
from tests.support.table_contract import RAW, tables

pytestmark = pytest.mark.timeout(60)

LIMITS = Limits(call_seconds=2, attempt_seconds=0.3, connect_seconds=5)
SPEC = TableSpec(name="x", key="node", num_rows=60, shape=(3,), dtype="float32", begin=Beginning(kind="normal", high=1.0))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "parts"
    halohop.partition(tables(), folder, num_parts=3, method="random")
    return folder


@contextmanager
def connected(parts: Path, shares: dict[int | tuple[int, ...], Path | None], limits: Limits = LIMITS) -> Iterator[halohop.Graph]:
    """A client of servers, each of which has some partitions and a folder."""
    with ExitStack() as stack:
        addresses = []
        for share, folder in shares.items():
            own = [share] if isinstance(share, int) else list(share)
            server = halohop.serve(parts, partitions=own, token=TOKEN, limits=limits, tables=folder)
            addresses.append(stack.enter_context(server).address)
        yield stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=limits))


def write(graph: halohop.Graph) -> None:
    graph.tables.make(SPEC)
    ids = RAW[::2]
    graph.tables.write("x", graph.tables.locate(SPEC, ids), torch.stack([ids, ids + 1, ids + 2], 1).float())


def read(graph: halohop.Graph) -> list[list[float]]:
    rows: list[list[float]] = graph.tables.read("x", graph.tables.locate(SPEC, RAW)).tolist()
    return rows


def test_servers_without_a_shared_disk_come_back_from_their_own(parts: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shares: dict[int | tuple[int, ...], Path | None] = {0: tmp_path / "a", (1, 2): tmp_path / "b"}
    for folder in shares.values():
        assert folder is not None
        folder.mkdir()
    with connected(parts, shares) as graph:
        write(graph)
        then = read(graph)
        graph.tables.save("run", step=3)
        for outside in ("../run", str(tmp_path / "elsewhere")):
            with pytest.raises(RemoteError, match="lies outside the folder for tables that the server names"):
                graph.tables.save(outside, step=3)
    assert [len(list((tmp_path / name / "run").glob("step-3-*/x/*/rows.npy"))) for name in ("a", "b")] == [1, 1]
    assert [path.name for path in (tmp_path / "run").glob("*/*")] == ["tables.json"]
    with connected(parts, shares) as graph:
        graph.tables.load("run", step=3)
        assert read(graph) == then
    divided_anew = connected(parts, {(0, 1): tmp_path / "a", 2: tmp_path / "b"})
    with divided_anew as graph, pytest.raises(RemoteError, match="is missing"):
        graph.tables.load("run", step=3)


def test_servers_with_a_shared_disk_read_what_others_wrote(parts: Path, tmp_path: Path) -> None:
    with connected(parts, {0: tmp_path, (1, 2): tmp_path}) as graph:
        write(graph)
        then = read(graph)
        graph.tables.save(tmp_path / "run", step=3)
    with connected(parts, {(0, 1): tmp_path, 2: tmp_path}) as graph:
        graph.tables.load(tmp_path / "run", step=3)
        assert read(graph) == then
    with halohop.open(parts) as graph:
        graph.tables.load(tmp_path / "run", step=3)
        assert read(graph) == then


def test_a_server_without_a_folder_says_how_it_gets_one(parts: Path, tmp_path: Path) -> None:
    with connected(parts, {(0, 1, 2): None}) as graph:
        write(graph)
        with pytest.raises(RemoteError, match=r"names no folder for tables; start it with one \(tables=, --tables FOLDER\)"):
            graph.tables.save(tmp_path / "run", step=3)
        assert list((tmp_path / "run").iterdir()) == []


def test_a_server_that_was_started_again_gets_its_rows_back(parts: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(names, "_MAKING_SECONDS", 0.1)
    with ExitStack() as stack:
        first = halohop.serve(parts, partitions=[0], token=TOKEN, limits=LIMITS, tables=tmp_path)
        other = stack.enter_context(halohop.serve(parts, partitions=[1, 2], token=TOKEN, limits=LIMITS, tables=tmp_path))
        graph = stack.enter_context(halohop.connect([first.address, other.address], token=TOKEN, limits=LIMITS))
        write(graph)
        then = read(graph)
        graph.tables.save(tmp_path / "run", step=3)
        first.close()
        listen = first.address
        stack.enter_context(halohop.serve(parts, partitions=[0], token=TOKEN, limits=LIMITS, tables=tmp_path, listen=listen))
        with pytest.raises(ClusterError, match="was started again, empty; go on from the last checkpoint"):
            read(graph)
        graph.tables.load(tmp_path / "run", step=3)
        assert read(graph) == then


@pytest.mark.full
def test_a_save_may_take_longer_than_a_call(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = saving.save

    def slow(table, folder):
        threading.Event().wait(1.0)
        return kept(table, folder)

    monkeypatch.setattr(saving, "save", slow)
    limits = replace(LIMITS, call_seconds=0.5)
    with connected(parts, {(0, 1, 2): tmp_path}, limits) as graph:
        write(graph)
        graph.tables.save(tmp_path / "run", step=3)


def test_a_peer_of_a_trainer_names_no_folder_outside_of_its_own(parts: Path, tmp_path: Path) -> None:
    """A trainer that owns tables answers its peers as a server does."""
    outside = tmp_path / "outside" / "step-1-00c0ffee"
    outside.mkdir(parents=True)
    holding = replace(Holding.of(parts), tables=tmp_path / "run")
    servers = Servers(finder=Listed(addresses=()), token=TOKEN, limits=LIMITS)
    with (
        Server(holding, listen=None, servers=servers, keeping=Keeping()) as trainer,
        connect(trainer.address, codec=server_codec(), token=TOKEN, limits=LIMITS) as peer,
    ):
        for request in (
            ClearCheckpointsRequest(folder=str(tmp_path / "outside"), keep=()),
            SaveTablesRequest(folder=str(tmp_path / "outside" / "step-2-00c0ffee"), names=()),
        ):
            with pytest.raises(RemoteError, match="lies outside the folder for tables that the trainer names"):
                peer.call(request)
        assert [*(tmp_path / "outside").iterdir()] == [outside]
        assert peer.call(SaveTablesRequest(folder="tables/step-2-00c0ffee", names=())).tables == ()
        assert (tmp_path / "run" / "tables" / "step-2-00c0ffee").is_dir()
        assert peer.call(SaveTablesRequest(folder="step-2-00c0ffee", names=())).tables == ()
        peer.call(ClearCheckpointsRequest(folder=str(tmp_path / "run"), keep=()))  # the folder itself
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["tables"]
