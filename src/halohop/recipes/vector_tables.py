"""Learned vectors while a model learns them: tables of the graph, trained where they lie by an optimiser of `halohop.optim`.

Their names are of this run alone, and it drops them when it is over. Rank 0 reads the vectors of a model that is to be kept, and
writes them beside its weights; so a checkpoint is whole in one place, wherever the tables are.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import halohop
from halohop import optim
from halohop.collectives import from_rank_0, max_over_ranks
from halohop.errors import InputError, RemoteError
from halohop.recipes.checks import servers_of
from halohop.recipes.names import TABLES
from halohop.recipes.task import Setting
from halohop.recipes.vector_files import StoredVectors, VectorFiles, write_vectors
from halohop.recipes.vectors import LearnedVectors, learned_vectors
from halohop.typing import NodeType

ROWS = 65_536
"""Vectors that are in memory at a time while they are kept."""

_OPTIMIZERS = {
    "adam": optim.SparseAdam,
    "adagrad": optim.SparseAdagrad,
    "rowwise-adagrad": optim.RowwiseAdagrad,
    "sgd": optim.SparseSGD,
}


class VectorTables:
    """The tables of a run; none where all node types have features.

    Args:
        setting: of the run.
        model: whose vectors they are.
        token: names the run among all that use the same servers; None makes one. All ranks call this.
    """

    def __init__(self, setting: Setting, model: nn.Module, token: str | None = None) -> None:
        self._setting, self._graph, self._world = setting, setting.graph, setting.world
        self._vectors = learned_vectors(model)
        self._tables: dict[NodeType, halohop.DistEmbedding] = {}
        self.optimizers: list[torch.optim.Optimizer] = []
        self._unsaved = ""
        self.token = ""
        if not self._vectors:
            return
        self._check_copies()
        drawn = from_rank_0(secrets.token_hex(4).encode(), setting.device, setting.world)
        self.token = drawn.decode() if token is None else token
        self._tables = {vectors.node_type: self._made(number, vectors) for number, vectors in enumerate(self._vectors.values())}
        for node_type, vectors in self._vectors.items():
            vectors.lie_in(self._tables[node_type])
        config = setting.config
        lr = config.lr if config.embed_lr is None else config.embed_lr
        kind = _OPTIMIZERS[config.embed_optimizer]
        self.optimizers.append(kind(list(self._tables.values()), lr=lr, world=setting.world, timeout=config.deadline_s))

    def _made(self, number: int, vectors: LearnedVectors) -> halohop.DistEmbedding:
        node_type = vectors.node_type
        return halohop.DistEmbedding(
            self._graph,
            None,
            vectors.width,
            f"vectors-{self.token}-{number}",
            replace(halohop.init.xavier_uniform(), name=node_type),
            node_type=node_type,
            seed=self._setting.config.seed,
        )

    def _check_copies(self) -> None:
        config, hosts = self._setting.config, self._world.num_hosts
        if config.copy_to is not None and hosts > 1 and not servers_of(config.parts):
            raise InputError(
                f"copy_to={config.copy_to!r} gets what rank 0 has, but nodes without features learn vectors, which each of the "
                f"{hosts} hosts keeps for its own nodes; write the run into a folder, and copy it from all hosts"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tables."""
        return tuple(embedding.name for embedding in self._tables.values())

    def write(self, folder: Path, epoch: int) -> tuple[VectorFiles, ...]:
        """Writes the vectors as they are into a checkpoint's folder; on rank 0 alone, while the others make no step.

        Raises:
            WriteError: a file cannot be written; names it.
        """
        written = []
        for number, (node_type, vectors) in enumerate(self._vectors.items()):
            stem = f"epoch-{epoch}.{number}"
            files = VectorFiles(node_type=node_type, ids=f"{stem}.ids.npy", rows=f"{stem}.rows.npy")
            gid, raw = self._graph.select(None, node_type)
            write_vectors(folder, files, raw, vectors.width, self._rows_of(node_type, gid))
            written.append(files)
        return tuple(written)

    @torch.no_grad()
    def _rows_of(self, node_type: NodeType, gid: Tensor) -> Iterator[Tensor]:
        for some in gid.split(ROWS):
            yield self._tables[node_type](gid=some)

    def read(self, folder: Path, files: Sequence[VectorFiles]) -> None:
        """Writes what `write` has written back into the tables; all ranks call this, and rank 0 has the folder."""
        for of in files if self._world.rank == 0 else ():
            stored = StoredVectors(folder, of, self._vectors[of.node_type].width)
            gid, _ = self._graph.select(None, of.node_type)
            name = self._tables[of.node_type].name
            for some, rows in zip(gid.split(ROWS), stored.rows.split(ROWS), strict=True):
                self._graph.tables.write(name, some, rows)
        max_over_ranks(0, self._setting.device, self._world)  # all read the same now

    def save(self, folder: Path, step: int) -> dict[str, Any]:
        """Has the owners save tables and optimisers beside what they saved before; on rank 0, while the others make no step.

        Args:
            folder: of the run, on every host that owns tables.
            step: steps of the run so far.

        Returns:
            What `load` needs: plain values.

        Raises:
            InputError: servers name no folder for tables, or one in which the run's does not lie, and ``config.save_every`` asks
                for states to go on from.
            WriteError: a file cannot be written; names it.
        """
        if self._tables and not self._unsaved:
            self._save(folder / TABLES, step)
        optimizers = [optimizer.state_dict() for optimizer in self.optimizers]
        return {"token": self.token, "step": step, "unsaved": self._unsaved, "optimizers": optimizers}

    def _save(self, folder: Path, step: int) -> None:
        config = self._setting.config
        try:
            self._graph.tables.save(folder, step=step, names=self.names, keep_others=True)
        except (InputError, RemoteError) as error:
            if step or config.save_every or not servers_of(config.parts):
                raise
            self._unsaved = str(error).splitlines()[0]  # the servers write nothing; who wants to resume the run hears why not

    def forget_others(self, folder: Path, state: dict[str, Any]) -> None:
        """Removes what was saved before; on rank 0 alone."""
        if self._tables and not self._unsaved:
            self._graph.tables.forget_checkpoints(folder / TABLES, but=state["step"])

    def load(self, folder: Path, state: dict[str, Any]) -> None:
        """Brings tables and optimisers to where they were saved; all ranks call this.

        Raises:
            InputError: nothing was saved, or it is not there, or of another step.
            DatasetError: it was changed.
        """
        if state["unsaved"]:
            raise InputError(
                f"{folder} holds no vectors to go on with: the run's servers could not save them ({state['unsaved']}); start "
                "them with a folder for tables (tables=, --tables FOLDER) in which the run's folder lies, and begin again"
            )
        if self._tables and self._world.rank == 0:
            self._graph.tables.load(folder / TABLES, step=state["step"], names=self.names)
        max_over_ranks(0, self._setting.device, self._world)  # all read the same now
        for optimizer, of in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(of)

    def drop(self) -> None:
        """Forgets the tables, when no rank reads them any more."""
        for name in self.names if self._world.rank == 0 else ():
            self._graph.tables.drop(name)
