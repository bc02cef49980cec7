"""Tables that learn while the model is on a GPU: the losses and rows of the CPU, bit for bit. On a GPU that is pretended."""

from typing import Any

import pytest
import torch
from torch import Tensor

import halohop
from halohop import DistEmbedding, Graph
from halohop.cluster.device import DeviceOptions
from halohop.optim import RowwiseAdagrad, SparseAdagrad, SparseAdam, SparseSGD
from halohop.testing import graphs
from halohop.testing.worlds import partitioned
from tests.support.pretend_gpu import home, pretended

TYPED = ({"a": 30, "b": 20}, {("a", "to", "b"): 60, ("b", "rev_to", "a"): 40})
RULES: dict[str, Any] = {
    "sgd": lambda tables: SparseSGD(tables, lr=0.1),
    "adagrad": lambda tables: SparseAdagrad(tables, lr=0.1),
    "rowwise": lambda tables: RowwiseAdagrad(tables, lr=0.1, duplicates="mean"),
    "adam": lambda tables: SparseAdam(tables, lr=0.1, bias="row"),
}

pytestmark = pytest.mark.usefixtures("pretended_gpu")


def graph_of(kind: str, num_parts: int, mode: Any = None) -> Graph:
    tables = graphs.power_law(40, 4, dim=3) if kind == "homogeneous" else graphs.typed(*TYPED, dim=3)
    graph = partitioned(tables, num_parts)
    if mode is not None:
        graph.use_device(DeviceOptions(device="cuda:0", mode=mode))
    return graph


def tables_of(graph: Graph, dtype: torch.dtype = torch.float32) -> dict[str, DistEmbedding]:
    return {name: DistEmbedding(graph, None, 5, f"of {name}", dtype=dtype, node_type=name) for name in graph.schema.nodes}


def looked_up(table: DistEmbedding, gid: Tensor) -> Tensor:
    """Rows as a model on the CPU takes them; their gradients come back as the device's."""
    rows = table(gid=gid)
    assert rows.is_cuda == gid.is_cuda
    if rows.is_cuda:
        rows.register_hook(pretended)
    return home(rows)


def loss_of(tables: dict[str, DistEmbedding], batch: Any) -> Tensor:
    """Each node's row and those of its neighbours, squared; some rows are looked up twice."""
    stores = {name: batch[name] if len(tables) > 1 else batch for name in tables}
    rows = {name: looked_up(tables[name], store.n_gid) for name, store in stores.items()}
    sums = {name: some.clone() for name, some in rows.items()}
    edges = batch.edge_index_dict if len(tables) > 1 else {(*tables, "to", *tables): batch.edge_index}
    for (src, _, dst), ends in edges.items():
        sums[dst] = sums[dst].index_add(0, home(ends)[1], rows[src][home(ends)[0]])
    again = [looked_up(tables[name], store.n_gid[:3]) for name, store in stores.items()]
    return sum((some.float() ** 2).sum() for some in [*sums.values(), *again])  # type: ignore[return-value]


def trained(graph: Graph, rule: str, *, dtype: torch.dtype = torch.float32, **options: Any) -> list[Tensor]:
    """Losses, and all rows afterwards."""
    tables = tables_of(graph, dtype)
    sparse = RULES[rule](list(tables.values()))
    nodes = None if len(tables) == 1 else ("b", None)
    loader = halohop.NeighborLoader(graph, [3, 2], nodes, batch_size=14, shuffle=True, seed=3, gids=True, run="inline", **options)
    losses = []
    for batch in loader:
        loss = loss_of(tables, batch)
        loss.backward()
        sparse.step()
        losses.append(loss.detach())
    rows = [table(gid=graph.select(None, name)[0]).detach() for name, table in tables.items()]
    return [torch.stack(losses), *rows]


def assert_same(there: list[Tensor], here: list[Tensor]) -> None:
    assert len(there) == len(here)
    for one, other in zip(there, here, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("mode", ["cpu", "cuda"])
@pytest.mark.parametrize("rule", ["adagrad", "adam"])
@pytest.mark.parametrize(("kind", "num_parts"), [("homogeneous", 1), ("homogeneous", 2), ("typed", 2)])
def test_losses_and_rows_are_those_of_the_cpu(kind: str, num_parts: int, rule: str, mode: Any) -> None:
    assert_same(trained(graph_of(kind, num_parts, mode), rule), trained(graph_of(kind, 1), rule))


@pytest.mark.parametrize(("rule", "dtype"), [("sgd", torch.bfloat16), ("rowwise", torch.float64), ("adam", torch.float16)])
def test_of_any_dtype_and_padded(rule: str, dtype: torch.dtype) -> None:
    options = {"dtype": dtype, "pad": "bound"}
    assert_same(
        trained(graph_of("homogeneous", 2, "cuda"), rule, **options), trained(graph_of("homogeneous", 2), rule, **options)
    )


def test_the_host_waits_for_ids_and_once_for_gradients() -> None:
    graph = graph_of("homogeneous", 2, "cuda")
    assert graph.on_device is not None
    table, gid = tables_of(graph)["node"], graph.select(None, "node")[0]
    sparse = SparseSGD([table], lr=0.1)
    counted = [graph.on_device.statistics().get("device_waits", 0)]
    loss = sum(looked_up(table, pretended(gid[some])).sum() for some in (slice(0, 9), slice(4, 30)))
    counted.append(graph.on_device.statistics()["device_waits"])
    assert isinstance(loss, Tensor)
    loss.backward()
    before = graph.on_device.statistics().get("device_brought_bytes", 0)
    sparse.step()
    after = graph.on_device.statistics()
    counted.append(after["device_waits"])
    assert [counted[1] - counted[0], counted[2] - counted[1]] == [2, 1]
    assert after["device_brought_bytes"] - before == 30 * 5 * 4  # equal rows are added up before


def test_a_batch_of_nodes_without_neighbours_and_one_without_rows() -> None:
    made = []
    for mode in (None, "cuda"):
        graph = graph_of("homogeneous", 2, mode)
        table, gid = tables_of(graph)["node"], graph.select(None, "node")[0]
        sparse = SparseAdam([table], lr=0.1)
        gid = gid if mode is None else pretended(gid)
        loss = looked_up(table, gid[:3]).sum() + looked_up(table, gid[:0]).sum()
        loss.backward()
        sparse.step()
        looked_up(table, gid[:0]).sum().backward()  # of no row
        sparse.step()
        looked_up(table, gid[:2])  # backward does not come
        sparse.step()
        assert sparse.steps == {table.name: 2}
        made.append([home(table(gid=gid)).detach()])
    assert_same(made[1], made[0])


def test_a_gradient_that_is_not_finite_is_refused_by_the_users_ids() -> None:
    graph = graph_of("homogeneous", 2, "cuda")
    table, gid = tables_of(graph)["node"], graph.select(None, "node")[0]
    sparse = SparseSGD([table], lr=0.1)
    (looked_up(table, pretended(gid[:3])) * torch.tensor([[1.0], [torch.inf], [1.0]])).sum().backward()
    with pytest.raises(halohop.errors.InputError, match="not finite in the rows of ids"):
        sparse.step()


def test_rows_are_read_ahead() -> None:
    rows = []
    for mode in (None, "cuda"):
        graph = graph_of("homogeneous", 2, mode)
        table = tables_of(graph)["node"]
        loader = halohop.NeighborLoader(graph, [3], None, batch_size=16, gids=True, run="inline")
        ahead = halohop.ReadAhead(loader, gid={table: lambda batch: batch.n_gid})
        rows.append([looked_up(table, batch.n_gid).detach() for batch in ahead])
        assert table.statistics()["lookups_of_age_0"] == len(rows[-1])
    assert_same(rows[1], rows[0])


def test_rows_of_a_table_come_with_batches_by_one_wait() -> None:
    batches = []
    for mode in (None, "cpu"):
        graph = graph_of("typed", 2, mode)
        for name, table in tables_of(graph).items():
            table.weight.add(graph.select(None, name)[1][:2], torch.ones(2, 5))
        columns = {name: [f"of {name}"] for name in graph.schema.nodes}
        loader = halohop.NeighborLoader(graph, [3], ("b", None), batch_size=16, node_columns=columns, run="inline")
        batches.append([home(batch[name][f"of {name}"]) for batch in loader for name in columns])
    assert_same(batches[1], batches[0])
