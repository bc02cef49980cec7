"""The loaders' arguments: where PyG has them, with PyG's defaults, and each spelled once."""

import inspect
from inspect import Parameter

import numpy as np
import pytest
import torch
import torch_geometric.loader
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError
from halohop.loading.base import BaseLoader
from halohop.loading.loader import BatchLoader
from halohop.loading.options import LoaderArguments
from halohop.pyg.arguments import BatchArguments, DrawArguments, NeighborArguments, chosen, rules_of
from halohop.store.draw import Rules

AS_PYG = ("NeighborLoader", "LinkNeighborLoader", "HGTLoader")


def parameters(home, name: str) -> dict[str, Parameter]:
    return dict(inspect.signature(getattr(home, name)).parameters)


def graph() -> Data:
    return Data(
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]),
        edge_weight=torch.tensor([1.0, 2.0, 3.0, 4.0]),
        when=torch.tensor([1, 2, 3, 4]),
        num_nodes=4,
    )


@pytest.mark.parametrize("name", AS_PYG)
def test_pygs_arguments_have_pygs_places_and_defaults(name):
    ours, theirs = parameters(halohop, name), parameters(torch_geometric.loader, name)
    theirs.pop("kwargs")
    assert list(ours)[: len(theirs)] == list(theirs)
    for argument, parameter in theirs.items():
        assert ours[argument].kind is parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
        if parameter.default is not Parameter.empty:
            assert ours[argument].default == parameter.default, argument


@pytest.mark.parametrize("name", AS_PYG)
def test_the_rest_is_given_by_name(name):
    ours, theirs = parameters(halohop, name), parameters(torch_geometric.loader, name)
    more = [parameter for argument, parameter in ours.items() if argument not in theirs]
    assert {parameter.kind for parameter in more} == {Parameter.KEYWORD_ONLY}
    assert {"seed", "pad", "input_id"} <= {parameter.name for parameter in more}
    assert {"batch_size", "shuffle", "num_workers", "locality", "layout", "run"} <= ours.keys()
    assert "kwargs" not in ours


@pytest.mark.parametrize("name", [*AS_PYG, "PPRLoader", "ClusterLoader"])
def test_help_explains_every_written_out_argument(name):
    kind = getattr(halohop, name)
    about, known = inspect.getdoc(kind.__init__), DrawArguments.__annotations__ | BatchArguments.__annotations__
    written = [argument for argument in parameters(halohop, name) if argument in known.keys() - {"generator", "sampler"}]
    assert written
    for argument in written:
        assert f"\n    {argument}: " in about


def test_arguments_by_position_are_those_by_name():
    data, nodes = graph(), torch.tensor([0, 1])
    by_place = halohop.NeighborLoader(
        data, [2], nodes, None, True, "induced", True, "uniform", None, "edge_weight", None, None, True, None, None, False
    )
    by_name = halohop.NeighborLoader(
        data,
        [2],
        input_nodes=nodes,
        replace=True,
        subgraph_type="induced",
        disjoint=True,
        weight_attr="edge_weight",
        directed=False,
    )
    assert by_place._sampler.rules == by_name._sampler.rules
    assert by_place._sampler.rules == Rules(replace=True, subgraph="induced", disjoint=True, weight="edge_weight")


def test_arguments_of_links_by_position_are_those_by_name():
    data, ends = graph(), torch.tensor([[0, 1], [1, 2]])
    times = torch.tensor([3, 3])
    by_place = halohop.LinkNeighborLoader(
        data, [2], ends, None, times, False, "directional", True, "last", "binary", None, "when"
    )
    by_name = halohop.LinkNeighborLoader(
        data, [2], ends, edge_label_time=times, disjoint=True, temporal_strategy="last", neg_sampling="binary", time_attr="when"
    )
    assert by_place._sampler.rules == by_name._sampler.rules == Rules(disjoint=True, time="when", last=True)
    assert by_place.neg_sampling.is_binary()
    assert by_name.neg_sampling.is_binary()


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "num_neighbors"),
        (([2],), {"replaced": True}, "replaced"),
        (([2], None, None, True), {"replace": True}, "multiple values"),
        (([2], *[None] * 20), {}, "too many positional"),
    ],
)
def test_calls_that_do_not_fit_the_signature(args, kwargs, problem):
    with pytest.raises(TypeError, match=problem):
        halohop.NeighborLoader(graph(), *args, **kwargs)


def test_a_sampler_takes_no_other_keyword():
    with pytest.raises(TypeError, match="batch_size"):
        halohop.HalohopSampler(graph(), [2], batch_size=3)


def test_a_subclass_hands_arguments_on():
    class Own(halohop.NeighborLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, method="labor", **kwargs)

    loader = Own(graph(), [2], torch.tensor([1]), None, False, "directional", True)
    assert loader._sampler.rules == Rules(labor=True, disjoint=True)


def test_every_drawing_argument_reaches_the_rules():
    """One that is spelled, but forgotten in `rules_of`, would change nothing."""
    others = {
        "replace": True,
        "subgraph_type": "induced",
        "disjoint": True,
        "temporal_strategy": "last",
        "time_attr": "when",
        "time_window": 3,
        "weight_attr": "weight",
        "directed": False,
        "expand": "all",
        "method": "labor",
        "layer_dependency": True,
        "toward_seeds": True,
    }
    assert set(others) == set(DrawArguments.__annotations__)
    needs = {
        "temporal_strategy": {"time_attr": "when"},
        "time_window": {"time_attr": "when"},
        "layer_dependency": {"method": "labor"},
    }
    for name, value in others.items():
        base = needs.get(name, {})
        assert rules_of(base | {name: value}) != rules_of(base), name
    assert rules_of({}) == Rules()


@pytest.mark.parametrize("window", [np.int64(3), np.float64(2.5), torch.tensor(3), torch.tensor([2.5])[0]])
def test_a_window_is_a_number_that_can_be_sent(window):
    """Servers and other hosts get the rules; NumPy and torch have numbers that cannot be sent."""
    rules = rules_of({"time_attr": "when", "time_window": window})
    assert rules.time_window == float(window)
    assert type(rules.time_window) in (int, float)


def test_a_loaders_sampler_draws_by_the_loaders_rules():
    data = graph()
    for drawn in ({"replace": True, "directed": False}, {"time_attr": "when", "temporal_strategy": "last"}, {"method": "labor"}):
        loader = halohop.NeighborLoader(data, [2], input_time=torch.tensor([5] * 4) if "time_attr" in drawn else None, **drawn)
        assert rules_of(vars(loader.node_sampler)) == loader._sampler.rules
    assert (loader.node_sampler.disjoint, loader.node_sampler.subgraph_type) == (False, "directional")


def test_the_types_of_a_loaders_keywords_are_those_of_the_loader():
    """`LoaderArguments` is for type checkers; `BaseLoader` and `BatchLoader` have the defaults."""
    homes = ((halohop.loading.base, "BaseLoader"), (halohop.loading.loader, "BatchLoader"))
    own = {name for home in homes for name, it in parameters(*home).items() if it.kind is Parameter.KEYWORD_ONLY}
    assert set(LoaderArguments.__annotations__) == own - {"seed", "sampler_of_seeds", "generator"}
    hints = inspect.get_annotations(BaseLoader.__init__) | inspect.get_annotations(BatchLoader.__init__)
    assert {name: hints[name] for name in LoaderArguments.__annotations__} == inspect.get_annotations(LoaderArguments)


def test_chosen_leaves_what_is_of_another_kind():
    assert chosen(DrawArguments, {"replace": True, "batch_size": 3}) == chosen(DrawArguments, {}) | {"replace": True}
    assert "batch_size" in NeighborArguments.__annotations__


def test_a_sampler_of_pygs_is_refused():
    with pytest.raises(InputError, match="neighbor_sampler is for PyG's own loaders"):
        halohop.NeighborLoader(graph(), [2], neighbor_sampler=halohop.HalohopSampler(graph(), [2]))
    with pytest.raises(TypeError, match="neighbor_sampler"):
        halohop.HGTLoader(graph(), [2], neighbor_sampler=None)
