"""torch's `Join` for optimisers of tables: a rank whose loader has ended leaves the round.

`Join([model, optimizer])` names the optimiser. `model.join()` of a model in DDP does not, so an optimiser looks for these models
itself, and adds its hook to theirs.
"""

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed.algorithms.join import Joinable, JoinHook
from torch.nn import Module
from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel

from halohop.optim.rank import Rank


class LeaveHook(JoinHook):
    """Leaves the round in which the join began, as soon as this rank is known to have ended while others go on, or when all have
    ended; then meets them. Of several hooks of one join the first does it.

    Args:
        rank: leaves.
        meet: the ranks wait for each other.
    """

    def __init__(self, rank: Rank, meet: Callable[[], None]) -> None:
        self._rank, self._meet, self._round = rank, meet, rank.round

    def main_hook(self) -> None:
        """Called for each step of the others."""
        if self._rank.round == self._round:
            self._rank.leave()

    def post_hook(self, is_last_joiner: bool) -> None:
        """All ranks have ended."""
        self.main_hook()
        if not self._rank.has_met:
            self._meet()


def join_with_models(optimizer: Joinable, rank: Rank) -> None:
    """From now on an optimiser takes part in the join of every DDP model of its ranks, of those that are there and of those that
    are made later, for as long as it lives, its graph is open, and none of its name was made anew.

    torch has no list of models, so those that are there are found once, as objects that refer to their class.
    """
    partner = _Partner(optimizer, rank)

    def registered(module: Module, name: str, submodule: Module | None) -> None:
        if isinstance(module, DistributedDataParallel):
            _add(module, partner)

    handle = register_module_module_registration_hook(registered)
    weakref.finalize(optimizer, handle.remove).atexit = False
    if dist.is_available() and dist.is_initialized():
        # gc.get_objects() would hold tuples that other threads are building, which makes them fail with a SystemError.
        for model in gc.get_referrers(*_with_subclasses(DistributedDataParallel)):
            if isinstance(model, DistributedDataParallel):
                _add(model, partner)


def _with_subclasses(kind: type[Module]) -> Iterator[type[Module]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _with_subclasses(each)


class _Partner:
    """An optimiser, as a model knows it."""

    def __init__(self, optimizer: Joinable, rank: Rank) -> None:
        self.name = rank.name
        self._optimizer, self._rank = weakref.ref(optimizer), weakref.ref(rank)

    @property
    def is_there(self) -> bool:
        return self._optimizer() is not None

    def hooks(self, model: DistributedDataParallel, **kwargs: Any) -> list[JoinHook]:
        """Its hook for a join of the model; none if it has no part in it."""
        optimizer, rank, group = self._optimizer(), self._rank(), model.join_process_group
        if optimizer is None or rank is None or not rank.is_in(dist.get_rank(group), dist.get_world_size(group)):
            return []
        return [optimizer.join_hook(**kwargs)] if optimizer.join_process_group == group else []


class _ModelsHook:
    """What stands as `join_hook` in a model: it makes the model's own hook, and those of optimisers.

    A copy of the model, pickled or not, has its own; optimisers do not go with it.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        self._model = weakref.ref(model)
        self._partners: dict[str, _Partner] = {}

    def add(self, partner: _Partner) -> None:
        """The optimiser takes part from now on."""
        others = {name: one for name, one in self._partners.items() if one.is_there and name != partner.name}
        self._partners = others | {partner.name: partner}

    def __call__(self, **kwargs: Any) -> JoinHook:
        model = self._model()
        assert model is not None  # it holds this
        hooks = [hook for partner in self._partners.values() for hook in partner.hooks(model, **kwargs)]
        return _Hooks([*hooks, type(model).join_hook(model, **kwargs)])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._model(),)


class _Hooks(JoinHook):
    """Several hooks as one. Tables are left before the model waits for the others, which may be in a step of theirs."""

    def __init__(self, hooks: Sequence[JoinHook]) -> None:
        self._hooks = hooks

    def main_hook(self) -> None:
        for hook in self._hooks:
            hook.main_hook()

    def post_hook(self, is_last_joiner: bool) -> None:
        for hook in self._hooks:
            hook.post_hook(is_last_joiner)


def _add(model: DistributedDataParallel, partner: _Partner) -> None:
    hook = model.__dict__.get("join_hook")
    if not isinstance(hook, _ModelsHook):
        hook = model.__dict__["join_hook"] = _ModelsHook(model)
    hook.add(partner)
