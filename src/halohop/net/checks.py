"""Checks of requests that need the graph; `halohop.store.forms` checks tensors when a message is read."""

from collections.abc import Iterable
from typing import Any

from halohop.cluster.named import named
from halohop.errors import IdError, InputError
from halohop.sampling.batch import Seeds
from halohop.sampling.columns import ALL
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.remote import BatchRequest
from halohop.store.forms import Form, check_form
from halohop.store.requests import (
    EdgesRequest,
    FetchRequest,
    HopQuery,
    LocateRequest,
    RowsByIdRequest,
    SampleRequest,
    SelectRequest,
)
from halohop.store.schema import Schema

_ID_BYTES = 8


def check_request(request: Any, schema: Schema, max_bytes: int) -> None:
    """Refuses a request that no client of this library sends. Its columns and ids are looked up where they are stored.

    Args:
        request: what is asked.
        schema: of the graph.
        max_bytes: of the largest reply.

    Raises:
        InputError, IdError: its parts do not fit together, or the reply would be larger.
        SchemaError: it names a node type or relation that the graph does not have.
    """
    match request:
        case SampleRequest():
            for query in request.queries:
                _check_sources(query, schema)
                if request.draw.rules.replace:
                    _check_size(query.dst_gid.numel(), [(query.fanout,)], 0, max_bytes)
        case FetchRequest():
            for fetched in request.queries:
                _check_distinct(request, fetched.columns)
        case LocateRequest():
            check_form(Form(), request.raw, "raw", {})
        case RowsByIdRequest():
            _check_distinct(request, request.columns)
        case SelectRequest() | EdgesRequest():
            _check_distinct(request, request.parts)
            if not request.parts:
                raise InputError(f"{type(request).__name__}: parts=() names no partition; name at least one")
        case BatchRequest():
            _check_batch(request, schema, max_bytes)


def _check_distinct(request: Any, names: tuple[object, ...]) -> None:
    """Each name costs a copy of its rows, and the request only a few bytes."""
    if len({*names}) < len(names):
        raise InputError(f"{type(request).__name__}: {len(names)} names, {len({*names})} of them distinct; name each once")


def _check_sources(query: HopQuery, schema: Schema) -> None:
    if query.src_gid is not None:
        if query.fanout != -1:
            raise InputError(f"HopQuery: fanout={query.fanout} with src_gid; expected -1")
        most = max(spec.count for spec in schema.nodes.values())
        if len(query.src_gid) and int(query.src_gid.max()) >= most:
            raise IdError(f"HopQuery: src_gid {int(query.src_gid.max())} is out of range; expected less than {most}")


def _check_batch(request: BatchRequest, schema: Schema, max_bytes: int) -> None:
    columns, seeds = request.columns or ALL, request.seeds
    fanouts, rules = request.options.fanouts.per_relation, request.options.rules
    relations, node_types = [*fanouts, *(columns.edges or ()), *seeds.excluded], [*(columns.nodes or ())]
    match seeds:
        case Seeds():
            node_types.append(seeds.node_type)
            count = len(seeds.gid)
        case LinkSeeds():
            relations.append(seeds.relation)
            count = len(seeds.src_gid) + len(seeds.dst_gid)
        case _:
            node_types += seeds.gid
            count = sum(map(len, seeds.gid.values()))
    for relation in relations:
        named(schema.edges, relation, "relation")
    for node_type in node_types:
        named(schema.nodes, node_type, "node type")
    if rules.subgraph == "bidirectional" and fanouts.keys() != schema.edges.keys():
        raise InputError(f"fanouts of {list(fanouts)} for bidirectional batches; expected those of all: {list(schema.edges)}")
    if rules.time is not None and seeds.time is None:
        raise InputError(f"time={rules.time!r} without times of the seeds; give a time for each seed")
    if rules.replace:
        num_nodes = sum(spec.count for spec in schema.nodes.values())
        _check_size(count, zip(*fanouts.values(), strict=True), num_nodes * (count if rules.disjoint else 1), max_bytes)


def _check_size(count: int, hops: Iterable[tuple[int, ...]], most: int, max_bytes: int) -> None:
    """Draws with replacement take as much memory as the fanouts say, however few neighbors there are.

    Args:
        count: nodes whose neighbors the first hop samples.
        hops: the fanouts of each hop.
        most: nodes of a batch.
        max_bytes: of the largest reply.
    """
    for fanouts in hops:
        drawn = count * max(fanouts)  # of the relation with the most
        if drawn * _ID_BYTES > max_bytes:
            raise InputError(
                f"fanouts {fanouts} with replacement for {count} nodes take {drawn * _ID_BYTES} bytes, and a reply has at most "
                f"{max_bytes} (Limits.max_message_bytes); ask for fewer"
            )
        count = most if -1 in fanouts else min(count + drawn, most)
