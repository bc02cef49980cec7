"""Inference a layer at a time: every stage of a model is computed once for every node, in batches of bounded size.

A host computes the nodes of the partitions that it serves; its trainers share them. In-edges lie with their destination, so they
are here; the sources' rows of the stage before come from wherever they lie, as features do. What comes out of a stage goes to
the disk, chunk by chunk, and is never held in memory as a whole (compare PyG's `BasicGNN.inference`).
"""

import hashlib
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from halohop.cluster.graph import Graph
from halohop.collectives import in_rounds, max_over_ranks, sum_over_ranks
from halohop.files.reading import read_regular
from halohop.inference.edges import Reader
from halohop.inference.job import InferenceJob
from halohop.inference.model import LayeredModel, Neighbours
from halohop.inference.results import UNFINISHED
from halohop.inference.stages import HIDDEN, Chunk, Stage, begin, end
from halohop.net.open import open_graph
from halohop.net.ownership import owners
from halohop.store.disk import held_parts, map_part, read_manifest
from halohop.store.names import MANIFEST
from halohop.store.schema import ColumnSpec
from halohop.typing import NodeType
from halohop.world import World

_BATCHES_PER_CHUNK = 16


class LayerRun:
    """One rank's part in computing all stages of a model.

    Args:
        model: what to compute; its module is moved to `device`.
        graph: whose nodes.
        job: where, the sizes of batches, and who takes part.
    """

    def __init__(self, model: LayeredModel, graph: Graph, job: InferenceJob) -> None:
        self._model, self._graph, self._job = model, graph, job
        self._world, self._device = job.world, job.device
        manifest = read_manifest(job.parts)
        self._num_parts, self._bounds = manifest.num_parts, manifest.node_bounds
        found = held_parts(job.parts, manifest)
        self._parts = dealt(found, self._num_parts, self._world, self._device)
        self._edges = {part: map_part(job.parts, manifest, part).edges for part in self._parts}
        self._work = job.out / UNFINISHED
        model.module.to(self._device).eval()
        self._stages = [
            Stage(self._work, number, self._bounds, columns)
            for number, columns in enumerate(stage_columns(model, graph, self._device))
        ]

    @property
    def columns(self) -> dict[str, ColumnSpec]:
        """The columns of the results."""
        return self._stages[-1].columns[self._model.target]

    @contextmanager
    def results(self) -> Iterator[Graph]:
        """Computes what is still to be computed; gives the last stage as a graph without edges, whose columns are the results.

        What was kept for a later run is deleted when the block ends well.

        Raises:
            InputError: the folder holds an unfinished run of another model, graph or size.
        """
        begin(self._work, self._run())
        for number in range(self._first(), len(self._stages)):
            self._compute(number)
            if number and self._world.local_rank == 0:
                self._stages[number - 1].remove()
        with self._opened(self._stages[-1]) as last:
            yield last
        if self._world.local_rank == 0:
            end(self._work, self._stages)

    def _run(self) -> dict[str, str | int]:
        """What the rows are a function of."""
        return {
            "graph": hashlib.sha256(read_regular(self._job.parts / MANIFEST)).hexdigest(),
            "model": _fingerprint(self._model.module),
            "target": self._model.target,
            "results": ", ".join(self.columns),
            "batch_size": self._job.batch_size,
            "batch_edges": self._job.batch_edges,
            "device": self._device.type,
            "torch": str(torch.__version__),
        }

    def _first(self) -> int:
        """The first stage that is not complete on every host."""
        mine = max((number + 1 for number, stage in enumerate(self._stages) if stage.finished), default=0)
        return -int(max_over_ranks(-mine, self._device, self._world))

    def _compute(self, number: int) -> None:
        stage, world = self._stages[number], self._world
        if world.local_rank == 0:
            stage.reserve(self._parts)
        self._meet()
        done = stage.done()
        chunks = stage.chunks(self._parts, _BATCHES_PER_CHUNK * self._job.batch_size)
        todo = [chunk for chunk in chunks if chunk not in done][world.local_rank :: world.local_size]
        self._meet()  # every rank has read the journals; now they may grow
        with self._opened(self._stages[number - 1]) if number else nullcontext(self._graph) as source:
            name = f"layer {number + 1} of {len(self._stages)}"
            self._rounds(name, self._chunks(number, todo, source), sum(chunk.end - chunk.begin for chunk in todo))
        checksums = [0.0] * stage.num_sums(tuple(range(self._num_parts)))
        parts = self._parts[world.local_rank :: world.local_size]
        self._rounds(
            f"check layer {number + 1}", _filling(checksums, stage.checksums(parts, self._num_parts)), stage.num_sums(parts)
        )
        checksums = sum_over_ranks(checksums, self._device, world)  # each from one rank; float64 holds their 32 bits exactly
        if world.local_rank == 0:
            stage.finish([int(checksum) for checksum in checksums])
        self._meet()

    def _chunks(self, number: int, todo: list[Chunk], source: Graph) -> Generator[int, None, None]:
        """Computes and keeps one chunk after the other; says after each batch how many nodes it had."""
        reader = Reader(
            self._model,
            number,
            source,
            self._edges,
            self._bounds,
            batch_size=self._job.batch_size,
            batch_edges=self._job.batch_edges,
            device=self._device,
        )
        with self._stages[number].journal(self._world.rank) as journal, ThreadPoolExecutor(1, "halohop-rows") as thread:
            for chunk in todo:
                kept: dict[str, list[Tensor]] = {name: [] for name in self._stages[number].columns[chunk.node_type]}
                for x, neighbours in reader.batches(chunk, thread):
                    for name, values in stage_results(self._model, number, chunk.node_type, x, neighbours).items():
                        kept[name].append(values.cpu())
                    yield len(x)
                journal.keep(chunk, {name: torch.cat(values) for name, values in kept.items()})

    def _rounds(self, name: str, work: Generator[int, None, None], total: int) -> None:
        in_rounds(name, work, total, **self._job.ranks)

    def _opened(self, stage: Stage) -> AbstractContextManager[Graph]:
        return open_graph(stage.folder, world=self._world, **self._job.opening)

    def _meet(self) -> None:
        max_over_ranks(0, self._device, self._world)


@torch.no_grad()
def stage_results(
    model: LayeredModel, stage: int, node_type: NodeType, x: Tensor, neighbours: Iterable[Neighbours]
) -> dict[str, Tensor]:
    """What a stage gives nodes: their rows, or after the last stage the results, by the names of their columns."""
    rows = model.rows(stage, node_type, x, neighbours)
    return {HIDDEN: rows} if stage < model.stages - 1 else model.results(rows)


@torch.no_grad()
def stage_columns(model: LayeredModel, graph: Graph, device: torch.device) -> list[dict[NodeType, dict[str, ColumnSpec]]]:
    """Per stage and node type what comes out, found by giving the model one node without edges."""
    rows = {}
    for name in graph.schema.nodes:
        columns = graph.fetch_rows(name, model.columns(name), torch.arange(0))
        rows[name] = model.inputs(name, tuple(column.to(device) for column in columns))
    found = []
    for stage in range(model.stages):
        results = {}
        for name in model.node_types(stage):
            x = rows[name].new_zeros((1, *rows[name].shape[1:]))
            count, src = (torch.zeros(length, dtype=torch.int64, device=device) for length in (1, 0))
            none = [
                Neighbours(
                    relation=relation, x=x if relation[0] == name else rows[relation[0]], src=src, counts=count, degree=count
                )
                for relation in model.relations_into(stage, name)
            ]
            results[name] = stage_results(model, stage, name, x, none)
        found.append({name: {key: ColumnSpec.of(value) for key, value in kept.items()} for name, kept in results.items()})
        rows = {name: kept[HIDDEN][:0] for name, kept in results.items() if HIDDEN in kept}
    return found


def dealt(found: tuple[int, ...], num_parts: int, world: World, device: torch.device) -> tuple[int, ...]:
    """The partitions that this host computes: each is computed by one host that holds it."""
    held = [0.0] * (world.num_hosts * num_parts)
    if world.local_rank == 0:
        for part in found:
            held[world.host * num_parts + part] = 1
    held = sum_over_ranks(held, device, world)
    hosts = [tuple(part for part in range(num_parts) if held[host * num_parts + part]) for host in range(world.num_hosts)]
    return owners(hosts, num_parts)[world.host]


def _filling(sums: list[float], found: Iterable[tuple[int, int]]) -> Generator[int, None, None]:
    for number, checksum in found:
        sums[number] = checksum
        yield 1


def _fingerprint(module: nn.Module) -> str:
    digest = hashlib.sha256(repr(module).encode())
    for name, value in module.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
