"""`infer`: every layer once for every node of a graph of any size, and the results to files."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from torch import Tensor, nn

from halohop.cluster.graph import Graph
from halohop.collectives import in_rounds, max_over_ranks
from halohop.files.parquet import parquet
from halohop.flags import checks_flags
from halohop.inference.job import InferenceJob
from halohop.inference.layers import LayerRun
from halohop.inference.model import LayeredModel
from halohop.inference.names import class_names, has_text_ids, id_dtype, text_ids
from halohop.inference.results import CLASSES, IDS, PARQUET, Results, check_results, laid_out
from halohop.inference.user import UserLayers
from halohop.typing import NodeType


@checks_flags
def infer(
    model: nn.Module | LayeredModel,
    graph: Graph,
    job: InferenceJob,
    *,
    target: NodeType | None = None,
    embeddings: bool = False,
    classes: Sequence[str] = (),
) -> list[Path]:
    """Computes a model a layer at a time for all nodes of a type, or a split; called by every rank.

    Row i of every result belongs to the i-th node in ascending order of raw ids: ``raw_ids.npy`` (int64 ``[n]``),
    ``predictions.npy`` (int64 ``[n]``, classes), ``confidence.npy`` (float32 ``[n]``, the probability that the model gives to
    that class) and, on request or where the model has no head, ``embeddings.npy`` (``[n, width]``). Where the user's ids or
    labels were strings, also ``ids.npy`` (``[n]``) and ``classes.npy`` (the name of each class). Or a Parquet file with the same
    columns. The files appear together, when all are complete.

    What is done is kept in ``<out>/unfinished``: the same call after a run was stopped, even killed, goes on from there, to the
    same result. No process holds all rows of a layer in memory.

    Args:
        model: a module with `layers` (see `UserLayers`), or a `LayeredModel`.
        graph: opened from ``job.parts``.
        job: where, and how much at a time.
        target: the node type of a module, if the module does not name it and there are several.
        embeddings: whether a module with a head also gives its last layer's rows.
        classes: names of the classes.

    Returns:
        The files, which are complete when this returns on any rank.

    Raises:
        InputError: results are there already and ``job.overwrite`` is false, Parquet without pyarrow, a module whose layers look
            further than a node's in-edges, a folder with an unfinished run of another model or graph, or a graph with the
            out-edges of nodes.
        WriteError: a file cannot be written; names it.
        SchemaError: the graph has no such split or node type.
        TransportError, ClusterError: another host or rank is gone; names it.

    Example:
        >>> import halohop, torch
        >>> from halohop.datasets import synthetic
        >>> from halohop.inference import InferenceJob, infer
        >>> class Sum(torch.nn.Module):
        ...     def forward(self, x, edge_index):
        ...         return x.index_add(0, edge_index[1], x[edge_index[0]])
        >>> model = torch.nn.Module()
        >>> model.layers = torch.nn.ModuleList([Sum()])
        >>> _ = halohop.partition(synthetic("tiny"), "parts", num_parts=2, method="random")
        >>> job = InferenceJob(parts=Path("parts"), out=Path("vectors"), world=halohop.World())
        >>> with halohop.open("parts") as graph:
        ...     [file.name for file in infer(model, graph, job)]
        ['raw_ids.npy', 'embeddings.npy']
    """
    graph.book.require_in_edges("layer-wise inference")
    if job.form == "parquet":
        parquet()  # fails now, rather than after hours, where it is not installed
    if job.world.rank == 0:
        check_results(job.out, overwrite=job.overwrite)
    layered = model if isinstance(model, LayeredModel) else UserLayers(model, graph, embeddings=embeddings, target=target)
    with _layer_results(layered, graph, job) as results:
        return finish_results(results, graph, layered.target, job, classes=classes)


def finish_results(
    results: Results, graph: Graph, target: NodeType, job: InferenceJob, *, classes: Sequence[str] = ()
) -> list[Path]:
    """Adds ids and classes as strings, where the user's were, and gives the files their names; called by every rank.

    Args:
        results: as of `shared_results`, with all rows written.
        graph, target: whose nodes these are.
        job: where, in which form, and who takes part.
        classes: names of the classes.
    """
    first = job.world.rank == 0
    if has_text_ids(graph, target):
        gid, _ = graph.select(job.split, target)
        work = results.add(IDS, id_dtype(graph, target), len(gid), text_ids(graph, target, gid)) if first else _nothing()
        in_rounds("write ids", work, len(gid) if first else 0, **job.ranks)
        results.names.append(IDS)
    if classes:
        names = class_names(classes)
        work = results.add(CLASSES, names.dtype, len(names), iter([names])) if first else _nothing()
        in_rounds("write classes", work, len(names) if first else 0, **job.ranks)
        results.names.append(CLASSES)
    if job.form == "parquet":
        total = results.count if first else 0
        in_rounds("write parquet", results.write_parquet() if first else _nothing(), total, **job.ranks)
    elif first:
        results.publish()
    max_over_ranks(0, job.device, job.world)  # the files have their names
    return results.files if job.form == "npy" else [job.out / PARQUET]


@contextmanager
def _layer_results(model: LayeredModel, graph: Graph, job: InferenceJob) -> Iterator[Results]:
    """The results of all layers, on rank 0 with their files; what a later run would need is deleted when the block ends well."""
    gid, raw = graph.select(job.split, model.target)  # before any work: there may be no such split
    run = LayerRun(model, graph, job)
    with run.results() as last, ExitStack() as stack:

        def read(begin: int, end: int) -> dict[str, Tensor]:
            return dict(zip(run.columns, last.fetch_rows(model.target, list(run.columns), gid[begin:end]), strict=True))

        results, work = Results(job.out, {}, run.columns, len(raw)), _nothing()
        if job.world.rank == 0:
            results = stack.enter_context(laid_out(job.out, raw, run.columns))
            work = results.fill(read)
        in_rounds("write results", work, len(raw) if job.world.rank == 0 else 0, **job.ranks)
        yield results


def _nothing() -> Generator[int, None, None]:
    yield from ()
