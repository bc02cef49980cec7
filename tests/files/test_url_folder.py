"""Stores that stall, never end or know no ranges: a read ends by its deadline, with the store's name, and takes little memory."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import halohop
from halohop.datasets import synthetic
from halohop.errors import DatasetError, DeadlineExceededError, IncompleteDatasetError
from halohop.files import UrlFolder, parallel, url_folder
from halohop.launch.runs.afar_results import checkpoint_here
from halohop.store.afar import chunks
from halohop.store.afar.staging import Stage, staged
from halohop.store.afar.uploading import upload
from halohop.store.names import MANIFEST
from tests.support.deadlines import within

pytest.importorskip("aiohttp")

Answer = Callable[["Request"], None]
PIECE = b"x" * 65536


class Request(BaseHTTPRequestHandler):
    """A request, which the test's `Server` answers."""

    protocol_version = "HTTP/1.1"

    def __init__(self, server_of_test: "Server", *given: object) -> None:
        self.of_test = server_of_test
        super().__init__(*given)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.of_test.asked.append((self.path, self.headers.get("Range")))
        with suppress(ConnectionError):  # of a client that has read enough
            self.of_test.answer(self)
        self.close_connection = True

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *given: object) -> None:
        pass

    @property
    def data(self) -> bytes:
        return (self.of_test.folder / self.path.lstrip("/")).read_bytes()

    def send(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")  # or the client would ask again over a connection that ends
        sizes = {} if "Transfer_Encoding" in headers else {"Content_Length": str(len(data))}
        for name, value in (sizes | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@dataclass(slots=True)
class Server:
    """An HTTP server for a folder; a test replaces `answer`, and sets `go_on` for what it has made wait."""

    folder: Path
    answer: Answer = lambda request: ranges(request)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    sent: int = 0


def ranges(request: Request) -> None:
    asked = request.headers.get("Range")
    begin, end = map(int, asked.removeprefix("bytes=").split("-")) if asked else (0, len(request.data))
    request.send(206 if asked else 200, request.data[begin : end + 1])


def no_ranges(request: Request) -> None:
    request.send(200, request.data)


def stalled(request: Request) -> None:
    request.of_test.go_on.wait(60)


def stalled_within(request: Request) -> None:
    request.send(206, b"{", Content_Length="1000")
    request.of_test.go_on.wait(60)


def endless(request: Request) -> None:
    """Lies about the size, and sends until the client has enough."""
    request.send(206, b"", Content_Length=str(1 << 40))
    while True:
        request.of_test.sent += request.wfile.write(PIECE)


def endless_chunks(request: Request) -> None:
    request.send(200, b"", Transfer_Encoding="chunked")
    while True:
        request.of_test.sent += request.wfile.write(b"%x\r\n%s\r\n" % (len(PIECE), PIECE))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("http") / "parts"
    halohop.partition(synthetic("tiny"), folder, num_parts=2, method="random")
    return folder


@pytest.fixture
def server(parts: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(url_folder, "_PAUSE_S", 0.01)
    found = Server(folder=parts)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Request, found)) as listening:
        listening.daemon_threads = True
        found.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.go_on.set()
        listening.shutdown()
        thread.join()


def test_a_data_set_over_http(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_PIECE", 4096)
    here = halohop.fetch(server.url, tmp_path / "here")
    for file in (file for file in server.folder.rglob("*") if file.is_file()):
        assert (here / file.relative_to(server.folder)).read_bytes() == file.read_bytes()
    server.answer = lambda request: request.send(404, b"")
    with pytest.raises(IncompleteDatasetError, match=r"has no manifest\.json"):
        halohop.fetch(server.url, here)


@pytest.mark.parametrize("answer", [stalled, stalled_within])
def test_a_manifest_that_stalls(server: Server, tmp_path: Path, answer: Answer) -> None:
    server.answer = answer
    for read in (
        lambda: halohop.fetch(server.url, tmp_path / "here", deadline=0.5),
        lambda: staged(server.url, Stage.of(tmp_path / "stage"), deadline=0.5),
        lambda: UrlFolder(server.url, 0.5).size(MANIFEST) if answer is stalled else UrlFolder(server.url, 0.5).read(MANIFEST),
    ):
        begin = time.monotonic()
        with pytest.raises(DeadlineExceededError, match=rf"{server.url}/manifest\.json: nothing has come for 0\.5 s"):
            read()
        assert time.monotonic() - begin < within(5)
    assert not list(tmp_path.glob("*/*"))


def test_a_file_that_stalls(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_LEAVE_S", 0.01)
    server.answer = lambda request: (ranges if MANIFEST in request.path else stalled_within)(request)
    with pytest.raises(DeadlineExceededError, match=r"nothing has come for 0\.5 s"):
        halohop.fetch(server.url, tmp_path / "here", deadline=0.5)


def test_a_slow_answer_is_read_to_its_end(server: Server) -> None:
    """The deadline counts from the last byte, not from the first."""

    def slow(request: Request) -> None:
        request.send(206, b"", Content_Length="6")
        for _ in range(6):
            request.of_test.go_on.wait(0.3)
            request.wfile.write(b"x")

    server.answer = slow
    assert UrlFolder(server.url, 1.5).read("file") == b"xxxxxx"


@pytest.mark.parametrize("answer", [endless, endless_chunks])
def test_a_manifest_without_end(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    monkeypatch.setattr(url_folder, "_SMALL", 1 << 20)
    server.answer = answer
    with pytest.raises(DatasetError, match=r"manifest\.json has more than 1 MiB, the most that is read at once"):
        halohop.fetch(server.url, tmp_path / "here")
    assert server.sent < 64 << 20, "what the sockets hold, and no more"


def test_files_without_end_take_no_more_than_was_asked(server: Server, tmp_path: Path) -> None:
    server.answer = lambda request: (ranges if MANIFEST in request.path else endless)(request)
    with pytest.raises(DatasetError, match="has checksum"):
        halohop.fetch(server.url, tmp_path / "here")
    server.sent = 0
    server.answer = endless
    assert len(UrlFolder(server.url).read_range("file", 5, 1005)) == 1000
    assert server.sent < 256 << 20, "what the sockets hold, also those of the requests before"


def test_a_large_file_of_another_store_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url_folder, "_SMALL", 10)
    monkeypatch.setattr(LocalFileSystem, "cat_file", None)
    (tmp_path / "file").write_bytes(b"x" * 11)
    with pytest.raises(DatasetError, match=r"file has more than 10 B, the most that is read at once"):
        UrlFolder(tmp_path).read("file")


def test_a_server_without_ranges_is_named(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = no_ranges
    halohop.fetch(server.url, tmp_path / "small")  # each file is one request
    monkeypatch.setattr(chunks, "_PIECE", 4096)
    message = r"http://.*\.npy cannot be read from byte \d+ on: its server sends whole files only \(no HTTP ranges\); use a"
    with pytest.raises(DatasetError, match=message):
        halohop.fetch(server.url, tmp_path / "here")


def test_a_server_that_does_not_report_sizes(server: Server) -> None:
    server.answer = lambda request: request.send(200, b"", Transfer_Encoding="chunked")
    with pytest.raises(DatasetError, match=r"file has a server that does not report sizes"):
        UrlFolder(server.url).size("file")


@pytest.mark.parametrize("status", [500, 403])
def test_a_server_that_fails_is_not_taken_for_one_without_the_file(server: Server, status: int) -> None:
    server.answer = lambda request: request.send(status, b"")
    with pytest.raises(DatasetError, match=rf"/resume\.pt cannot be read \(ClientResponseError: {status}"):
        UrlFolder(server.url).size("resume.pt")
    server.answer = lambda request: request.send(404, b"")
    assert UrlFolder(server.url).size("resume.pt") is None


def test_a_server_that_is_down_is_not_taken_for_one_without_the_file(server: Server) -> None:
    def reset(request: Request) -> None:
        request.connection.close()

    server.answer = reset
    with pytest.raises(DatasetError, match=r"/resume\.pt cannot be read"):
        UrlFolder(server.url).size("resume.pt")


@pytest.mark.parametrize("name", ["../thesis.npy", "/etc/thesis.npy", "tables/../../thesis.npy", "a\0b"])
def test_a_listing_with_names_outside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Keys of object stores may be of any form; here they become names of files."""
    found = {f"/bucket/run/{key}": {"size": 1} for key in ("model.pt", "a..b/..c", name)}
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *given, **options: found)
    with pytest.raises(DatasetError, match=r"memory://bucket/run has a file .*, whose name leads out of the folder; remove it"):
        UrlFolder("memory://bucket/run").files()
    UrlFolder("memory://bucket/run").send(Path(__file__), "model.pt")
    with pytest.raises(DatasetError, match="leads out of the folder"):
        checkpoint_here("memory://bucket/run", Stage.of(tmp_path))
    del found[f"/bucket/run/{name}"]
    assert UrlFolder("memory://bucket/run").files() == {"model.pt": 1, "a..b/..c": 1}


def test_a_store_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is sent has a second more for each MiB; it, and a removal, end by the deadline."""
    go_on = threading.Event()
    for name in ("put_file", "rm_file"):
        monkeypatch.setattr(MemoryFileSystem, name, lambda *given, **options: go_on.wait(60))
    (tmp_path / "file").write_bytes(b"x" * (1 << 18))
    with pytest.raises(DeadlineExceededError, match=r"memory://bucket/file: nothing has come for 0\.35 s"):
        UrlFolder("memory://bucket", 0.1).send(tmp_path / "file", "file")
    with pytest.raises(DeadlineExceededError, match=r"memory://bucket/file: nothing has come for 0\.1 s"):
        UrlFolder("memory://bucket", 0.1).remove("file")
    go_on.set()


def test_a_store_of_another_kind_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or a listing that does not come, also in an upload."""
    go_on = threading.Event()
    monkeypatch.setattr(LocalFileSystem, "cat_file", lambda *given, **options: go_on.wait(60))
    with pytest.raises(DeadlineExceededError, match=r"file: nothing has come for 0\.2 s"):
        UrlFolder(tmp_path, 0.2).read_range("file", 0, 10)
    monkeypatch.setattr(LocalFileSystem, "find", lambda *given, **options: go_on.wait(60))
    with pytest.raises(DeadlineExceededError, match=rf"{tmp_path}/there: nothing has come for 0\.2 s"):
        UrlFolder(tmp_path / "there", 0.2).files()
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=1)
    with pytest.raises(DeadlineExceededError, match=r"there: nothing has come for 0\.2 s"):
        upload(tmp_path / "parts", f"file://{tmp_path}/there", deadline=0.2)
    go_on.set()
