"""Options that are True or False: bools of Python, NumPy and torch, 0 and 1; anything else is refused by its name."""

import dataclasses
import importlib
import inspect

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError
from halohop.flags import FLAGS, checks_flags, flag
from halohop.store.draw import Rules
from tests.golden.parts.signatures import public_names

WRONG = ["False", "no", "", 2, -1, 1.0, [], [True], np.array([True, False]), torch.ones(2), b"1"]
RIGHT = [True, 1, np.True_, np.int8(1), torch.tensor(True), torch.tensor([1])]
NAMES = [name for name in public_names() if not name.startswith("nn.")]


def graph() -> Data:
    torch.manual_seed(0)
    return Data(edge_index=torch.randint(50, (2, 400)), x=torch.randn(50, 2), num_nodes=50)


LOADERS = {
    "nodes": lambda **how: halohop.NeighborLoader(graph(), [3, 2], torch.arange(20), batch_size=8, **how),
    "links": lambda **how: halohop.LinkNeighborLoader(graph(), [3, 2], neg_sampling="binary", batch_size=8, **how),
    "subgraphs": lambda **how: halohop.SubGraphLoader(graph(), [3], torch.arange(20), batch_size=8, **how),
    "clusters": lambda **how: halohop.ClusterLoader(graph(), 4, **how),
    "PPR": lambda **how: halohop.PPRLoader(graph(), 5, torch.arange(20), **how),
    "SAINT": lambda **how: halohop.GraphSAINTNodeSampler(graph(), 20, **how),
    "walks": lambda **how: halohop.GraphSAINTRandomWalkSampler(graph(), 20, walk_length=2, **how),
    "function": lambda **how: halohop.FunctionLoader(graph(), lambda draws, seeds: seeds, torch.arange(20), **how),
    "sampler": lambda **how: halohop.HalohopSampler(graph(), [3], **how),
}
OF_ALL = ("own_seeds", "shuffle", "drop_last", "pin_memory", "persistent_workers", "in_order")
OF_SAMPLED = (*OF_ALL, "gids", "is_sorted", "filter_per_worker")
OF_DRAWN = ("replace", "disjoint", "directed", "layer_dependency", "toward_seeds")
OPTIONS = {
    "nodes": OF_SAMPLED + OF_DRAWN,
    "links": (*OF_SAMPLED, *OF_DRAWN, "strict_negatives", "exclude_seed_edges"),
    "subgraphs": ("replace", "drop_last", "gids"),
    "clusters": OF_SAMPLED,
    "PPR": OF_SAMPLED,
    "SAINT": (*OF_SAMPLED, "log"),
    "walks": ("log", "gids", "shuffle"),
    "function": OF_ALL,
    "sampler": OF_DRAWN,
}


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_what_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(InputError, match=r"^replace=.* is neither True nor False; give one of them"):
        flag(value, "replace")


@pytest.mark.parametrize("value", RIGHT, ids=repr)
def test_what_is_meant_as_true_is_true(value):
    assert flag(value, "replace") is True
    assert flag(False if value is True else value ^ value, "replace") is False


def test_none_is_for_options_that_have_it():
    assert flag(None, "shuffle", bool | None) is None
    assert flag("auto", "run", str) == "auto"
    with pytest.raises(InputError, match="drop_last=None"):
        flag(None, "drop_last")


def test_parameters_by_position_and_by_name():
    @checks_flags
    def asked(first: int, second: bool = False, *, third: bool | None = None, **others: object) -> tuple[object, ...]:
        return first, second, third, others

    assert asked(5, np.True_, third=0, more="no") == (5, True, False, {"more": "no"})
    assert asked("no") == ("no", False, None, {})
    for given, named in (((1, "no"), {}), ((1,), {"second": "no"}), ((1,), {"third": "no"})):
        with pytest.raises(InputError, match=r"'no' is neither"):
            asked(*given, **named)
    with pytest.raises(TypeError):
        asked(1, True, 3)


@pytest.mark.parametrize(("loader", "option"), [(loader, option) for loader, options in OPTIONS.items() for option in options])
def test_every_bool_option_of_every_loader_is_checked(loader, option):
    with pytest.raises(InputError, match=rf"^{option}='no' is neither True nor False"):
        LOADERS[loader](**{option: "no"})


@pytest.mark.parametrize(
    ("option", "value"), [("replace", np.True_), ("disjoint", 1), ("directed", 0), ("toward_seeds", torch.tensor(1))]
)
def test_what_is_nearly_a_bool_draws_as_a_bool_does(option, value):
    odd, plain = (LOADERS["nodes"](**{option: given}) for given in (value, bool(value)))
    assert odd._sampler.rules == plain._sampler.rules
    assert all(type(getattr(odd._sampler.rules, one.name)) is bool for one in dataclasses.fields(Rules) if one.type is bool)
    assert next(iter(odd)).n_id.tolist() == next(iter(plain)).n_id.tolist()


def test_every_public_function_checks_its_bool_options():
    found, unchecked = 0, set()
    for name in NAMES:
        module, _, own = f"halohop.{name}".rpartition(".")
        try:
            asked = getattr(importlib.import_module(module), own)
        except ImportError:
            continue
        call = asked.__init__ if dataclasses.is_dataclass(asked) else asked
        if inspect.isfunction(call) and any(one.annotation in FLAGS for one in inspect.signature(call).parameters.values()):
            found += 1
            unchecked |= {name} if call.__code__.co_name != "checked" else set()
    assert not unchecked
    assert found > 12
