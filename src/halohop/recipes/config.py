"""What a run does: every choice by name, checked before anything starts, and the same as JSON."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from halohop.errors import DatasetError, InputError
from halohop.files import decode_json, read_regular
from halohop.recipes.checks import (
    check_at_least,
    check_choices,
    check_copy,
    check_fanout,
    check_paths,
    check_positive,
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
ResultForm = Literal["npy", "parquet"]
Config = TypeVar("Config", "TrainConfig", "InferConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """A training run: nodes are classified, or edges predicted.

    Args:
        parts: folder of the partitioned graph; on a host of several, of its own partitions. Or the addresses of servers that
            hold it (`halohop.serve`), ``HOST:PORT,HOST:PORT``: then nothing of the graph need be here, and batches are the same.
        out: folder of the run: ``metrics.jsonl`` and ``checkpoint/``. Only rank 0 writes there.
        copy_to: URL to which rank 0 copies the state, the checkpoint and the events whenever they are saved, besides; None: none.
        task: "node" or "link".
        model: "sage", "gcn", "gat" (one node type, one relation), "rgcn", "hgt" (several of them), or "auto": sage or rgcn.
        target: node type to classify; None takes the one that has labels and a split "train".
        fanout: neighbours per hop and relation; the model has a layer per hop. -1 takes all.
        hidden: width of the layers. heads: of "gat" and "hgt". bases: matrices that the relations of "rgcn" share.
        dropout: probability; None takes 0.5 for nodes, and none for links, where it hides which of two nodes are alike.
        embed_dim: width of the vectors that nodes of types without features learn; None: `hidden`.
        lr, weight_decay: of Adam, which trains the model's weights.
        embed_optimizer: trains these vectors where they lie, with the partitions: "adam" (`halohop.optim.SparseAdam`), "adagrad",
            "rowwise-adagrad" or "sgd". Without weight decay.
        embed_lr: its learning rate; None: `lr`.
        epochs: at most so many.
        batch_size: seeds per trainer and step: nodes, or edges without their negatives.
        locality: from where the seeds of a training batch are, as of the loaders: from the whole graph ("none"), from one block
            of it ("blocks"), or from one partition ("owner").
        eval_every: epochs from one validation to the next.
        eval_fanout: as `fanout`, for validation and test; None computes all nodes a layer at a time, from all neighbours, or
            draws the training fanout, whichever costs less (see `halohop.inference.in_memory`).
        eval_batch_size: seeds per trainer and step of validation and test.
        patience: validations without a better result before the run stops; 0 never stops early.
        seed: of weights, dropout, shuffle and draws.
        workers: threads that make batches; None takes the trainer's share of the cores, at most four.
        backlog_bytes: what the batches that a trainer has made ahead may weigh together; None: `halohop.memory.spare_bytes`.
        device: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1".
        mode, feature_cache: have batches made on the GPU, see `halohop.open`; None, None: on the CPU, and moved.
        amp: losses are computed in bfloat16 where that is exact enough (`torch.autocast`); weights stay float32.
        compile: training steps are compiled (`torch.compile`), and their batches padded to one shape; see
            `halohop.recipes.compiling`. Validation and test are not.
        deadline_s: seconds that a trainer waits for the others, and for servers that have not started yet, before it gives up.
        cache: bytes that a trainer may take for rows of other hosts, "auto", or None: none. See `halohop.open`.
        memory: bytes of a host's memory that its mapped partitions may take; None: half of what is available. See `halohop.open`.
        hot_memory: bytes that a trainer may take for copies of the rows on disk that are read most; None: none.
        sampling: who makes the batches of a graph on servers: these ("servers"), or the trainer, hop by hop ("client").
        token_file: holds the secret that hosts and servers share; None takes the environment's HALOHOP_TOKEN.
        encrypt: between hosts, and to servers; they do too where HALOHOP_ENCRYPT is 1.
        log_every: steps from one "step" event to the next; 0 gives none.
        save_every: steps from one resumable state to the next; the end of every epoch saves one, too. 0: only there.
        overwrite: begin anew where `out` holds a run, which is lost.
        resume: go on with the run in `out` from the last state that it saved, as if it had never been interrupted. The number of
            trainers and what decides the batches must be as they were (see `halohop.recipes.resume`).
        metrics: ``HOST:PORT`` where Prometheus can read what the loader counts, PORT plus its local rank for each trainer of a
            host; None: nowhere.
        relation: of the edges to predict, its three names; None takes the only one there is. This and what follows: of links.
        decoder: from two nodes' vectors to the score of an edge; see `halohop.recipes.decoders`.
        negatives: random destinations for the source of each edge to learn.
        eval_negatives: random destinations among which that of an edge is ranked; the same in every validation.
        strict_negatives: no negative is an edge of the graph.
        exclude_seed_edges: do not show a model the edges that it is asked about, nor their reverses. With times only the past of
            an edge is shown, and its own moment is not part of it.
        time_attr: column of the edges' times: the model sees what came before, and edges without masks are split by time.
        temporal_strategy: of the past, random edges ("uniform") or the last ones.

    Raises:
        InputError: a value that cannot work.

    Example:
        >>> TrainConfig(parts="parts", out="run", fanout=(15, 10, 5)).layers
        3
    """

    parts: str
    out: str
    copy_to: str | None = None
    task: TaskName = "node"
    model: ModelName = "auto"
    target: str | None = None
    fanout: tuple[int, ...] = (15, 10)
    hidden: int = 64
    heads: int = 4
    bases: int = 30
    dropout: float | None = None
    embed_dim: int | None = None
    lr: float = 0.01
    weight_decay: float = 0.0
    embed_optimizer: EmbedOptimizer = "adam"
    embed_lr: float | None = None
    epochs: int = 20
    batch_size: int = 256
    locality: Locality = "none"
    eval_every: int = 1
    eval_fanout: tuple[int, ...] | None = None
    eval_batch_size: int = 1024
    patience: int = 10
    seed: int = 0
    workers: int | None = None
    backlog_bytes: int | None = None
    cache: int | str | None = "auto"
    memory: int | None = None
    hot_memory: int | None = None
    device: str = "auto"
    mode: GraphMode | None = None
    feature_cache: str | None = None
    amp: bool = False
    compile: bool = False
    deadline_s: float = 300.0
    sampling: Sampling = "servers"
    token_file: str | None = None
    encrypt: bool = False
    log_every: int = 10
    save_every: int = 0
    overwrite: bool = False
    resume: bool = False
    metrics: str | None = None
    relation: tuple[str, ...] | None = None
    decoder: DecoderName = "dot"
    negatives: int = 1
    eval_negatives: int = 20
    strict_negatives: bool = False
    exclude_seed_edges: bool = True
    time_attr: str | None = None
    temporal_strategy: TemporalStrategy = "last"

    def __post_init__(self) -> None:
        check_paths(parts=self.parts, out=self.out)
        check_copy(self.copy_to)
        check_choices(self, task=TaskName, model=ModelName, decoder=DecoderName, temporal_strategy=TemporalStrategy)
        check_choices(self, sampling=Sampling, locality=Locality, embed_optimizer=EmbedOptimizer)
        check_fanout("fanout", self.fanout)
        if self.eval_fanout is not None:
            check_fanout("eval_fanout", self.eval_fanout)
            if len(self.eval_fanout) != self.layers:
                raise InputError(
                    f"eval_fanout={self.eval_fanout} has another number of hops than fanout={self.fanout}; "
                    "the model has one layer per hop"
                )
        names = (
            "hidden",
            "heads",
            "bases",
            "epochs",
            "batch_size",
            "eval_every",
            "eval_batch_size",
            "negatives",
            "eval_negatives",
        )
        check_at_least(1, **{name: getattr(self, name) for name in names})
        check_at_least(0, seed=self.seed, patience=self.patience, workers=self.workers or 0, weight_decay=self.weight_decay)
        check_at_least(0, log_every=self.log_every, save_every=self.save_every, backlog_bytes=self.backlog_bytes or 0)
        if isinstance(self.cache, int):
            check_at_least(1, cache=self.cache)
        if self.mode is not None:
            check_choices(self, mode=GraphMode)
        check_at_least(0, memory=self.memory or 0, hot_memory=self.hot_memory or 0)
        if self.embed_dim is not None:
            check_at_least(1, embed_dim=self.embed_dim)
        check_positive(lr=self.lr, embed_lr=self.lr if self.embed_lr is None else self.embed_lr, deadline_s=self.deadline_s)
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

    Args:
        parts: folder of the partitioned graph, as in `TrainConfig`; servers of it only with a `fanout`.
        checkpoint: folder that training wrote, ``<run>/checkpoint``; None where `infer` is given a model.
        out: folder for the results, which rank 0 writes; every host keeps its share of an unfinished run there. With a
            `fanout` all ranks must see the same one.
        split: a stored split; None predicts every node of the model's node type.
        target: node type that gets vectors, of a model that predicts links; None takes its edges' destinations.
        form: "npy" (``raw_ids.npy``, ``predictions.npy``, ...) or "parquet" (``predictions.parquet``).
        embeddings: write the last hidden layer of every node too.
        fanout: neighbours per hop, drawn for each batch. None takes all, and computes each layer once for every node; where
            a split is a small part of a large graph, batches with all neighbours, -1 per hop, may be quicker.
        batch_size: nodes per trainer and step.
        batch_edges: in-edges per trainer and step, where no `fanout` is given.
        seed: of the draws, where not all neighbours are taken.
        overwrite: replace results that are in `out`.
        workers, device, deadline_s, sampling, token_file, encrypt: as in `TrainConfig`.

    Raises:
        InputError: a value that cannot work.
    """

    parts: str
    checkpoint: str | None
    out: str
    split: str | None = None
    target: str | None = None
    form: ResultForm = "npy"
    embeddings: bool = False
    fanout: tuple[int, ...] | None = None
    batch_size: int = 1024
    batch_edges: int = 131_072
    seed: int = 0
    overwrite: bool = False
    workers: int | None = None
    device: str = "auto"
    deadline_s: float = 300.0
    sampling: Sampling = "servers"
    token_file: str | None = None
    encrypt: bool = False

    def __post_init__(self) -> None:
        check_paths(parts=self.parts, out=self.out, **{} if self.checkpoint is None else {"checkpoint": self.checkpoint})
        check_choices(self, form=ResultForm, sampling=Sampling)
        if self.fanout is None and servers_of(self.parts):
            raise InputError(
                f"servers ({self.parts}) do not compute layer by layer: that is done by the hosts that have the partitions; give "
                "a fanout, such as -1 for each of the model's layers for all neighbours, or run where a folder of them lies"
            )
        if self.fanout is not None:
            check_fanout("fanout", self.fanout)
        check_at_least(1, batch_size=self.batch_size, batch_edges=self.batch_edges)
        check_at_least(0, seed=self.seed, workers=self.workers or 0)
        check_positive(deadline_s=self.deadline_s)


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
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{kind.__name__}: {error}") from error


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
