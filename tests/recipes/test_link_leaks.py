"""What a model of links sees of the edges that it is to predict is refused or told, whatever its relation is called."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from halohop.cluster.graph import Graph, in_memory
from halohop.errors import InputError
from halohop.recipes.config import TrainConfig
from halohop.recipes.link_edges import split_edges
from halohop.recipes.link_leaks import find_leaks, find_reverse
from halohop.recipes.link_task import LinkTask
from halohop.recipes.task import Setting
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import Relation
from halohop.world import World

BUYS = ("user", "buys", "item")
COUNT = 40


def buys(**columns: torch.Tensor) -> EdgeTable:
    """40 edges between 9 users and 7 items, each pair once."""
    order = torch.randperm(63, generator=torch.Generator().manual_seed(0))[:COUNT]
    return EdgeTable(src=order // 7, dst=order % 7, columns=columns)


def flipped(table: EdgeTable, rows: slice = slice(None), **columns: torch.Tensor) -> EdgeTable:
    """Reverses of some edges, in another order."""
    src, dst = table.dst[rows].flip(0), table.src[rows].flip(0)
    return EdgeTable(src=src, dst=dst, columns={name: column[rows].flip(0) for name, column in columns.items()})


def masks(shift: int = 0) -> dict[str, torch.Tensor]:
    """The first 20 edges train, 10 each validate and test."""
    place = (torch.arange(COUNT) + shift) % COUNT
    return {"train_mask": place < 20, "val_mask": (place >= 20) & (place < 30), "test_mask": place >= 30}


def graph_of(edges: dict[Relation, EdgeTable]) -> Graph:
    nodes = {"user": NodeTable(num_nodes=9, raw_id=torch.arange(9) + 50), "item": NodeTable(num_nodes=7)}
    return in_memory(GraphTables(nodes=nodes, edges=edges))


def leaks_of(edges: dict[Relation, EdgeTable], time_attr: str | None = None) -> list[str]:
    graph = graph_of(edges)
    return find_leaks(graph, BUYS, split_edges(graph, BUYS, time_attr), time_attr)


def test_masks_and_times_that_hide_the_answers_say_nothing() -> None:
    table, time = buys(**masks()), torch.arange(COUNT)
    assert leaks_of({BUYS: table}) == []
    assert leaks_of({BUYS: table, ("item", "sold", "user"): flipped(table, **masks())}) == []
    timed = buys(time=time)
    assert leaks_of({BUYS: timed, ("item", "sold", "user"): flipped(timed, time=time)}, "time") == []
    assert leaks_of({BUYS: table, ("user", "is", "user"): EdgeTable(src=table.src, dst=table.src, columns={})}) == []


@pytest.mark.parametrize("time_attr", [None, "time"])
@pytest.mark.parametrize("other", [("item", "sold", "user"), ("user", "bought", "item")])
def test_the_same_edges_without_masks_or_times_are_refused(other: Relation, time_attr: str | None) -> None:
    table = buys(**masks()) if time_attr is None else buys(time=torch.arange(COUNT))
    copy = flipped(table) if other[0] == "item" else EdgeTable(src=table.src.flip(0), dst=table.dst.flip(0), columns={})
    column = time_attr or "train_mask"
    with pytest.raises(InputError, match=rf"{re.escape(str(other))} are the reverses or copies of .* no column '{column}'"):
        leaks_of({BUYS: table, other: copy}, time_attr)


def test_pairs_that_some_edges_show_are_counted() -> None:
    table = buys(**masks())
    views = EdgeTable(src=table.src[5:33], dst=table.dst[5:33], columns={})  # 10 of val, and 3 of test
    (told,) = leaks_of({BUYS: table, ("user", "views", "item"): views})
    assert told.startswith(
        "13 of 20 edges of val and test have a copy or a reverse among ('user', 'views', 'item') that the model sees"
    )
    (told,) = leaks_of({BUYS: table, ("item", "sold", "user"): flipped(table, slice(28, 40))})
    assert told.startswith("12 of 20 edges")
    (told,) = leaks_of({BUYS: table, ("item", "sold", "user"): flipped(table, **masks(shift=10))})
    assert told.startswith("10 of 20 edges")  # masks of their own: train there are 10 of val or test here
    timed = buys(time=torch.arange(COUNT))
    (told,) = leaks_of({BUYS: timed, ("item", "sold", "user"): flipped(timed, slice(36, 40))}, "time")
    assert told.startswith("4 of 12 edges")


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("other", [("item", "sold", "user"), ("user", "bought", "item")])
def test_copies_with_earlier_times_are_counted(other: Relation, dtype: torch.dtype) -> None:
    time = torch.arange(COUNT).to(dtype)
    table = buys(time=time)

    def told(copied: torch.Tensor) -> list[str]:
        copy = flipped(table, time=copied)
        if other[0] == "user":
            copy = EdgeTable(src=copy.dst, dst=copy.src, columns=copy.columns)
        return leaks_of({BUYS: table, other: copy}, "time")

    assert told(time) == told(time + 1) == []
    (all_shown,) = told(torch.zeros(COUNT, dtype=dtype))
    assert all_shown.startswith(f"12 of 12 edges of val and test have a copy or a reverse among {other} that the model sees")
    assert all_shown.endswith("Give each of its edges the 'time' of the edge that it repeats, or leave it out.")
    (some_shown,) = told(time - (time >= 35).to(dtype))
    assert some_shown.startswith("5 of 12 edges")


def test_pairs_that_come_again_later_are_no_leaks_of_their_reverses() -> None:
    table = buys(time=torch.arange(COUNT))
    twice = EdgeTable(src=table.src.repeat(2), dst=table.dst.repeat(2), columns={"time": torch.arange(2 * COUNT)})
    reverse = EdgeTable(src=twice.dst, dst=twice.src, columns=twice.columns)
    assert leaks_of({BUYS: twice, ("item", "sold", "user"): reverse}, "time") == []


@pytest.mark.parametrize("again", [False, True])
def test_one_relation_that_holds_pairs_twice(again: bool) -> None:
    edges = buys()
    src, dst = (edges.src, edges.dst) if again else (edges.dst, edges.src)
    split = {name: torch.cat([mask, masks(shift=20)[name]]) for name, mask in masks().items()}
    both = EdgeTable(src=torch.cat([edges.src, src]), dst=torch.cat([edges.dst, dst]), columns=split)
    graph = in_memory(GraphTables(nodes={"n": NodeTable(num_nodes=9)}, edges={("n", "to", "n"): both}))
    (told,) = find_leaks(graph, ("n", "to", "n"), split_edges(graph, ("n", "to", "n"), None), None)
    assert told.startswith("40 of 40 edges of val and test have a copy or a reverse")


def test_training_says_what_leaks(tmp_path: Path) -> None:
    table = buys(**masks())
    graph = graph_of({BUYS: table, ("user", "views", "item"): EdgeTable(src=table.src[:33], dst=table.dst[:33], columns={})})
    config = TrainConfig(parts="p", out=str(tmp_path), task="link", relation=BUYS, fanout=(2, 2))
    for rank in (0, 1):
        setting = Setting(config=config, graph=graph, world=World(rank=rank, size=2), device=torch.device("cpu"))
        if rank == 0:
            with pytest.warns(UserWarning, match="13 of 20 edges of val and test"):
                task = LinkTask(setting)
        else:
            task = LinkTask(setting)  # rank 0 says it; warnings are errors here
        (leak,) = task.about()["leaks"]
        assert leak.startswith("13 of 20 edges")


def test_reverses_are_found_by_name_or_by_their_edges() -> None:
    table = buys()
    assert find_reverse(graph_of({BUYS: table}), BUYS) is None
    assert find_reverse(graph_of({BUYS: table, ("item", "sold", "user"): flipped(table)}), BUYS) == ("item", "sold", "user")
    assert find_reverse(graph_of({BUYS: table, ("item", "rev_buys", "user"): flipped(table)}), BUYS) == (
        "item",
        "rev_buys",
        "user",
    )
    other = EdgeTable(src=table.dst, dst=table.src.flip(0), columns={})
    assert find_reverse(graph_of({BUYS: table, ("item", "sold", "user"): other}), BUYS) is None
    path, back = torch.arange(5), torch.arange(1, 6)
    nodes = {"n": NodeTable(num_nodes=6)}
    edges = {("n", "to", "n"): EdgeTable(src=path, dst=back, columns={})}
    assert find_reverse(in_memory(GraphTables(nodes=nodes, edges=edges)), ("n", "to", "n")) == ("n", "to", "n")
    edges["n", "by", "n"] = EdgeTable(src=back, dst=path, columns={})
    assert find_reverse(in_memory(GraphTables(nodes=nodes, edges=edges)), ("n", "to", "n")) == ("n", "by", "n")


def test_the_edges_of_a_relation_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = buys(**masks())
    other = EdgeTable(src=table.dst, dst=table.src.flip(0), columns={})
    names = ("a", "b", "c")
    graph = graph_of({BUYS: table, **{("item", name, "user"): other for name in names}})
    splits, read, edges = split_edges(graph, BUYS, None), Counter[Relation](), Graph.edges

    def counted(self: Graph, relation: Relation, *ids: torch.Tensor) -> object:
        read[relation] += 1
        return edges(self, relation, *ids)

    monkeypatch.setattr(Graph, "edges", counted)
    assert find_reverse(graph, BUYS) is None
    assert read == dict.fromkeys(graph.schema.edges, 1)
    read.clear()
    find_leaks(graph, BUYS, splits, None)
    assert read == dict.fromkeys(graph.schema.edges, 1)
