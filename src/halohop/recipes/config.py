"""What a run does: every choice by name, checked before anything starts, and the same as JSON."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from halohop.errors import DatasetError, InputError
from halohop.files import decode_json, read_regular, validate
from halohop.recipes.checks import (
    Bytes,
    CacheSize,
    Count,
    Natural,
    NonNegative,
    Positive,
    Seconds,
    SizeText,
    check_copy,
    check_fanout,
    check_fields,
    check_paths,
    servers_of,
)

TaskName = Literal["node", "link"]
ModelName = Literal["auto", "sage", "gcn", "gat", "rgcn", "hgt"]
DecoderName = Literal["dot", "mlp", "distmult"]
TemporalStrategy = Literal["uniform", "last"]
Sampling = Literal["servers", "client"]
EmbedOptimizer = Literal["adam", "adagrad", "rowwise-adagrad", "sgd"]
Locality = Literal["none", "blocks", "owner"]
GraphMode = Literal["cpu", "zero_copy", "cuda"]
Resume = bool | Literal["auto"]
ResultForm = Literal["npy", "parquet"]
Config = TypeVar("Config", "TrainConfig", "InferConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """A training run: nodes are classified, or edges predicted.

    The fields are the options of `halohop train`. Its help shows each text up to "Details:", with "None:" as the default.

    Args:
        parts: Folder of a partitioned graph, or addresses of servers of one: ``HOST:PORT,HOST:PORT``. Details: if several hosts
            hold the graph, the folder of this host's own partitions. With servers (`halohop.serve`) no file of the graph is
            needed here, and batches are the same.
        out: Folder of the run. Details: it gets ``metrics.jsonl`` and ``checkpoint/``. Only rank 0 writes there.
        copy_to: URL to which rank 0 copies the state, the checkpoint and the events whenever they are saved. None: no copies.
        log_every: Steps between "step" events. 0 is never.
        task: Classify nodes, or predict links.
        model: auto is sage, or rgcn for several relations. Details: sage, gcn and gat are for one node type and one relation,
            rgcn and hgt for several.
        target: Node type to classify. None: the one with labels. Details: these need a split "train".
        fanout: Neighbors per hop and relation. -1 is all. The model has a layer per hop.
        hidden: Channels of the hidden layers.
        embed_dim: Width of learned embeddings, for node types without features. None: as `hidden`.
        heads: Attention heads of gat and hgt.
        bases: Basis matrices shared by the relations of rgcn.
        dropout: Dropout probability. None: 0.5, or 0 for links. Details: with links it would hide which of two nodes are alike.
        relation: Edges to predict. None: the only one. Details: three names. This and the fields up to
            `temporal_strategy` are for links.
        decoder: How to score a pair of node embeddings. Details: see `halohop.recipes.decoders`.
        negatives: Random destinations per edge in training.
        eval_negatives: Random destinations to rank each edge against in evaluation. Details: they are the same in each
            validation.
        strict_negatives: Use only pairs without an edge as negatives.
        exclude_seed_edges: Hide the seed edges from the model. Details: their reverses are hidden, too. With times, the model
            sees only the past of an edge, without its own time.
        time_attr: Edge times. The model then sees only what came before an edge. Details: a column of the edges. Edges without
            masks are split by time.
        temporal_strategy: Sample random or the most recent earlier edges.
        epochs: Maximum passes over the training nodes or edges.
        batch_size: Seeds per step and trainer. Details: nodes, or edges without their negatives.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam. Details: learned embeddings have none.
        embed_optimizer: Optimizer of learned embeddings. Details: it runs where the embeddings are stored, with the partitions;
            "adam" is `halohop.optim.SparseAdam`.
        embed_lr: Learning rate of learned embeddings. None: as `lr`.
        locality: Take the seeds of a batch from the whole graph, one block, or one partition.
        seed: Random seed. The same seed gives the same batches on any number of nodes. Details: for weights, dropout, the order
            of seeds, and sampling.
        eval_every: Validate every N epochs.
        eval_fanout: Neighbors per hop in evaluation. None: layer by layer or as `fanout`, whichever is cheaper. Details: layer by
            layer computes all nodes from all neighbors (see `halohop.inference.in_memory`).
        eval_batch_size: Nodes per step and trainer. Details: for validation and test.
        patience: Stop after N validations without a better result. 0 never stops early.
        workers: Loader threads per trainer. None: its share of the cores. Details: at most four.
        backlog_bytes: Memory per trainer for prefetched batches, such as 512MiB. None: 1/16 of its memory, up to 4GiB. Details:
            in bytes, see `halohop.memory.spare_bytes`.
        cache: Memory per process for cached rows of other hosts, such as 512MiB; or auto, or none. Details: None is none. See
            `halohop.open`.
        memory: Memory of this host for mapped partitions, such as 16GiB. Columns that do not fit are read from disk. None: half
            of the free memory. Details: in bytes, see `halohop.open`.
        hot_memory: Memory per process for copies of the hottest rows on disk, such as 2GiB. None: none. Details: in bytes.
        device: cpu, cuda, cuda:N, or auto: a GPU if there is one.
        mode: Make batches on the GPU. Sample on the CPU, or on the GPU with the graph in host memory (zero_copy) or in GPU memory
            (cuda). None: batches on the CPU. Details: see `halohop.open`.
        feature_cache: GPU memory for the hottest feature rows, such as 4GiB. None: none. Details: see `halohop.open`.
        amp: Train with automatic mixed precision in bfloat16. Details: losses are computed in bfloat16 where that is exact enough
            (`torch.autocast`). Weights stay float32.
        compile: Use `torch.compile` on training steps. Batches are padded. Details: they are padded to one shape, see
            `halohop.recipes.compiling`. Validation and test are not compiled.
        deadline_s: How long to wait for other trainers and servers.
        sampling: Where to sample a graph on servers. Details: the client is the trainer, which samples hop by hop.
        save_every: Also save the run every N steps, not only after each epoch. 0 is never.
        metrics: Address for Prometheus and `halohop top`. Trainer K of a host uses PORT + K. None: none; HOST is 127.0.0.1.
        resume: Continue the run in `out` from the last state that it saved. Details: the result is as if the run had not been
            interrupted. The number of trainers, and what decides the batches, must be the same (see `halohop.recipes.resume`).
            "auto" starts the run if `out` has nothing of it, and refuses another run (see `halohop.recipes.folder`).
        token_file: File with the shared secret. None: HALOHOP_TOKEN in the environment.
        encrypt: Encrypt connections. All processes need it, or HALOHOP_ENCRYPT=1.
        overwrite: Delete the run that is in the folder, and start again.

    Raises:
        InputError: a value that cannot work.

    Example:
        >>> TrainConfig(parts="parts", out="run", fanout=(15, 10, 5)).layers
        3
    """

    parts: str
    out: str
    copy_to: str | None = None
    log_every: Natural = 10
    task: TaskName = "node"
    model: ModelName = "auto"
    target: str | None = None
    fanout: tuple[int, ...] = (15, 10)
    hidden: Count = 64
    embed_dim: Count | None = None
    heads: Count = 4
    bases: Count = 30
    dropout: float | None = None
    relation: tuple[str, ...] | None = None
    decoder: DecoderName = "dot"
    negatives: Count = 1
    eval_negatives: Count = 20
    strict_negatives: bool = False
    exclude_seed_edges: bool = True
    time_attr: str | None = None
    temporal_strategy: TemporalStrategy = "last"
    epochs: Count = 20
    batch_size: Count = 256
    lr: Positive = 0.01
    weight_decay: NonNegative = 0.0
    embed_optimizer: EmbedOptimizer = "adam"
    embed_lr: Positive | None = None
    locality: Locality = "none"
    seed: Natural = 0
    eval_every: Count = 1
    eval_fanout: tuple[int, ...] | None = None
    eval_batch_size: Count = 1024
    patience: Natural = 10
    workers: Natural | None = None
    backlog_bytes: Bytes | None = None
    cache: CacheSize | None = "auto"
    memory: Bytes | None = None
    hot_memory: Bytes | None = None
    device: str = "auto"
    mode: GraphMode | None = None
    feature_cache: SizeText | None = None
    amp: bool = False
    compile: bool = False
    deadline_s: Seconds = 300.0
    sampling: Sampling = "servers"
    save_every: Natural = 0
    metrics: str | None = None
    resume: Resume = False
    token_file: str | None = None
    encrypt: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        check_paths(parts=self.parts, out=self.out)
        check_copy(self.copy_to)
        check_fields(self)
        check_fanout("fanout", self.fanout)
        if self.eval_fanout is not None:
            check_fanout("eval_fanout", self.eval_fanout)
            if len(self.eval_fanout) != self.layers:
                raise InputError(
                    f"eval_fanout={self.eval_fanout} has another number of hops than fanout={self.fanout}; "
                    "the model has one layer per hop"
                )
        if not 0 <= self.dropout_share < 1:
            raise InputError(f"dropout={self.dropout} must be at least 0 and under 1")
        if self.model in ("gat", "hgt") and self.hidden % self.heads:
            raise InputError(f"hidden={self.hidden} must be a multiple of heads={self.heads}: each head gets its share")
        self._check_task()

    def _check_task(self) -> None:
        """Options that mean nothing for the task are refused, rather than passed over."""
        if self.task == "node":
            of_links = {"relation": self.relation, "time_attr": self.time_attr}
        else:
            of_links = {"target": self.target}
            if self.relation is not None and len(self.relation) != 3:
                raise InputError(f"relation={self.relation} must be three names: source type, relation, destination type")
        for name, value in of_links.items():
            if value is not None:
                raise InputError(
                    f"{name}={value!r} means nothing with task={self.task!r}; leave it out, or choose the other task"
                )

    @property
    def layers(self) -> int:
        return len(self.fanout)

    @property
    def dropout_share(self) -> float:
        """The probability of dropout, also where none was given."""
        if self.dropout is None:
            return 0.5 if self.task == "node" else 0.0
        return self.dropout


@dataclass(frozen=True, slots=True, kw_only=True)
class InferConfig:
    """Predictions of a trained model; of one that predicts links, vectors of nodes.

    The fields are the options of `halohop infer`, as those of `TrainConfig` are options of `halohop train`.

    Args:
        parts: Folder of a partitioned graph. With `fanout` also addresses of its servers.
        checkpoint: Folder that training wrote, ``<run>/checkpoint``. None: the model is an argument of `infer`.
        out: Folder for the results. Details: rank 0 writes them. Every host keeps its share of an unfinished run there. With a
            `fanout` all ranks must see the same folder.
        overwrite: Replace existing results.
        form: Write NumPy arrays or a Parquet table. Details: ``raw_ids.npy``, ``predictions.npy`` and others, or
            ``predictions.parquet``.
        split: Predict only the nodes of this split. None: all nodes. Details: it is a split of the model's node type.
        target: Node type to embed with a link model. None: destinations. Details: those of the predicted edges.
        embeddings: Also write the output of the last hidden layer.
        seed: Random seed of `fanout`.
        fanout: Sample neighbors per hop for each batch. -1 is all. None: all, layer by layer. Details: layer by layer computes
            each layer once for all nodes. If a split is a small part of a large graph, -1 per hop may be quicker.
        batch_size: Nodes per step and trainer.
        batch_edges: Edges per step and trainer, without `fanout`.
        workers, device, deadline_s, sampling, token_file, encrypt: As in `TrainConfig`.

    Raises:
        InputError: a value that cannot work.
    """

    parts: str
    checkpoint: str | None
    out: str
    overwrite: bool = False
    form: ResultForm = "npy"
    split: str | None = None
    target: str | None = None
    embeddings: bool = False
    seed: Natural = 0
    fanout: tuple[int, ...] | None = None
    batch_size: Count = 1024
    batch_edges: Count = 131_072
    workers: Natural | None = None
    device: str = "auto"
    deadline_s: Seconds = 300.0
    sampling: Sampling = "servers"
    token_file: str | None = None
    encrypt: bool = False

    def __post_init__(self) -> None:
        check_paths(parts=self.parts, out=self.out, **{} if self.checkpoint is None else {"checkpoint": self.checkpoint})
        check_fields(self)
        if self.fanout is None and servers_of(self.parts):
            raise InputError(
                f"servers ({self.parts}) do not compute layer by layer: that is done by the hosts that have the partitions; give "
                "a fanout, such as -1 for each of the model's layers for all neighbours, or run where a folder of them lies"
            )
        if self.fanout is not None:
            check_fanout("fanout", self.fanout)


def to_dict(config: TrainConfig | InferConfig) -> dict[str, Any]:
    """A config as what JSON can hold."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    return values


def from_dict(kind: type[Config], values: dict[str, Any]) -> Config:
    """The config that `to_dict` came from.

    Raises:
        InputError: an unknown name, a missing one, or a value that cannot work.

    Example:
        >>> config = TrainConfig(parts="parts", out="run")
        >>> from_dict(TrainConfig, to_dict(config)) == config
        True
    """
    known = kind.__dataclass_fields__
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InputError(f"{unknown[0]!r} is no setting of {kind.__name__}; known: {', '.join(known)}")
    return validate(values, kind, kind.__name__)


def read_config(kind: type[Config], path: str | Path) -> Config:
    """A config from its JSON file.

    Raises:
        InputError: no such file, no JSON object, or as `from_dict`.
    """
    try:
        values: Any = decode_json(read_regular(Path(path)), path)
    except (FileNotFoundError, DatasetError) as error:
        raise InputError(str(error)) from error
    if not isinstance(values, dict):
        raise InputError(f"{path} holds no JSON object")
    return from_dict(kind, values)
