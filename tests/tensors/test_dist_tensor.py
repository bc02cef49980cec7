"""Tables as tensors over graphs: what arguments may be. What tables do where is in tests/cluster and tests/net."""

import multiprocessing
import multiprocessing.connection
import pickle

import pytest
import torch
from torch_geometric.data import HeteroData

import halohop
from halohop import init
from halohop.cluster.graph import in_memory
from halohop.errors import ClusterError, InputError, SchemaError
from halohop.testing.graphs import ring
from halohop.typing import EDGE, NODE


@pytest.fixture
def graph():
    made = in_memory(ring(20))
    yield made
    made.close()


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64, torch.float8_e5m2),
        *(torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (1, 2, 2)], ids=str)
def test_rows_of_every_dtype_and_shape_come_back(graph, dtype, shape):
    table = halohop.DistTensor(graph, (20, *shape), dtype, node_type=NODE)
    ids = torch.tensor([7, 0, 19])
    rows = torch.randint(2, (3, *shape)).to(dtype)
    table[ids] = rows
    assert torch.equal(
        table[ids].view(torch.uint8) if rows.numel() else table[ids], rows.view(torch.uint8) if rows.numel() else rows
    )
    assert (table.shape, table.dtype, len(table)) == ((20, *shape), dtype, 20)
    table.drop()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"shape": (19,), "node_type": NODE}, r"shape=\(19,\) has 19 rows, but 'node' has 20"),
        ({"shape": (None,)}, r"shape=\(None,\) says no number of rows"),
        ({"shape": ()}, r"shape=\(\) is no shape of a table"),
        ({"shape": (20, -1), "node_type": NODE}, r"shape=\(20, -1\) is no shape of a table"),
        ({"shape": (20,), "node_type": NODE, "relation": EDGE}, "are both given; rows belong to one of them"),
        ({"shape": (20,), "name": ""}, "name='' is no name of a table"),
        ({"shape": (20,), "name": "x" * 201}, "is no name of a table; give text of 1 to 200 characters"),
        ({"shape": (20,), "init": init.uniform(), "seed": 1.5}, "seed=1.5 is no whole number"),
        ({"shape": (20,), "storage": "tape"}, "storage='tape' is none of"),
        ({"shape": (20,), "storage": "disk"}, "its owner has no folder for tables"),
        ({"shape": (20,), "dtype": "float32"}, "dtype='float32' is none of torch's"),
        ({"shape": (20,), "init": 0.5}, "init=0.5 is neither of halohop.init nor a callable"),
        ({"shape": (20,), "dtype": torch.int64, "init": init.uniform()}, "int64"),
        ({"shape": (20, 2), "node_type": NODE, "init": init.column("nope")}, "nope"),
        (
            {"shape": (20,), "node_type": NODE, "init": lambda ids: ids},
            r"returned torch.int64 \[20\] for 20 ids, but must return",
        ),
        ({"shape": (20,), "init": lambda ids: [0.0]}, "returned a list for 20 ids"),
    ],
)
def test_arguments_that_cannot_work_are_refused_by_name_and_leave_no_table(graph, arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        halohop.DistTensor(graph, **{"name": "t", **arguments})
    assert graph.tables.list() == ()


def test_unknown_types_are_refused(graph):
    with pytest.raises(SchemaError, match="unknown node type 'person'"):
        halohop.DistTensor(graph, (None,), node_type="person")
    with pytest.raises(SchemaError, match="unknown relation"):
        halohop.DistTensor(graph, (None,), relation=("a", "b", "c"))


def test_a_number_that_the_dtype_lacks_is_refused(graph):
    table = halohop.DistTensor(graph, (3,), torch.int8, "small")
    with pytest.raises(InputError, match=r"300 is no torch\.int8"):
        table[torch.tensor([0])] = 300


def test_a_callable_is_asked_for_blocks_of_ids(graph, monkeypatch):
    monkeypatch.setattr("halohop.cluster.tables.filling._BLOCK_BYTES", 7 * 8)
    asked: list[int] = []

    def rows(ids: torch.Tensor) -> torch.Tensor:
        asked.append(len(ids))
        return ids.double()

    table = halohop.DistTensor(graph, (None,), torch.float64, init=rows, relation=EDGE)
    assert asked == [7, 7, 7, 7, 7, 5]
    assert table[torch.arange(40)].tolist() == list(range(40))


def test_a_callable_that_fails_leaves_no_table(graph):
    def fails(ids: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no rows today")

    with pytest.raises(RuntimeError, match="no rows today"):
        halohop.DistTensor(graph, (20,), name="t", init=fails)
    assert graph.tables.list() == ()


def test_tables_of_a_pyg_object_are_those_of_its_graph():
    data = HeteroData()
    data["a"].x, data["b"].num_nodes = torch.rand(5, 2), 3
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 4], [2, 0, 1]])
    with halohop.graph(data) as graph:
        table = halohop.DistTensor(graph, (None, 2), node_type="a", init=init.column("x"))
        assert torch.equal(table[torch.tensor([4, 0])], data["a"].x[[4, 0]])


def test_unnamed_tables_are_tables_of_their_own(graph):
    one, other = (halohop.DistTensor(graph, (20,)) for _ in range(2))
    one[torch.arange(20)] = 1
    assert not other[torch.arange(20)].any()
    assert repr(one).startswith("DistTensor('unnamed-")


def test_a_graph_of_one_process_brings_no_tables_to_another(tmp_path):
    halohop.partition(ring(20), tmp_path / "parts", num_parts=1)
    with halohop.open(tmp_path / "parts") as graph:
        table = halohop.DistTensor(graph, (20,), name="t")
        with pytest.raises(InputError, match="tables lie in the memory of another process"):
            pickle.loads(pickle.dumps(table))
        assert graph.tables.list()[0].num_bytes == 80
    with pytest.raises(InputError, match="this graph was closed"):
        _ = graph.tables


def _reads_and_writes(table: halohop.DistTensor, said: "multiprocessing.connection.Connection") -> None:
    rows = table[torch.tensor([3, 4])].tolist()
    try:
        table[torch.tensor([3])] = 0
    except ClusterError as error:
        said.send((rows, str(error)))


def test_a_forked_process_reads_its_parents_tables_and_changes_none(graph):
    table = halohop.DistTensor(graph, (None,), name="t", node_type=NODE)
    table[torch.tensor([3])] = 7
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_reads_and_writes, args=(table, there))
    child.start()
    there.close()
    rows, refusal = here.recv()
    child.join(30)
    assert child.exitcode == 0
    assert rows == [7, 0]
    assert "changed in the owner only" in refusal
    assert table[torch.tensor([3])].tolist() == [7]
