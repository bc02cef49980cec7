"""Rows of the next batches, read while the model computes on this one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from torch import Tensor

from halohop.errors import InputError
from halohop.loading.pipeline import Made, PrefetchConfig, in_order
from halohop.loading.threads import Threads
from halohop.telemetry import Counters
from halohop.tensors.dist_embedding import DistEmbedding
from halohop.tensors.early import EarlyRows

IdsOf = Callable[[Any], Tensor | Sequence[Tensor]]
"""The ids that a batch will be looked up by, as they will be given to the embedding; of several lookups a list."""


class ReadAhead:
    """The batches of a loader; rows of learned embeddings are read for the next ones while the model computes on this one.

    Another thread asks the loader for its batches, one at a time, and reads their rows: a loader that makes each batch when it is
    asked for does so while the model computes, too.

    Rows are as old as the steps that were made since they were read, which is counted by what their owners say, and at most
    `staleness`: older ones are read again. `embedding.statistics()` has the ages. A lookup by other ids reads as always.

    Args:
        loader: gives batches; of any make.
        ids: by embedding, what gives the ids of a batch's lookups.
        gid: the same for lookups by gid.
        staleness: how many steps old rows may be, and how many batches are read ahead. With 0 every lookup reads the rows as they
            are.

    Raises:
        InputError: no whole number of at least 0, nothing to look up, or embeddings of several graphs.

    Example:
        >>> import halohop, torch
        >>> from halohop.cluster.graph import in_memory
        >>> from halohop.datasets import synthetic
        >>> graph = in_memory(synthetic("tiny"))
        >>> embedding = halohop.DistEmbedding(graph, None, 8, "learned", node_type="node")
        >>> loader = halohop.NeighborLoader(graph, [5], "train", batch_size=64)
        >>> for batch in halohop.ReadAhead(loader, {embedding: lambda batch: batch.n_id}, staleness=1):
        ...     rows = embedding(batch.n_id)
    """

    def __init__(
        self,
        loader: Iterable[Any],
        ids: Mapping[DistEmbedding, IdsOf] | None = None,
        *,
        gid: Mapping[DistEmbedding, IdsOf] | None = None,
        staleness: int = 1,
    ) -> None:
        if isinstance(staleness, bool) or not isinstance(staleness, int) or staleness < 0:
            raise InputError(f"staleness={staleness!r} is to be a whole number of steps, 0 or more")
        self._loader = loader
        self._staleness = staleness
        self._wanted = [(embedding, of, False) for embedding, of in (ids or {}).items()]
        self._wanted += [(embedding, of, True) for embedding, of in (gid or {}).items()]
        if not self._wanted:
            raise InputError("nothing is to be read ahead; give ids={embedding: lambda batch: batch.n_id}")
        if len({id(embedding.graph) for embedding, _, _ in self._wanted}) > 1:
            raise InputError("embeddings of several graphs are read ahead; read those of one ahead, and look up the others")

    def __len__(self) -> int:
        """As many as the loader has."""
        if not isinstance(self._loader, Sized):
            raise TypeError(f"a {type(self._loader).__name__} has no length")
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        if self._staleness == 0:
            yield from self._loader
            return
        config = PrefetchConfig(workers=1, prefetch=self._staleness + 1)
        loaded = _Loaded(self._loader)
        batches = in_order(repeat(loaded), Threads(self._next, 1, Counters()), config)
        embeddings = [embedding for embedding, _, _ in self._wanted]
        with closing(batches):
            try:
                for batch, early in batches:
                    if isinstance(batch, _Ended):
                        batch.answer()
                        return
                    for embedding in embeddings:
                        embedding.early = [rows for owner, rows in early if owner is embedding]
                    yield batch
            finally:
                for embedding in embeddings:
                    embedding.early = []

    def _next(self, loaded: "_Loaded") -> "Made[tuple[Any, list[tuple[DistEmbedding, EarlyRows]]]]":
        batch = loaded.next()
        return Made(item=(batch, [])) if isinstance(batch, _Ended) else self._read(batch)

    def _read(self, batch: Any) -> "Made[tuple[Any, list[tuple[DistEmbedding, EarlyRows]]]]":
        """The batch with its rows, all asked for at once."""
        asked = [
            (embedding, given, by_gid, embedding.gids(given, by_gid=by_gid))
            for embedding, of, by_gid in self._wanted
            for given in _listed(of(batch))
        ]
        tables = self._wanted[0][0].graph.tables
        reading = tables.read_later([(embedding.name, gid[gid >= 0]) for embedding, _, _, gid in asked])
        found = zip(asked, reading.result(), reading.steps, strict=True)
        early = [
            (embedding, EarlyRows(asked=given, by_gid=by_gid, gid=gid, rows=rows, steps=steps, staleness=self._staleness))
            for (embedding, given, by_gid, gid), rows, steps in found
        ]
        return Made(item=(batch, early))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """The loader has no more batches, or has failed."""

    error: Exception | None = None

    def answer(self) -> None:
        """Raises the failure, if it was one."""
        if self.error is not None:
            raise self.error


class _Loaded:
    """The batches of a loader. Not for several threads at a time."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self._batches: Iterator[Any] = iter(loader)
        self._ended: _Ended | None = None

    def next(self) -> Any:
        """The next batch, or how it ended; then it is not asked again."""
        if self._ended is None:
            try:
                return next(self._batches)
            except StopIteration:
                self._ended = _Ended()
            except Exception as error:
                self._ended = _Ended(error=error)
        return self._ended


def _listed(given: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [given] if isinstance(given, Tensor) else given
