"""A server's endpoint, started from the shell, and `halohop top` that looks at it."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import halohop
from halohop.datasets import synthetic
from halohop.launch.commands.top import look
from halohop.loading.metrics import scrape
from halohop.transport import Token
from tests.support.deadlines import within
from tests.support.forked import Forked

PATIENCE_S = 250
SECRET = "a secret of sixteen bytes and more"


@contextmanager
def started(*arguments: str | Path) -> Iterator[Forked]:
    with closing(Forked("halohop.__main__", [*map(str, arguments)], os.environ)) as process:
        try:
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def test_top_of_a_server_and_a_trainer(tmp_path: Path) -> None:
    parts, secret = tmp_path / "parts", tmp_path / "secret"
    halohop.partition(synthetic("tiny"), parts, num_parts=1, method="random")
    secret.write_text(SECRET)
    secret.chmod(0o600)
    serve = ("serve", parts, "--listen", "127.0.0.1:0", "--token-file", secret, "--metrics", ":0")
    with started(*serve) as server:
        said = "".join(server.stderr.readline() for _ in range(2))
        (address,) = re.findall(r"at (?:tcp://)?(127\.0\.0\.1:\d+)$", said, re.MULTILINE)
        (endpoint,) = re.findall(r"metrics at http://(\S+)/metrics", said)
        assert scrape(endpoint).sums["transport_calls"] == 0
        with halohop.connect([address], token=Token(SECRET.encode())) as graph:
            loader = halohop.NeighborLoader(graph, [5], "train", batch_size=60, num_workers=1)
            with halohop.metrics(loader, listen=":0") as own:
                list(loader)
                once = ["top", endpoint, own.address, "--once", "--interval", "0.2"]
                done = Forked("halohop.__main__", once, os.environ).finish(PATIENCE_S)
                assert done.returncode == 0, done.stderr
                table = [line.split() for line in done.stdout.splitlines()]
                assert table[0][:2] == ["endpoint", "batches/s"]
                assert [row[0] for row in table if ":" in row[0]] == [endpoint, own.address, own.address]
                assert ["server", "0"] in [row[1:3] for row in table]
    assert look(endpoint).counted is None
    gone = Forked("halohop.__main__", ["top", endpoint, "--once"], os.environ).finish(PATIENCE_S)
    assert gone.returncode == 1
    assert "no metrics at" in gone.stderr


class Watched:
    """A source that knows how often it was looked at."""

    def __init__(self) -> None:
        self.looks = threading.Semaphore(0)

    def statistics(self) -> dict[str, float]:
        self.looks.release()
        return {"batches": 1.0}

    def statistics_by_peer(self) -> dict[str, dict[str, float]]:
        return {}


def test_top_looks_again_and_again_until_ctrl_c() -> None:
    source = Watched()
    with ExitStack() as stack:
        endpoint = stack.enter_context(halohop.metrics(source, listen=":0"))
        live = stack.enter_context(started("top", endpoint.address, "--interval", "0.1"))
        assert all(source.looks.acquire(timeout=PATIENCE_S) for _ in range(4))
        live.send_signal(signal.SIGINT)
        assert live.wait(within(5)) == 130
