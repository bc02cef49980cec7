"""What tables do wherever their owners are, as a test class: inherit it, give it graphs, and pytest runs the tests."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import halohop
from halohop import init
from halohop.errors import IdError, InputError, SchemaError
from halohop.store.tables import GraphTables
from halohop.tables.change_messages import Moment, Share
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses
from halohop.typing import EDGE, NODE

RAW = torch.arange(60) * 3 + 7


def tables() -> GraphTables:
    return ring(60, raw_id=RAW)


def trainers(
    path: Path, partitions: Sequence[Sequence[int]], *, each: int, **options: Any
) -> AbstractContextManager[list[halohop.Graph]]:
    """Graphs of several hosts, each with some partitions and `each` trainers, in rank order. One host meets at the board, too."""
    num_hosts, board = len(partitions), dist.HashStore()
    listen = free_addresses(num_hosts)

    def join(rank: int, stack: ExitStack) -> halohop.Graph:
        host, local = divmod(rank, each)
        world = halohop.World(rank=rank, size=num_hosts * each, host=host, num_hosts=num_hosts, local_rank=local, local_size=each)
        where = {"listen": f"tcp://{listen[host]}"} if num_hosts > 1 else {}
        given = {"token": TOKEN, **where, **options}
        graph = halohop.open(path, partitions=partitions[host], world=world, board=board, **given)
        stack.callback(graph.shut, wait=False)
        return graph

    @contextmanager
    def opened() -> Iterator[list[halohop.Graph]]:
        with ExitStack() as stack:
            with ThreadPoolExecutor(num_hosts * each) as pool:
                graphs = list(pool.map(lambda rank: join(rank, stack), range(num_hosts * each), timeout=60))
            yield graphs

    return opened()


def met(graphs: Sequence[halohop.Graph]) -> list[dict[int, str]]:
    """The owners that each process finds; those of one host meet at the first use of tables."""
    with ThreadPoolExecutor(len(graphs)) as pool:
        return [dict(owners) for owners in pool.map(lambda graph: graph.tables.owners, graphs, timeout=60)]


def filled(graphs: Sequence[halohop.Graph]) -> list[int]:
    """The ids that a callable was asked for. Meanwhile another client has asked for rows, and gets them all the same."""
    asked: list[int] = []
    begun, waits = threading.Event(), threading.Event()

    def thrice(ids: torch.Tensor) -> torch.Tensor:
        asked.extend(ids.tolist())
        begun.set()
        assert waits.wait(60)
        return ids.float() * 3

    def make() -> None:
        halohop.DistTensor(graphs[0], (None,), name="given", init=thrice, node_type=NODE)

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make)
        assert begun.wait(60)
        other = halohop.DistTensor.attach(graphs[-1], "given")
        reading = graphs[-1].tables.read_later([("given", other.gid(RAW))])
        assert not reading.done()
        waits.set()
        made.result(timeout=60)
    assert torch.equal(reading.result()[0], RAW.float() * 3)
    other.drop()
    return asked


class TableContract:
    """What tables do. `graphs` is a fixture: two handles or more of `tables()`, or one twice."""

    def test_rows_begin_are_written_and_added(self, graphs: list[halohop.Graph]) -> None:
        """And all processes see the same."""
        first, other = graphs[0], graphs[-1]
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
            made = halohop.DistTensor(first, (None, 2), dtype, "state", init.constant(1), node_type=NODE)
            found = halohop.DistTensor.attach(other, "state")
            assert (found.shape, found.dtype, len(found)) == ((60, 2), dtype, 60)
            assert torch.equal(found[RAW], torch.ones(60, 2, dtype=dtype))
            some = RAW[[5, 40, 5, 12]]
            rows = torch.tensor([[1, 2], [3, 4], [5, 6], [0, 1]]).to(dtype)
            found[some] = rows
            assert torch.equal(made[RAW[[5, 12, 40, 0]]], torch.stack([rows[2], rows[3], rows[1], torch.ones(2, dtype=dtype)]))
            if dtype != torch.bool:
                made.add(some, rows)
                assert found[RAW[[5, 12, 40, 0]]].tolist() == [[11, 14], [0, 2], [6, 8], [1, 1]]
            made[RAW] = 0
            assert not found[RAW].any()
            found.drop()

    def test_rows_of_edges_and_of_their_own(self, graphs: list[halohop.Graph]) -> None:
        first, other = graphs[0], graphs[-1]
        edges, own = (
            halohop.DistTensor(first, (None,), torch.float64, "by edge", relation=EDGE),
            halohop.DistTensor(first, (7, 1, 2), name="own"),
        )
        ids = torch.tensor([59, 3, 0, 21])
        edges[ids] = ids.double()
        assert torch.equal(halohop.DistTensor.attach(other, "by edge")[torch.arange(60)][ids], ids.double())
        (stored,) = other.fetch_rows(EDGE, ["\0edge_id"], edges.gid(ids))
        assert torch.equal(stored, ids)
        own[torch.arange(7)] = torch.arange(14.0).view(7, 1, 2)
        assert halohop.DistTensor.attach(other, "own")[torch.tensor([6, 0])].tolist() == [[[12, 13]], [[0, 1]]]
        assert own[torch.empty(0, dtype=torch.int64)].shape == (0, 1, 2)
        assert [table.spec.name for table in other.tables.list()] == ["by edge", "own"]
        edges.drop()
        own.drop()

    def test_beginnings_follow_from_seed_name_and_raw_id(self, graphs: list[halohop.Graph]) -> None:
        """The same bits as in one partition."""
        kinds = {
            "uniform": init.uniform(-1, 1),
            "normal": init.normal(1, 2),
            "xavier": init.xavier_uniform(),
            "column": init.column("x"),
        }
        shape = tuple(graphs[0].schema.nodes[NODE].columns["x"].shape)
        with ExitStack() as stack:
            whole = halohop.testing.worlds.partitioned(tables(), 1)
            stack.callback(whole.close)
            for name, kind in kinds.items():
                one, many = (
                    halohop.DistTensor(graph, (60, *shape), name=name, init=kind, node_type=NODE, seed=3)
                    for graph in (whole, graphs[-1])
                )
                assert torch.equal(many[RAW], one[RAW])
                assert one[RAW].std() > 0
                many.drop()

    def test_a_callable_of_ids_writes_the_rows_and_others_wait_for_them(self, graphs: list[halohop.Graph]) -> None:
        assert sorted(filled(graphs)) == RAW.tolist()

    def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(self, graphs: list[halohop.Graph]) -> None:
        first, other = graphs[0], graphs[-1]
        state = halohop.DistTensor(first, (None, 2), name="state", node_type=NODE)
        with pytest.raises(InputError, match=r"'state' is there already, as float32 \[60, 2\].* not as float32 \[60, 3\]"):
            halohop.DistTensor(other, (None, 3), name="state", node_type=NODE)
        with pytest.raises(InputError, match=r"has 59 rows, but 'node' has 60; give \(60, ...\)"):
            halohop.DistTensor(first, (59, 2), node_type=NODE)
        with pytest.raises(IdError, match="1 of 2 ids are not among the 60 nodes of 'node', the first is 8"):
            state[torch.tensor([7, 8])] = 1
        with pytest.raises(InputError, match=r"a tensor of torch.float32; give a tensor of integers"):
            state[torch.tensor([7.0])]
        with pytest.raises(InputError, match=r"torch.float64 \[1, 2\], but must be torch.float32 \[1, 2\]"):
            state[RAW[:1]] = torch.ones(1, 2, dtype=torch.float64)
        with pytest.raises(InputError, match=r"rows for 2 ids of table 'state' are torch.float32 \[3, 2\]"):
            state.add(RAW[:2], torch.ones(3, 2))
        with pytest.raises(SchemaError, match=r"no table 'nope'; there are \['state'\]"):
            halohop.DistTensor.attach(other, "nope")
        assert not state[RAW].any()
        attached = halohop.DistTensor.attach(other, "state")
        state.drop()
        with pytest.raises(SchemaError, match="there is no table 'state'"):
            attached[RAW]

    def test_a_table_that_was_made_otherwise_under_its_name_is_noticed(self, graphs: list[halohop.Graph]) -> None:
        first, other = graphs[0], graphs[-1]
        halohop.DistTensor(first, (None, 2), name="state", node_type=NODE)
        attached = halohop.DistTensor.attach(other, "state")
        first.tables.drop("state")
        again = halohop.DistTensor(first, (None,), torch.int64, "state", node_type=NODE)
        with pytest.raises(SchemaError, match=r"'state' was dropped and made as int64 \[60\]"):
            attached[RAW]
        again.drop()

    def test_writes_of_many_at_once_are_all_kept(self, graphs: list[halohop.Graph]) -> None:
        """Each goes to several owners."""
        count = halohop.DistTensor(graphs[0], (None,), torch.int64, "count", node_type=NODE)

        def add(graph: halohop.Graph) -> None:
            mine = halohop.DistTensor.attach(graph, "count")
            for _ in range(10):
                mine.add(RAW, torch.ones(60, dtype=torch.int64))

        with ThreadPoolExecutor(2 * len(graphs)) as pool:
            for done in [pool.submit(add, graph) for graph in (*graphs, *graphs)]:
                done.result(timeout=60)
        assert count[RAW].tolist() == [20 * len(graphs)] * 60
        count.drop()

    def test_a_change_of_several_owners_happens_at_all_or_at_none(self, graphs: list[halohop.Graph]) -> None:
        """The second share of it has no table, so the first is not written."""
        graph = graphs[-1]
        one, other = (halohop.DistTensor(graph, (None,), name=name, node_type=NODE) for name in ("one", "other"))
        graphs[0].tables.drop("other") if graphs[0] is not graph else None
        if graphs[0] is graph:
            other.drop()
            graph.tables._names._specs["other"] = other.spec  # type: ignore[attr-defined]  # as if another client had dropped it
        gid = one.gid(RAW)
        shares = [Share(name=name, gid=gid, rows=torch.ones(60)) for name in ("one", "other")]
        moment = Moment(group=graph.tables.client, session="", rank=0, size=1, round=0, index=10_000)
        with pytest.raises(SchemaError, match="no table 'other' any more"):
            graph.tables.change(moment, "write", shares).apply()
        assert not one[RAW].any()
        one.drop()
