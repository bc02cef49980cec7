"""Compiled steps (`torch.compile`): batches are padded to one shape, of which torch makes one program.

What a model reads of a batch (lists of edges, vectors that nodes learn) is found outside of the program; within it layers
aggregate over these lists by the same kernels as without.

Finding the lists inside would break the program, because it sorts and drops edges, so that sizes depend on data. For the same
reason attention layers keep self-edges, with a score of minus infinity. The price: `BatchModel.read` is not compiled.
"""

from typing import Any

import torch
from torch import nn

from halohop.errors import InputError
from halohop.recipes.models import BatchModel
from halohop.recipes.task import Setting
from halohop.records import Padding

BACKEND = "inductor"
"""What torch makes programs with."""


class CompiledModel(nn.Module):
    """A model that is compiled once for each shape of batches that it sees; it has the model's own parameters.

    After as many shapes as torch allows (``torch._dynamo.config.recompile_limit``) it runs as the model does.
    """

    def __init__(self, model: BatchModel) -> None:
        super().__init__()
        self.model = model
        self._program = torch.compile(model.compute, backend=BACKEND, dynamic=False)

    def forward(self, batch: Any) -> Any:
        return self._program(self.model.read(batch))


def check_compiler(device: torch.device) -> None:
    """Whether programs can be made for a device: a small one is.

    Raises:
        InputError: there is no compiler, or it does not work; says why.
    """
    try:
        torch.compile(_small, backend=BACKEND, dynamic=False)(torch.zeros(2, device=device))
    except Exception as error:  # whatever a compiler raises
        needed = "a C++ compiler (g++, or the one that CXX names)" if device.type == "cpu" else "Triton and a C compiler"
        why = str(error).partition("\n")[0]
        raise InputError(
            f"--compile needs {needed}, which does not work here ({why}); install it, or leave --compile out"
        ) from error


def _small(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() + 1).sum()


def padding_of(setting: Setting) -> Padding | None:
    """How training batches are padded; None: they are not.

    Where a GPU draws all neighbours, "bound" lets the host wait for none of their numbers. But with several relations, each of
    which may fill all places, or all neighbours the bound is far above what batches have; elsewhere nobody gains by it.
    """
    config, graph = setting.config, setting.graph
    if not config.compile:
        return None
    drawn = config.mode in ("cuda", "zero_copy") and config.task == "node" and setting.world.num_hosts == 1
    few = graph.schema.has_one_relation and min(config.fanout) >= 0
    return Padding(caps="bound" if drawn and few else "measured")
