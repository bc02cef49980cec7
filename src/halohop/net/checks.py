"""Requests whose parts do not fit together, which no honest peer sends, are refused before anything works with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halohop.cluster.named import named
from halohop.errors import IdError, InputError
from halohop.sampling.batch import Seeds
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.remote import BatchRequest
from halohop.store.draw import Rules
from halohop.store.requests import (
    EdgesRequest,
    FetchRequest,
    HopQuery,
    LocateEdgesRequest,
    LocateRequest,
    RowQuery,
    RowsByIdRequest,
    SampleRequest,
    SelectRequest,
)
from halohop.store.schema import Schema

_TIMES = (torch.int64, torch.float64)
_ENDLESS = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """What the tensors of a record are: `ids` int64 ``[n]``, each with an n of its own; `alike` with the n of the first of `ids`;
    `times` likewise, int64 or float64. Any but the first may be None."""

    ids: tuple[str, ...]
    alike: tuple[str, ...] = ()
    times: tuple[str, ...] = ()


_FORMS: dict[type, _Form] = {
    HopQuery: _Form(ids=("dst_gid", "excluded"), alike=("tree", "src_gid"), times=("latest",)),
    RowQuery: _Form(ids=("gid",)),
    RowsByIdRequest: _Form(ids=("ids",)),
    LocateRequest: _Form(ids=("raw",)),
    LocateEdgesRequest: _Form(ids=("edge_id",)),
    EdgesRequest: _Form(ids=("edge_id",)),
    Seeds: _Form(ids=("gid",), alike=("input_id",), times=("time",)),
    LinkSeeds: _Form(ids=("input_id", "src_gid", "dst_gid"), times=("time",)),
}


def check_request(request: Any, schema: Schema, max_bytes: int) -> None:
    """Looks at the tensors and the names of a request; columns and ids are looked up where they are.

    Args:
        max_bytes: of the largest reply.

    Raises:
        InputError: a tensor has another dtype or shape than its field, or the reply would be larger.
        SchemaError: a batch is asked for with a node type or relation that is not there.
    """
    for record in _records(request):
        if form := _FORMS.get(type(record)):
            _check_tensors(record, form)
    match request:
        case SampleRequest():
            for query in request.queries:
                _check_hop(query, request.draw.rules, schema, max_bytes)
        case BatchRequest():
            _check_names(request, schema)
        case SelectRequest() | EdgesRequest() if not request.parts:
            raise InputError(f"{type(request).__name__}: parts=() names no partition; name at least one")


def _records(request: Any) -> Sequence[Any]:
    """What holds the tensors of a request."""
    match request:
        case SampleRequest() | FetchRequest():
            return request.queries
        case BatchRequest():
            return [request.nodes, request.links]
    return [request]


def _check_tensors(record: Any, form: _Form) -> None:
    first: Tensor | None = getattr(record, form.ids[0])
    for names, dtypes, is_alike in (
        (form.ids, (torch.int64,), False),
        (form.alike, (torch.int64,), True),
        (form.times, _TIMES, True),
    ):
        for name in names:
            tensor: Tensor | None = getattr(record, name)
            if tensor is None:
                continue
            fits = tensor.dtype in dtypes and tensor.dim() == 1
            if not fits or (is_alike and first is not None and len(tensor) != len(first)):
                length = len(first) if is_alike and first is not None else "n"
                raise InputError(
                    f"{type(record).__name__}: {name} has shape {[*tensor.shape]} and dtype {tensor.dtype}; "
                    f"expected [{length}] and {' or '.join(map(str, dtypes))}"
                )


def _check_names(request: BatchRequest, schema: Schema) -> None:
    columns, nodes, links, node_set = request.columns, request.nodes, request.links, request.node_set
    fanouts, rules = request.options.fanouts.per_relation, request.options.rules
    relations = [*fanouts, *((columns and columns.edges) or ())]
    node_types = [*((columns and columns.nodes) or ()), *((node_set and node_set.gid) or ())]
    if nodes is not None:
        node_types.append(nodes.node_type)
    if links is not None:
        relations += [links.relation, *(links.excluded or ())]
    if rules.subgraph == "bidirectional" and fanouts.keys() != schema.edges.keys():
        raise InputError(f"fanouts of {list(fanouts)} for bidirectional batches; expected those of all: {list(schema.edges)}")
    for relation in relations:
        named(schema.edges, relation, "relation")
    for node_type in node_types:
        named(schema.nodes, node_type, "node type")


def _check_hop(query: HopQuery, rules: Rules, schema: Schema, max_bytes: int) -> None:
    if query.src_gid is not None:
        if query.fanout != -1:
            raise InputError(f"HopQuery: fanout={query.fanout} with src_gid; expected -1")
        most = max(spec.count for spec in schema.nodes.values())
        if len(query.src_gid) and int(query.src_gid.max()) >= most:
            raise IdError(f"HopQuery: src_gid {int(query.src_gid.max())} is out of range; expected less than {most}")
    if query.fanout >= _ENDLESS:
        raise InputError(f"HopQuery: fanout={query.fanout} is too large; -1 stands for all neighbors")
    drawn = len(query.dst_gid) * query.fanout * 8
    if rules.replace and drawn > max_bytes:
        raise InputError(
            f"HopQuery: fanout={query.fanout} with replacement for {len(query.dst_gid)} nodes takes {drawn} bytes, and a reply "
            f"has at most {max_bytes} (Limits.max_message_bytes); ask for fewer"
        )
