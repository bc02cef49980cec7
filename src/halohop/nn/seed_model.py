"""Models that give one row for each seed of a batch, and compute no others that these do not need."""

import copyreg
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from halohop.nn.layer import ListedConv
from halohop.nn.seed_run import CURRENT, MoreLayersError, RowsMissingError, SeedRun

_LOG = logging.getLogger(__name__)


class SeedModel(nn.Module):
    """What the class of a model is derived from, before its own.

    A forward pass is followed (`SeedRun`). Where rows that were left out would count, or where it fails, it is made again with
    all rows, and so are those after it. Training and evaluation are told apart.
    """

    _seed_layers: dict[bool, int | None]
    """How many layers follow one another, in training and in evaluation; None if all rows are needed."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model gives: one row for each seed, or all rows."""
        whole: Callable[..., Any] = super().forward
        if torch.compiler.is_compiling() or CURRENT.get() is not None:
            return whole(*args, **kwargs)
        layers = self._seed_layers.get(self.training, sum(isinstance(module, ListedConv) for module in self.modules()))
        why = "a batch norm in training reads all rows" if layers and _has_batch_norm(self) else ""
        while layers and not why:
            run = SeedRun(layers, self, (args, kwargs))
            token = CURRENT.set(run)
            try:
                with run:
                    out = whole(*args, **kwargs)
                run.check_result(out)
            except MoreLayersError:
                layers = 2 * layers
                continue
            except Exception as error:  # it is raised again if all rows do not help
                why = str(error) if isinstance(error, RowsMissingError) else f"{type(error).__name__}: {error}"
                break
            finally:
                CURRENT.reset(token)
            settled = self._seed_layers.get(self.training) == layers
            if run.reached:
                self._seed_layers[self.training] = max(run.reached, layers if settled else 0)
            if settled or run.reached in (0, layers):
                return out
            layers = run.reached
        out = whole(*args, **kwargs)
        if why:
            self._seed_layers[self.training] = None
            _LOG.warning("%s gives all rows, as without rows='seeds': %s", type(self).__name__, why)
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = super().__reduce_ex__(protocol)
        make, args, *state = reduced
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            args = (type(self).__mro__[2], *args[1:])
        return _made_again, (make, args), *state


def give_seeds(model: nn.Module) -> None:
    """Changes a model's class in place."""
    if not isinstance(model, SeedModel):
        model.__class__ = _derived(type(model))  # type: ignore[arg-type]
        model.__dict__["_seed_layers"] = {}


def _made_again(make: Callable[..., nn.Module], args: tuple[Any, ...]) -> nn.Module:
    model = make(*args)
    model.__class__ = _derived(type(model))  # type: ignore[arg-type]
    return model


@cache
def _derived(kind: type[nn.Module]) -> type[nn.Module]:
    names = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (SeedModel, kind), names)


def _has_batch_norm(model: nn.Module) -> bool:
    """Whether a part of it counts the batches that it has seen; others are found when they read the rows."""
    return any(isinstance(module, _NormBase) and module.training for module in model.modules())
