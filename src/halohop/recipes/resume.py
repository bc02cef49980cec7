"""How a run goes on after it was interrupted: all that its next step depends on, in one file without pickled code.

Rank 0 writes and reads the file; the other ranks get it from there. It holds the model, the best one so far, the optimizer, the
loader's place, every rank's random state (of dropout), and the counters. Vectors that nodes learn are saved by their owners, and
the file says where. What was saved before stays until the new file is complete.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
import torch
from torch import Tensor, nn

from halohop.collectives import from_rank_0, gather_rows
from halohop.errors import CorruptDatasetError, InputError, VersionMismatchError
from halohop.files import read_sealed, sealed_file, writing
from halohop.recipes.checkpoint import tensors_of
from halohop.recipes.config import to_dict
from halohop.recipes.folder import find_change
from halohop.recipes.names import CHECKPOINT, STATE
from halohop.recipes.task import Loader, Score, Setting
from halohop.recipes.vector_files import VectorFiles, forget_vectors
from halohop.recipes.vector_tables import VectorTables

FORMAT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What an unfinished epoch has come to, over all ranks.

    Args:
        step: steps done.
        losses, known: sum of the losses, and of how many examples.
        seconds: since its begin, without those between an interruption and the resumption.
        spent: what the loader counted, for these steps.
    """

    step: int = 0
    losses: float = 0.0
    known: float = 0.0
    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run is.

    Args:
        epoch: finished epochs.
        part: of the next one.
        best: the best score so far; None: none yet.
        best_epoch: where it was; 0: nowhere.
        stale: validations since then.
        edges: sampled in finished epochs.
        seconds: since the begin, without interruptions.
    """

    epoch: int = 0
    part: Part = field(default_factory=Part)
    best: Score | None = None
    best_epoch: int = 0
    stale: int = 0
    edges: int = 0
    seconds: float = 0.0

    def steps(self, per_epoch: int) -> int:
        """All that were done, where an epoch has so many."""
        return self.epoch * per_epoch + self.part.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What `Keeper.restore` found: how far the run was, the best model, and the bytes of its event log.

    Args:
        best_state, best_vectors: weights of the best model, and its vectors in the checkpoint's folder.
    """

    progress: RunProgress
    best_state: dict[str, Tensor]
    best_vectors: tuple[VectorFiles, ...]
    log_bytes: int


def write_state(state: dict[str, Any], stream: IO[bytes]) -> None:
    """Plain values and tensors, no code."""
    torch.save(state, stream)


def read_state(setting: Setting) -> dict[str, Any]:
    """What the run in the folder has saved; all ranks call this.

    Raises:
        InputError: nothing was saved there.
        VersionMismatchError: written by another version of the format.
        CorruptDatasetError: the file is damaged.
    """
    data, file = b"", Path(setting.config.out) / STATE
    if setting.world.rank == 0:
        if not file.exists():
            raise InputError(f"there is no {file} to go on from; begin the run without resuming it")
        data = read_sealed(file)
    values = tensors_of(from_rank_0(data, setting.device, setting.world), file)
    if values.get("format") != FORMAT:
        raise VersionMismatchError(f"{file} is not of format {FORMAT}, which this halohop reads; train again")
    return values


class Keeper:
    """Writes down where a run stands, and brings another one there.

    Args:
        setting: of the run.
        model, optimizer, loader, vectors: of this rank.
    """

    def __init__(
        self, setting: Setting, model: nn.Module, optimizer: torch.optim.Optimizer, loader: Loader, vectors: VectorTables
    ) -> None:
        self._config, self._world, self._device = setting.config, setting.world, setting.device
        self._graph = {name: spec.count for name, spec in setting.graph.schema.nodes.items()}
        self._graph |= {" ".join(name): spec.count for name, spec in setting.graph.schema.edges.items()}
        self._model, self._optimizer, self._loader, self._vectors = model, optimizer, loader, vectors
        self._path = Path(self._config.out) / STATE

    def save(self, saved: Saved) -> None:
        """Writes the state; all ranks call it after the same step."""
        states = [gather_rows(state[None], self._device, self._world) for state in self._random()]
        if self._world.rank != 0:
            return
        with writing(self._path.parent):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "format": FORMAT,
            "config": to_dict(self._config),
            "ranks": self._world.size,
            "graph": self._graph,
            "progress": msgspec.to_builtins(saved.progress),
            "loader": self._loader.state_dict(),
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "vectors": self._vectors.save(self._path.parent, saved.progress.steps(len(self._loader))),
            "best_state": saved.best_state,
            "best_vectors": msgspec.to_builtins(saved.best_vectors),
            "log_bytes": saved.log_bytes,
            "random": states,
        }
        with sealed_file(self._path) as stream:
            write_state(state, stream)
        self._vectors.forget_others(self._path.parent, state["vectors"])
        forget_vectors(self._path.parent / CHECKPOINT, saved.best_vectors)

    def restore(self, state: dict[str, Any]) -> Saved:
        """Brings model, optimizer, loader and random numbers to where they were; all ranks call it.

        Raises:
            InputError: it was saved by a run whose batches or whose steps are others.
            CorruptDatasetError: the state is not complete.
            DatasetError: the vectors that nodes had learned cannot be read.
        """
        self._check(state)
        self._vectors.load(self._path.parent, state["vectors"])
        try:
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state_dict(state["optimizer"])
            self._loader.load_state_dict(state["loader"])
            self._set_random([rows[self._world.rank].clone() for rows in state["random"]])  # torch reads past an offset: a copy
            progress = msgspec.convert(state["progress"], RunProgress)
            best_vectors = msgspec.convert(state["best_vectors"], tuple[VectorFiles, ...])
        except (KeyError, IndexError, RuntimeError, msgspec.ValidationError) as error:
            raise CorruptDatasetError(f"{self._path} holds no complete state of this run: {error}; train again") from error
        return Saved(progress=progress, best_state=state["best_state"], best_vectors=best_vectors, log_bytes=state["log_bytes"])

    def _check(self, state: dict[str, Any]) -> None:
        if state["ranks"] != self._world.size:
            raise InputError(
                f"{self._path} was saved by {state['ranks']} trainers, here are {self._world.size}: each step would have other "
                f"batches; resume with {state['ranks']}, on as many hosts as you like"
            )
        if (name := find_change(self._config, state["config"])) is not None:
            raise InputError(
                f"{name}={to_dict(self._config)[name]!r}, but the run in {self._path.parent} has "
                f"{name}={state['config'][name]!r}, and would be another one with this; leave it out, or begin a new run in "
                "another folder"
            )
        if state["graph"] != self._graph:
            raise InputError(f"{self._config.parts} is not the graph of {self._path}: {self._graph} now, {state['graph']} then")

    def _random(self) -> list[Tensor]:
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    def _set_random(self, states: list[Tensor]) -> None:
        torch.set_rng_state(states[0])
        if self._device.type == "cuda" and len(states) > 1:
            torch.cuda.set_rng_state(states[1], self._device)
