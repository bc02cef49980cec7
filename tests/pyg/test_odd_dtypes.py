"""Labels, times and weights of dtypes and shapes that arithmetic or kernels do not take: kept as meant, or refused by name."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import InputError

NODES, EDGES, PAIRS = 30, 200, 40
TO = ("a", "to", "b")


def plain(**columns: torch.Tensor) -> Data:
    torch.manual_seed(0)
    return Data(edge_index=torch.randint(NODES, (2, EDGES)), num_nodes=NODES, **columns)


def labels_of(label: torch.Tensor) -> torch.Tensor:
    data = plain()
    loader = halohop.LinkNeighborLoader(data, [2], data.edge_index[:, :PAIRS], label, batch_size=PAIRS, neg_sampling="binary")
    return next(iter(loader)).edge_label


def up_to(most: float, dtype: torch.dtype) -> torch.Tensor:
    """Labels from 0 on, with the greatest ones that the dtype holds."""
    label = torch.arange(PAIRS).to(torch.float64) % 5
    label[-3:] = most
    return label.to(dtype) if dtype.is_floating_point else label.long().to(dtype)


@pytest.mark.parametrize(
    ("dtype", "most"),
    [
        *((dtype, torch.iinfo(dtype).max) for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16)),
        *((torch.float16, 2048), (torch.bfloat16, 256), (torch.float32, 2**24)),
    ],
)
def test_labels_that_their_dtype_cannot_raise_are_raised_in_a_wider_one(dtype, most):
    label = up_to(most, dtype)
    found = labels_of(label)
    assert torch.equal(found[:PAIRS].double(), label.double() + 1)
    assert not found[PAIRS:].any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float16, torch.float32])
def test_labels_that_their_dtype_can_raise_keep_it(dtype):
    assert labels_of(up_to(7, dtype)).dtype == dtype
    assert labels_of(up_to(7, dtype) + 1)[:PAIRS].equal(up_to(7, dtype) + 1)


@pytest.mark.parametrize(
    "label",
    [
        torch.where(torch.arange(PAIRS) == 3, float("nan"), torch.arange(PAIRS) % 5),
        torch.where(torch.arange(PAIRS) == 3, float("inf"), torch.arange(PAIRS) % 5),
        torch.arange(PAIRS) % 3 - 1,
        torch.arange(PAIRS).where(torch.arange(PAIRS) < 30, 2**63 - 1),
    ],
    ids=["NaN", "infinity", "below zero", "2**63 - 1"],
)
def test_labels_that_cannot_be_told_from_negatives_are_refused(label):
    with pytest.raises(InputError, match=r"^edge_label holds .* give numbers from 0 on"):
        labels_of(label)


TIMES = {
    **{str(dtype): torch.arange(EDGES).to(dtype) for dtype in (torch.int16, torch.int8, torch.uint8, torch.uint32)},
    **{str(dtype): torch.arange(EDGES).to(dtype) for dtype in (torch.bool, torch.float16, torch.bfloat16, torch.complex64)},
    "[n, 1]": torch.arange(EDGES).view(-1, 1),
    "[n, 2]": torch.rand(EDGES, 2),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=list(TIMES))
@pytest.mark.parametrize("stored", [False, True])
def test_times_that_nothing_is_drawn_by_are_refused_when_the_loader_is_made(tmp_path, times, stored):
    graph = plain(when=times)
    if stored:
        halohop.partition(graph, tmp_path / "parts", num_parts=2, method="random")
        graph = halohop.open(tmp_path / "parts")
    options = {"time_attr": "when", "batch_size": 10}
    for make in (
        lambda: halohop.NeighborLoader(graph, [-1], torch.arange(10), torch.full((10,), 30), **options),
        lambda: halohop.LinkNeighborLoader(graph, [-1], edge_label_time=torch.arange(EDGES), **options),
        lambda: halohop.HalohopSampler(graph, [-1], time_attr="when"),
    ):
        with pytest.raises(InputError, match=r"^times 'when' of .* store one number for each row, of int32, int64, float32"):
            make()


@pytest.mark.parametrize("weights", [torch.rand(EDGES, 1), torch.rand(EDGES, dtype=torch.complex64)], ids=["[n, 1]", "complex"])
def test_weights_that_nothing_is_drawn_by_are_refused_when_the_loader_is_made(weights):
    with pytest.raises(InputError, match=r"^weights 'w' of .* store one number for each row, of float32"):
        halohop.NeighborLoader(plain(w=weights), [2], weight_attr="w")


def test_times_of_neighbors_are_checked_and_those_that_nobody_reads_are_not():
    data = HeteroData()
    data["a"].num_nodes = data["b"].num_nodes = NODES
    data[TO].edge_index = torch.randint(NODES, (2, EDGES))
    data["a"].when, data["b"].when = torch.arange(NODES), torch.rand(NODES, 3)
    until = torch.full((10,), 20)
    made = halohop.NeighborLoader(data, [-1], ("b", torch.arange(10)), until, time_attr="when", batch_size=10)
    assert next(iter(made))["a"].n_id.max() <= 20
    with pytest.raises(InputError, match="times 'when' of 'b' are float32 with rows of shape"):
        halohop.LinkNeighborLoader(
            data, [-1], TO, edge_label_time=torch.arange(EDGES), time_attr="when", neg_sampling="binary", disjoint=True
        )
    data["a"].when = data["a"].when.short()
    with pytest.raises(InputError, match="times 'when' of 'a' are int16"):
        halohop.NeighborLoader(data, [-1], ("b", torch.arange(10)), until, time_attr="when")


def test_columns_of_relations_that_are_not_sampled_are_not_checked():
    data, back = HeteroData(), ("b", "back", "a")
    data["a"].num_nodes = data["b"].num_nodes = NODES
    for relation, weight in ((TO, torch.rand(EDGES)), (back, torch.rand(EDGES, 3))):
        data[relation].edge_index, data[relation].w = torch.randint(NODES, (2, EDGES)), weight
    fanouts = {TO: [3, 0], back: [0, 0]}
    batch = next(iter(halohop.NeighborLoader(data, fanouts, "b", weight_attr="w", batch_size=5)))
    assert batch[TO].w.shape == batch[TO].e_id.shape
    with pytest.raises(InputError, match=r"weights 'w' of \('b', 'back', 'a'\) are float32 with rows of shape \(3,\)"):
        halohop.NeighborLoader(data, {TO: [3, 0], back: [0, 1]}, "b", weight_attr="w", batch_size=5)


def test_times_of_seeds_that_have_no_order_are_refused():
    data = plain(when=torch.arange(EDGES))
    with pytest.raises(InputError, match=r"the times of seeds are torch\.complex64"):
        halohop.NeighborLoader(data, [2], torch.arange(10), torch.ones(10, dtype=torch.complex64), time_attr="when")
