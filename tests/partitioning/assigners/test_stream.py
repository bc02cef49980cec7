"""LDG and Fennel: in memory, on disk and over mapped files alike; balanced, and better than chance."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.partitioning.assigners import dealing, union
from halohop.partitioning.assigners import kaminpar as kaminpar_module
from halohop.partitioning.assigners import loads as loads_module
from halohop.partitioning.assigners.assign import assign
from halohop.partitioning.planning.budget import Budget
from halohop.store.foreign import map_foreign
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE
from tests.support.assigning import balances, clustered, cut, mixed, power_law

NO_ROOM = Budget(bytes=1)


@pytest.mark.parametrize("method", ["ldg", "fennel"])
def test_lists_on_disk_divide_as_those_in_memory(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tables in (mixed(), power_law(800, 6000)):
        whole = assign(tables, 3, method)
        with monkeypatch.context() as patch:
            for module in (union, loads_module):
                patch.setattr(module, "_PIECE", 504)
            found = assign(tables, 3, method, memory=NO_ROOM, scratch=tmp_path)
        assert all(torch.equal(found.part[name], part) for name, part in whole.part.items())
        assert list(tmp_path.iterdir()) == []


def mapped(tables: GraphTables, folder: Path) -> GraphTables:
    """The same graph with every tensor mapped over a file."""

    def moved(name: str, tensor: Tensor) -> Tensor:
        np.save(folder / f"{name}.npy", tensor.numpy())
        return torch.from_numpy(map_foreign(folder / f"{name}.npy"))

    return GraphTables(
        nodes={
            name: NodeTable(
                num_nodes=table.num_nodes, columns={key: moved(f"{name}-{key}", value) for key, value in table.columns.items()}
            )
            for name, table in tables.nodes.items()
        },
        edges={
            relation: EdgeTable(src=moved(f"{relation[1]}-src", table.src), dst=moved(f"{relation[1]}-dst", table.dst))
            for relation, table in tables.edges.items()
        },
    )


@pytest.mark.parametrize("method", ["metis", "ldg", "fennel", "random", "range"])
def test_mapped_tensors_divide_as_those_in_memory(method: str, tmp_path: Path) -> None:
    tables = mixed()
    whole, found = (assign(given, 4, method).part for given in (tables, mapped(tables, tmp_path)))
    assert all(torch.equal(found[name], part) for name, part in whole.items())


@pytest.mark.parametrize("num_parts", [2, 7])
@pytest.mark.parametrize(("method", "of_clusters"), [("ldg", 0.7), ("fennel", 0.5)])
def test_balance_and_cut(method: str, of_clusters: float, num_parts: int) -> None:
    for tables, share in ((clustered(), of_clusters), (power_law(), 0.95)):
        found = assign(tables, num_parts, method).part
        assert max(balances(tables, found, num_parts)) <= 1.05 + 1e-6
        assert cut(tables, found) < share * (1 - 1 / num_parts)
        looser = assign(tables, num_parts, method, tolerance=0.3).part
        assert max(balances(tables, looser, num_parts)) <= 1.3 + 1e-6


class Sliced(torch.Tensor):
    """A column of which at most so many entries may be touched at a time."""

    most = 1 << 62

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            large = any(isinstance(given, Sliced) and given.numel() > cls.most for given in args)
        allowed = ("__getitem__", "__len__", "__get__", "dim", "size", "numel")
        assert not large or func.__name__ in allowed, f"{func} of all entries"
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("method", ["ldg", "fennel", "kaminpar", "random", "range"])
def test_columns_are_read_by_slices(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = power_law(3000, 20_000)
    whole = assign(tables, 3, method).part["node"]
    train = tables.nodes["node"].columns["train_mask"].as_subclass(Sliced)
    src, dst = (end.as_subclass(Sliced) for end in next(iter(tables.edges.values())).ends)
    sliced = GraphTables(
        nodes={"node": NodeTable(num_nodes=3000, columns={"train_mask": train})}, edges={EDGE: EdgeTable(src=src, dst=dst)}
    )
    for module in (union, loads_module, dealing, kaminpar_module):
        monkeypatch.setattr(module, "_PIECE", 1000)
    monkeypatch.setattr(Sliced, "most", 1000)
    with pytest.raises(AssertionError, match="of all entries"):
        src.max()
    found = assign(sliced, 3, method, memory=NO_ROOM).part["node"]
    if method != "random":  # which shuffles a piece at a time
        assert torch.equal(found, whole)
