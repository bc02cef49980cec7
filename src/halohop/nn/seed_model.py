"""Models that give one row for each seed of a batch, and compute no others that these do not need."""

import copyreg
import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import nn

from halohop.nn.seed_run import CURRENT, RowsMissingError, SeedRun, is_checkpointed
from halohop.ops.pool import layer_pool

_LOG = logging.getLogger(__name__)


_FOLLOWED: ContextVar[bool] = ContextVar("halohop_followed", default=False)
"""Whether a model is in a forward pass, and with it all models that it is made of."""


class SeedModel(nn.Module):
    """What the class of a model is derived from, before its own.

    The first forward pass in training, and the first in evaluation, computes all rows and learns how many layers follow one
    another, and whether rows may be left out (`SeedRun`). One that is stopped later is made again with all rows, as are those
    after it.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives: one row for each seed, or all rows."""
        whole: Callable[..., Any] = self.__dict__.get("_forward_of_instance") or super().forward
        if torch.compiler.is_compiling() or _FOLLOWED.get() or is_checkpointed():
            return whole(*args, **kwargs)
        token = _FOLLOWED.set(True)
        try:
            return self._followed(whole, args, kwargs)
        finally:
            _FOLLOWED.reset(token)

    def _followed(self, whole: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # How many layers follow one another, by whether it trains; 0 if all rows are needed.
        learned: dict[bool, int] = self.__dict__.setdefault("_seed_layers", {})
        layers = learned.get(self.training)
        if layers == 0:
            return whole(*args, **kwargs)
        if self.__dict__.pop("_learned_now", False):
            layer_pool().trim()  # no later pass takes the memory of all rows
        run, drawn = SeedRun(layers, self, (args, kwargs)), torch.get_rng_state()
        token, why = CURRENT.set(run), ""
        try:
            with run:
                out = whole(*args, **kwargs)
            out = run.result(out, self)
        except Exception as error:
            if layers is None:
                raise
            why = str(error) if isinstance(error, RowsMissingError) else f"{type(error).__name__}: {error}"
        finally:
            CURRENT.reset(token)
        why = run.stopped or why
        if why and layers is not None:
            torch.set_rng_state(drawn)
            out = whole(*args, **kwargs)  # it raises the error again if all rows do not help
        if why:
            _LOG.warning("%s gives all rows, as without rows='seeds': %s", type(self).__name__, why)
        if why or run.reached:
            learned[self.training] = 0 if why else max(run.reached, layers or 0)
            if layers is None:
                self.__dict__["_learned_now"] = True
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        make, args, *state = reduced
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            args = (type(self).__mro__[2], *args[1:])
        return _made_again, (make, args), *state


def give_seeds(model: Any) -> Any:
    """The same model; its class is changed in place."""
    if not isinstance(model, SeedModel):
        model.__class__ = _derived(type(model))  # type: ignore[arg-type]
        if "forward" in model.__dict__:  # as of PyG's `Sequential`
            model.__dict__["_forward_of_instance"] = model.__dict__.pop("forward")
    return model


def _made_again(make: Callable[..., nn.Module], args: tuple[Any, ...]) -> Any:
    return give_seeds(make(*args))


@cache
def _derived(kind: type[nn.Module]) -> type[nn.Module]:
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (SeedModel, kind), names)
