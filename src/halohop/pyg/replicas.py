"""`halohop.add_replicas`: each partition gets copies of what its batches need most of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from halohop.access.dealing import dealt
from halohop.access.estimates import Method, check_method
from halohop.access.replicas import CopyReport, Room, copy_nodes, make_replicas, remove_replicas
from halohop.cluster.graph import Graph, local_graph
from halohop.cluster.holding import Holding
from halohop.errors import InputError
from halohop.flags import checks_flags
from halohop.loading.locality import Locality
from halohop.memory import parse_size
from halohop.pyg.inputs import InputNodes, fanouts_of, seed_dataset
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import check_columns
from halohop.store.draw import Rules
from halohop.typing import NodeType, Relation, relation_text


@checks_flags
@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What each partition copies of the others: rows, and perhaps lists, of the nodes that its batches need most.

    Args:
        fanouts: neighbours per hop, or a dict with such a list per relation, as `num_neighbors` of the loaders.
        batch_size: seeds of a batch.
        ratio: how many nodes are copied, as a share of what a partition owns in the mean; or:
        memory: how much the copies of a partition take, in bytes or as a text such as "4GB". Give one of the two.
        seeds: the nodes that batches are about, as `input_nodes` of the loaders.
        locality: from which seeds a partition's batches are made, see `halohop.placement.hotness`.
        lists: whether the lists of the copied nodes are copied, too: they are then sampled without asking their owners.
        method, replace, weight_attr, epochs, seed: how it is found out what batches need, see `halohop.placement.hotness`.

    Raises:
        InputError: neither or both of ratio and memory, or a number or method that cannot be.
    """

    fanouts: Sequence[int] | Mapping[Relation, Sequence[int]]
    batch_size: int
    ratio: float | None = None
    memory: int | str | None = None
    seeds: InputNodes = "train"
    locality: Locality = "owner"
    lists: bool = False
    method: Method = "vip"
    replace: bool = False
    weight_attr: str | None = None
    epochs: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_method(self.method)
        room_of(self)


def room_of(replicas: Replicas) -> Room:
    """What the copies may take.

    Raises:
        InputError: neither or both of ratio and memory, or a number that is not positive.
    """
    return Room(ratio=replicas.ratio, memory=None if replicas.memory is None else parse_size(replicas.memory))


def add_replicas(path: str | Path, replicas: Replicas | Sequence[Mapping[NodeType, Tensor]] | None) -> tuple[CopyReport, ...]:
    """Gives each partition copies of what its batches need most of the others; public as `halohop.add_replicas`.

    `halohop.open` and `halohop.serve` use them by themselves: rows that are copied are not asked of other hosts, and batches stay
    the same, bit by bit. The data set gets a new manifest, so copy the whole folder to its hosts again, or do this before it is
    copied. Processes that have it open go on with what they have mapped.

    Args:
        path: a data set, all of whose partitions are here.
        replicas: what is copied: of the nodes that batches need most so many, or per partition the ids (integers ``[n]``) of the
            nodes whose rows it copies, by type; its own are left out. None removes the copies that there are.

    Returns:
        Per partition, what was copied, and how many remote rows a batch is expected to need without the copies and with them.

    Raises:
        InputError: a partition is missing, options that do not fit the graph, or ids for another number of partitions.
        SchemaError, IdError: ids of a type or of nodes that the graph does not have.
        DatasetError: the folder is no complete, healthy data set.
        WriteError: the disk is full, or cannot be written; the data set is what it was.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), folder + "/parts", num_parts=2, method="random")
        ...     reports = add_replicas(folder + "/parts", Replicas(fanouts=[5, 3], batch_size=16, ratio=0.5))
        >>> len(reports), reports[0].remote_rows_left < reports[0].remote_rows
        (2, True)
    """
    path = Path(path).resolve()
    holding = Holding.to_change(path, "copies are made")
    if replicas is None:
        remove_replicas(path, holding.manifest)
        return ()
    with local_graph(holding.manifest.schema, holding.book, holding.parts) as graph:
        if not isinstance(replicas, Replicas):
            return copy_nodes(path, holding, graph, _located(replicas, graph))
        rules = Rules(replace=replicas.replace, weight=replicas.weight_attr)
        fanouts, seeds = fanouts_of(replicas.fanouts, graph.schema), seed_dataset(graph, replicas.seeds)
        check_columns(graph, rules, fanouts.sampled)
        deals = dealt(graph, seeds.node_type, seeds.gid, batch_size=replicas.batch_size, locality=replicas.locality)
        return make_replicas(
            path,
            holding,
            graph,
            deals,
            fanouts,
            rules,
            room=room_of(replicas),
            lists=replicas.lists,
            method=replicas.method,
            epochs=replicas.epochs,
            seed=replicas.seed,
            made=_described(replicas, fanouts),
        )


def _located(nodes: Sequence[Mapping[NodeType, Tensor]], graph: Graph) -> list[dict[NodeType, Tensor]]:
    """The gids of the nodes that a user names for each partition."""
    if len(nodes) != graph.book.num_parts:
        raise InputError(f"nodes to copy are given for {len(nodes)} partitions, and there are {graph.book.num_parts}; give all")
    return [{name: graph.locate(ids, name) for name, ids in wanted.items()} for wanted in nodes]


def _described(replicas: Replicas, fanouts: Fanouts) -> dict[str, Any]:
    """The options as the manifest keeps them."""
    seeds = replicas.seeds if isinstance(replicas.seeds, str) else "given" if replicas.seeds is not None else "all"
    plain = ("batch_size", "ratio", "memory", "locality", "lists", "method", "replace", "weight_attr", "epochs", "seed")
    spelled = {relation_text(relation): numbers for relation, numbers in fanouts.per_relation.items()}
    return {"fanouts": spelled, "seeds": seeds, **{name: getattr(replicas, name) for name in plain}}
