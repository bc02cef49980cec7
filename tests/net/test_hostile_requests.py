"""What a server answers to requests that are well formed and make no sense."""

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import halohop
from halohop.errors import InputError, ProtocolError, RemoteError
from halohop.net import serve
from halohop.net.messages import DescribeReply, server_codec
from halohop.net.seed_files import SeedFiles
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.remote import BatchRequest
from halohop.store.draw import Rules
from halohop.store.requests import EdgesRequest, FetchRequest, RowQuery, RowsByIdRequest, SelectRequest
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN
from tests.support.hostile_requests import IDS, RELATION, bare_errors, good_requests


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    halohop.partition(ring(40), tmp_path / "parts", num_parts=2, method="random")
    return tmp_path / "parts"


def test_a_relation_that_is_not_there_is_refused_by_name(parts: Path) -> None:
    asked = next(request for request in good_requests() if type(request).__name__ == "BatchRequest")
    unknown = replace(asked.options, fanouts=Fanouts(per_relation={("node", "to", "nowhere"): (2, 2)}))
    with (
        halohop.serve(parts, token=TOKEN) as server,
        pytest.raises(InputError, match=r"unknown relation .*nowhere"),
    ):
        server._service.answer(replace(asked, options=unknown))


def test_requests_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    """One of 127; `python -m tests.support.hostile_requests` takes all."""
    count, found = bare_errors(tmp_path, every=127)
    assert found == []
    assert count > 40


def _batches(rules: Rules, fanout: int) -> Iterator[BatchRequest]:
    for asked in good_requests():
        if isinstance(asked, BatchRequest):
            fanouts = Fanouts(per_relation={RELATION: (fanout,)})
            yield replace(asked, options=replace(asked.options, rules=rules, fanouts=fanouts))


@pytest.mark.parametrize(
    "asked",
    [
        *(pytest.param(asked, id=f"draws-{number}") for number, asked in enumerate(_batches(Rules(replace=True), 2**30))),
        pytest.param(FetchRequest(queries=(RowQuery(table="node", columns=("x", "x"), gid=IDS),)), id="columns"),
        pytest.param(RowsByIdRequest(table="node", columns=("x", "x"), ids=IDS), id="columns-by-id"),
        pytest.param(SelectRequest(node_type="node", mask=None, parts=(0, 0)), id="nodes-of-partitions"),
        pytest.param(EdgesRequest(relation=RELATION, parts=(0, 0)), id="edges-of-partitions"),
    ],
)
def test_a_short_request_does_not_take_much_memory(parts: Path, asked: object) -> None:
    with halohop.serve(parts, token=TOKEN) as server, pytest.raises(InputError, match=r"name each once|ask for fewer"):
        server._service.answer(asked)


def test_batches_with_times_need_times_of_the_seeds(parts: Path) -> None:
    rules = Rules(disjoint=True, time="time")
    with halohop.serve(parts, token=TOKEN) as server:
        for asked in _batches(rules, 2):
            if asked.seeds.time is None:
                with pytest.raises(InputError, match="give a time for each seed"):
                    server._service.answer(asked)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (KeyError("a mistake of ours"), "internal error, report it with the traceback: KeyError: 'a mistake of ours'"),
        (MemoryError("no room"), "the server lacks the memory for it; ask for less at once: MemoryError: no room"),
        (OSError(errno.ENOMEM, "no room"), "the server lacks the memory for it; ask for less at once: OSError"),
    ],
)
def test_a_fault_of_the_server_is_not_taken_for_one_of_the_client(
    fault: Exception, told: str, parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, request: object) -> None:
        raise fault

    monkeypatch.setattr(SeedFiles, "answer", fail)
    with (
        halohop.serve(parts, token=TOKEN) as server,
        halohop.connect([server.address], token=TOKEN) as graph,
        pytest.raises(RemoteError, match=told),
    ):
        graph.seed_file("ids.npy")


@pytest.mark.parametrize("wrong", [{"num_parts": 2**40}, {"num_parts": -1}, {"parts": (2**40,)}])
def test_a_server_cannot_say_that_it_has_partitions_without_end(wrong: dict[str, Any]) -> None:
    """Its reader lists them."""
    codec, reply = server_codec(), DescribeReply(server="s", manifest=b"", parts=(0,), num_parts=1, has_peers=False)
    assert codec.decode(codec.encode(reply)) == reply
    with pytest.raises(ProtocolError, match="parts"):
        codec.decode(codec.encode(replace(reply, **wrong)))


def test_kernels_of_tables_are_compiled_when_a_server_with_tables_starts(parts: Path, tmp_path: Path, monkeypatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(serve.ops, "warm_up_tables", lambda: warmed.append("tables"))
    halohop.serve(parts, token=TOKEN).close()
    assert warmed == []
    halohop.serve(parts, token=TOKEN, tables=tmp_path / "tables").close()
    assert warmed == ["tables"]
