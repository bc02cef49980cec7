"""Models that give the rows of seeds: these are PyG's, with their gradients, or the model gives all rows and says why."""

import copy
import io
import logging
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    GraphSAGE,
    HeteroConv,
    HGTConv,
    SAGEConv,
    Sequential,
    TAGConv,
    TransformerConv,
    to_hetero,
)
from torch_geometric.utils import add_self_loops

import halohop
from halohop.errors import InputError
from halohop.nn import fuse
from halohop.testing.worlds import TOKEN

WIDTH, CLASSES, SEEDS = 6, 3, 8


def graph(seed: int = 0) -> Data:
    made = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(0, 120, (2, 700), generator=made)
    return Data(x=torch.randn(120, WIDTH, generator=made), edge_index=edge_index, edge_weight=torch.rand(700, generator=made))


def batch_of(data: Data | HeteroData, fanouts: Any = (3, 2, 2), **options: Any) -> Any:
    loader = halohop.NeighborLoader(data, list(fanouts), batch_size=SEEDS, num_workers=0, **options)
    return next(iter(loader))


@pytest.fixture(scope="module")
def batch() -> Any:
    return batch_of(graph())


def twins(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """PyG's model, and a copy that gives the rows of seeds."""
    return model, fuse(copy.deepcopy(model), rows="seeds")


def same(plain: nn.Module, seeds: nn.Module, *args: Any, number: int = SEEDS) -> Tensor:
    """What the second gives, after its rows of the seeds, and all gradients of a loss of these, were compared."""
    expected, found = plain(*args), seeds(*args)
    torch.testing.assert_close(found[:number], expected[:number], rtol=1e-4, atol=1e-5)
    weight = torch.linspace(-1, 1, number * expected.shape[1]).view(number, -1)
    grads = [
        torch.autograd.grad((out[:number] * weight).sum(), list(model.parameters()), allow_unused=True)
        for out, model in ((expected, plain), (found, seeds))
    ]
    for parameter, *both in zip(plain.parameters(), *grads, strict=True):
        one, other = (torch.zeros_like(parameter) if grad is None else grad for grad in both)
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
    return found


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "gives all rows" in record.getMessage()]


class Stack(nn.Module):
    """Layers one after the other, with something between them."""

    def __init__(self, *convs: nn.Module, between: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        self.convs, self.between = nn.ModuleList(convs), between

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for number, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if number + 1 < len(self.convs):
                x = self.between(x)
        return x


def sages(layers: int = 3) -> list[nn.Module]:
    widths = [WIDTH] + [5] * (layers - 1) + [CLASSES]
    return [SAGEConv(*pair) for pair in pairwise(widths)]


@pytest.mark.parametrize("model", [GraphSAGE, GCN, GAT, GIN])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_models_of_pyg_give_one_row_for_each_seed(model: Any, layers: int, batch: Any) -> None:
    made = model(WIDTH, 5, layers, CLASSES)
    if model is GIN:
        made.eval()  # its products have batch norms between them
    found = same(*twins(made), batch.x, batch.edge_index)
    assert found.shape == (SEEDS, CLASSES)


class Random(nn.Module):
    """What a strategy has drawn."""

    def __init__(self, kinds: list[str], between: list[str], skip: int | None, inputs: int) -> None:
        super().__init__()
        make: dict[str, Callable[[], nn.Module]] = {
            "sage": lambda: SAGEConv(WIDTH, WIDTH),
            "sage max": lambda: SAGEConv(WIDTH, WIDTH, aggr="max"),
            "gcn": lambda: GCNConv(WIDTH, WIDTH),
            "graph": lambda: GraphConv(WIDTH, WIDTH),
            "gin": lambda: GINConv(nn.Linear(WIDTH, WIDTH)),
            "gat": lambda: GATv2Conv(WIDTH, 3, heads=2),
            "median": lambda: SAGEConv(WIDTH, WIDTH, aggr="median"),
            "transformer": lambda: TransformerConv(WIDTH, WIDTH),
            "foreign": lambda: TAGConv(WIDTH, WIDTH, K=2),
        }
        self.convs = nn.ModuleList(self._layers(kinds, make))
        self.between, self.skip, self.inputs = between, skip, inputs
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.batch_norm = nn.BatchNorm1d(WIDTH) if "batch norm" in between else None
        self.second = nn.Linear(WIDTH, WIDTH)

    @staticmethod
    def _layers(kinds: list[str], make: dict[str, Callable[[], nn.Module]]) -> list[nn.Module]:
        made: list[nn.Module] = []
        for kind in kinds:
            made.append(made[0] if kind == "again" and made else make["sage" if kind == "again" else kind]())
        return made

    def forward(self, x: Tensor, edge_index: Tensor, other: Tensor) -> Tensor:
        first = x
        if self.inputs == 2:
            x = x + self.second(other)
        for number, (conv, between) in enumerate(zip(self.convs, self.between, strict=True)):
            x = conv(x, edge_index)
            x = self._after(x, between, other)
            if self.skip == number:
                x = x + first
        return x

    def _after(self, x: Tensor, between: str, other: Tensor) -> Tensor:
        if between == "norm":
            return F.normalize(self.layer_norm(x), dim=-1)
        if between == "batch norm":
            assert self.batch_norm is not None
            normed: Tensor = self.batch_norm(x)
            return normed
        if between == "mean":
            return x - x.mean(0)
        if between == "mean of columns":
            return x - x.mean(1, keepdim=True)
        if between == "softmax of rows":
            return x.softmax(0)
        if between == "heads":
            return x.view(-1, 2, WIDTH // 2).mul(torch.ones(2, 1)).flatten(1)
        if between == "number":
            return x / x.size(0)
        if between == "other":
            return x * other
        if between == "first":
            return x * x[:1]
        return F.elu(F.dropout(x, 0.0) + 1)


MODELS = st.integers(1, 4).flatmap(
    lambda depth: st.tuples(
        st.lists(
            st.sampled_from(
                ["sage", "sage max", "gcn", "graph", "gin", "gat", "again", "again", "median", "transformer", "foreign"]
            ),
            min_size=depth,
            max_size=depth,
        ),
        st.lists(
            st.one_of(
                st.sampled_from(["elu", "elu", "norm", "mean of columns", "heads"]),
                st.sampled_from(["batch norm", "mean", "softmax of rows", "number", "other", "first"]),
                st.just("elu"),
                st.just("elu"),
            ),
            min_size=depth,
            max_size=depth,
        ),
        st.one_of(st.none(), st.none(), st.integers(0, depth - 1)),
        st.integers(1, 2),
        st.booleans(),
    )
)


@settings(max_examples=40)
@given(model=MODELS)
def test_random_models_are_right_or_slow(model: Any) -> None:
    kinds, between, skip, inputs, training = model
    torch.manual_seed(0)
    batch = batch_of(graph(), [3, 2])
    plain, seeds = twins(Random(kinds, between, skip, inputs).train(training))
    for _ in range(2):  # the first forward pass learns how many layers there are
        found = same(plain, seeds, batch.x, batch.edge_index, batch.x.flip(0))
        assert len(found) in (SEEDS, len(batch.x))
    slow = {"batch norm"} if training else set()
    slow |= {"mean", "softmax of rows", "number", "other", "first"}
    listed = all(kind not in ("median", "foreign") for kind in kinds)
    if listed and skip is None and not slow & {*between}:
        assert len(found) == SEEDS


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: Stack(*sages(), between=lambda x: x - x.mean(0)), "mean in Stack reads all rows"),
        (lambda: Stack(*sages(), between=lambda x: x / len(x)), "len in Stack reads all rows, or how many there are"),
        (lambda: Stack(*sages(), between=lambda x: torch.from_numpy(x.detach().numpy())), "numpy in Stack reads all rows"),
        (lambda: GraphSAGE(WIDTH, 5, 2, CLASSES, jk="cat"), "cat in JumpingKnowledge reads rows of different layers"),
        (lambda: GraphSAGE(WIDTH, 5, 2, CLASSES, norm="batch"), "batch_norm in BatchNorm1d reads all rows"),
        (lambda: GraphSAGE(WIDTH, 5, 2, CLASSES, norm="graph_norm"), "GraphNorm reads all rows"),
        (lambda: Stack(SAGEConv(WIDTH, 5), Foreign(), SAGEConv(5, CLASSES)), "in TAGConv reads"),
        (
            lambda: Stack(*sages(), between=lambda x: Twice.apply(x)),
            "mean in Stack reads rows without their gradients",
        ),
    ],
)
def test_a_model_that_reads_all_rows_gives_all_and_says_why_once(
    model: Any, why: str, batch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plain, seeds = twins(model())
    for _ in range(3):
        assert len(same(plain, seeds, batch.x, batch.edge_index)) == len(batch.x)
    (told,) = reasons(caplog)
    assert re.search(why, told), told


class Foreign(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = TAGConv(5, 5, K=2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.conv(x, edge_index)
        return out


class Twice(torch.autograd.Function):
    """Code of which torch's functions see only the inside; it reads all rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x + x.mean(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad + grad.mean(0)


def test_a_result_of_code_outside_of_torch_is_not_taken_for_rows(batch: Any) -> None:
    class Ends(Stack):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out: Tensor = Twice.apply(super().forward(x, edge_index))
            return out

    assert len(same(*twins(Ends(*sages())), batch.x, batch.edge_index)) == len(batch.x)


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: batch.edge_index.clone(),
        lambda batch: add_self_loops(batch.edge_index)[0],
        lambda batch: batch.edge_index.flip(1),
        lambda batch: batch.edge_index[:, :-5],
        lambda batch: graph(1).edge_index % len(batch.x),
    ],
)
def test_edges_that_are_not_those_of_the_batch_give_all_rows(change: Any, batch: Any) -> None:
    assert len(same(*twins(Stack(*sages())), batch.x, change(batch))) == len(batch.x)


def test_edges_that_were_changed_in_place_give_all_rows() -> None:
    batch = batch_of(graph())
    batch.edge_index[0, -1] = 0
    assert len(same(*twins(Stack(*sages())), batch.x, batch.edge_index)) == len(batch.x)


@pytest.mark.parametrize(
    "options",
    [
        {"replace": True},
        {"disjoint": True},
        {"subgraph_type": "bidirectional"},
        {"pad": "bound"},
        {"transform": lambda batch: batch},
        {"num_workers": 2, "run": "processes"},
        {"num_workers": 2, "run": "threads"},
    ],
)
def test_batches_of_any_kind(options: dict[str, Any]) -> None:
    loader = halohop.NeighborLoader(graph(), [3, 2, 2], **({"batch_size": SEEDS, "num_workers": 0} | options))
    plain, seeds = twins(Stack(*sages()))
    for batch in loader:
        number = int(batch.batch_size)
        found = same(plain, seeds, batch.x, batch.edge_index, number=number)
        if "subgraph_type" not in options:
            assert len(found) < len(batch.x) - number


def test_batches_of_links() -> None:
    loader = halohop.LinkNeighborLoader(
        graph(), [3, 2], batch_size=SEEDS, edge_label_index=graph().edge_index[:, :40], neg_sampling="binary", num_workers=0
    )
    plain, seeds = twins(Stack(*sages(2)))
    for batch in loader:
        number = int(batch.edge_label_index.max()) + 1
        assert len(same(plain, seeds, batch.x, batch.edge_index, number=number)) == number


@pytest.mark.parametrize("copied", [lambda b: b.to("cpu"), lambda b: b.contiguous(), lambda b: b.to("meta")])
def test_a_batch_that_pyg_copies_keeps_its_seeds(copied: Any) -> None:
    from halohop.sampling.lists import AROUND

    batch = copied(batch_of(graph()))
    known = AROUND.of(batch.edge_index)
    assert known is not None
    assert known[1].counts == {"node": SEEDS}
    assert batch.num_sampled_edges == batch_of(graph()).num_sampled_edges
    assert type(copy.deepcopy(batch).num_sampled_edges[0]) is int


def test_copies_and_files_of_a_model_give_the_same_rows(batch: Any) -> None:
    seeds = fuse(GraphSAGE(WIDTH, 5, 2, CLASSES), rows="seeds")
    file = io.BytesIO()
    torch.save(seeds, file)
    file.seek(0)
    expected = seeds(batch.x, batch.edge_index)
    for other in (copy.deepcopy(seeds), copy.copy(seeds), torch.load(file, weights_only=False)):
        assert isinstance(other, GraphSAGE)
        torch.testing.assert_close(other(batch.x, batch.edge_index), expected)
        assert other.state_dict().keys() == GraphSAGE(WIDTH, 5, 2, CLASSES).state_dict().keys()


def test_training_and_evaluation_are_told_apart(batch: Any, caplog: pytest.LogCaptureFixture) -> None:
    seeds = fuse(GraphSAGE(WIDTH, 5, 2, CLASSES, norm="batch"), rows="seeds")
    assert len(seeds(batch.x, batch.edge_index)) == len(batch.x)
    plain = copy.deepcopy(seeds.eval())
    assert len(seeds(batch.x, batch.edge_index)) == SEEDS
    assert int(plain.norms[0].module.num_batches_tracked) == 1
    assert len(reasons(caplog)) == 1


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_is_slow_and_right(reentrant: bool, batch: Any) -> None:
    class Checkpointed(Stack):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            x = self.convs[0](x, edge_index).relu()
            out: Tensor = checkpoint(self.convs[1], x, edge_index, use_reentrant=reentrant)
            return out

    plain, seeds = twins(Checkpointed(*sages(2)))
    results = []
    for model in (plain, seeds):
        out = model(batch.x, batch.edge_index)
        out[:SEEDS].sum().backward()
        results.append((out[:SEEDS], *(parameter.grad for parameter in model.parameters())))
    torch.testing.assert_close(results[0], results[1])


def test_a_compiled_model_gives_all_rows(batch: Any) -> None:
    plain, seeds = twins(Stack(*sages(2)))
    compiled = torch.compile(seeds, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(batch.x, batch.edge_index), plain(batch.x, batch.edge_index))


def test_an_error_of_the_model_is_its_own(batch: Any) -> None:
    seeds = fuse(Stack(SAGEConv(WIDTH, 5), SAGEConv(4, CLASSES)), rows="seeds")
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied|mat1 and mat2"):
        seeds(batch.x, batch.edge_index)


def test_what_cannot_give_seeds_is_refused() -> None:
    with pytest.raises(InputError, match="rows='some'; give 'seeds'"):
        fuse(Stack(*sages()), rows="some")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a ModuleList is not called itself"):
        fuse(nn.ModuleList(sages()), rows="seeds")


def test_a_model_that_is_fused_without_rows_says_once_that_there_is_more(batch: Any, caplog: pytest.LogCaptureFixture) -> None:
    from halohop.nn import layer

    layer._tell_of_rows.cache_clear()
    caplog.set_level(logging.WARNING)
    model = fuse(Stack(*sages()))
    for _ in range(2):
        assert len(model(batch.x, batch.edge_index)) == len(batch.x)
    assert [record.getMessage() for record in caplog.records].count(
        "a fused model computes all rows of its batches; fuse(model, rows='seeds') computes those that the seeds need"
    ) == 1


# ---- several types


def typed() -> HeteroData:
    made = torch.Generator().manual_seed(0)
    data = HeteroData()
    for name, number in (("paper", 100), ("author", 60), ("place", 20)):
        data[name].x = torch.randn(number, WIDTH, generator=made)
    for src, name, dst, number in (
        ("author", "writes", "paper", 400),
        ("paper", "rev_writes", "author", 400),
        ("paper", "cites", "paper", 300),
        ("author", "of", "place", 60),
        ("place", "has", "author", 60),
    ):
        sizes = torch.tensor([[data[src].num_nodes], [data[dst].num_nodes]])
        data[src, name, dst].edge_index = torch.randint(0, 1 << 20, (2, number), generator=made) % sizes
    return data


@pytest.fixture(scope="module")
def typed_batch() -> Any:
    return batch_of(typed(), [3, 2], input_nodes="paper")


class Typed(nn.Module):
    def __init__(self, relations: list[Any], make: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(HeteroConv({relation: make() for relation in relations}) for _ in range(2))

    def forward(self, x: dict[str, Tensor], edge_index: dict[Any, Tensor]) -> Tensor:
        for conv in self.convs:
            x = {name: rows.relu() for name, rows in conv(x, edge_index).items()}
        return x["paper"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SAGEConv(WIDTH, WIDTH),
        lambda: GraphConv(WIDTH, WIDTH),
        lambda: GATv2Conv(WIDTH, WIDTH, add_self_loops=False),
    ],
)
def test_layers_of_relations(make: Any, typed_batch: Any) -> None:
    plain, seeds = twins(Typed(typed_batch.edge_types, make))
    assert len(same(plain, seeds, typed_batch.x_dict, typed_batch.edge_index_dict)) == SEEDS


def test_models_that_pyg_makes_typed(typed_batch: Any) -> None:
    plain = to_hetero(GraphSAGE(WIDTH, 5, 2, CLASSES), typed_batch.metadata())
    seeds = fuse(to_hetero(GraphSAGE(WIDTH, 5, 2, CLASSES), typed_batch.metadata()), rows="seeds")
    seeds.load_state_dict(plain.state_dict())
    found = seeds(typed_batch.x_dict, typed_batch.edge_index_dict)
    expected = plain(typed_batch.x_dict, typed_batch.edge_index_dict)
    assert len(found["paper"]) == SEEDS
    torch.testing.assert_close(found["paper"], expected["paper"][:SEEDS])


def test_hgt(typed_batch: Any) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(HGTConv(WIDTH, WIDTH, typed_batch.metadata(), heads=2) for _ in range(2))

        def forward(self, x: dict[str, Tensor], edge_index: dict[Any, Tensor]) -> Tensor:
            for conv in self.convs:
                x = conv(x, edge_index)
            return x["paper"]

    assert len(same(*twins(Two()), typed_batch.x_dict, typed_batch.edge_index_dict)) == SEEDS


# ---- where batches and models come from


def test_batches_that_servers_make(tmp_path: Path) -> None:
    halohop.partition(graph(), tmp_path / "parts", num_parts=2, method="random")
    with halohop.serve(tmp_path / "parts", token=TOKEN) as server, halohop.connect([server.address], token=TOKEN) as there:
        batch = batch_of(there)
        assert len(same(*twins(Stack(*sages())), batch.x, batch.edge_index)) == SEEDS


def test_gradients_under_ddp(batch: Any) -> None:
    plain, seeds = twins(Stack(*sages()))
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        assert len(same(plain, DistributedDataParallel(seeds), batch.x, batch.edge_index)) == SEEDS
    finally:
        torch.distributed.destroy_process_group()


def test_batches_that_are_made_in_inference_mode() -> None:
    """Nobody counts what is written to their edges, so all rows are given."""
    plain, seeds = twins(Stack(*sages()))
    with torch.inference_mode():
        batch = batch_of(graph())
        found = seeds(batch.x, batch.edge_index)
        torch.testing.assert_close(found, plain(batch.x, batch.edge_index))


# ---- models that would be wrong if only torch's functions between layers were looked at


class Centered(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class OnlyForward(torch.autograd.Function):
    """Its gradient reads all rows, its result does not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * (grad - grad.mean(0))


class Hidden(Stack):
    """What a strategy of a user does after the first layer."""

    def __init__(self, hide: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__(*sages(2))
        self.hide, self.step, self.kept = hide, 0, torch.zeros(5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.step += 1
        out: Tensor = self.convs[1](self.hide(self, self.convs[0](x, edge_index)), edge_index)
        return out


def caught(model: Any, x: Tensor) -> Tensor:
    try:
        return x - x.mean(0)
    except Exception:
        return x


def remembered(model: Any, x: Tensor) -> Tensor:
    before, model.kept = model.kept, x.detach()
    return x + before.mean(0)


def added_to(model: Any, x: Tensor) -> Tensor:
    total = torch.zeros(5)
    total.add_(nn.Parameter(x.detach()).mean(0))
    return x + total


HIDDEN = [
    caught,
    remembered,
    added_to,
    lambda model, x: OnlyForward.apply(x),
    lambda model, x: x * nn.Parameter(x.detach()).shape[0],
    lambda model, x: x + torch.vmap(torch.mean, in_dims=1)(x.detach()),
    lambda model, x: x - x.mean(0) if model.step > 2 else x,
    lambda model, x: x / model.step,
    lambda model, x: Centered()(x),
]


@pytest.mark.parametrize("hide", HIDDEN)
def test_what_is_hidden_in_a_model_changes_no_result(hide: Any) -> None:
    plain, seeds = twins(Hidden(hide))
    for batch in halohop.NeighborLoader(graph(), [3, 2], batch_size=SEEDS, num_workers=0):
        same(plain, seeds, batch.x, batch.edge_index, number=int(batch.batch_size))


def test_modules_in_a_layer_are_followed(batch: Any) -> None:
    inner = nn.Sequential(nn.Linear(WIDTH, 5), Centered(), nn.Linear(5, CLASSES))
    assert len(same(*twins(Stack(GINConv(inner))), batch.x, batch.edge_index)) == len(batch.x)
    inner = nn.Sequential(nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, CLASSES))
    assert len(same(*twins(Stack(GINConv(inner))), batch.x, batch.edge_index)) == SEEDS


def test_hooks_in_a_layer_are_kept(batch: Any) -> None:
    def centered(module: nn.Module, inputs: Any, out: Tensor) -> Tensor:
        return out - out.mean(0)

    conv = SAGEConv(WIDTH, CLASSES)
    conv.lin_l.register_forward_hook(centered)
    assert len(same(*twins(Stack(conv)), batch.x, batch.edge_index)) == len(batch.x)


def test_a_layer_that_is_left_out_later_leaves_the_seeds_rows(batch: Any) -> None:
    class Deep(Stack):
        deep = True

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            x = self.convs[0](x, edge_index)
            out: Tensor = self.convs[1](x, edge_index) if self.deep else x
            return out

    plain, seeds = twins(Deep(SAGEConv(WIDTH, 5), SAGEConv(5, 5)))
    for deep in (True, False, True):
        plain.deep = seeds.deep = deep  # type: ignore[assignment]
        assert len(same(plain, seeds, batch.x, batch.edge_index)) == SEEDS


def test_a_model_goes_through_a_batch_once(batch: Any) -> None:
    seeds: Any = fuse(Hidden(lambda model, x: x), rows="seeds")
    for number in range(3):
        assert len(seeds(batch.x, batch.edge_index)) == SEEDS
        assert seeds.step == number + 1


def test_results_of_several_parts(batch: Any) -> None:
    class Parts(Stack):
        def forward(self, x: Tensor, edge_index: Tensor) -> Any:
            first = self.convs[0](x, edge_index)
            return {"first": first, "both": (first * 2, self.convs[1](first, edge_index)), "number": 3}

    plain, seeds = twins(Parts(*sages(2)))
    for _ in range(2):
        expected, found = plain(batch.x, batch.edge_index), seeds(batch.x, batch.edge_index)
        torch.testing.assert_close(found["first"], expected["first"][:SEEDS])
        torch.testing.assert_close(found["both"][1], expected["both"][1][:SEEDS])
        assert found["number"] == 3


def test_models_in_models(batch: Any) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Stack(*sages())

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            out = self.inner(x, edge_index)
            return out - out.mean(0)

    plain, seeds = twins(Outer())
    fuse(seeds.inner, rows="seeds")  # type: ignore[arg-type]
    assert len(same(plain, seeds, batch.x, batch.edge_index)) == len(batch.x)


def test_pygs_sequential(batch: Any) -> None:
    layers = [(SAGEConv(WIDTH, 5), "x, edge_index -> x"), nn.ReLU(), (SAGEConv(5, CLASSES), "x, edge_index -> x")]
    plain = Sequential("x, edge_index", layers)
    seeds = fuse(copy.deepcopy(plain), rows="seeds")
    torch.testing.assert_close(seeds(batch.x, batch.edge_index), plain(batch.x, batch.edge_index)[:SEEDS])
