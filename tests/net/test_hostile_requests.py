"""What a server answers to requests that are well formed and make no sense."""

from dataclasses import replace
from pathlib import Path

import pytest

import halohop
from halohop.errors import InputError, RemoteError
from halohop.net import serve
from halohop.net.seed_files import SeedFiles
from halohop.sampling.fanouts import Fanouts
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN
from tests.support.hostile_requests import bare_errors, good_requests


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
    """One of seventeen; `python -m tests.support.hostile_requests` takes all."""
    count, found = bare_errors(tmp_path, every=17)
    assert found == []
    assert count > 200


def test_a_fault_of_the_server_is_not_taken_for_one_of_the_client(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, request: object) -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(SeedFiles, "answer", fail)
    with (
        halohop.serve(parts, token=TOKEN) as server,
        halohop.connect([server.address], token=TOKEN) as graph,
        pytest.raises(RemoteError, match=r"internal error, report it with the traceback: KeyError: 'a mistake of ours'"),
    ):
        graph.seed_file("ids.npy")


def test_kernels_of_tables_are_compiled_when_a_server_with_tables_starts(parts: Path, tmp_path: Path, monkeypatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(serve.ops, "warm_up_tables", lambda: warmed.append("tables"))
    halohop.serve(parts, token=TOKEN).close()
    assert warmed == []
    halohop.serve(parts, token=TOKEN, tables=tmp_path / "tables").close()
    assert warmed == ["tables"]
